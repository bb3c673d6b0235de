"""A Pulumi engine in a separate folder, with its own backend, home and the stand-in language host."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentenv.rehearsal.tools import plugins

PLAIN_PATH = "/usr/bin:/bin"


@dataclass(frozen=True)
class Engine:
    """A Pulumi CLI, the folder of its program, and its environment."""

    pulumi: Path
    folder: Path
    environment: dict[str, str]

    def command(self, *arguments: str) -> list[str]:
        """Return the command line."""
        return [str(self.pulumi), *arguments, "--non-interactive"]

    def run(self, *arguments: str, timeout: float = 120, **more: str) -> subprocess.CompletedProcess[str]:
        """Run the command with `more` variables, and return both streams in one."""
        return subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env={**self.environment, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )


def isolated_engine(folder: Path, pulumi: Path, executor: Path) -> Engine:
    """Return an engine below a folder, which finds the stand-ins only, even where official plugins are installed."""
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
