"""Find the project of the current folder: the nearest `Pulumi.yaml`, and the folder with its stack files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentenv.cli.main import CommandError

NAME = "agent-environment"
DESCRIPTIONS = ("Pulumi.yaml", "Pulumi.yml")


@dataclass(frozen=True)
class Project:
    """A Pulumi project."""

    folder: Path
    name: str
    stack_files: Path  # the folder with its stack files


def project(start: Path | None = None) -> Project:
    """Return the project of the nearest `Pulumi.yaml`, in a folder (default: the current one) or above it."""
    here = (start or Path.cwd()).resolve()
    found = next(filter(None, map(project_in, (here, *here.parents))), None)
    if found is None:
        raise CommandError(f"there is no Pulumi.yaml in {here} or above it; change to the folder of a project")
    return found


def project_in(folder: Path) -> Project | None:
    """Return the project that a folder's `Pulumi.yaml` describes, None without one."""
    import yaml

    file = next((folder / name for name in DESCRIPTIONS if (folder / name).is_file()), None)
    if file is None:
        return None
    try:
        description: Any = yaml.safe_load(file.read_text(encoding="utf-8"))
        return Project(folder, str(description["name"]), folder / description.get("stackConfigDir", "."))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, yaml.YAMLError) as error:
        raise CommandError(f"{file} cannot be read as a project: {type(error).__name__}: {error}") from None


def checkout(start: Path | None = None) -> Path:
    """Return the folder of the checkout around a folder: what runs the program and its rules needs one."""
    found = project(start)
    if found.name != NAME:
        raise CommandError(f"it needs a checkout of {NAME}, and {found.folder} is the project '{found.name}'")
    return found.folder
