"""The stack of a proof in a rehearsal: the stage's engine, simulated account and load balancer."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentenv.cli.main import CommandError
from agentenv.cli.prove.deployment import Surroundings
from agentenv.rehearsal.stage import credentials
from agentenv.rehearsal.stage.cluster import ClusterOptions
from agentenv.rehearsal.stage.stage import StageError, stage
from agentenv.rehearsal.tools import ToolError
from agentenv.rehearsal.tools.progress import Lines

if TYPE_CHECKING:
    from agentenv.config import Settings
    from agentenv.rehearsal.stage.engine import Engine


@contextmanager
def rehearsed(project: Path, stack: str, settings: Settings) -> Iterator[tuple[Engine, Surroundings]]:
    """Open a stage with the project's stack on it."""
    try:
        with stage(Lines(sys.stderr), cluster=ClusterOptions.for_stack(settings)) as opened:
            engine = opened.project(project, stack)

            def balancer(_: Mapping[str, Any]) -> tuple[str, int, Path]:
                page = opened.query("balancers")
                host, _, port = next(iter(page["listeners"].values())).rpartition(":")
                return host, int(port), Path(page["authority"])

            def aws(service: str) -> Any:
                return credentials.client(service, engine.environment)

            yield engine, Surroundings(simulated=True, aws=aws, balancer=balancer)
    except (StageError, ToolError) as failure:
        raise CommandError(str(failure)) from failure
