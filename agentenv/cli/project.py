"""Find the project: the folder with its `Pulumi.yaml`."""

from __future__ import annotations

from pathlib import Path

from agentenv.cli.main import CommandError

NAME = "agent-environment"


def root(start: Path | None = None) -> Path:
    """Return the nearest parent folder with this project's `Pulumi.yaml`, else the checkout of this package."""
    here = (start or Path.cwd()).resolve()
    candidates = [here, *here.parents, Path(__file__).resolve().parents[2]]
    for folder in candidates:
        description = folder / "Pulumi.yaml"
        if description.is_file() and f"name: {NAME}" in description.read_text(encoding="utf-8", errors="replace"):
            return folder
    raise CommandError(
        f"no Pulumi.yaml of project {NAME} here or above {here}; run it inside a checkout of the project"
    )
