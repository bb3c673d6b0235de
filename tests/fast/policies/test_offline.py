"""The rules for manifests: which objects are read, where findings are, and what cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from agentenv.cli.main import dispatch
from agentenv.policies.offline import findings_of_manifests, read_files, resources_of_manifests, source_of
from agentenv.policies.rules.registry import all_rules
from agentenv.policies.verdicts import Verdict

if TYPE_CHECKING:
    import pytest

ONLY = [rule for rule in all_rules() if rule.id == "POD-01"]
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME}\nspec: {containers: [{securityContext: {privileged: FLAG}}]}\n"


def pod(name: str, flag: str) -> str:
    return POD.replace("NAME", name).replace("FLAG", flag)


def test_objects_are_read_from_documents_and_lists() -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Pod", "spec": {}}]}
    text = "---\n---\njust: words\n---\n[1, 2]\n---\n" + pod("a", "true") + "---\n" + json.dumps(listed) + "\n"
    resources = resources_of_manifests(text, source="dir/x.yaml")
    assert [(resource.type, source_of(resource.urn)) for resource in resources] == [
        ("kubernetes:core/v1:Pod", "dir/x.yaml#3"),
        ("kubernetes:core/v1:Pod", "dir/x.yaml#4[0]"),
    ]


def test_a_tag_of_another_tool_is_an_unknown_value() -> None:
    text = pod("a", "!Ref Privileged") + "---\n" + pod("b", "true")
    assert [finding.verdict for finding in findings_of_manifests(text, rules=ONLY)] == [
        Verdict.INDETERMINATE,
        Verdict.FAIL,
    ]


def test_a_list_is_read_as_its_objects() -> None:
    text = json.dumps([{"apiVersion": "v1", "kind": "Pod", "spec": {}}, None, 3, {"apiVersion": "v1", "kind": "Pod"}])
    assert [source_of(resource.urn) for resource in resources_of_manifests(text, source="x")] == ["x#0[0]", "x#0[3]"]


NO_OBJECTS = {
    "words.yaml": ("just words\n", "#0"),
    "values.yaml": ("---\n---\nreplicas: 1\n", "#1"),
    "versionless.yaml": ("kind: Pod\n", "#0"),
    "number.yaml": ("apiVersion: 1\nkind: Pod\n", "#0"),
    "small.yaml": ("apiVersion: v1\nkind: pod\n", "#0"),
    "list.yaml": ("- 1\n", "#0[0]"),
}


def test_a_check_without_objects_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.yaml").write_text("---\n", encoding="utf-8")
    assert dispatch(["policies", "check", str(tmp_path), "--json"]) == 1
    answered = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (answered["objects"], answered["passed"], answered["skipped"]) == (0, 0, [])
    for name, (text, _) in NO_OBJECTS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert dispatch(["policies", "check", str(tmp_path), "--json"]) == 1
    answered = json.loads(capsys.readouterr().out.splitlines()[-1])
    places = sorted(f"{tmp_path / name}{place}" for name, (_, place) in NO_OBJECTS.items())
    assert sorted(file["file"] for file in answered["skipped"]) == places
    assert dispatch(["policies", "check", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "nothing was checked" in printed
    assert "small.yaml#0: not checked: 'pod' is not a valid kind" in printed
    # What is no object beside one that is does not fail the check
    (tmp_path / "good.yaml").write_text(pod("fine", "false"), encoding="utf-8")
    assert dispatch(["policies", "check", str(tmp_path), "--rules", "POD-01"]) == 0


def test_exponential_aliases_are_rejected(tmp_path: Path) -> None:
    lines = ["apiVersion: example.com/v1", "kind: Thing", "x0: &x0 {k: v}"]
    lines += [f"x{at}: &x{at} [{', '.join([f'*x{at - 1}'] * 30)}]" for at in range(1, 31)]
    (tmp_path / "bomb.yaml").write_text("\n".join(lines), encoding="utf-8")
    pod = "apiVersion: v1\nkind: Pod\nspec: {containers: [&a {name: a}, *a]}\n"
    (tmp_path / "shared.yaml").write_text(pod, encoding="utf-8")
    (tmp_path / "itself.yaml").write_text(f"{pod}itself: &me [*me]\n", encoding="utf-8")
    read = read_files([tmp_path])
    assert [(file.name, reason) for file, reason in read.unreadable] == [
        ("bomb.yaml", "line 7: its aliases make it too large to be read; write it without them"),
        ("itself.yaml", "line 4: the anchor &me holds itself"),
    ]
    assert [resource.type for resource in read.resources] == ["kubernetes:core/v1:Pod"]


def test_objects_with_the_same_name_are_separate() -> None:
    text = pod("a", "true") + "---\n" + pod("a", "true")
    assert [finding.verdict for finding in findings_of_manifests(text, rules=ONLY)] == [
        Verdict.FAIL,
        Verdict.FAIL,
    ]


def test_the_command_prints_failures_and_unreadable_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "good.yaml").write_text(pod("fine", "false"), encoding="utf-8")
    assert dispatch(["policies", "check", str(tmp_path), "--rules", "POD-01", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["passed"] == 1
    (tmp_path / "bad.yml").write_text(pod("bad", "true"), encoding="utf-8")
    (tmp_path / "chart.yaml").write_text("a: {{ .Values.a }}\n", encoding="utf-8")
    assert dispatch(["policies", "check", str(tmp_path), "--rules", "pod-01", "--json"]) == 1
    answered = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (answered["objects"], answered["passed"], answered["failed"], answered["indeterminate"]) == (2, 1, 1, 0)
    assert [(finding["id"], finding["file"], finding["line"]) for finding in answered["findings"]] == [
        ("POD-01", str(tmp_path / "bad.yml"), 4)
    ]
    assert [file["file"] for file in answered["unreadable"]] == [str(tmp_path / "chart.yaml")]
    assert dispatch(["policies", "check", str(tmp_path)]) == 1
    assert "bad.yml:4: bad: Critical POD-01: a container is privileged (spec.containers" in capsys.readouterr().out


def test_the_command_rejects_missing_rules_and_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["policies", "check", ".", "--rules", "POD-98"]) == 1
    assert "there is no rule or family POD-98" in capsys.readouterr().err
    assert dispatch(["policies", "check", "no-such-file"]) == 1
    assert "there is no file or folder no-such-file" in capsys.readouterr().err
