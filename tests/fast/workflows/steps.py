"""Read the workflows, and run their shell steps with fake programs on PATH."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / ".github" / "workflows"
WORKFLOWS = sorted(FOLDER.glob("*.yml"))
# Records its arguments, and runs the script beside it
FAKE = """#!/bin/sh
printf '%s' "$(basename "$0")" >> "$CALLS"
for argument in "$@"; do printf ' [%s]' "$argument" >> "$CALLS"; done
printf '\\n' >> "$CALLS"
if [ -f "$FAKES/$(basename "$0").does" ]; then . "$FAKES/$(basename "$0").does"; fi
"""


@cache
def read(name: str) -> dict[str, Any]:
    """Return a workflow. YAML 1.1 would parse the key `on` as a boolean."""
    return yaml.load((FOLDER / name).read_text(encoding="utf-8"), Loader=yaml.BaseLoader)  # noqa: S506 - texts only


def steps() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield every step with its workflow and job."""
    for path in WORKFLOWS:
        for job, described in read(path.name)["jobs"].items():
            for step in described.get("steps", ()):
                yield path.name, job, step


def script(workflow: str, job: str, name: str) -> str:
    """Return the script of a shell step."""
    (found,) = [step["run"] for step in read(workflow)["jobs"][job]["steps"] if step.get("name") == name]
    return found


@dataclass
class Machine:
    """A folder in which steps run, with fake programs."""

    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.fakes = self.folder / "fakes"
        self.fakes.mkdir()
        self.work = self.folder / "work"
        folders = (self.fakes, self.work / ".venv" / "bin", self.folder / "go" / "bin")
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            for name in ("agentenv", "gh", "pulumi", "curl", "docker", "uv", "cosign", "make"):
                (folder / name).write_text(FAKE, encoding="utf-8")
                (folder / name).chmod(0o755)
        self.calls = self.folder / "calls"
        self.calls.touch()
        self.summary = self.folder / "summary"
        self.summary.touch()

    def does(self, program: str, text: str) -> None:
        """Set the script that a fake program runs."""
        (self.fakes / f"{program}.does").write_text(text, encoding="utf-8")

    def run(self, text: str, shell: str = "bash", **variables: str) -> int:
        """Run a step as a runner does, and return its exit code."""
        environment = {
            "PATH": f"{self.fakes}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "CALLS": str(self.calls),
            "FAKES": str(self.fakes),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_REPOSITORY": "team/platform",
            **self.variables,
            **variables,
        }
        options = ["-eo", "pipefail"] if shell == "bash" else ["-e"]
        return subprocess.run([shell, *options, "-c", text], cwd=self.work, env=environment, check=False).returncode

    def called(self, program: str = "") -> list[str]:
        """Return the recorded calls, in order."""
        lines = self.calls.read_text(encoding="utf-8").splitlines()
        return [line for line in lines if line.startswith(program)]
