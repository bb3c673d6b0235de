"""The local stack for benchmarks, with any number of classes and declared workspaces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from agentenv.rehearsal.stage.engine import Engine
from agentenv.rehearsal.stage.stage import Stage

ROOT = Path(__file__).resolve().parent.parent
STACK = "local"
CLASSES = "agent-environment:sandboxClasses"
SEATS = "agent-environment:workspaces"


def local(classes: int = 1, seats: int = 0) -> dict[str, Any]:
    """Return the configuration of the local stack, with copies of its first class and workspaces of that class."""
    file = ROOT / "stacks" / f"Pulumi.{STACK}.yaml"
    config: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))["config"]
    first, *others = config[CLASSES]
    others += [{**first, "name": f"class-{number}"} for number in range(1 + len(others), classes)]
    declared = [{"name": f"seat-{number}", "class": first["name"], "user": f"u-{number}"} for number in range(seats)]
    return {**config, CLASSES: [first, *others], **({SEATS: declared} if declared else {})}


def project(stage: Stage, config: dict[str, Any]) -> Engine:
    """Return the program with a configuration, as its own project."""
    settings = yaml.safe_load((ROOT / "Pulumi.yaml").read_text(encoding="utf-8"))
    return stage.program(ROOT / settings["main"], STACK, config, settings)
