"""The quickstarts of the README work unchanged with `agentenv dev`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from agentenv.dev import state
from tests.live import npm_packages
from tests.live.dev.test_command import Serving, serving

ROOT = Path(__file__).parents[3]
SECTION = "A computer for an agent, on this machine"
E2B = "2.51.0"
SECONDS = 300.0


@dataclass
class User:
    """A user of a served `agentenv dev`, with a home of their own."""

    served: Serving
    home: Path

    def run(self, *command: str, **more: str) -> str:
        environment = {
            **os.environ,
            "HOME": str(self.home),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            state.VARIABLE: str(self.home / "state"),
            **more,
        }
        environment.pop("XDG_CONFIG_HOME", None)
        ended = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS, cwd=self.home
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    home = tmp_path_factory.mktemp("home")
    with serving(home / "state") as served:
        yield User(served, home)


def blocks(language: str) -> list[str]:
    """Return the blocks of a language in the section of the README."""
    section = (ROOT / "README.md").read_text("utf-8").partition(f"## {SECTION}\n")[2].partition("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)


def test_quickstart_in_the_shell(user: User) -> None:
    script = blocks("sh")[0]
    assert 4 <= len(script.strip().splitlines()) <= 8
    assert user.run("sh", "-ec", script).endswith("suspended  (on request)\nkept\n")


def test_quickstart_in_python(user: User) -> None:
    [program] = blocks("python")
    assert 4 <= len([line for line in program.splitlines() if line]) <= 8
    variables = {"AGENTENV_SERVICE": user.served.facts["service"], "AGENTENV_TOKEN": user.served.key}
    assert user.run(sys.executable, "-c", program, **variables).startswith("hello from w-")


def test_quickstart_in_typescript(user: User) -> None:
    package = npm_packages.installed("e2b", E2B)
    user.run("agentenv", "login", "--dev")
    user.run("agentenv", "connect", "e2b")
    [program] = blocks("typescript")
    assert 4 <= len([line for line in program.splitlines() if line]) <= 8
    (user.home / "node_modules").symlink_to(package.parent)
    (user.home / "quickstart.mjs").write_text(program)
    lines = (user.home / ".config" / "agentenv" / "e2b.env").read_text().splitlines()
    variables = dict(line.split("=", 1) for line in lines)
    assert user.run("node", "quickstart.mjs", **variables).startswith("hello from w-")


def test_quickstart_with_mcp(user: User) -> None:
    user.run("agentenv", "login", "--dev")
    user.run("sh", "-ec", blocks("sh")[1])
    entry = json.loads((user.home / ".claude.json").read_text())["mcpServers"]["agentenv"]
    headers = {**entry["headers"], "Accept": "application/json, text/event-stream"}
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "quickstart", "version": "1"},
        },
    }
    response = httpx2.post(entry["url"], headers=headers, json=request, trust_env=False, timeout=30)
    assert response.status_code == 200, response.text
    assert '"serverInfo"' in response.text
