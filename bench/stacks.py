"""The local stack for benchmarks, with any number of classes and declared workspaces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from agentenv.rehearsal.stage.engine import Engine
from agentenv.rehearsal.stage.stage import Stage
from agentenv.service.aws import clients

ROOT = Path(__file__).resolve().parent.parent
STACK = "local"
CLASSES = "agent-environment:sandboxClasses"
# Longer than the pause between two requests of a turn.
REPLENISH = "2s"
# GOGC in percent, so that garbage is collected between turns and not during one: on two cores that takes a second, and
# would affect either side by chance.
HEAP = 400
SEATS = "agent-environment:workspaces"


def local(classes: int = 1, seats: int = 0) -> dict[str, Any]:
    """Return the configuration of the local stack, with copies of its first class and workspaces of that class."""
    file = ROOT / "stacks" / f"Pulumi.{STACK}.yaml"
    config: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))["config"]
    first, *others = config[CLASSES]
    others += [{**first, "name": f"class-{number}"} for number in range(1 + len(others), classes)]
    declared = [{"name": f"seat-{number}", "class": first["name"], "user": f"u-{number}"} for number in range(seats)]
    return {**config, CLASSES: [first, *others], **({SEATS: declared} if declared else {})}


def with_service(size: int, *, gateway: bool = False) -> dict[str, Any]:
    """Return the configuration of the local stack for so many workspaces, with an operator who can list them."""
    config = local()
    service = config["agent-environment:service"]
    service["operators"] = ["default/bench"]
    if not gateway:
        # Its certificate would have to exist.
        del service["domain"], service["certificate"]
    config["agent-environment:cluster"]["sandboxController"] = {"flags": {"replenishDelay": REPLENISH}}
    config[CLASSES][0]["maxSandboxes"] = size
    # The simulated nodes have room for a pool of 50.
    config[CLASSES][0]["resources"] |= {"memory": "256Mi"}
    return config


def project(stage: Stage, config: dict[str, Any]) -> Engine:
    """Return the program with a configuration, as its own project."""
    settings = yaml.safe_load((ROOT / "Pulumi.yaml").read_text(encoding="utf-8"))
    return stage.program(ROOT / settings["main"], STACK, config, settings)


def aws_client(stage: Stage, service: str) -> Any:
    """Return a client of a service of the simulated account."""
    keys = {name.lower(): stage.environment[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    return clients.client(service, stage.environment["AWS_REGION"], stage.cloud, **keys)
