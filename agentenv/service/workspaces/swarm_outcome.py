"""What becomes of a swarm, noted on its pool: handed over to somebody, or given up by somebody, whichever comes first.

Several may wait for the same swarm, on any replica, and one of them may run out of patience when another has just been
answered. Both are changes of what was read, so one of the two is told that it came too late.
"""

from __future__ import annotations

from typing import Literal

from agentenv.core.classes.names import TASK_LABEL
from agentenv.core.values.object_fields import counted, text
from agentenv.core.workspaces.swarms import ABANDONED, ASSIGNED_COUNT, REQUESTED_COUNT
from agentenv.service.kube.client import POOLS, Document, KubeApi, collect, section


async def pool_of(cluster: KubeApi, namespace: str, task: str) -> Document | None:
    """The pool on which it is noted: the oldest of the task, for there is one for each release it was asked of."""
    return min(await collect(cluster.list(POOLS, namespace, {TASK_LABEL: task})), key=_age, default=None)


async def pools_of(cluster: KubeApi, task: str) -> list[Document]:
    """All of a task's pools, of whatever class."""
    return sorted(await collect(cluster.list(POOLS, labels={TASK_LABEL: task})), key=_age)


def is_given_up(pool: Document) -> bool:
    """Whether it is on its way out."""
    return ABANDONED in section(section(pool, "metadata"), "annotations")


def handed_over_count(pool: Document) -> int:
    """How many of its members, by number, somebody was told that they are there."""
    return _count(pool, ASSIGNED_COUNT)


def requested_count(pool: Document) -> int:
    """How many of it were asked for, at most."""
    return _count(pool, REQUESTED_COUNT)


async def mark_handed_over(cluster: KubeApi, namespace: str, task: str, uid: str, count: int) -> bool:
    """Note that so many are somebody's; False where it was given up or taken away meanwhile."""
    while (pool := await _same_pool(cluster, namespace, task, uid)) is not None and not is_given_up(pool):
        annotations = {key: str(count) for key in (ASSIGNED_COUNT, REQUESTED_COUNT) if _count(pool, key) < count}
        if not annotations or await _annotate(cluster, pool, annotations):
            return True
    return False


async def mark_given_up(
    cluster: KubeApi, namespace: str, task: str, uid: str
) -> Literal["given-up", "handed-over", "gone"]:
    """Note that nobody is to have it, unless somebody has, or somebody else has taken it away."""
    while (pool := await _same_pool(cluster, namespace, task, uid)) is not None:
        if handed_over_count(pool):
            return "handed-over"
        if is_given_up(pool) or await _annotate(cluster, pool, {ABANDONED: "true"}):
            return "given-up"
    return "gone"


async def mark_deleted(cluster: KubeApi, namespace: str, task: str) -> None:
    """Note that it ends, whoever has it: nobody adds to it any more, or is told that it is there."""
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
