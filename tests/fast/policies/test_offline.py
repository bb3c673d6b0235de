"""The rules over manifests as anybody writes them: what is read, where findings are said to be, what cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from agentenv.cli import answer
from policies.offline import findings_of_manifests, main, resources_of_manifests, source_of
from policies.rules.registry import all_rules
from policies.verdicts import Verdict

if TYPE_CHECKING:
    import pytest

ONLY = [rule for rule in all_rules() if rule.id == "POD-01"]
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME}\nspec: {containers: [{securityContext: {privileged: FLAG}}]}\n"


def pod(name: str, flag: str) -> str:
    return POD.replace("NAME", name).replace("FLAG", flag)


def test_documents_lists_and_what_is_no_object() -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Pod", "spec": {}}]}
    text = "---\n---\njust: words\n---\n[1, 2]\n---\n" + pod("a", "true") + "---\n" + json.dumps(listed) + "\n"
    resources = resources_of_manifests(text, source="dir/x.yaml")
    assert [(one.type, source_of(one.urn)) for one in resources] == [
        ("kubernetes:core/v1:Pod", "dir/x.yaml#3"),
        ("kubernetes:core/v1:List", "dir/x.yaml#4"),
    ]
    assert [one.kind for one in resources[1].objects] == ["Pod"]


def test_what_another_tool_fills_in_is_not_known() -> None:
    text = pod("a", "!Ref Privileged") + "---\n" + pod("b", "true")
    assert [one.verdict for one in findings_of_manifests(text, rules=ONLY)] == [Verdict.INDETERMINATE, Verdict.FAIL]


def test_two_objects_of_one_name_are_two() -> None:
    text = pod("a", "true") + "---\n" + pod("a", "true")
    assert [one.verdict for one in findings_of_manifests(text, rules=ONLY)] == [Verdict.FAIL, Verdict.FAIL]


def test_the_command_says_what_fails_and_what_it_could_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "good.yaml").write_text(pod("fine", "false"), encoding="utf-8")
    assert answer(["policies", "check", str(tmp_path), "--rules", "POD-01", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["passed"] == 1
    (tmp_path / "bad.yml").write_text(pod("bad", "true"), encoding="utf-8")
    (tmp_path / "chart.yaml").write_text("a: {{ .Values.a }}\n", encoding="utf-8")
    assert answer(["policies", "check", str(tmp_path), "--rules", "pod-01", "--json"]) == 1
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (said["objects"], said["passed"], said["failed"], said["indeterminate"]) == (2, 1, 1, 0)
    assert [(one["id"], one["file"]) for one in said["findings"]] == [("POD-01", f"{tmp_path / 'bad.yml'}#0")]
    assert [one["file"] for one in said["unreadable"]] == [str(tmp_path / "chart.yaml")]
    assert answer(["policies", "check", str(tmp_path)]) == 1
    assert "bad.yml#0: bad: Critical POD-01: a container is privileged (spec.containers" in capsys.readouterr().out
    assert main([str(tmp_path / "good.yaml")]) in {0, 1}
    assert json.loads(capsys.readouterr().out)["unreadable"] == []


def test_the_command_refuses_rules_and_files_that_there_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(["policies", "check", ".", "--rules", "POD-98"]) == 1
    assert "there is no rule or family POD-98" in capsys.readouterr().err
    assert answer(["policies", "check", "no-such-file"]) == 1
    assert "there is no file or folder no-such-file" in capsys.readouterr().err
