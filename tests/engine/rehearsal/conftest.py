"""The real engine with the stand-in language host, with its own backend and home."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentenv.rehearsal.tools import ensure, plugins, terminal_progress

PLAIN_PATH = "/usr/bin:/bin"


@dataclass(frozen=True)
class Engine:
    """A Pulumi CLI and its folder."""

    pulumi: Path
    folder: Path
    environment: dict[str, str]

    def command(self, *arguments: str) -> list[str]:
        """The command line."""
        return [str(self.pulumi), *arguments, "--non-interactive"]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command, and return both streams in one."""
        return subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )


@pytest.fixture(scope="session")
def pulumi() -> Path:
    """The CLI, which is built at its first use on a machine."""
    return ensure(["pulumi"], terminal_progress()).path("pulumi")


@pytest.fixture(scope="session")
def executor() -> Path:
    """The program with which the stand-in language host runs programs."""
    return ensure(["language-python-exec"], terminal_progress()).path("language-python-exec")


@pytest.fixture
def engine(tmp_path: Path, pulumi: Path, executor: Path) -> Engine:
    """An engine that finds the stand-in language host only, even where the official one is installed."""
    return isolated_engine(tmp_path, pulumi, executor)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, pulumi: Path, executor: Path) -> Engine:
    """An engine with a stack of the project `trial`, for tests that only preview a program."""
    engine = isolated_engine(tmp_path_factory.mktemp("shared"), pulumi, executor)
    (engine.folder / "Pulumi.yaml").write_text("name: trial\nruntime: python\n", encoding="utf-8")
    begun = engine.run("stack", "init", "dev")
    assert begun.returncode == 0, begun.stdout
    return engine


def isolated_engine(folder: Path, pulumi: Path, executor: Path) -> Engine:
    """Return an engine with its own backend, home and language host, under a folder."""
    folders = {name: folder / name for name in ("shims", "home", "state", "program", "cli")}
    for folder_ in folders.values():
        folder_.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", PLAIN_PATH)
        patch.setenv("PULUMI_HOME", str(folders["home"]))
        plugins.shims(folders["shims"], Path(sys.executable), executor=executor)
    # An official host beside the CLI has priority over PATH, so the CLI is alone in its folder.
    cli = folders["cli"] / "pulumi"
    os.link(pulumi, cli) if pulumi.stat().st_dev == folder.stat().st_dev else cli.symlink_to(pulumi)
    environment = {
        "PATH": f"{folders['shims']}:{PLAIN_PATH}",
        "HOME": str(folders["home"]),
        "PULUMI_HOME": str(folders["home"]),
        "PULUMI_BACKEND_URL": folders["state"].as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": "correct horse",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    return Engine(cli, folders["program"], environment)
