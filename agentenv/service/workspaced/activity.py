"""workspaced as a source of activity: it sees requests, streams and processes also of a class without network."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from agentenv.core.lifecycle.idle import Activity
from agentenv.service.workspaced.client import WorkspacedClient, WorkspacedError

if TYPE_CHECKING:
    from agentenv.core.lifecycle.limits import Limits
    from agentenv.core.workspaces.workspace import Workspace
    from agentenv.service.workspaces.backend_protocol import LoopBackend

# How many sandboxes are asked at once; each has three seconds.
_AT_ONCE = 20


class WorkspacedActivity:
    """The status of every sandbox with workspaced."""

    name = "workspaced"

    def __init__(self, backend: LoopBackend, client: WorkspacedClient) -> None:
        self._backend, self._client = backend, client

    async def seen(
        self,
        workspaces: Sequence[Workspace],
        limits: Mapping[str, Limits],  # noqa: ARG002 - it says when, and not whether for long enough
        now: datetime,
    ) -> Mapping[str, Activity]:
        """Return when each was last active; nothing of a sandbox that does not answer."""
        at_once = asyncio.Semaphore(_AT_ONCE)

        async def observe(workspace: Workspace) -> tuple[str, Activity | None]:
            async with at_once:
                return workspace.id, await self._activity(workspace, now)

        observed = await asyncio.gather(*(observe(workspace) for workspace in workspaces))
        return {id_: activity for id_, activity in observed if activity is not None}

    async def _activity(self, workspace: Workspace, now: datetime) -> Activity | None:
        endpoint = await self._backend.sandbox_endpoint(workspace)
        if endpoint is None:
            # Another daemon, none, or a release without: this source has nothing to say, and others decide.
            return Activity(self.name)
        try:
            status = await self._client.status(endpoint)
        except WorkspacedError:
            return None
        at = now if status.busy else now - timedelta(seconds=status.idle_seconds)
        return Activity(self.name, at, decisive=True)
