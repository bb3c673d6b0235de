"""Stacks to measure with: the local one, with as many classes and declared workspaces as a benchmark wants."""

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
    """The configuration of the local stack, with more classes like its first, and workspaces of that one."""
    file = ROOT / "stacks" / f"Pulumi.{STACK}.yaml"
    said: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))["config"]
    first, *others = said[CLASSES]
    others += [{**first, "name": f"class-{number}"} for number in range(1 + len(others), classes)]
    declared = [{"name": f"seat-{number}", "class": first["name"], "user": f"u-{number}"} for number in range(seats)]
    return {**said, CLASSES: [first, *others], **({SEATS: declared} if declared else {})}


def project(stage: Stage, said: dict[str, Any]) -> Engine:
    """The program with that configuration, as a project of its own."""
    settings = yaml.safe_load((ROOT / "Pulumi.yaml").read_text(encoding="utf-8"))
    return stage.program(ROOT / settings["main"], STACK, said, settings)
