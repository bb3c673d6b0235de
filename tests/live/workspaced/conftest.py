"""A sandbox that is a process of this machine, behind a gateway that adds the token."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import urllib3

from agentenv.rehearsal.controlplane.ports import HOST, Ports
from tests.go_sources import SOURCES, compiler

TIMEOUT = 120.0


@dataclass(frozen=True)
class Programs:
    """The built programs."""

    workspaced: Path
    dev: Path


@dataclass
class Sandbox:
    """A running sandbox and its gateway."""

    url: str  # of the gateway: requests need no token there
    home: Path
    program: subprocess.Popen[bytes]
    control: tuple[str, ...]  # the command that prints a token for control
    direct: str

    def status(self) -> dict[str, Any]:
        """The document of /status."""
        token = subprocess.run(self.control, check=True, capture_output=True, text=True).stdout.strip()
        answer = urllib3.request(
            "GET", f"{self.direct}/status", headers={"X-Workspace-Token": token}, timeout=TIMEOUT, retries=False
        )
        assert answer.status == 200
        return answer.json()


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    folder = tmp_path_factory.mktemp("workspaced")
    go = compiler()
    subprocess.run(
        [go.path, "build", "-trimpath", "-buildvcs=false", "-o", f"{folder}/", "./cmd/..."],
        cwd=SOURCES, env=go.environment(), check=True,
    )  # fmt: skip
    return Programs(folder / "workspaced", folder / "workspaced-dev")


def wait_until_healthy(url: str, *processes: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while True:
        assert all(process.poll() is None for process in processes), "a program ended at its start"
        try:
            answer = urllib3.request("GET", url, timeout=TIMEOUT, retries=False)
        except urllib3.exceptions.HTTPError:
            assert time.monotonic() < deadline, f"{url} does not answer"
            time.sleep(0.02)
        else:
            assert answer.status == 204
            return


@pytest.fixture
def sandbox(programs: Programs, tmp_path: Path) -> Iterator[Sandbox]:
    """A sandbox with an empty home."""
    home, keys = tmp_path / "home", tmp_path / "keys"
    home.mkdir()
    subprocess.run([programs.dev, "keys", keys], check=True, stdout=subprocess.DEVNULL)
    ports = Ports(("inner", "outer"))
    inner, outer = (f"{HOST}:{ports[name]}" for name in ("inner", "outer"))
    environment = {**os.environ, "WORKSPACED_POD_UID": "dev-pod", "WORKSPACED_KEYS": f"{keys}/keys.json"}
    program = subprocess.Popen(
        [
            programs.workspaced,
            "run",
            "--listen",
            inner,
            "--home",
            home,
            "--grace",
            "2s",
            "--busy-dir",
            tmp_path / "busy",
        ],
        env=environment,
    )
    gateway = subprocess.Popen([programs.dev, "gateway", "--listen", outer, "--to", f"http://{inner}", keys])
    try:
        wait_until_healthy(f"http://{inner}/health", program)
        wait_until_healthy(f"http://{outer}/health", gateway)
        control = (str(programs.dev), "token", "--scope", "control", str(keys))
        yield Sandbox(f"http://{outer}", home, program, control, f"http://{inner}")
    finally:
        for process in (gateway, program):
            process.terminate()
        for process in (gateway, program):
            try:
                process.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        ports.close()
