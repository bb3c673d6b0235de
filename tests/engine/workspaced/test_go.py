"""The Go tests of workspaced: its vet, its packages' tests, and the bound on the size of its program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentenv.rehearsal import tools
from agentenv.rehearsal.tools.progress import terminal_progress
from tests.go_sources import SOURCES, compiler

MAX_BYTES = 15 * 1024 * 1024


@pytest.fixture(scope="module")
def go() -> tuple[str, dict[str, str]]:
    """Return the compiler of the rehearsal's tools and its environment, with gVisor's runsc on PATH."""
    go = compiler()
    environment = go.environment()
    runsc = tools.ensure(["runsc"], terminal_progress(sys.stderr)).path("runsc")
    return str(go.path), environment | {"PATH": f"{runsc.parent}{os.pathsep}{environment['PATH']}"}


def run(go: tuple[str, dict[str, str]], *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    path, environment = go
    return subprocess.run(
        [path, *arguments], cwd=SOURCES, env=environment | variables, capture_output=True, text=True, check=False
    )


def test_go_vet_succeeds(go: tuple[str, dict[str, str]]) -> None:
    result = run(go, "vet", "./...")
    assert result.returncode == 0, result.stderr


def test_go_packages_pass(go: tuple[str, dict[str, str]]) -> None:
    """Run the Go tests; one that the machine cannot run is skipped here, and fails in CI."""
    result = run(go, "test", "-json", "./...")
    events = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    failed = {f"{event['Package']} {event.get('Test', '')}".strip() for event in events if event["Action"] == "fail"}
    output = "".join(event.get("Output", "") for event in events if event["Action"] in {"output", "build-output"})
    report = "\n".join([*sorted(failed), output[-8000:], result.stderr[-2000:]])
    assert not failed, report
    assert result.returncode == 0, report
    assert sum(event["Action"] == "pass" and "Test" in event for event in events) > 100
    skipped = sorted(
        f"{event['Package']} {event['Test']}" for event in events if event["Action"] == "skip" and "Test" in event
    )
    if skipped:
        pytest.skip("all others passed; the machine lacks what these need: " + ", ".join(skipped))


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_program_is_within_its_size_bound(go: tuple[str, dict[str, str]], tmp_path: Path, architecture: str) -> None:
    program = tmp_path / "workspaced"
    flags = ("-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid=")
    result = run(go, "build", *flags, "-o", os.fspath(program), "./cmd/workspaced", GOOS="linux", GOARCH=architecture)
    assert result.returncode == 0, result.stderr
    assert program.stat().st_size <= MAX_BYTES
