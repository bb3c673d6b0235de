"""The digest and event log of a preview, and the call of the engine."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agentenv.cli.review.changes import changes_from_steps
from agentenv.cli.review.graph import Source, from_json, from_state, unknown_paths
from agentenv.cli.review.preview import Call, PreviewFailed, read_preview
from agentenv.cli.review.stack_preview import engine_refusals, preview_stack
from tests.fast.cli.review.resources import FILE_SYSTEM, LATER, judged, urn

FS = urn(FILE_SYSTEM, "fs")


def state(**more: Any) -> dict[str, Any]:
    return {"urn": FS, "type": FILE_SYSTEM, "custom": True, "inputs": {"encrypted": True, "__defaults": []}, **more}


def digest(*steps: dict[str, Any]) -> str:
    return json.dumps({"steps": list(steps)})


def policy(level: str = "mandatory", name: str = "EFS-01", of: str = FS) -> str:
    text = {
        "policyPackName": "agent-environment-isolation",
        "policyName": name,
        "enforcementLevel": level,
        "resourceUrn": of,
        "message": "not\nencrypted",
    }
    return json.dumps({"policyEvent": text})


def test_both_graphs_are_read() -> None:
    steps = [
        {"op": "update", "urn": FS, "oldState": state(inputs={"encrypted": False}), "newState": state()},
        {"op": "delete", "urn": "urn:pulumi:a::b::c:d:E::gone", "oldState": {"urn": "gone", "type": "c:d:E"}},
    ]
    found = read_preview(0, f"warning: something\n{digest(*steps)}", [], Path("/p"), Path("/p"))
    assert found.before[FS].inputs == {"encrypted": False}
    assert found.after[FS].inputs == {"encrypted": True}
    assert list(found.after) == [FS]
    assert not found.refused


def test_a_replaced_resource_is_in_the_graph_after() -> None:
    steps = [
        {"op": "create-replacement", "urn": FS, "oldState": state(), "newState": state()},
        {"op": "delete-replaced", "urn": FS, "oldState": state()},
    ]
    assert list(read_preview(0, digest(*steps), [], Path("/p"), Path("/p")).after) == [FS]


@pytest.mark.parametrize(
    "before",
    [
        "warning: use ${x} here\n",
        "{half\n",
        '{"a": 1}\n',
        "{}\n{\n",
        '{"level": "info", "duration": 12}\n',
        '{"steps": 0}\n',
    ],
)
def test_text_before_the_digest_is_ignored(before: str) -> None:
    steps = digest({"op": "delete", "urn": FS, "oldState": state()})
    assert list(read_preview(0, f"{before}{steps}", [], Path("/p"), Path("/p")).before) == [FS]


@pytest.mark.parametrize("text", ["", "nothing to tell", "{half", '{"a": 1}', 'Loading ${x} {"steps": []}'])
@pytest.mark.parametrize("code", [0, 1])
def test_an_unreadable_digest_is_a_failed_preview(text: str, code: int) -> None:
    with pytest.raises(PreviewFailed):
        read_preview(code, text, [], Path("/p"), Path("/p"))


def test_an_empty_stack_has_no_steps() -> None:
    assert read_preview(0, '{"config": {}, "duration": 1}', [], Path("/p"), Path("/p")).steps == []


def test_a_refreshed_resource_is_not_in_the_graph_after() -> None:
    steps = [
        {"op": "refresh", "urn": FS, "oldState": state(), "newState": state(inputs={"encrypted": False})},
        {"op": "delete", "urn": FS, "oldState": state(inputs={"encrypted": False})},
    ]
    found = read_preview(0, digest(*steps), [], Path("/p"), Path("/p"))
    assert list(found.after) == []
    assert found.before[FS].inputs == {"encrypted": False}


def test_violations_and_errors_come_from_the_log_without_an_incomplete_line() -> None:
    error = json.dumps({"diagnosticEvent": {"severity": "error", "message": " it is protected\n"}})
    warning = json.dumps({"diagnosticEvent": {"severity": "warning", "message": "a plugin from PATH"}})
    found = read_preview(
        255,
        digest({"op": "create", "urn": FS, "newState": state()}),
        [policy(), error, warning, '{"pol'],
        Path(),
        Path(),
    )
    assert [(policy.policy, policy.mandatory, policy.urn) for policy in found.policies] == [("EFS-01", True, FS)]
    assert found.errors == ["it is protected"]
    changes_from_steps = {
        "steps": [{"op": "create", "urn": FS, "newState": state()}],
        "diagnostics": [{"severity": "error", "message": "error: it is protected"}],
    }
    assert read_preview(255, json.dumps(changes_from_steps), [error], Path(), Path()).errors == ["it is protected"]
    assert found.refused


def test_a_failed_preview_has_the_errors_of_the_engine() -> None:
    error = json.dumps({"diagnosticEvent": {"severity": "error", "message": "the stack has a mistake"}})
    with pytest.raises(PreviewFailed, match="the stack has a mistake"):
        read_preview(255, "", [error], Path(), Path())
    with pytest.raises(PreviewFailed, match="no stack named"):
        read_preview(255, "", [], Path(), Path(), stderr="error: no stack named 'prod'")


def test_the_source_of_a_resource_is_the_innermost_line_of_the_project(tmp_path: Path) -> None:
    project = tmp_path / "run" / "project"
    project.mkdir(parents=True)

    def position(place: str, line: int) -> str:
        return f"project:///{os.path.relpath(tmp_path / 'repo' / place, project)}#{line}"

    trace = [
        {"sourcePosition": position(".venv/lib/pulumi_eks/cluster.py", 9)},
        {},
        {"sourcePosition": position("components/cluster/cluster.py", 42)},
        {"sourcePosition": position("stacks/__main__.py", 15)},
    ]
    found = from_state(state(sourcePosition="project:///elsewhere.py#1", stackTrace=trace), project, tmp_path / "repo")
    assert found.source == Source("components/cluster/cluster.py", 42)
    assert from_json(json.loads(json.dumps(found.as_json()))) == found


def test_unknown_values_are_found_at_any_depth() -> None:
    assert unknown_paths({"a": [{"b": LATER}], "c": "known", "d": LATER}) == ["a[0].b", "d"]


def test_drift_is_detected_first_and_both_packs_run(tmp_path: Path) -> None:
    calls = tmp_path / "asked"
    fake = tmp_path / "pulumi"
    steps = digest({"op": "update", "urn": FS, "oldState": state(), "newState": state()})
    fake.write_text(f"#!/bin/sh\necho \"$@\" >> {calls}\ncat <<'END'\n{steps}\nEND\n", encoding="utf-8")
    fake.chmod(0o755)
    call = Call(fake, tmp_path, tmp_path, "prod", dict(os.environ))
    found = preview_stack(call, Path("/policies"), {"poolCap": 3}, drift=True)
    refresh, refreshed, preview = calls.read_text(encoding="utf-8").splitlines()
    assert refresh.startswith("refresh --stack prod")
    assert "--preview-only" in refresh
    assert "--refresh" in refreshed
    assert "--policy-pack" not in refreshed
    for option in ("--show-sames", "--policy-pack /policies/isolation", "--policy-pack /policies/cost"):
        assert option in preview
    assert "--refresh" not in preview
    assert preview.count("--policy-pack-config") == 2
    assert "--show-sames" in refreshed
    assert found.drift is not None
    assert [change.operation for change in found.drift] == ["update"]
    preview_stack(call, Path("/policies"))
    assert "refresh" not in calls.read_text(encoding="utf-8").splitlines()[-1]


def test_refusals_of_the_engine_are_listed_once() -> None:
    log = [policy(), policy(name="EFS-02"), policy("advisory", name="EFS-03")]
    steps = digest({"op": "create", "urn": FS, "newState": state()})
    preview = read_preview(255, steps, log, Path(), Path())
    known = judged("EFS-01", urn=FS)
    assert engine_refusals(preview, [known]) == ["EFS-02: not encrypted (fs)"]
    assert engine_refusals(read_preview(0, steps, log, Path(), Path()), []) == []
    assert engine_refusals(read_preview(255, steps, [], Path(), Path()), []) == ["the engine ended with exit code 255"]


def test_a_revision_is_extracted_and_changed_files_are_listed(tmp_path: Path) -> None:
    from agentenv.cli.main import CommandError
    from agentenv.cli.review import revision

    def git(*arguments: str) -> str:
        named = ("-c", "user.name=t", "-c", "user.email=t@example.com")
        return subprocess.run(
            ["git", *named, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout.strip()

    git("init", "-q")
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "a").write_text("1", encoding="utf-8")
    git("add", ".")
    git("commit", "-qm", "one")
    head = git("rev-parse", "HEAD")
    (tmp_path / "policies" / "a").write_text("2", encoding="utf-8")
    (tmp_path / "policies" / "b").write_text("new", encoding="utf-8")
    assert revision.commit(tmp_path, "HEAD") == head
    folder = revision.unpack(tmp_path, head, tmp_path / "unpacked")
    assert (folder / "policies" / "a").read_text(encoding="utf-8") == "1"
    assert revision.changed_files(tmp_path, head, "policies") == ["policies/a", "policies/b"]
    for wrong in ("nothing-like-it", "--all"):
        with pytest.raises(CommandError, match="revision"):
            revision.commit(tmp_path, wrong)


def test_a_program_that_cannot_be_previewed_blocks_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from agentenv.cli.review import offline
    from agentenv.cli.review.review import ReviewRequest, review

    def fails(*_: object) -> None:
        raise PreviewFailed("ValueError: no homes today, with password=hunter2")

    monkeypatch.setattr(offline, "preview_tree", fails)
    found = review(ReviewRequest(Path(__file__).resolve().parents[4], "dev", offline=True))
    assert "no homes today" in found.failure
    assert "hunter2" not in found.failure
    assert found.blocking == ["the program cannot be previewed"]


def test_mistakes_of_a_stack_file_are_listed_and_nothing_runs(tmp_path: Path) -> None:
    from agentenv.cli.review.review import ReviewRequest, review

    (tmp_path / "Pulumi.yaml").write_text("{name: agent-environment, stackConfigDir: stacks}\n", encoding="utf-8")
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "Pulumi.dev.yaml").write_text("config:\n  aws:region: nowhere\n", encoding="utf-8")
    found = review(ReviewRequest(tmp_path, "dev", offline=True))
    assert "stacks/Pulumi.dev.yaml:2" in found.failure
    assert found.blocking


def test_outputs_of_a_component_come_from_the_log() -> None:
    step = {"op": "create", "urn": FS, "newState": state()}
    events = [
        json.dumps({"resOutputsEvent": {"metadata": {"urn": FS, "new": {"outputs": outputs}}}})
        for outputs in ({}, {"documents": [1]}, {})
    ]
    assert read_preview(0, digest(step), events, Path(), Path()).after[FS].outputs == {"documents": [1]}


def test_an_invalid_allowance_allows_nothing_and_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from agentenv.cli.review import offline
    from agentenv.cli.review.offline import NOTHING
    from agentenv.cli.review.review import ReviewRequest, review

    for name in ("stacks", "policies"):
        (tmp_path / name).mkdir()
    stack = "config:\n  aws:region: us-east-1\n  agent-environment:cost: {owner: a, costCenter: b}\n"
    admins, public = ["arn:aws:iam::111122223333:role/platform"], ["203.0.113.0/24"]
    cluster = f"  agent-environment:cluster: {json.dumps({'admins': admins, 'publicAccessCidrs': public})}\n"
    (tmp_path / "Pulumi.yaml").write_text("{name: agent-environment, stackConfigDir: stacks}\n", encoding="utf-8")
    (tmp_path / "stacks" / "Pulumi.dev.yaml").write_text(stack + cluster, encoding="utf-8")
    (tmp_path / "policies" / "allowed_losses.yaml").write_text("losses: [a]\n", encoding="utf-8")
    monkeypatch.setattr(offline, "preview_both", lambda *_: (NOTHING, NOTHING))
    found = review(ReviewRequest(tmp_path, "dev", offline=True))
    assert found.blocking == ["the update is refused"]
    assert found.refused == ["policies/allowed_losses.yaml:1: an entry is a mapping of urn, reason, owner, until"]


@pytest.mark.parametrize(("looked", "expected"), [("same", ["replace"]), ("delete", [])])
def test_steps_of_an_update_without_refresh_are_listed_unless_the_resource_is_deleted(
    tmp_path: Path, looked: str, expected: list[str]
) -> None:
    steps = {
        "look": digest({"op": looked, "urn": FS, "oldState": state()}),
        "wanted": digest({"op": "same", "urn": FS, "oldState": state(), "newState": state()}),
        "unseen": digest({"op": "replace", "urn": FS, "oldState": state(), "newState": state()}),
    }
    for name, text in steps.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    fake = tmp_path / "pulumi"
    which = "*preview-only*) cat look;; *--refresh*) cat wanted;; *) cat unseen;;"
    fake.write_text(f'#!/bin/sh\ncase "$*" in {which} esac\n', encoding="utf-8")
    fake.chmod(0o755)
    call = Call(fake, tmp_path, tmp_path, "prod", dict(os.environ))
    preview = preview_stack(call, Path("/policies"), drift=True).preview
    assert [change.operation for change in changes_from_steps(preview.steps, preview.before, preview.after)] == expected
