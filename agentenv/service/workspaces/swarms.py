"""Makes the swarm of a task: all of its sandboxes with what they share, or nothing at all.

It is made of documents whose names follow from the task, so that asking twice makes one, and whoever was killed half
way is made up for by asking again. Where it does not come up whole in time, what there is of it goes again; but of one
that somebody may have worked in, only what was added now: members that sleep or failed since are no reason to take away
the others, and what they share. That the API server cannot just now is no reason to take away anything: it is waited
for, and what there is stays for whoever asks again.

Where data of the task was kept, its members and what they share return to it. Until all of them are there each volume
keeps the dates of its deletion, and so is as deleted as before if they do not come up.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import KEPT, SANDBOX, TASK_LABEL, USER_LABEL, WORKSPACE_LABEL, namespace
from agentenv.core.lifecycle.restore import (
    RETURNING_SINCE,
    being_destroyed,
    seconds_until_gone,
)
from agentenv.core.values.object_fields import required, rows, text
from agentenv.core.workspaces.swarms import REQUESTED_COUNT, Swarm, quota_shortfalls
from agentenv.core.workspaces.workspace import DELETED_AT, SUSPENDED_BECAUSE
from agentenv.service.kube.client import (
    CLAIMS,
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
# How often, and how far apart, the volume of one of its sandboxes is made to stay.
RETAIN_ATTEMPTS, RETAIN_PAUSE = 10, 0.1
Why = Literal["being-destroyed", "busy", "key-reused", "no-room", "refused", "unavailable"]
Now = Callable[[], datetime]
Pause = Callable[[float], Awaitable[None]]


class SwarmError(Exception):
    """Why there is no swarm, in words for whoever asked; nothing is left of what was made for it, unless the server
    was `unavailable`."""

    def __init__(self, message: str, kind: Why = "no-room", gone_in: int = 0) -> None:
        super().__init__(message)
        self.kind: Why = kind
        self.gone_in = gone_in  # seconds, of what is being destroyed


async def create_swarm(
    cluster: KubeApi,
    swarm: Swarm,
    *,
    timeout: float = CREATE_TIMEOUT,
    pause: Pause = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
    now: Now = lambda: datetime.now(UTC),
) -> dict[str, str]:
    """Make it, and wait until all of it is there, with volumes that stay: the sandbox of each claim."""
    patient = RetryingApi(cluster, timeout, every=PAUSE, pause=pause, clock=clock)
    try:
        return await _create_whole(patient, swarm, timeout, pause=pause, clock=clock, now=now)
    except KubeApiError as refusal:
        if not refusal.transient:
            raise
        left = "what there is of it stays, and whoever asks again goes on with it"
        raise SwarmError(f"the API server cannot just now: {refusal}; {left}", "unavailable") from None


async def _create_whole(
    cluster: KubeApi,
    swarm: Swarm,
    timeout: float,
    *,
    pause: Pause,
    clock: Callable[[], float],
    now: Now,
) -> dict[str, str]:
    await _refuse_foreign_objects(cluster, swarm)
    await _refuse_another_class(cluster, swarm)
    await _refuse_destroyed(cluster, swarm)
    existing = await collect(cluster.list(CLAIMS, swarm.namespace, {TASK_LABEL: swarm.task}))
    if not existing:
        await _check_quota(cluster, swarm)
    creation = _SwarmCreation(cluster, swarm, used=any(_was_used(claim) for claim in existing), now=now, pause=pause)
    try:
        deadline = clock() + timeout
        while True:
            waiting_for = await creation.create_missing()
            claims = await creation.read_claims()
            ready = {name: sandbox for name, claim in claims.items() if (sandbox := _sandbox(claim))}
            if len(ready) == len(swarm.claims):
                break
            if clock() >= deadline:
                cause = waiting_for or _first_failure(claims, ready)
                await creation.undo()
                raise SwarmError(f"{len(ready)} of {len(swarm.claims)} sandboxes came up in {timeout:.0f} s: {cause}")
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
    """Delete it, and keep the data of its members and what they shared for so long. Deleting it twice does no harm.

    Of one that is `fresh`, which nobody was told of, only what was kept already is kept. What returned to its data
    and did not come up keeps the dates that it has.
    """
    await swarm_outcome.mark_deleted(cluster, namespace, task)
    # All of it is looked up first: of one that is made anew meanwhile nothing goes. Claims are first to go: their
    # sandboxes go with them, and let go of what they share. The pool is last: until then it says that the rest goes.
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
    """Request the destruction of all that is kept of a task's deleted swarm; of how many volumes."""
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
    """One maker's part in a swarm that others may make, wait for and take away at the same time."""

    def __init__(self, cluster: KubeApi, swarm: Swarm, *, used: bool, now: Now, pause: Pause) -> None:
        self._cluster, self._swarm, self._used = cluster, swarm, used
        self._now, self._pause = now, pause
        self._key = swarm.namespace, swarm.task
        self._missing = list(swarm.claims)  # those that are not made yet
        self._added: set[str] = set()  # names of claims
        self._own: dict[str, Document] = {}  # those of them that were seen since
        self._pool = ""  # its uid
        self._began = False

    async def create_missing(self) -> str:
        """Make what is not there yet; why something of it has to wait, or nothing."""
        waits = "" if self._pool else await self._create_shared_objects()
        return waits or await self._create_claims()

    async def _create_shared_objects(self) -> str:
        """Make what its sandboxes have in common."""
        pool = await swarm_outcome.pool_of(self._cluster, *self._key)
        if pool is not None and swarm_outcome.is_given_up(pool):
            # Whoever began with that may have been cut short.
            await self._end(fresh=not swarm_outcome.handed_over_count(pool))
            raise _being_deleted()
        try:
            await shared_volumes.ensure(self._cluster, self._swarm.volume, self._now)
        except RestoreError as error:
            if error.outcome == "refused":
                await self.undo()
                raise SwarmError(f"what its sandboxes share: {error}", "refused") from None
            return str(error)
        for kind, document in ((TEMPLATES, self._swarm.template), (POOLS, self._swarm.pool)):
            self._began |= await self._cluster.create(kind, document) is not None and kind is POOLS
        pool = await swarm_outcome.pool_of(self._cluster, *self._key)
        if pool is None or swarm_outcome.is_given_up(pool):
            await self._end(fresh=pool is None or not swarm_outcome.handed_over_count(pool))
            raise _being_deleted()
        self._pool = pool["metadata"]["uid"]
        try:
            # Once more: both may have looked before either was there. Both may go then, and never do both stay.
            await _refuse_another_class(self._cluster, self._swarm)
        except SwarmError:
            if self._began:
                await self.undo()
            raise
        return ""

    async def _create_claims(self) -> str:
        """Make the claims that are missing: of members whose homes were kept, on those."""
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
        """Make one claim; why it has to wait, or nothing."""
        name = claim["metadata"]["name"]
        if existing is not None:
            deleting = section(existing, "metadata").get("deletionTimestamp")
            return "its earlier claim is on its way out" if deleting else ""
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
            raise SwarmError(f"{name} does not return to its home: {result.why}", "refused")
        return "" if result.outcome in {"made", "there"} else result.why

    async def read_claims(self) -> dict[str, Document]:
        """Its claims as they are."""
        if not self._pool:
            return {}
        claims_ = {claim["metadata"]["name"]: claim for claim in await _claims(self._cluster, self._swarm)}
        pool = await swarm_outcome.pool_of(self._cluster, *self._key)
        if pool is None or pool["metadata"]["uid"] != self._pool or swarm_outcome.is_given_up(pool):
            await self._delete_added(self._own.values())
            raise _being_deleted()
        # Looked up before the pool was: they are of this swarm, and not of one that came after it.
        self._own = {name: claim for name, claim in claims_.items() if name in self._added}
        return claims_

    async def hand_over(self) -> None:
        """Have nobody take it away for not having come up; what it returned to is not deleted any more."""
        count = len(self._swarm.claims)
        volume_claim = await self._cluster.find(
            VOLUME_CLAIMS, self._swarm.volume["metadata"]["name"], self._swarm.namespace
        )
        pool = await swarm_outcome.pool_of(self._cluster, *self._key)
        if volume_claim is not None and pool is not None:
            requested = max(count, swarm_outcome.requested_count(pool))
            await shared_volumes.retain(self._cluster, volume_claim, {REQUESTED_COUNT: str(requested)})
        # Read first: dates that are written after it was handed over are of somebody who deletes it.
        shared, homes = await shared_volumes.of_task(self._cluster, self._swarm.owner, self._swarm.task)
        if not await swarm_outcome.mark_handed_over(self._cluster, *self._key, self._pool, count):
            await self._delete_added(self._own.values())
            raise _being_deleted()
        for volume in (shared, *(homes.get(claim["metadata"]["name"]) for claim in self._swarm.claims)):
            if volume is not None and RETURNING_SINCE in section(section(volume, "metadata"), "annotations"):
                await clear_deletion_dates(self._cluster, volume)

    async def undo(self) -> None:
        """Take away what did not come up: all of it, or of one that somebody may work in, what was added and is not
        theirs."""
        pool = await swarm_outcome.pool_of(self._cluster, *self._key)
        if pool is None and not self._pool:
            await self._end(fresh=True)
            return
        # It was refused something before it came to its pool, which somebody else may have made.
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
            handed_over_ = swarm_outcome.handed_over_count(pool) if pool else 0
            names = [claim["metadata"]["name"] for claim in self._swarm.claims[handed_over_:]]
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
    return SwarmError("it is being taken away, or was at the same time: ask again when it is gone", "busy")


def _was_used(claim: Document) -> bool:
    """Whether somebody may have been in its sandbox: it came up, was kept, or was put to sleep."""
    return _sandbox(claim) is not None or _is_marked_retained(claim)


def _is_marked_retained(claim: Document) -> bool:
    """Whether the volume of its sandbox was kept."""
    return KEPT in section(section(claim, "metadata"), "annotations")


async def _delete_member(cluster: KubeApi, claim: Document, keep_for: timedelta, now: Now, pause: Pause) -> None:
    """Delete a member as a workspace is deleted: its volume is dated first, and then its claim goes."""
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
    # One that has no volume yet has nothing to keep; what could not be dated is by the loop of retention.
    await _delete(cluster, CLAIMS, claim)


async def _delete(cluster: KubeApi, kind: Kind, resource: Document) -> None:
    """Remove it, however often its controller changes it meanwhile."""
    metadata = resource["metadata"]
    current: Document | None = resource
    while current is not None and current["metadata"]["uid"] == metadata["uid"]:
        if await cluster.delete(kind, current):
            return
        current = await cluster.find(kind, metadata["name"], metadata["namespace"])


async def _refuse_foreign_objects(cluster: KubeApi, swarm: Swarm) -> None:
    """A task is its owner's: nobody else adds to it, or mounts what its sandboxes share."""
    for kind, document in _documents(swarm):
        existing = await cluster.find(kind, document["metadata"]["name"], swarm.namespace)
        labels = section(existing["metadata"], "labels") if existing else {}
        if existing and (labels.get(USER_LABEL), labels.get(TASK_LABEL)) != (swarm.owner, swarm.task):
            raise SwarmError(f"{document['metadata']['name']} is there and not of this task: choose another task")


async def _refuse_another_class(cluster: KubeApi, swarm: Swarm) -> None:
    """The names of its workspaces follow from owner and task: of two classes there would be two of each."""
    for pool in await swarm_outcome.pools_of(cluster, swarm.task):
        if pool["metadata"]["namespace"] != swarm.namespace:
            class_name = section(pool["metadata"], "labels").get(CLASS_LABEL, "another")
            raise SwarmError(
                f"the task has a swarm of class {class_name}: end that first, or choose another task", "key-reused"
            )


async def _refuse_destroyed(cluster: KubeApi, swarm: Swarm) -> None:
    """Destruction that was requested wins over returning; and who returns does so in the class that the data is of."""
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
        subject = text(section(section(volume, "metadata"), "labels"), WORKSPACE_LABEL) or "what its sandboxes shared"
        if being_destroyed(volume):
            seconds = seconds_until_gone(volume)
            message = f"{subject} was deleted, and its data is being destroyed: it is gone in about {seconds} seconds"
            raise SwarmError(message, "being-destroyed", seconds)
        if (volume_class := target_class(volume)) != class_name:
            message = f"{subject} is of class {volume_class}: ask for the swarm in that class, or choose another task"
            raise SwarmError(message, "key-reused")


async def _check_quota(cluster: KubeApi, swarm: Swarm) -> None:
    quota = await cluster.find(QUOTAS, SANDBOX, swarm.namespace)
    shortages = quota_shortfalls(quota or {}, swarm.needs)
    if shortages:
        raise SwarmError(f"the class has no room for {len(swarm.claims)} more: {'; '.join(shortages)}")


def _documents(swarm: Swarm) -> list[tuple[Kind, Document]]:
    shared = [(VOLUME_CLAIMS, swarm.volume), (TEMPLATES, swarm.template), (POOLS, swarm.pool)]
    return [*shared, *((CLAIMS, claim) for claim in swarm.claims)]


async def _claims(cluster: KubeApi, swarm: Swarm) -> list[Document]:
    names = {claim["metadata"]["name"] for claim in swarm.claims}
    listed = cluster.list(CLAIMS, swarm.namespace, {TASK_LABEL: swarm.task})
    return [claim async for claim in listed if claim["metadata"]["name"] in names]


def _sandbox(claim: Document) -> str | None:
    """The sandbox of a claim that is ready, or was and sleeps: it wakes when it is asked for."""
    suspended = SUSPENDED_BECAUSE in section(section(claim, "metadata"), "annotations")
    usable = suspended or _condition(claim).get("status") == "True"
    return (text(section(section(claim, "status"), "sandbox"), "name") or None) if usable else None


def _condition(claim: Document) -> Document:
    conditions = rows(section(claim, "status"), "conditions")
    return next((row for row in conditions if row.get("type") == "Ready"), Document())


async def _retention_failure(cluster: KubeApi, claim: Document, pause: Pause) -> str | None:
    """Why the volume of one of its sandboxes cannot stay. What is overtaken still is left to the pass that keeps."""
    metadata = claim["metadata"]
    for _ in range(RETAIN_ATTEMPTS):
        result = await retain_volume(cluster, claim)
        if result.outcome == "refused":
            return f"the volume of {metadata['name']} cannot be kept: {result.why}"
        if result.outcome in {"kept", "already"}:
            return None
        await pause(RETAIN_PAUSE)
        claim = await cluster.find(CLAIMS, metadata["name"], metadata["namespace"]) or claim
    return None


def _first_failure(claims: Mapping[str, Document], ready: Mapping[str, str]) -> str:
    """What the first of those that are not there says of itself."""
    for name, claim in sorted(claims.items()):
        if name not in ready:
            condition = _condition(claim)
            return f"{name} says {condition.get('message') or condition.get('reason') or 'nothing'}"
    return "the others were taken away"
