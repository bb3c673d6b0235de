"""Create the swarm of a task: all of its sandboxes with their shared volume, or nothing at all.

The names of all objects follow from the task. So a repeated request creates nothing twice, and completes an interrupted
one. If a swarm is not ready in time, its objects are deleted. Of a swarm that may be in use, only the members that this
request added are deleted: suspended or failed members are no reason to delete the others and their shared volume. While
the API server is unavailable nothing is deleted: the request retries, and existing objects are left for the next
request.

If data of the task was retained, its members and their shared volume are restored on it. Until all members are ready,
each volume has its deletion dates, and so stays deleted if they fail.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import SANDBOX, TASK_LABEL, USER_LABEL, VOLUME_RETAINED, WORKSPACE_LABEL, namespace
from agentenv.core.lifecycle.restore import (
    RETURNING_SINCE,
    being_destroyed,
    seconds_until_gone,
)
from agentenv.core.values.errors import first_of
from agentenv.core.values.object_fields import required, rows, text
from agentenv.core.workspaces.records import workspace_of_claim
from agentenv.core.workspaces.swarms import REQUESTED_COUNT, Swarm, quota_shortfalls
from agentenv.core.workspaces.workspace import DELETED_AT, SUSPENDED_BECAUSE
from agentenv.service.http.problems import Problem
from agentenv.service.kube.client import (
    CLAIMS,
    PODS,
    POOLS,
    QUOTAS,
    TEMPLATES,
    VOLUME_CLAIMS,
    VOLUMES,
    Document,
    Kind,
    KubeApi,
    KubeApiError,
    collect,
    section,
)
from agentenv.service.kube.retry import RetryingApi
from agentenv.service.workspaces import shared_volumes, swarm_outcome
from agentenv.service.workspaces.bind_volume import RestoreError, clear_deletion_dates
from agentenv.service.workspaces.delete import delete_workspace, shorten_retention
from agentenv.service.workspaces.restore import restore_workspace, target_class
from agentenv.service.workspaces.retain_volume import retain_volume

CREATE_TIMEOUT = 300.0
PAUSE = 0.5
# Attempts to retain the volume of a sandbox, and the pause between them.
RETAIN_ATTEMPTS, RETAIN_PAUSE = 10, 0.1
# How often a full quota is read again when nothing is being deleted: it is updated a moment after the last deletion.
QUOTA_READS = 4
Why = Literal[
    "being-destroyed", "busy", "key-reused", "limit-reached", "no-room", "refused", "too-large", "unavailable"
]
# Returns why its members are too many for the limits of its owner and teams.
Exceeded = Callable[..., Awaitable["Problem | None"]]
Now = Callable[[], datetime]
Pause = Callable[[float], Awaitable[None]]


class SwarmError(Exception):
    """A swarm that could not be created, with a message for the caller.

    Its objects were deleted again, unless the kind is `unavailable`.
    """

    def __init__(self, message: str, kind: Why = "no-room", gone_in: int = 0) -> None:
        super().__init__(message)
        self.kind: Why = kind
        self.gone_in = gone_in  # for data that is being destroyed


async def create_swarm(
    cluster: KubeApi,
    swarm: Swarm,
    *,
    timeout: float = CREATE_TIMEOUT,
    pause: Pause = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
    now: Now = lambda: datetime.now(UTC),
    exceeded: Exceeded | None = None,
) -> dict[str, str]:
    """Create a swarm, wait until all of it is ready and its volumes are retained; return the sandbox of each claim."""
    retrying_api = RetryingApi(cluster, timeout, every=PAUSE, pause=pause, clock=clock)
    try:
        return await _create_whole(retrying_api, swarm, timeout, pause=pause, clock=clock, now=now, exceeded=exceeded)
    except KubeApiError as refusal:
        if not refusal.transient:
            raise
        left = "existing objects of the swarm are left, and a repeated request continues"
        raise SwarmError(f"the API server is unavailable: {refusal}; {left}", "unavailable") from None


async def _create_whole(
    cluster: KubeApi,
    swarm: Swarm,
    timeout: float,
    *,
    pause: Pause,
    clock: Callable[[], float],
    now: Now,
    exceeded: Exceeded | None,
) -> dict[str, str]:
    await _refuse_foreign_objects(cluster, swarm)
    await _refuse_another_class(cluster, swarm)
    await _refuse_destroyed(cluster, swarm)
    existing = await collect(cluster.list(CLAIMS, swarm.namespace, {TASK_LABEL: swarm.task}))
    deadline = clock() + timeout
    if not existing:
        await _wait_for_room(cluster, swarm, lambda: clock() >= deadline, pause)
    creation = _SwarmCreation(cluster, swarm, used=any(_was_used(claim) for claim in existing), now=now, pause=pause)
    try:
        while True:
            waiting_for = await creation.create_missing()
            claims = await creation.read_claims()
            if exceeded is not None and not waiting_for:
                await creation.check_limits(claims, exceeded, lambda: clock() >= deadline)
                exceeded = None
            ready = {name: sandbox for name, claim in claims.items() if (sandbox := _sandbox(claim))}
            if len(ready) == len(swarm.claims):
                break
            if clock() >= deadline:
                cause = waiting_for or _failures(claims, ready)
                await creation.undo()
                raise SwarmError(
                    f"{len(ready)} of {len(swarm.claims)} sandboxes became ready in {timeout:.0f} s: {cause}"
                )
            await pause(PAUSE)
        retention_failure: str | None = None
        for claim in claims.values():
            retention_failure = retention_failure or await _retention_failure(cluster, claim, pause)
        if retention_failure is None:
            await creation.hand_over()
            return ready
    except KubeApiError as refusal:
        if refusal.transient:
            raise
        await creation.undo()
        raise SwarmError(f"the API server refused a part of it: {refusal}") from None
    await creation.undo()
    raise SwarmError(retention_failure, "refused")


async def delete_swarm(
    cluster: KubeApi,
    namespace: str,
    task: str,
    keep_for: timedelta,
    *,
    fresh: bool = False,
    now: Now = lambda: datetime.now(UTC),
    pause: Pause = asyncio.sleep,
) -> None:
    """Delete a swarm, and retain the data of its members and their shared volume. Repeating it does no harm.

    Of a `fresh` swarm, which was not handed over, only volumes that are retained already are retained. Those that were
    restored for it and did not become ready have their deletion dates still.
    """
    await swarm_outcome.mark_deleted(cluster, namespace, task)
    # All objects are listed first: nothing is deleted of a swarm that is created again meanwhile. Claims are deleted
    # first: their sandboxes use the shared volume. The pool is deleted last: it records until then that the rest has to
    # be deleted.
    kinds = (CLAIMS, TEMPLATES, VOLUME_CLAIMS, POOLS)
    objects = [
        (kind, resource) for kind in kinds async for resource in cluster.list(kind, namespace, {TASK_LABEL: task})
    ]
    for kind, resource in objects:
        if kind is CLAIMS and (_is_marked_retained(resource) or (_was_used(resource) and not fresh)):
            await _delete_member(cluster, resource, keep_for, now, pause)
        elif kind is VOLUME_CLAIMS and (not fresh or await shared_volumes.is_retained(cluster, resource)):
            await shared_volumes.delete_claim(cluster, resource, None if fresh else keep_for, now())
        else:
            await _delete(cluster, kind, resource)


async def destroy_retained_data(cluster: KubeApi, owner: str, task: str, now: datetime) -> int:
    """Request the destruction of all retained data of a task's deleted swarm; return the number of volumes."""
    requested = 0
    async for listed in cluster.list(VOLUMES, labels={USER_LABEL: owner, TASK_LABEL: task}):
        volume: Document | None = listed
        while volume is not None and DELETED_AT in section(section(volume, "metadata"), "annotations"):
            if await shorten_retention(cluster, volume, timedelta(0), now):
                requested += 1
                break
            volume = await cluster.find(VOLUMES, required(listed, "metadata", "name"))
    return requested


class _SwarmCreation:
    """The part of one request in a swarm that others may create, wait for and delete at the same time."""

    def __init__(self, cluster: KubeApi, swarm: Swarm, *, used: bool, now: Now, pause: Pause) -> None:
        self._cluster, self._swarm, self._used = cluster, swarm, used
        self._now, self._pause = now, pause
        self._key = swarm.namespace, swarm.task
        self._missing = list(swarm.claims)  # those that are not created yet
        self._added: set[str] = set()  # names of claims that this request created
        self._own: dict[str, Document] = {}  # those of them that were seen since, by name
        self._pool = ""  # the pool's uid
        self._began = False

    async def create_missing(self) -> str:
        """Create the objects that are missing; return why some have to wait, or an empty string."""
        reason = "" if self._pool else await self._create_shared_objects()
        return reason or await self._create_claims()

    async def _create_shared_objects(self) -> str:
        """Create the objects that its sandboxes share."""
        pool = await swarm_outcome.pool_of(self._cluster, *self._key)
        if pool is not None and swarm_outcome.is_given_up(pool):
            # The request that started the deletion may have been interrupted.
            await self._end(fresh=not swarm_outcome.handed_over_count(pool))
            raise _being_deleted()
        try:
            await shared_volumes.ensure(self._cluster, self._swarm.volume, self._now)
        except RestoreError as error:
            if error.outcome == "refused":
                await self.undo()
                raise SwarmError(f"the shared volume of its sandboxes: {error}", "refused") from None
            return str(error)
        for kind, document in ((TEMPLATES, self._swarm.template), (POOLS, self._swarm.pool)):
            self._began |= await self._cluster.create(kind, document) is not None and kind is POOLS
        pool = await swarm_outcome.pool_of(self._cluster, *self._key)
        if pool is None or swarm_outcome.is_given_up(pool):
            await self._end(fresh=pool is None or not swarm_outcome.handed_over_count(pool))
            raise _being_deleted()
        self._pool = pool["metadata"]["uid"]
        try:
            # Check again: two requests may both have checked before either created its pool. Both may fail then, but
            # two swarms never remain.
            await _refuse_another_class(self._cluster, self._swarm)
        except SwarmError:
            if self._began:
                await self.undo()
            raise
        return ""

    async def _create_claims(self) -> str:
        """Create the missing claims; members with retained homes are restored on them."""
        if not self._missing:
            return ""
        listed = self._cluster.list(CLAIMS, self._swarm.namespace, self._of)
        existing = {required(member, "metadata", "name"): member async for member in listed}
        _, homes = await shared_volumes.of_task(self._cluster, self._swarm.owner, self._swarm.task)
        waiting: list[tuple[Document, str]] = []
        for claim in self._missing:
            name = claim["metadata"]["name"]
            if reason := await self._create_member(claim, existing.get(name), homes.get(name)):
                waiting.append((claim, f"{name}: {reason}"))
        self._missing = [claim for claim, _ in waiting]
        return waiting[0][1] if waiting else ""

    async def _create_member(self, claim: Document, existing: Document | None, home: Document | None) -> str:
        """Create one claim; return why it has to wait, or an empty string."""
        name = claim["metadata"]["name"]
        if existing is not None:
            deleting = section(existing, "metadata").get("deletionTimestamp")
            return "its earlier claim is being deleted" if deleting else ""
        if home is None:
            if await self._cluster.create(CLAIMS, claim):
                self._added.add(name)
            return ""
        result = await restore_workspace(
            self._cluster,
            home,
            self._swarm.namespace.removeprefix(namespace("")),
            shape=lambda document: {**document, "spec": claim["spec"]},
            now=self._now,
            into=self._swarm.template,
        )
        if result.outcome == "made":
            self._added.add(name)
        if result.outcome == "refused":
            await self.undo()
            raise SwarmError(f"{name} cannot be restored on its home: {result.why}", "refused")
        return "" if result.outcome in {"made", "there"} else result.why

    async def read_claims(self) -> dict[str, Document]:
        """Return the current claims of the swarm."""
        if not self._pool:
            return {}
        claims_by_name = {claim["metadata"]["name"]: claim for claim in await _claims(self._cluster, self._swarm)}
        pool = await swarm_outcome.pool_of(self._cluster, *self._key)
        if pool is None or pool["metadata"]["uid"] != self._pool or swarm_outcome.is_given_up(pool):
            await self._delete_added(self._own.values())
            raise _being_deleted()
        # Claims were listed before the pool was read, so they belong to this swarm, and not to a later one.
        self._own = {name: claim for name, claim in claims_by_name.items() if name in self._added}
        return claims_by_name

    async def check_limits(
        self, claims: Mapping[str, Document], exceeded: Exceeded, is_over: Callable[[], bool]
    ) -> None:
        """Delete the swarm again where one of its members is one too many.

        Of one that may be in use, only the members that this request added are checked. Otherwise all are: a request
        that was killed may have created them unchecked. Of two swarms that are too many together the later one gives
        way, and the earlier one waits for that.
        """
        members = map(workspace_of_claim, (self._own if self._used else claims).values())
        created = [workspace for workspace in members if workspace is not None]
        problem = await exceeded(*created) if created else None
        while problem is not None:
            if is_over() or not await self._is_later_one_unfinished():
                await self.undo()
                raise SwarmError(problem.detail, "limit-reached")
            await self._pause(PAUSE)
            problem = await exceeded(*created, now=True)

    async def _is_later_one_unfinished(self) -> bool:
        """Return whether the owner has a later swarm that is neither handed over nor given up."""
        pools = await swarm_outcome.pools_of(self._cluster, None, owner=self._swarm.owner)
        uids = [pool["metadata"]["uid"] for pool in pools]
        later = pools[uids.index(self._pool) + 1 :] if self._pool in uids else []
        return any(not (swarm_outcome.is_given_up(pool) or swarm_outcome.handed_over_count(pool)) for pool in later)

    async def hand_over(self) -> None:
        """Record that the swarm is handed over, and remove the deletion dates from restored volumes."""
        count = len(self._swarm.claims)
        volume_claim = await self._cluster.find(
            VOLUME_CLAIMS, self._swarm.volume["metadata"]["name"], self._swarm.namespace
        )
        pool = await swarm_outcome.pool_of(self._cluster, *self._key)
        if volume_claim is not None and pool is not None:
            requested = max(count, swarm_outcome.requested_count(pool))
            await shared_volumes.retain(self._cluster, volume_claim, {REQUESTED_COUNT: str(requested)})
        # The volumes are read first: dates that are written after the handover are from a later deletion.
        shared, homes = await shared_volumes.of_task(self._cluster, self._swarm.owner, self._swarm.task)
        if not await swarm_outcome.mark_handed_over(self._cluster, *self._key, self._pool, count):
            await self._delete_added(self._own.values())
            raise _being_deleted()
        for volume in (shared, *(homes.get(claim["metadata"]["name"]) for claim in self._swarm.claims)):
            if volume is not None and RETURNING_SINCE in section(section(volume, "metadata"), "annotations"):
                await clear_deletion_dates(self._cluster, volume)

    async def undo(self) -> None:
        """Delete a swarm that did not become ready; of one that may be in use, only the members this request added."""
        pool = await swarm_outcome.pool_of(self._cluster, *self._key)
        if pool is None and not self._pool:
            await self._end(fresh=True)
            return
        # The request was refused before it created its pool, which another request may have created.
        self._pool = self._pool or (pool or {})["metadata"]["uid"]
        outcome = (
            "handed-over" if self._used else await swarm_outcome.mark_given_up(self._cluster, *self._key, self._pool)
        )
        if outcome == "given-up":
            await self._end(fresh=True)
        elif outcome == "gone":
            await self._delete_added(self._own.values())
        else:
            pool = await swarm_outcome.pool_of(self._cluster, *self._key)
            handed_over = swarm_outcome.handed_over_count(pool) if pool else 0
            names = [claim["metadata"]["name"] for claim in self._swarm.claims[handed_over:]]
            added = [
                await self._cluster.find(CLAIMS, name, self._swarm.namespace) for name in names if name in self._added
            ]
            await self._delete_added(claim for claim in added if claim is not None)

    async def _delete_added(self, claims: Iterable[Document]) -> None:
        for claim in claims:
            if _is_marked_retained(claim):
                await _delete_member(self._cluster, claim, self._swarm.keep_for, self._now, self._pause)
            else:
                await _delete(self._cluster, CLAIMS, claim)

    async def _end(self, *, fresh: bool) -> None:
        await delete_swarm(
            self._cluster, *self._key, self._swarm.keep_for, fresh=fresh, now=self._now, pause=self._pause
        )

    @property
    def _of(self) -> dict[str, str | None]:
        return {TASK_LABEL: self._swarm.task}


def _being_deleted() -> SwarmError:
    return SwarmError("the swarm is being deleted, or was at the same time: repeat the request when it is gone", "busy")


def _was_used(claim: Document) -> bool:
    """Return whether a member may have been used: it was ready, retained or suspended."""
    return _sandbox(claim) is not None or _is_marked_retained(claim)


def _is_marked_retained(claim: Document) -> bool:
    """Return whether a claim is annotated as retained."""
    return VOLUME_RETAINED in section(section(claim, "metadata"), "annotations")


async def _delete_member(cluster: KubeApi, claim: Document, keep_for: timedelta, now: Now, pause: Pause) -> None:
    """Delete a member as a workspace is deleted: its volume records the deletion first."""
    name, space, uid = (required(claim, "metadata", key) for key in ("name", "namespace", "uid"))
    current: Document | None = claim
    for _ in range(RETAIN_ATTEMPTS):
        metadata = section(current, "metadata")
        if current is None or text(metadata, "uid") != uid or metadata.get("deletionTimestamp"):
            return
        try:
            if await delete_workspace(cluster, current, keep_for, now()) == "done":
                return
        except KubeApiError as error:
            if error.transient:
                raise
        await pause(RETAIN_PAUSE)
        current = await cluster.find(CLAIMS, name, space)
    # A member without a volume has no data; a volume that could not be dated is left to the retention loop.
    await _delete(cluster, CLAIMS, claim)


async def _delete(cluster: KubeApi, kind: Kind, resource: Document) -> None:
    """Delete an object by its uid; repeat it as long as its controller changes it."""
    metadata = resource["metadata"]
    current: Document | None = resource
    while current is not None and current["metadata"]["uid"] == metadata["uid"]:
        if await cluster.delete(kind, current):
            return
        current = await cluster.find(kind, metadata["name"], metadata["namespace"])


async def _refuse_foreign_objects(cluster: KubeApi, swarm: Swarm) -> None:
    """Refuse a task whose objects belong to another owner or another task."""
    for kind, document in _documents(swarm):
        existing = await cluster.find(kind, document["metadata"]["name"], swarm.namespace)
        labels = section(existing["metadata"], "labels") if existing else {}
        if existing and (labels.get(USER_LABEL), labels.get(TASK_LABEL)) != (swarm.owner, swarm.task):
            raise SwarmError(f"{document['metadata']['name']} exists for another owner or task: choose another task")


async def _refuse_another_class(cluster: KubeApi, swarm: Swarm) -> None:
    """Refuse a task that has a swarm in another class: names of workspaces follow from owner and task only."""
    for pool in await swarm_outcome.pools_of(cluster, swarm.task):
        if pool["metadata"]["namespace"] != swarm.namespace:
            class_name = section(pool["metadata"], "labels").get(CLASS_LABEL, "another")
            raise SwarmError(
                f"the task has a swarm of class {class_name}: delete that first, or choose another task", "key-reused"
            )


async def _refuse_destroyed(cluster: KubeApi, swarm: Swarm) -> None:
    """Refuse a swarm whose data is being destroyed, or is in another class."""
    class_name = swarm.namespace.removeprefix(namespace(""))
    existing = {
        text(metadata, "name")
        async for claim in cluster.list(CLAIMS, swarm.namespace, {TASK_LABEL: swarm.task})
        if not (metadata := section(claim, "metadata")).get("deletionTimestamp")
    }
    shared, homes = await shared_volumes.of_task(cluster, swarm.owner, swarm.task)
    needed = [homes.get(name) for claim in swarm.claims if (name := claim["metadata"]["name"]) not in existing]
    for volume in (shared if not existing else None, *needed):
        if volume is None:
            continue
        subject = text(section(section(volume, "metadata"), "labels"), WORKSPACE_LABEL) or "the shared volume"
        if being_destroyed(volume):
            seconds = seconds_until_gone(volume)
            message = f"{subject} was deleted, and its data is being destroyed: it is gone in about {seconds} seconds"
            raise SwarmError(message, "being-destroyed", seconds)
        if (volume_class := target_class(volume)) != class_name:
            message = f"{subject} is of class {volume_class}: request the swarm in that class, or choose another task"
            raise SwarmError(message, "key-reused")


async def _wait_for_room(cluster: KubeApi, swarm: Swarm, is_over: Callable[[], bool], pause: Pause) -> None:
    """Refuse a swarm for which the class's quota has no room; wait first for the room of what is being deleted."""
    unchanged = 0
    while shortages := quota_shortfalls(await cluster.find(QUOTAS, SANDBOX, swarm.namespace) or {}, swarm.needs):
        unchanged = 0 if await _is_room_released(cluster, swarm) else unchanged + 1
        if unchanged > QUOTA_READS or is_over():
            raise SwarmError(f"the class has no room for {len(swarm.claims)} more: {'; '.join(shortages)}")
        await pause(PAUSE)


async def _is_room_released(cluster: KubeApi, swarm: Swarm) -> bool:
    """Return whether objects of the class are being deleted; pods of the task without its claims will be."""
    for kind in (PODS, VOLUME_CLAIMS):
        async for listed in cluster.list(kind, swarm.namespace):
            metadata = section(listed, "metadata")
            deleting = bool(metadata.get("deletionTimestamp"))
            if deleting or (kind is PODS and text(section(metadata, "labels"), TASK_LABEL) == swarm.task):
                return True
    return False


def _documents(swarm: Swarm) -> list[tuple[Kind, Document]]:
    shared = [(VOLUME_CLAIMS, swarm.volume), (TEMPLATES, swarm.template), (POOLS, swarm.pool)]
    return [*shared, *((CLAIMS, claim) for claim in swarm.claims)]


async def _claims(cluster: KubeApi, swarm: Swarm) -> list[Document]:
    names = {claim["metadata"]["name"] for claim in swarm.claims}
    listed = cluster.list(CLAIMS, swarm.namespace, {TASK_LABEL: swarm.task})
    return [claim async for claim in listed if claim["metadata"]["name"] in names]


def _sandbox(claim: Document) -> str | None:
    """Return the sandbox of a claim that is ready or suspended; None of others."""
    suspended = SUSPENDED_BECAUSE in section(section(claim, "metadata"), "annotations")
    usable = suspended or _condition(claim).get("status") == "True"
    return (text(section(section(claim, "status"), "sandbox"), "name") or None) if usable else None


def _condition(claim: Document) -> Document:
    conditions = rows(section(claim, "status"), "conditions")
    return next((row for row in conditions if row.get("type") == "Ready"), Document())


async def _retention_failure(cluster: KubeApi, claim: Document, pause: Pause) -> str | None:
    """Return why a sandbox's volume cannot be retained; None also after too many conflicts, as a loop repeats it."""
    metadata = claim["metadata"]
    for _ in range(RETAIN_ATTEMPTS):
        result = await retain_volume(cluster, claim)
        if result.outcome == "refused":
            return f"the volume of {metadata['name']} cannot be retained: {result.why}"
        if result.outcome in {"kept", "already"}:
            return None
        await pause(RETAIN_PAUSE)
        claim = await cluster.find(CLAIMS, metadata["name"], metadata["namespace"]) or claim
    return None


def _failures(claims: Mapping[str, Document], ready: Mapping[str, str]) -> str:
    """Return the status of the members that are not ready."""
    failures: list[str] = []
    for name, claim in sorted(claims.items()):
        if name not in ready:
            condition = _condition(claim)
            why = condition.get("message") or condition.get("reason") or "it has no status yet"
            failures.append(f"{name} is not ready: {why}")
    return first_of(failures) if failures else "the others were deleted"
