"""The command line enters workspaces of `agentenv dev` through the real gateway, and OpenSSH through it."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.live.dev.test_command import Serving, serving

SECONDS = 180.0


@dataclass
class Terminal:
    """Runs commands of this user, for one workspace."""

    served: Serving
    id: str
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        own = {"AGENTENV_SERVICE": self.served.facts["service"], "AGENTENV_TOKEN": self.served.key}
        return {**os.environ, **own, "XDG_CONFIG_HOME": str(self.folder)}

    def command(self, verb: str, *words: str) -> list[str]:
        return [sys.executable, "-m", "agentenv", "workspace", verb, *words]

    def run(self, verb: str, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(verb, self.id, *words),
            env=self.environment,
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    folder = tmp_path_factory.mktemp("dev")
    with serving(folder / "state") as served, served.client() as client:
        workspace = client.create_workspace({"class": "standard"}, wait=60)
        yield Terminal(served, workspace["id"], folder)


def test_command_has_its_input_output_and_exit_code(terminal: Terminal) -> None:
    ended = terminal.run("exec", "--env", "GREETING=hi", "--", "sh", "-c", "echo $GREETING; pwd; echo no >&2; exit 3")
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, "hi\n/home/agent\n", "no\n")
    ended = terminal.run("exec", "-i", "--", "wc", "-c", text="x" * 300_000)
    assert ended.stdout.strip() == "300000"
    ended = terminal.run("exec", "--timeout", "1", "--", "sleep", "60")
    assert (ended.returncode, "the command was ended after 1 s" in ended.stderr) == (1, True)
    ended = terminal.run("exec", "--", "no-such-program")
    assert (ended.returncode, "no-such-program" in ended.stderr) == (127, True)


def test_suspended_workspace_is_resumed_with_its_files(terminal: Terminal, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "below").mkdir(parents=True)
    (tree / "a.txt").write_text("a")
    (tree / "below" / "b.sh").write_text("#!/bin/sh\n")
    assert terminal.run("cp", str(tree), ":copied").returncode == 0
    assert terminal.run("suspend").returncode == 0
    ended = terminal.run("exec", "--", "find", "copied", "-type", "f")
    assert sorted(ended.stdout.split()) == ["copied/a.txt", "copied/below/b.sh"], ended.stderr
    assert terminal.run("cp", ":copied", str(tmp_path / "back")).returncode == 0
    assert (tmp_path / "back" / "below" / "b.sh").read_text() == "#!/bin/sh\n"
    missing = terminal.run("cp", ":nothing", str(tmp_path))
    assert missing.returncode == 1
    assert "nothing" in missing.stderr


def test_shell_has_a_terminal(terminal: Terminal) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        terminal.command("shell", terminal.id), env=terminal.environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    try:
        os.write(ours, b"tty && echo sum-$((40 + 2)); exit 7\n")
        output = b""
        while b"sum-42" not in output:
            output += os.read(ours, 4096)
        assert b"/dev/pts/" in output
        assert process.wait(SECONDS) == 7
    finally:
        process.kill()
        process.wait()
        os.close(ours)


@pytest.mark.skipif(shutil.which("ssh") is None, reason="OpenSSH is not installed")
def test_openssh_runs_commands_and_checks_the_host_key(terminal: Terminal, tmp_path: Path) -> None:
    configuration = tmp_path / "config"
    printed = subprocess.run(
        terminal.command("ssh-config"), env=terminal.environment, capture_output=True, text=True, check=True
    )
    configuration.write_text(printed.stdout)
    command = ["ssh", "-F", str(configuration), f"{terminal.id}.agentenv", "echo $((40 + 2)); exit 4"]
    ended = subprocess.run(
        command, env=terminal.environment, capture_output=True, text=True, check=False, timeout=SECONDS
    )
    assert (ended.returncode, ended.stdout) == (4, "42\n"), ended.stderr


def test_other_callers_are_refused(terminal: Terminal) -> None:
    environment = {**terminal.environment, "AGENTENV_TOKEN": "e2b_" + "0" * 52}
    command = terminal.command("exec", terminal.id, "--", "true")
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert ended.returncode == 1
    assert "the API key is unknown, expired or revoked" in ended.stderr
