"""The stack of a proof in an account: the installed engine, and the clients of its caller."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentenv.cli.main import CommandError
from agentenv.cli.prove.deployment import Surroundings
from agentenv.rehearsal.stage.engine import Engine, EngineError

if TYPE_CHECKING:
    from agentenv.config import Settings

_HTTPS = 443


def account(project: Path, stack: str, settings: Settings, folder: Path) -> tuple[Engine, Surroundings]:
    """Return the engine of the project's stack, which is created if it does not exist, and the account's clients."""
    import boto3

    pulumi = shutil.which("pulumi")
    if pulumi is None:
        raise CommandError("pulumi is not on PATH, and is needed to deploy the stack; or add --rehearse")
    logs = folder / "logs"
    logs.mkdir(exist_ok=True)
    engine = Engine(Path(pulumi), project, stack, os.environ, logs)
    try:
        engine.call("stack", "select", "--create", "--stack", stack)
    except EngineError as error:
        raise CommandError(f"the stack cannot be selected: {error.output.strip()}") from None
    session = boto3.Session(region_name=settings.region)
    return engine, Surroundings(simulated=False, aws=session.client, balancer=_balancer)


def _balancer(outputs: Mapping[str, Any]) -> tuple[str, int, Path | None]:
    return str(outputs["serviceAddress"]), _HTTPS, None
