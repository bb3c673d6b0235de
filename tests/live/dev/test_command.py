"""`agentenv dev` serves from a command line, alone on its folder, and leaves no process however it ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from agentenv.client import ApiError, Client
from agentenv.local.processes import MARK
from agentenv.rehearsal.controlplane.client import until
from tests.live.controlplane.objects import runs

SECONDS = 180.0
COMMAND = [sys.executable, "-m", "agentenv", "dev", "--port", "0", "--json"]


@dataclass
class Serving:
    """A served `agentenv dev`."""

    process: subprocess.Popen[str]
    facts: dict[str, Any]

    @property
    def key(self) -> str:
        return Path(self.facts["key_file"]).read_text("ascii").strip()

    def client(self) -> Client:
        return Client(self.facts["service"], self.key)

    def processes(self) -> list[psutil.Process]:
        """Return the processes of its sandboxes."""
        started = psutil.Process(self.process.pid).children(recursive=True)
        return [process for process in started if not any("cleanup_process" in word for word in _command(process))]


def _command(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.cmdline()
    return []


@contextmanager
def serving(folder: Path, command: Sequence[str] = COMMAND, seconds: float = SECONDS * 5) -> Iterator[Serving]:
    environment = {key: value for key, value in os.environ.items() if key != MARK}
    process = subprocess.Popen(
        [*command, "--state", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.stderr.read() if process.stderr else ""
        yield Serving(process, json.loads(line))
    finally:
        timer.cancel()
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=SECONDS)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_runs_after_its_end(number: signal.Signals, tmp_path: Path) -> None:
    with serving(tmp_path / "state") as served:
        with served.client() as client:
            workspace = client.create_workspace({"class": "standard"}, wait=60)
            assert workspace["state"] == "running"
        children = served.processes()
        assert children
        served.process.send_signal(number)
        served.process.wait(SECONDS)
        assert (number == signal.SIGKILL) == (served.process.returncode != 0)
    assert until(lambda: not any(map(runs, children)), SECONDS)
    with serving(tmp_path / "state") as again, again.client() as client:
        assert client.get_workspace(workspace["id"])["state"] == "suspended"


def test_one_process_uses_a_folder_and_only_its_key_is_accepted(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with serving(folder) as served:
        assert Path(served.facts["key_file"]).stat().st_mode & 0o777 == 0o600
        assert folder.stat().st_mode & 0o777 == 0o700
        second = subprocess.run([*COMMAND, "--state", str(folder)], capture_output=True, text=True, check=False)
        assert second.returncode == 1
        assert f"`agentenv dev` already runs at {served.facts['service']}" in second.stderr
        port = served.facts["service"].rpartition(":")[2]
        other = ["--state", str(tmp_path / "other"), "--port", port]
        busy = subprocess.run([*COMMAND, *other], capture_output=True, text=True, check=False)
        assert busy.returncode == 1
        reason = f"port {port} cannot be used (Address already in use); choose another one with --port"
        assert busy.stderr.splitlines()[-1] == f"agentenv dev: {reason}"
        with Client(served.facts["service"], "e2b_" + "0" * 52) as stranger, pytest.raises(ApiError, match="API key"):
            stranger.list_workspaces()
        with served.client() as client:
            created = client.create_key({"name": "ci", "scopes": ["read"]})
            assert [key["id"] for key in client.list_keys()["items"]] == [created["id"]]
            with Client(served.facts["service"], created["key"]) as reader:
                assert reader.list_classes()["items"][0]["name"] == "standard"
                with pytest.raises(ApiError, match="lacks the scope"):
                    reader.create_workspace({"class": "standard"})
            client.revoke_key(created["id"])
            assert client.list_keys()["items"] == []
    forgotten = subprocess.run([*COMMAND, "--state", str(folder), "--forget"], capture_output=True, check=False)
    assert forgotten.returncode == 0
    assert not folder.exists()
