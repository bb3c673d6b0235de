"""`agentenv releases`: its text, its JSON and its errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentenv.cli.commands import releases
from agentenv.cli.main import FAILED, OK, main
from agentenv.core.classes.retirement import Plan, Step, Wait
from agentenv.service.workspaces.retain_volume import RetentionResult
from agentenv.service.workspaces.retire_releases import RetirementResult

MARK, EMPTY = Step("mark", "box-a", "channel stable is full without it"), Step("empty", "box-b", "2 members")
FOUND = RetirementResult(
    "sandbox-box", "box", {"stable": ["box-new"]}, Plan((MARK, EMPTY), (Wait("box-c", "a claim names it"),)), (MARK,)
)
RETAINED = [
    RetentionResult("sandbox-box", "mine", "waiting", why="it has no sandbox yet"),
    RetentionResult("sandbox-box", "old", "already"),
]


def test_the_text_has_a_line_for_each_old_release() -> None:
    assert [line.split() for line in releases.lines([FOUND], RETAINED)] == [
        ["box", "(stable:", "box-new)"],
        ["done", "mark", "box-a:", "channel", "stable", "is", "full", "without", "it"],
        ["would", "empty", "box-b:", "2", "members"],
        ["waits", "box-c:", "a", "claim", "names", "it"],
        ["sandbox-box/mine", "waiting", ":", "it", "has", "no", "sandbox", "yet"],
    ]


def test_the_json_has_the_same() -> None:
    document = json.loads(json.dumps(releases.as_json([FOUND], RETAINED)))
    (box,) = document["classes"]
    assert box["current"] == {"stable": ["box-new"]}
    assert [step["name"] for step in box["steps"]] == ["box-a", "box-b"]
    assert [step["do"] for step in box["done"]] == ["mark"]
    assert box["waits"] == [{"name": "box-c", "why": "a claim names it"}]
    # Of what is as it should be nobody has to be told.
    assert [claim["claim"] for claim in document["kept"]] == ["mine"]


def kubeconfig(folder: Path, server: str) -> Path:
    file = folder / "kubeconfig"
    context = {"cluster": "c", "user": "u"}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "not-to-be-seen"}}],
        "contexts": [{"name": "x", "context": context}],
        "current-context": "x",
    }
    file.write_text(json.dumps(document), encoding="utf-8")
    return file


def test_an_unreachable_server_is_an_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    # A port that is reserved and that nobody listens on.
    file = kubeconfig(tmp_path, "https://127.0.0.1:1")
    assert main(["releases", "--kubeconfig", str(file), "--json"]) == FAILED
    out, err = capfd.readouterr()
    assert "the request to the API server failed" in err
    assert "error" in json.loads(out.splitlines()[-1])
    assert "not-to-be-seen" not in out + err
    assert "Traceback" not in err


def test_a_missing_kubeconfig_is_an_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["releases", "--kubeconfig", str(tmp_path / "none")]) == FAILED
    assert "none" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (None, "not on PATH"),
        ("echo 'no stack named dev' >&2; exit 255", "no stack named dev"),
        ("echo 'not: json'", "is not JSON"),
    ],
)
def test_a_stack_without_a_kubeconfig_is_an_error(
    script: str | None,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin" if script else str(tmp_path))
    if script:
        (tmp_path / "pulumi").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (tmp_path / "pulumi").chmod(0o755)
    assert main(["releases", "--stack", "dev"]) == FAILED
    assert words in capfd.readouterr().err


def test_exactly_one_cluster_must_be_selected(capfd: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["--stack", "dev", "--kubeconfig", "file"]):
        with pytest.raises(SystemExit) as ended:
            main(["releases", *arguments])
        assert ended.value.code not in {OK, FAILED}
    assert "--kubeconfig" in capfd.readouterr().err
