"""The dependencies of passes.

Passes over workspaces take a `LoopContext`, by whichever backend; passes over the objects of Kubernetes a `Context`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from agentenv.core.lifecycle.idle import Activity
from agentenv.core.lifecycle.limits import Limits
from agentenv.core.nodes.fargate_profiles import Selector
from agentenv.core.workspaces.pod_report import PodReport
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.aws.access_points import AccessPoints
from agentenv.service.aws.targets import Targets
from agentenv.service.kube.client import KubeApi
from agentenv.service.kube.leaving_nodes import NodeSource
from agentenv.service.workspaced.client import WorkspacedClient
from agentenv.service.workspaces.backend_protocol import Clock, CurrentWorkspace, LoopBackend
from agentenv.service.workspaces.loop_backend import KubernetesLoopBackend
from agentenv.service.workspaces.resize import Resizer
from agentenv.service.workspaces.retained_homes import RetainedHomes

if TYPE_CHECKING:
    from agentenv.service.ledger.budgets import MonthlyAccounts


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

    def missed_pod(self, namespace: str) -> None:
        """Count a pod that the webhook of its Fargate profile missed."""
        ...

    def findings(self, loop: str, counts: Mapping[str, int]) -> None:
        """Set the number of findings of a loop, by kind."""
        ...


@dataclass(kw_only=True)
class LoopContext:
    """The dependencies of the loops over workspaces."""

    backend: LoopBackend
    clock: Clock
    metrics: LoopMetrics
    sources: Sequence[ActivitySource] = ()
    # Records a workspace's usage before it is deleted; else the ledger's next pass does.
    settle: Callable[[Workspace], Awaitable[object]] | None = None
    # Keeps a workspace suspended at its wake time if its budget is spent; returns whether it did.
    refuse_wake: Callable[[CurrentWorkspace], Awaitable[bool]] | None = None
    monotonic: Callable[[], float] = time.monotonic
    # The costs of owners, for what ended children give back to their parents; without them nothing was spent.
    accounts: MonthlyAccounts | None = None
    # When parents, and children that hold a budget, were first found to be missing, by the time of `monotonic`.
    missing_parents: dict[str, float] = field(default_factory=dict[str, float])
    missing_children: dict[str, float] = field(default_factory=dict[str, float])


@dataclass(kw_only=True)
class Context(LoopContext):
    """The dependencies of all loops of one replica."""

    api: KubeApi
    namespace: str
    replica: str
    points: AccessPoints | None = None
    file_systems: Sequence[str] = ()
    # Of the load balancer, for the pods of the gateway.
    targets: Targets | None = None
    # Returns the workspaces whose pods report a restart or a trouble, from the cache.
    pod_reports: Callable[[], Sequence[tuple[Workspace, PodReport]]] = lambda: ()
    # Restarts that were recorded, by the uid of the pod and their number.
    recorded_restarts: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    # The client of workspaced in sandboxes, if they run it; its keys are maintained then.
    workspaced: WorkspacedClient | None = None
    # The nodes that go away; without them workspaces wait for Kubernetes.
    nodes: NodeSource | None = None
    # The pods that run on Fargate.
    fargate: Sequence[Selector] = ()
    # Resizes sandboxes; without one, requests are left to the API.
    resizer: Resizer | None = None
    # For how many passes the pods of workspaces have waited for a node, by uid.
    waited: dict[str, int] = field(default_factory=dict[str, int])


def cluster_context(
    api: KubeApi,
    clock: Clock,
    metrics: LoopMetrics,
    namespace: str,
    replica: str,
    *,
    workspace_snapshot: Callable[[], Sequence[Workspace] | None] = lambda: None,
    monotonic: Callable[[], float] = time.monotonic,
    emptying_image: str | None = None,
    **more: Any,
) -> Context:
    """Return the context of the loops of a cluster; `workspace_snapshot` returns the workspaces of a synced cache.

    `emptying_image` is the image of the Jobs that empty homes; without one, access points are deleted with their files.
    """
    homes = RetainedHomes(api, clock, namespace, replica, emptying_image)
    backend = KubernetesLoopBackend(api, clock, homes, snapshot=workspace_snapshot, monotonic=monotonic)
    return Context(
        backend=backend,
        clock=clock,
        metrics=metrics,
        api=api,
        namespace=namespace,
        replica=replica,
        monotonic=monotonic,
        **more,
    )
