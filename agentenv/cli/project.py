"""Where the project is: the folder with its `Pulumi.yaml`."""

from __future__ import annotations

from pathlib import Path

from agentenv.cli.main import Refusal

NAME = "agent-environment"


def root(start: Path | None = None) -> Path:
    """The nearest folder upwards with this project's `Pulumi.yaml`; else the checkout that this package came from."""
    here = (start or Path.cwd()).resolve()
    candidates = [here, *here.parents, Path(__file__).resolve().parents[2]]
    for folder in candidates:
        description = folder / "Pulumi.yaml"
        if description.is_file() and f"name: {NAME}" in description.read_text(encoding="utf-8", errors="replace"):
            return folder
    raise Refusal(f"no Pulumi.yaml of project {NAME} here or above {here}; run it inside a checkout of the project")
