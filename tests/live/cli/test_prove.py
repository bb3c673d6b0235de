"""`agentenv prove`: the promises of the README hold in a rehearsal, and an interrupted run leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from agentenv.local import run_folders
from agentenv.rehearsal.controlplane.client import until
from tests.live.cli.test_rehearse import AGENTENV

ROOT = Path(__file__).resolve().parents[3]
# What a rehearsal has no counterpart of, or does not wait for; each says so in its evidence.
NOT_SIMULATED = {"granted", "accounting"}


def _command(output: Path) -> list[str]:
    options = ["--rehearse", "--output", str(output), "--key", str(output / "key.pem"), "--json"]
    return [AGENTENV, "prove", "--stack", "local", *options]


def _variables(cache: Path) -> dict[str, str]:
    return {**os.environ, "AGENTENV_CACHE": str(cache)}


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Return a cache of its own for run folders, with the tools of the user's cache."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "tools").symlink_to(run_folders.cache() / "tools", target_is_directory=True)
    return tmp_path / "cache"


def test_every_promise_holds_in_a_rehearsal(cache: Path, tmp_path: Path) -> None:
    output = tmp_path / "proof"
    ended = subprocess.run(
        _command(output), capture_output=True, text=True, check=False, env=_variables(cache), cwd=ROOT
    )
    report = json.loads(ended.stdout.splitlines()[-1])
    verdicts = {row["name"]: (row["verdict"], row["evidence"]) for row in report["promises"]}
    assert {name for name, (verdict, _) in verdicts.items() if verdict == "not tried"} <= NOT_SIMULATED, verdicts
    assert {name for name, (verdict, _) in verdicts.items() if verdict == "broken"} == set(), ended.stderr
    assert ended.returncode == 0
    assert report["simulated"]
    assert report["cost"] == 0
    assert (output / "report.md").read_text(encoding="utf-8").count("held") >= len(verdicts) - len(NOT_SIMULATED)
    verified = [AGENTENV, "prove", "--verify", str(output / "report.json")]
    assert subprocess.run(verified, check=False).returncode == 0
    assert list((cache / "runs").iterdir()) == []


def test_an_interrupted_run_destroys_what_it_created(cache: Path, tmp_path: Path) -> None:
    output = tmp_path / "proof"
    with subprocess.Popen(
        _command(output), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=_variables(cache), cwd=ROOT
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "a second `up` changes nothing" in line:
                break
        process.send_signal(signal.SIGTERM)
        process.communicate()
    report = json.loads((output / "report.json").read_text(encoding="utf-8"))
    verdicts = {row["name"]: row["verdict"] for row in report["promises"]}
    assert verdicts["up"] == verdicts["destroy"] == "held"
    assert verdicts["drift"] == "not tried"
    assert until(lambda: list((cache / "runs").iterdir()) == [], 180)
