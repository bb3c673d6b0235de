"""`agentenv rehearse`: the whole scenario, a kept rehearsal, a killed one, and invalid arguments."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentenv.local import processes, run_folders
from agentenv.rehearsal import tools
from agentenv.rehearsal.controlplane.client import until
from agentenv.rehearsal.stage.cluster import TOOLS
from agentenv.rehearsal.tools.progress import terminal_progress

AGENTENV = str(Path(sys.executable).parent / "agentenv")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a separate cache for the run folders, with the tools of the user's cache."""
    tools.ensure(["pulumi", "language-python-exec", *TOOLS], terminal_progress())
    folder = tmp_path_factory.mktemp("cache")
    (folder / "tools").symlink_to(run_folders.cache() / "tools", target_is_directory=True)
    return folder


def agentenv(cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [AGENTENV, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "AGENTENV_CACHE": str(cache)},
        cwd=Path(__file__).resolve().parents[3],
    )


@pytest.mark.parametrize("options", [(), ("--stack", "full")], ids=["local", "full"])
def test_rehearsal_of_a_stack_succeeds(cache: Path, options: tuple[str, ...]) -> None:
    ended = agentenv(cache, "rehearse", "--json", *options)
    assert ended.returncode == 0, ended.stderr
    report: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    assert report["second_up_changes"] == 0
    assert report["left_after_destroy"] == 0
    assert report["left"] == []
    assert report["resources"] > 150
    assert report["up_seconds"] > 0
    assert report["drift"]["made"] == report["drift"]["noticed"] == report["drift"]["mended"] >= 7
    assert report["policy"].pop("passed") > 100
    assert report["policy"] == {"failed": 0, "indeterminate": 0, "waived": 0}
    assert report["pools"]
    assert all(pool["ready"] == pool["size"] > 0 for pool in report["pools"])
    assert report["first_command_ms"] > report["new_workspace_ms"] > 0
    assert report["wake_ms"] > 0
    assert report["gateway_added_ms"] is not None
    assert not [name for name in report["not_simulated"] if name.startswith("unknown")]
    assert "second up" in ended.stderr
    assert list((cache / "runs").iterdir()) == []


def test_retained_rehearsal_can_be_used_and_ended(cache: Path) -> None:
    ended = agentenv(cache, "rehearse", "--keep", "--json")
    assert ended.returncode == 0, ended.stderr
    [rehearsal] = json.loads(agentenv(cache, "rehearse", "--kept", "--json").stdout)["kept"]
    try:
        script = Path(rehearsal["folder"]) / "use.sh"
        token = Path(rehearsal["folder"]) / "service.token"
        printed = dict(
            line.strip().split("=", 1) for line in ended.stderr.splitlines() if line.startswith("  AGENTENV_")
        )
        assert printed == {"AGENTENV_SERVICE": printed["AGENTENV_SERVICE"], "AGENTENV_TOKEN_FILE": str(token)}
        assert f"KUBECONFIG={rehearsal['folder']}" in ended.stderr
        assert token.stat().st_mode & 0o077 == 0
        assert token.read_text(encoding="utf-8") not in ended.stderr
        listed = f". '{script}' && test -n \"$AGENTENV_TOKEN\" && '{AGENTENV}' workspace list --json"
        workspaces = subprocess.run(["sh", "-c", listed], capture_output=True, text=True, check=False)
        assert workspaces.returncode == 0, workspaces.stderr
        used = subprocess.run(
            ["sh", "-c", f". '{script}' && '{tools_pulumi()}' stack output --json --stack local"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert used.returncode == 0, used.stderr
        assert json.loads(used.stdout)["vpcId"].startswith("vpc-")
    finally:
        assert agentenv(cache, "rehearse", "--end", rehearsal["run"]).returncode == 0
    assert processes.marked(rehearsal["run"]) == []
    assert not Path(rehearsal["folder"]).exists()
    refused = agentenv(cache, "rehearse", "--end", rehearsal["run"])
    assert refused.returncode == 1
    assert "is running" in refused.stderr


def tools_pulumi() -> Path:
    return tools.ensure(["pulumi"], terminal_progress()).path("pulumi")


def test_killed_rehearsal_leaves_no_processes_and_files(cache: Path) -> None:
    killed = subprocess.Popen(
        [AGENTENV, "rehearse"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "AGENTENV_CACHE": str(cache)},
        cwd=Path(__file__).resolve().parents[3],
    )
    folder = cache / "runs"

    def started() -> bool:
        return any(path.read_bytes() for path in folder.glob("*/projects/*/logs/*.events"))

    # The control plane may start slowly; a rehearsal that ended will never start it.
    assert until(lambda: started() or killed.poll() is not None, 600)
    assert killed.poll() is None
    [run] = [path.name for path in folder.iterdir()]
    assert len(processes.marked(run)) >= 3  # the cloud, the engine and its plugins
    killed.kill()
    killed.wait(10)
    assert until(lambda: not processes.marked(run), 180)
    assert until(lambda: not (folder / run).exists(), 180)


def test_unknown_stack_is_an_error_before_anything_starts(cache: Path) -> None:
    ended = agentenv(cache, "rehearse", "--stack", "locl")
    assert ended.returncode == 1
    assert "there is no stacks/Pulumi.locl.yaml" in ended.stderr
    assert "local" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_port_in_use_is_named(cache: Path, used_port: int) -> None:
    ended = agentenv(cache, "rehearse", "--port", str(used_port))
    assert ended.returncode == 1
    assert str(used_port) in ended.stderr
    assert "in use" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.fixture
def used_port() -> Any:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]
