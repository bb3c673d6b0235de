"""The real engine in a separate folder, with the stand-ins only."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentenv.rehearsal.controlplane.plane import ControlPlane
from agentenv.rehearsal.tools import ensure, plugins, terminal_progress

PLAIN_PATH = "/usr/bin:/bin"


@dataclass(frozen=True)
class Engine:
    """The engine in a separate folder."""

    pulumi: Path
    folder: Path
    environment: dict[str, str]

    def set_program(self, program: str) -> None:
        """Write the program of the stack."""
        (self.folder / "__main__.py").write_text(program, encoding="utf-8")

    def run(self, *arguments: str, **more: str) -> str:
        ended = self._ended(*arguments, **more)
        assert ended.returncode == 0, ended.stdout
        return ended.stdout

    def fails(self, *arguments: str, **more: str) -> str:
        ended = self._ended(*arguments, **more)
        assert ended.returncode != 0, ended.stdout
        return ended.stdout

    def _ended(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.pulumi), *arguments, "--non-interactive"],
            cwd=self.folder,
            env={**self.environment, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )

    def changes(self, *arguments: str, **more: str) -> dict[str, int]:
        """Return the steps of an `up`, `refresh` or `destroy` by kind, without unchanged resources."""
        output = self.run(*arguments, "--yes", "--skip-preview", **more)
        _, _, summary = output.rpartition("Resources:\n")
        result = re.findall(r"^ +[-+~]*\s*(\d+) (created|updated|replaced|deleted)$", summary, re.MULTILINE)
        assert result or "unchanged" in summary, output
        return {word.removesuffix("d"): int(count) for count, word in result}


def engine_in(tmp_path: Path, plane: ControlPlane) -> Engine:
    """Return an engine that finds the stand-ins only."""
    tools = ensure(["pulumi", "language-python-exec"], terminal_progress())
    folders = {name: tmp_path / name for name in ("shims", "home", "state", "program", "cli")}
    for folder in folders.values():
        folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", PLAIN_PATH)
        patch.setenv("PULUMI_HOME", str(folders["home"]))
        executor = tools.path("language-python-exec")
        plugins.shims(folders["shims"], Path(sys.executable), executor=executor)
    # An official language host beside the CLI has priority over PATH, so the CLI is alone in its folder.
    alone = folders["cli"] / "pulumi"
    alone.symlink_to(tools.path("pulumi"))
    program = folders["program"]
    (program / "Pulumi.yaml").write_text("name: test\nruntime: python\n", encoding="utf-8")
    environment = {
        "PATH": f"{folders['shims']}:{PLAIN_PATH}",
        "HOME": str(folders["home"]),
        "PULUMI_HOME": str(folders["home"]),
        "PULUMI_BACKEND_URL": folders["state"].as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": "correct horse",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PLANE": plane.kubeconfig().read_text(encoding="utf-8"),
        **{k: v for k, v in os.environ.items() if k.startswith("LC_")},
    }
    created = Engine(alone, program, environment)
    created.run("stack", "init", "one")
    return created
