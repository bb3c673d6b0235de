"""The loops that keep workspaces: one replica is elected to run them, and each runs as if the others were not there.

What a loop decides is in `agentenv/core/lifecycle/`, as functions of what was read and of the time. A pass here reads,
asks them, and does what they say, in steps each of which may be the last: the next pass, of this replica or of another
one, sees how far it came. `run` is the way in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from agentenv.core.workspaces.workspace import Workspace
    from agentenv.service.configuration import Configuration
    from agentenv.service.telemetry.metrics import Metrics


def run(
    configuration: Configuration,
    metrics: Metrics,
    stop: threading.Event,
    workspace_snapshot: Callable[[], Sequence[Workspace] | None],
) -> None:
    """Stand for election and run the loops whenever this replica is elected, until told to stop.

    `workspace_snapshot` says all workspaces as the API of the same replica is told of them, or None while it is not.
    """
    from agentenv.service.loops.runner import run_loops

    run_loops(configuration, metrics, stop, workspace_snapshot)
