"""Record the outcome of a swarm on its pool: handed over to a caller, or given up, whichever comes first.

Several requests may wait for the same swarm, on any replica, and one may time out when another has just succeeded. Both
outcomes are writes that require the version that was read, so the later one fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Literal

from agentenv.core.classes.names import TASK_LABEL, USER_LABEL
from agentenv.core.values.object_fields import counted, text
from agentenv.core.workspaces.swarms import ABANDONED, ASSIGNED_COUNT, REQUESTED_COUNT
from agentenv.service.kube.client import EVENTS, POOLS, Document, KubeApi, collect, section
from agentenv.service.kube.record_event import record_event
from agentenv.service.workspaces.swarm_creations import SwarmRecord

# The reasons of events about the end of a swarm, so that every replica can return it while events are retained.
FAILED, ENDED = "SwarmFailed", "SwarmEnded"


async def pool_of(cluster: KubeApi, namespace: str, task: str) -> Document | None:
    """Return the pool with the outcome: the oldest of the task, which may have one per release."""
    return min(await collect(cluster.list(POOLS, namespace, {TASK_LABEL: task})), key=_age, default=None)


async def pools_of(cluster: KubeApi, task: str | None, owner: str | None = None) -> list[Document]:
    """Return all pools of a task, or of all tasks of an `owner`, in all classes, the oldest first."""
    labels = {TASK_LABEL: task, **({USER_LABEL: owner} if owner else {})}
    return sorted(await collect(cluster.list(POOLS, labels=labels)), key=_age)


def is_given_up(pool: Document) -> bool:
    """Return whether a swarm was given up or is being deleted."""
    return ABANDONED in section(section(pool, "metadata"), "annotations")


def handed_over_count(pool: Document) -> int:
    """Return how many of its members, counted from the first, were handed over to a caller."""
    return _count(pool, ASSIGNED_COUNT)


def requested_count(pool: Document) -> int:
    """Return the largest number of members that was requested."""
    return _count(pool, REQUESTED_COUNT)


def record_of(pool: Document | None) -> SwarmRecord:
    """Return what a pool records of its swarm; nothing without a pool."""
    if pool is None:
        return SwarmRecord()
    return SwarmRecord(requested_count(pool), handed_over_count(pool), is_given_up(pool))


async def mark_handed_over(cluster: KubeApi, namespace: str, task: str, uid: str, count: int) -> bool:
    """Record that so many members are handed over; False if the swarm was given up or deleted meanwhile."""
    while (pool := await _same_pool(cluster, namespace, task, uid)) is not None and not is_given_up(pool):
        annotations = {key: str(count) for key in (ASSIGNED_COUNT, REQUESTED_COUNT) if _count(pool, key) < count}
        if not annotations or await _annotate(cluster, pool, annotations):
            return True
    return False


async def mark_given_up(
    cluster: KubeApi, namespace: str, task: str, uid: str
) -> Literal["given-up", "handed-over", "gone"]:
    """Record that the swarm is given up, unless it was handed over or deleted."""
    while (pool := await _same_pool(cluster, namespace, task, uid)) is not None:
        if handed_over_count(pool):
            return "handed-over"
        if is_given_up(pool) or await _annotate(cluster, pool, {ABANDONED: "true"}):
            return "given-up"
    return "gone"


async def mark_deleted(cluster: KubeApi, namespace: str, task: str) -> None:
    """Record that the swarm is being deleted: no request may add members or be answered with it."""
    while (pool := await pool_of(cluster, namespace, task)) is not None and not is_given_up(pool):
        if await _annotate(cluster, pool, {ABANDONED: "true"}):
            return


async def _same_pool(cluster: KubeApi, namespace: str, task: str, uid: str) -> Document | None:
    pool = await pool_of(cluster, namespace, task)
    return pool if pool is not None and pool["metadata"]["uid"] == uid else None


async def _annotate(cluster: KubeApi, pool: Document, annotations: dict[str, str]) -> bool:
    return await cluster.patch(POOLS, pool, {"metadata": {"annotations": annotations}}) is not None


def _count(pool: Document, key: str) -> int:
    return counted(section(section(pool, "metadata"), "annotations").get(key)) or 0


def _age(pool: Document) -> tuple[str, str]:
    metadata = section(pool, "metadata")
    return text(metadata, "creationTimestamp"), text(metadata, "name")


async def record_swarm_event(
    cluster: KubeApi,
    namespace: str,
    task: str,
    reason: str,
    message: str,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> None:
    """Create an event of a task's pool; a failure is logged only."""
    about = {"kind": "SandboxWarmPool", "name": task, "namespace": namespace}
    failed = reason == FAILED
    await record_event(cluster, about, reason, message, now(), warning=failed, labels={TASK_LABEL: task})


async def last_failure(cluster: KubeApi, namespaces: Iterable[str], task: str) -> str | None:
    """Return why the last swarm of a task failed; None if it did not, or its events have expired."""
    events = [event for namespace in namespaces async for event in cluster.list(EVENTS, namespace, {TASK_LABEL: task})]
    # Of events in the same second, the one that the swarm was deleted takes precedence.
    latest = max(events, key=lambda event: (text(event, "lastTimestamp"), event.get("reason") == ENDED), default=None)
    return None if latest is None or latest.get("reason") == ENDED else text(latest, "message")
