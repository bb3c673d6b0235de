"""The real engine in a separate folder, with the stand-ins only."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from agentenv.rehearsal.controlplane.plane import ControlPlane
from agentenv.rehearsal.tools import ensure, terminal_progress
from tests import isolated_engine


@dataclass(frozen=True)
class Engine:
    """An isolated engine with one stack."""

    isolated: isolated_engine.Engine

    @property
    def folder(self) -> Path:
        """Return the folder of its program."""
        return self.isolated.folder

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
        return self.isolated.run(*arguments, timeout=300, **more)

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
    isolated = isolated_engine.isolated_engine(tmp_path, tools.path("pulumi"), tools.path("language-python-exec"))
    (isolated.folder / "Pulumi.yaml").write_text("name: test\nruntime: python\n", encoding="utf-8")
    locale = {name: value for name, value in os.environ.items() if name.startswith("LC_")}
    plane_config = {"PLANE": plane.kubeconfig().read_text(encoding="utf-8")}
    created = Engine(replace(isolated, environment={**isolated.environment, **plane_config, **locale}))
    created.run("stack", "init", "one")
    return created
