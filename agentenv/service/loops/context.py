"""What passes work with: the API server, its clock, the classes' limits, and whoever else is asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import CONSTRAINTS
from agentenv.core.lifecycle.idle import Activity
from agentenv.core.lifecycle.limits import Limits, limits
from agentenv.core.values.object_fields import text
from agentenv.core.workspaces.records import workspace_of_claim
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.aws.access_points import AccessPoints
from agentenv.service.kube.client import CLAIMS, CONFIGURATIONS, NAMESPACES, Document, KubeApi, section
from agentenv.service.kube.unreadable import readable


class Clock(Protocol):
    """What decides what time it is."""

    @property
    def known(self) -> bool:
        """Whether there is no doubt of it: nothing is destroyed else."""
        ...

    def now(self) -> datetime:
        """What time it is."""
        ...


class ActivitySource(Protocol):
    """Somebody who sees what workspaces do, beside the API that they are used through."""

    name: str

    async def seen(
        self, workspaces: Sequence[Workspace], limits: Mapping[str, Limits], now: datetime
    ) -> Mapping[str, Activity]:
        """What it knows of each workspace, by id; of one that it leaves out it knows nothing."""
        ...


class LoopMetrics(Protocol):
    """Where what was done is counted."""

    def suspended(self, sandbox_class: str, because: str) -> None:
        """A workspace was put to sleep."""
        ...

    def findings(self, loop: str, counts: Mapping[str, int]) -> None:
        """What a loop found to be wrong, by kind."""
        ...


@dataclass
class Context:
    """One replica's, for all its loops."""

    api: KubeApi
    clock: Clock
    metrics: LoopMetrics
    namespace: str
    replica: str
    points: AccessPoints | None = None
    file_systems: Sequence[str] = ()
    sources: Sequence[ActivitySource] = ()
    # Has what a workspace used written down before it goes, by its namespace and name; the ledger's next pass else.
    settle: Callable[[str, str], Awaitable[object]] | None = None
    # Keeps one asleep that may cost no more as its hour comes, and says whether it has; its hour wakes it else.
    refuse_wake: Callable[[Workspace, Document], Awaitable[bool]] | None = None
    # Whoever is told of changes, and knows of all just now; they are listed else.
    workspace_snapshot: Callable[[], Sequence[Workspace] | None] = lambda: None
    # Whether sandboxes have workspaced, for which keys are kept.
    workspaced: bool = False
    monotonic: Callable[[], float] = time.monotonic
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _recent: Sequence[Workspace] = ()
    _read: float | None = None

    async def limits(self) -> dict[str, Limits]:
        """How long things last, by class."""
        by_class: dict[str, Limits] = {}
        async for namespace in self.api.list(NAMESPACES, labels={CLASS_LABEL: None}):
            metadata = section(namespace, "metadata")
            constraints = await self.api.find(CONFIGURATIONS, CONSTRAINTS, text(metadata, "name"))
            by_class[text(section(metadata, "labels"), CLASS_LABEL)] = limits(section(constraints, "data"))
        return by_class

    async def recent_workspaces(self, age: float) -> Sequence[Workspace]:
        """All workspaces, as they were so many seconds ago at most: loops that only look for work share one look.

        Whoever then does something to one reads it again.
        """
        snapshot = self.workspace_snapshot()
        async with self._lock:
            if snapshot is not None:
                self._recent, self._read = (), None
                return snapshot
            if self._read is None or self.monotonic() - self._read > age:
                began = self.monotonic()
                listed = readable("SandboxClaim", self.api.list(CLAIMS), workspace_of_claim)
                self._recent = [workspace async for _, workspace in listed if workspace is not None]
                self._read = began
            return self._recent
