"""Make room for workspaces that somebody waits for: unclaimed slots make way, and come back when there is room.

The quota of a class counts its slots, and its nodes hold them. A pool that made way has the number of slots that it
lacks in an annotation. A pass of the loops gives them back; a schedule or a deployment that sets another size meanwhile
is left alone.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import TYPE_CHECKING

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import SANDBOX, TASK_LABEL
from agentenv.core.classes.pods.resources import Amounts
from agentenv.core.classes.retirement import RETIRING
from agentenv.core.lifecycle.yielding import PoolSize, slots_to_yield
from agentenv.core.values.object_fields import number, section, strings
from agentenv.core.workspaces.swarms import quota_shortfalls
from agentenv.core.workspaces.workspace import DOMAIN
from agentenv.service.http.problems import Problem
from agentenv.service.kube.client import NAMESPACES, POOLS, QUOTAS, Document, KubeApi
from agentenv.service.loops.scheduler import PassResult, ShouldContinue
from agentenv.service.workspaces.capacity_check import needs

if TYPE_CHECKING:
    from agentenv.config.sections.classes import SizeName
    from agentenv.core.workspaces.pod_report import PodReport
    from agentenv.core.workspaces.workspace import Workspace
    from agentenv.service.catalog import Class
    from agentenv.service.loops.context import Context

_LOG = logging.getLogger(__name__)
# <slots that made way>/<the size since then>
MADE_WAY = f"{DOMAIN}made-way"
# A slot ends within its grace period; a request is held a little longer.
LONGEST_SECONDS = 45.0
LOOK_SECONDS = 0.5
# Within so long the quota counts the pod of a sandbox that was resumed.
COUNTED_SECONDS = 3.0
# A workspace that waits for a node for so many passes gets the room of a ready slot.
PATIENT_PASSES = 3
# Left free where slots come back, so that the next workspace that wakes does not end it again.
MARGIN = 2


class Room:
    """The room of classes for workspaces that wake, as one replica makes it."""

    def __init__(
        self,
        api: KubeApi,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api, self._pause, self._monotonic = api, pause, monotonic
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._woken: defaultdict[str, list[float]] = defaultdict(list)  # when the last ones got their room

    async def make(self, of_class: Class, size: SizeName, wait: float) -> None:
        """Make room for one more sandbox; raise a `Problem` without any after so many seconds."""
        namespace = of_class.namespace
        waited, shrunk, longest = 0.0, False, min(wait, LONGEST_SECONDS)
        async with self._turns[namespace]:
            while shortfalls := await self._shortfalls(of_class, size):
                if not shrunk:
                    shrunk = await self._shrink(namespace)
                if not (shrunk or self._uncounted(namespace)) or waited >= longest:
                    raise Problem(
                        "no-room",
                        f"class {of_class.name} is full: {'; '.join(shortfalls)}",
                        "retry when another workspace sleeps, or have `maxSandboxes` of the class raised",
                        retry_after=30,
                        **{"class": of_class.name},
                    )
                await self._pause(LOOK_SECONDS)
                waited += LOOK_SECONDS
            self._woken[namespace].append(self._monotonic())

    def _uncounted(self, namespace: str) -> int:
        """Return how many got their room just now, so that the quota may not count their pods yet."""
        since = self._monotonic() - COUNTED_SECONDS
        self._woken[namespace] = [at for at in self._woken[namespace] if at > since]
        return len(self._woken[namespace])

    async def _shortfalls(self, of_class: Class, size: SizeName) -> list[str]:
        quota = await self._api.find(QUOTAS, SANDBOX, of_class.namespace)
        count = 1 + self._uncounted(of_class.namespace)
        # Its home exists, and is counted already.
        amounts: Amounts = {
            name: amount * count
            for name, amount in needs(of_class.plan, size).items()
            if name not in {"persistentvolumeclaims", "requests.storage"}
        }
        return quota_shortfalls(quota or {}, amounts)

    async def _shrink(self, namespace: str) -> bool:
        """Have a pool give up an unclaimed slot; False without one."""
        pools = [pool async for pool in self._api.list(POOLS, namespace) if _spare(pool)]
        for pool in sorted(pools, key=_spare, reverse=True):
            lacking = _lacking(pool) + 1
            changes = _sized(_replicas(pool) - 1, lacking)
            if await self._api.patch(POOLS, pool, changes) is not None:
                facts = {"pool": pool["metadata"]["name"], "lacking": lacking}
                _LOG.info("a slot makes way for a workspace that wakes", extra={"facts": facts})
                return True
        return False


async def yield_slots(context: Context, should_continue: ShouldContinue) -> PassResult:
    """Have pools give up slots for the workspaces of their class that no node has room for.

    Slots and cold starts have the same priority: without this, a slot that is refilled may take the room that becomes
    free, while somebody waits.
    """
    steps = 0
    waiting = {report.uid: workspace.namespace for workspace, report in _waiting(context)}
    context.waited = {uid: context.waited.get(uid, 0) + 1 for uid in waiting}
    overdue = Counter(waiting[uid] for uid, passes in context.waited.items() if passes == PATIENT_PASSES)
    for namespace in sorted(set(waiting.values())):
        pools = [pool async for pool in context.api.list(POOLS, namespace) if _may_shrink(pool)]
        by_name = {str(pool["metadata"]["name"]): pool for pool in pools}
        sizes = [PoolSize(name, _replicas(pool), _ready(pool)) for name, pool in by_name.items()]
        for name, slots in slots_to_yield(overdue[namespace], sizes).items():
            if not should_continue():
                return PassResult(steps)
            pool = by_name[name]
            changes = _sized(_replicas(pool) - slots, _lacking(pool) + slots)
            if await context.api.patch(POOLS, pool, changes) is not None:
                steps += 1
                facts = {"pool": name, "slots": slots}
                _LOG.info("slots make way for workspaces that wait for a node", extra={"facts": facts})
    return PassResult(steps)


def _waiting(context: Context) -> list[tuple[Workspace, PodReport]]:
    """Return the workspaces that wait for a node."""
    return [row for row in context.pod_reports() if row[1].unscheduled]


async def give_back_slots(context: Context, should_continue: ShouldContinue) -> PassResult:
    """Let pools have the slots back that made way, as many as their classes have room for beside some more."""
    steps = 0
    waiting = {workspace.namespace for workspace, _ in _waiting(context)}
    async for namespace in context.api.list(NAMESPACES, labels={CLASS_LABEL: None}):
        name = str(namespace["metadata"]["name"])
        if name in waiting:
            continue
        pools = [pool async for pool in context.api.list(POOLS, name) if MADE_WAY in _annotations(pool)]
        if not pools or not should_continue():
            continue
        quota, free = await context.api.find(QUOTAS, SANDBOX, name) or {}, MARGIN
        for pool in pools:
            lacking = _lacking(pool)
            slots = next((n for n in range(lacking, 0, -1) if not quota_shortfalls(quota, _pods(free + n))), 0)
            # A pool that lacks none has been given another size since, which stays.
            changes = _sized(_replicas(pool) + slots, lacking - slots) if lacking else _annotated(None)
            if (slots or not lacking) and await context.api.patch(POOLS, pool, changes) is not None:
                free += slots
                steps += 1
    return PassResult(steps)


def _pods(count: int) -> Amounts:
    return {"pods": Decimal(count)}


def _spare(pool: Document) -> int:
    """Return how many unclaimed slots a pool has that may make way; those of a swarm or of an old release may not."""
    return min(_ready(pool), _replicas(pool)) if _may_shrink(pool) else 0


def _may_shrink(pool: Document) -> bool:
    metadata = section(pool, "metadata")
    return TASK_LABEL not in section(metadata, "labels") and RETIRING not in section(metadata, "annotations")


def _replicas(pool: Document) -> int:
    return number(section(pool, "spec"), "replicas")


def _ready(pool: Document) -> int:
    return number(section(pool, "status"), "readyReplicas")


def _lacking(pool: Document) -> int:
    """Return how many slots made way, if the pool has its size of then; 0 if something else set its size since."""
    lacking, _, size = _annotations(pool).get(MADE_WAY, "").partition("/")
    if not (lacking.isdigit() and size.isdigit()):
        return 0
    return int(lacking) if int(size) == _replicas(pool) else 0


def _sized(replicas: int, lacking: int) -> Document:
    note = f"{lacking}/{replicas}" if lacking else None
    return {"spec": {"replicas": replicas}, **_annotated(note)}


def _annotated(note: str | None) -> Document:
    return {"metadata": {"annotations": {MADE_WAY: note}}}


def _annotations(pool: Document) -> dict[str, str]:
    return strings(section(pool, "metadata"), "annotations")
