"""The dependencies of passes: the API server, its clock, the limits of classes, and activity sources."""

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
from agentenv.core.workspaces.pod_report import PodReport
from agentenv.core.workspaces.records import workspace_of_claim
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.aws.access_points import AccessPoints
from agentenv.service.aws.targets import Targets
from agentenv.service.kube.client import CLAIMS, CONFIGURATIONS, NAMESPACES, Document, KubeApi, section
from agentenv.service.kube.leaving_nodes import NodeSource
from agentenv.service.kube.unreadable import readable
from agentenv.service.workspaced.client import WorkspacedClient
from agentenv.service.workspaces.resize import Resizer


class Clock(Protocol):
    """A source of the current time."""

    @property
    def known(self) -> bool:
        """Return whether the time is certain; data is destroyed only then."""
        ...

    def now(self) -> datetime:
        """Return the current time."""
        ...


class ActivitySource(Protocol):
    """A source of activity that does not pass through the API of the service."""

    name: str

    async def seen(
        self, workspaces: Sequence[Workspace], limits: Mapping[str, Limits], now: datetime
    ) -> Mapping[str, Activity]:
        """Return the known activity of workspaces, by id."""
        ...


class LoopMetrics(Protocol):
    """Counters of actions and findings."""

    def suspended(self, sandbox_class: str, because: str) -> None:
        """Count a suspended workspace."""
        ...

    def restarted(self, sandbox_class: str, why: str) -> None:
        """Count a restart of a workspace's processes."""
        ...

    def findings(self, loop: str, counts: Mapping[str, int]) -> None:
        """Set the number of findings of a loop, by kind."""
        ...


@dataclass
class Context:
    """The dependencies of all loops of one replica."""

    api: KubeApi
    clock: Clock
    metrics: LoopMetrics
    namespace: str
    replica: str
    points: AccessPoints | None = None
    file_systems: Sequence[str] = ()
    # Of the load balancer, for the pods of the gateway.
    targets: Targets | None = None
    sources: Sequence[ActivitySource] = ()
    # Records a workspace's usage by namespace and name before it is deleted; else the ledger's next pass does.
    settle: Callable[[str, str], Awaitable[object]] | None = None
    # Keeps a workspace suspended at its wake time if its budget is spent; returns whether it did.
    refuse_wake: Callable[[Workspace, Document], Awaitable[bool]] | None = None
    # Returns all workspaces from the cache; None if it is not synced, and then they are listed.
    workspace_snapshot: Callable[[], Sequence[Workspace] | None] = lambda: None
    # Returns the workspaces whose pods report a restart or a trouble, from the cache.
    pod_reports: Callable[[], Sequence[tuple[Workspace, PodReport]]] = lambda: ()
    # The client of workspaced in sandboxes, if they run it; its keys are maintained then.
    workspaced: WorkspacedClient | None = None
    # The nodes that go away; without them workspaces wait for Kubernetes.
    nodes: NodeSource | None = None
    # Resizes sandboxes; without one, requests are left to the API.
    resizer: Resizer | None = None
    monotonic: Callable[[], float] = time.monotonic
    # When a parent was first found to be missing, by its id and the time of `monotonic`.
    missing_parents: dict[str, float] = field(default_factory=dict[str, float])
    # Restarts that were recorded, by the uid of the pod and their number.
    recorded_restarts: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _recent: Sequence[Workspace] = ()
    _read: float | None = None

    async def limits(self) -> dict[str, Limits]:
        """Return the limits of each class."""
        by_class: dict[str, Limits] = {}
        async for namespace in self.api.list(NAMESPACES, labels={CLASS_LABEL: None}):
            metadata = section(namespace, "metadata")
            constraints = await self.api.find(CONFIGURATIONS, CONSTRAINTS, text(metadata, "name"))
            by_class[text(section(metadata, "labels"), CLASS_LABEL)] = limits(section(constraints, "data"))
        return by_class

    async def recent_workspaces(self, age: float) -> Sequence[Workspace]:
        """Return all workspaces, at most so many seconds old; loops share one list to find candidates.

        Before a pass changes a workspace, it reads its claim again.
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
