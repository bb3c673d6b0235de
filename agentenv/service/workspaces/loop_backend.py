"""The operations of loops on the workspaces of a cluster: each requires the claim that was read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import CONSTRAINTS
from agentenv.core.classes.names import namespace as namespace_of_class
from agentenv.core.lifecycle.limits import Limits, limits
from agentenv.core.values.object_fields import section, strings, text
from agentenv.core.values.timestamps import format_timestamp, parse_timestamp
from agentenv.core.workspaces.child_budgets import ChildBudgets
from agentenv.core.workspaces.pod_report import why_failed
from agentenv.core.workspaces.records import workspace_of_claim, workspace_of_volume, workspace_patch
from agentenv.core.workspaces.workspace import (
    BUDGET_NOTICED,
    REPLACED_AT,
    SUSPENDED_BECAUSE,
    Because,
    Changes,
    Workspace,
)
from agentenv.service.kube.client import (
    CLAIMS,
    CONFIGURATIONS,
    NAMESPACES,
    PODS,
    VOLUMES,
    Document,
    KubeApi,
)
from agentenv.service.kube.record_event import claim_reference, record_event
from agentenv.service.kube.unreadable import readable
from agentenv.service.workspaced.client import endpoint_of
from agentenv.service.workspaces.backend_protocol import Clock, CurrentWorkspace, Endpoint, LoopBackend, Outcome
from agentenv.service.workspaces.delete import delete_workspace
from agentenv.service.workspaces.retained_homes import RetainedHomes, RetainedVolume
from agentenv.service.workspaces.suspend import clear_wake_time, resume, sandbox_of, suspend


class CurrentClaim(CurrentWorkspace):
    """A workspace by its claim as it was read."""

    def __init__(self, api: KubeApi, clock: Clock, claim: Document, workspace: Workspace) -> None:
        self._api, self._clock, self._claim, self._workspace = api, clock, claim, workspace

    @property
    def workspace(self) -> Workspace:
        """Return the workspace."""
        return self._workspace

    @property
    def replaced_at(self) -> datetime | None:
        """Return when its failed sandbox was replaced last."""
        return parse_timestamp(self._annotations.get(REPLACED_AT))

    @property
    def noticed(self) -> str | None:
        """Return the month in which its owner was last notified of its budget."""
        return self._annotations.get(BUDGET_NOTICED)

    async def suspend(self, because: Because) -> Outcome:
        """Suspend its sandbox."""
        return await suspend(self._api, self._claim, because)

    async def resume(self, *, requested: bool = False) -> Outcome:
        """Resume its sandbox."""
        return await resume(self._api, self._claim, self._clock.now(), requested=requested)

    async def delete(self, keep_for: timedelta) -> bool:
        """Delete its claim, after its volume has recorded the deletion."""
        return await delete_workspace(self._api, self._claim, keep_for, self._clock.now()) == "done"

    async def set_budget(self, budget: Decimal | None, children: ChildBudgets) -> bool:
        """Write its budget, and the part that its children hold."""
        changes = workspace_patch(self._workspace, Changes(budget=budget, child_budgets=children))
        return await self._api.patch(CLAIMS, self._claim, changes) is not None

    async def clear_wake_time(self) -> bool:
        """Remove a time to wake that has passed."""
        return await clear_wake_time(self._api, self._claim)

    async def failure(self) -> str | None:
        """Return why its pod failed. A sandbox that failed in another way gets no other pod."""
        pod = await self._pod()
        return why_failed(pod) if pod is not None and section(pod, "status").get("phase") == "Failed" else None

    async def is_stopped(self) -> bool:
        """Return whether its pod is gone."""
        return await self._pod() is None

    async def mark_replaced(self, now: datetime) -> bool:
        """Record that its failed pod is being replaced, and why it is suspended."""
        # One write: after an overtaken one nothing says that the pod was replaced, and the next pass tries again.
        return await self._annotate({REPLACED_AT: format_timestamp(now), SUSPENDED_BECAUSE: "failed"})

    async def mark_noticed(self, month: str) -> bool:
        """Record that its owner was notified of its budget."""
        return await self._annotate({BUDGET_NOTICED: month})

    async def warn(self, reason: str, message: str, now: datetime, *, once: str = "") -> None:
        """Record an event of its claim."""
        await record_event(self._api, claim_reference(self._claim), reason, message, now, warning=True, suffix=once)

    @property
    def _annotations(self) -> dict[str, str]:
        return strings(section(self._claim, "metadata"), "annotations")

    async def _annotate(self, annotations: dict[str, str]) -> bool:
        claim = await self._api.patch(CLAIMS, self._claim, {"metadata": {"annotations": annotations}})
        self._claim = claim or self._claim
        return claim is not None

    async def _pod(self) -> Document | None:
        sandbox = await sandbox_of(self._api, self._claim)
        return await self._api.find(PODS, sandbox["metadata"]["name"], self._workspace.namespace) if sandbox else None


class KubernetesLoopBackend(LoopBackend):
    """The workspaces of one cluster, as loops read them: from the watches, or a list where those are not synced."""

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        homes: RetainedHomes,
        *,
        snapshot: Callable[[], Sequence[Workspace] | None] = lambda: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`snapshot` returns all workspaces from the cache; None if it is not synced."""
        self._api, self._clock, self._snapshot, self._monotonic = api, clock, snapshot, monotonic
        self._homes = homes
        self._lock = asyncio.Lock()
        self._recent: Sequence[Workspace] = ()
        self._read: float | None = None

    async def limits(self) -> dict[str, Limits]:
        """Return the limits of each class."""
        by_class: dict[str, Limits] = {}
        async for namespace in self._api.list(NAMESPACES, labels={CLASS_LABEL: None}):
            metadata = section(namespace, "metadata")
            constraints = await self._api.find(CONFIGURATIONS, CONSTRAINTS, text(metadata, "name"))
            by_class[text(section(metadata, "labels"), CLASS_LABEL)] = limits(section(constraints, "data"))
        return by_class

    async def recent_workspaces(self, age: float) -> Sequence[Workspace]:
        """Return all workspaces, at most so many seconds old."""
        snapshot = self._snapshot()
        async with self._lock:
            if snapshot is not None:
                self._recent, self._read = (), None
                return snapshot
            if self._read is None or self._monotonic() - self._read > age:
                began = self._monotonic()
                listed = readable("SandboxClaim", self._api.list(CLAIMS), workspace_of_claim)
                self._recent = [workspace async for _, workspace in listed if workspace is not None]
                self._read = began
            return self._recent

    async def every_workspace(self, failures: list[str]) -> AsyncIterator[Workspace]:
        """Yield the workspaces of all claims, and those of retained volumes."""
        for kind, read in ((CLAIMS, _workspace_of), (VOLUMES, workspace_of_volume)):
            async for _, workspace in readable(kind.kind, self._api.list(kind), read, failures):
                if workspace is not None:
                    yield workspace

    async def reread(self, workspace: Workspace, failures: list[str]) -> CurrentClaim | None:
        """Return a workspace by its current claim."""
        document = await self._api.find(CLAIMS, workspace.id, workspace.namespace)
        claims = [document] if document else []
        async for claim, current in readable("SandboxClaim", claims, _workspace_of, failures):
            if current is None or current.claim_uid != workspace.claim_uid:
                continue
            # A sandbox that does not exist yet, or belongs to another claim, is left to the next pass.
            if current.state in {"running", "suspending", "suspended"} and await sandbox_of(self._api, claim) is None:
                continue
            return CurrentClaim(self._api, self._clock, claim, current)
        return None

    async def exists(self, id_: str, classes: Iterable[str]) -> bool:
        """Return whether a claim of that name exists in one of the classes."""
        return any([await self._api.find(CLAIMS, id_, namespace_of_class(name)) for name in classes])

    async def sandbox_endpoint(self, workspace: Workspace) -> Endpoint | None:
        """Return where the workspaced of a workspace's pod is reached."""
        pod = await self._api.find(PODS, workspace.sandbox, workspace.namespace) if workspace.sandbox else None
        return endpoint_of(pod) if pod is not None else None

    def retained_homes(self, failures: list[str], *, requested: bool = False) -> AsyncIterator[RetainedVolume]:
        """Yield the retained volumes about which something may have to be decided."""
        return self._homes.requested(failures) if requested else self._homes.candidates(failures)

    async def complete_destructions(self, should_continue: Callable[[], bool]) -> int:
        """Complete the records of destroyed volumes that are gone."""
        return await self._homes.complete_records(should_continue)


def _workspace_of(claim: Document) -> Workspace | None:
    """Return the workspace of a claim. One that was created by hand may have its labels for the pod alone."""
    pod_labels = section(section(section(claim, "spec"), "additionalPodMetadata"), "labels")
    metadata = section(claim, "metadata")
    return workspace_of_claim(
        {**claim, "metadata": {**metadata, "labels": {**pod_labels, **section(metadata, "labels")}}}
    )
