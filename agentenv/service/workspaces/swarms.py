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

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import KEPT, SANDBOX, TASK_LABEL, USER_LABEL, WORKSPACE_LABEL, namespace
from agentenv.core.lifecycle.restore import (
    RETURNING_SINCE,
    being_destroyed,
    seconds_until_gone,
    shorten_retention_patch,
)
from agentenv.core.values.object_fields import required, rows, text
from agentenv.core.workspaces.swarms import REQUESTED_COUNT, Swarm, quota_shortfalls
from agentenv.core.workspaces.workspace import DELETED_AT, SUSPENDED_BECAUSE
from agentenv.service.kube.retry import RetryingApi
from agentenv.service.kube.sync_client import (
    CLAIMS,
    POOLS,
    QUOTAS,
    TEMPLATES,
    VOLUME_CLAIMS,
    VOLUMES,
    Document,
    Kind,
    KubeApi,
    SyncKubeApiError,
    section,
)
from agentenv.service.workspaces import shared_volumes
from agentenv.service.workspaces import swarm_outcome as swarm_fate
from agentenv.service.workspaces.bind_volume import RestoreError, clear_deletion_dates
from agentenv.service.workspaces.delete import delete_workspace
from agentenv.service.workspaces.restore import restore_workspace, target_class
from agentenv.service.workspaces.retain_volume import retain_volume

CREATE_TIMEOUT = 300.0
PAUSE = 0.5
# How often, and how far apart, the volume of one of its sandboxes is made to stay.
RETAIN_ATTEMPTS, RETAIN_PAUSE = 10, 0.1
Why = Literal["being-destroyed", "busy", "key-reused", "no-room", "refused", "unavailable"]
Now = Callable[[], datetime]


class SwarmError(Exception):
    """Why there is no swarm, in words for whoever asked; nothing is left of what was made for it, unless the server
    was `unavailable`."""

    def __init__(self, message: str, kind: Why = "no-room", gone_in: int = 0) -> None:
        super().__init__(message)
        self.kind: Why = kind
        self.gone_in = gone_in  # seconds, of what is being destroyed


def create_swarm(
    cluster: KubeApi,
    swarm: Swarm,
    *,
    patience: float = CREATE_TIMEOUT,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    now: Now = lambda: datetime.now(UTC),
) -> dict[str, str]:
    """Make it, and wait until all of it is there, with volumes that stay: the sandbox of each claim."""
    patient = RetryingApi(cluster, patience, every=PAUSE, pause=pause, clock=clock)
    try:
        return _create_whole(patient, swarm, patience, pause=pause, clock=clock, now=now)
    except SyncKubeApiError as refusal:
        if not refusal.passes:
            raise
        left = "what there is of it stays, and whoever asks again goes on with it"
        raise SwarmError(f"the API server cannot just now: {refusal}; {left}", "unavailable") from None


def _create_whole(
    cluster: KubeApi,
    swarm: Swarm,
    patience: float,
    *,
    pause: Callable[[float], None],
    clock: Callable[[], float],
    now: Now,
) -> dict[str, str]:
    _refuse_foreign_objects(cluster, swarm)
    _refuse_another_class(cluster, swarm)
    _refuse_destroyed(cluster, swarm)
    there = [*cluster.list(CLAIMS, swarm.namespace, {TASK_LABEL: swarm.task})]
    if not there:
        _check_quota(cluster, swarm)
    making = _SwarmCreation(cluster, swarm, used=any(_was_used(one) for one in there), now=now, pause=pause)
    try:
        until = clock() + patience
        while True:
            waits = making.make()
            found = making.look()
            ready = {name: sandbox for name, one in found.items() if (sandbox := _sandbox(one))}
            if len(ready) == len(swarm.claims):
                break
            if clock() >= until:
                why = waits or _first_failure(found, ready)
                making.undo()
                raise SwarmError(f"{len(ready)} of {len(swarm.claims)} sandboxes came up in {patience:.0f} s: {why}")
            pause(PAUSE)
        unkept = next((words for one in found.values() if (words := _retention_failure(cluster, one, pause))), None)
        if unkept is None:
            making.hand_over()
            return ready
    except SyncKubeApiError as refusal:
        if refusal.passes:
            raise
        making.undo()
        raise SwarmError(f"the API server refused a part of it: {refusal}") from None
    making.undo()
    raise SwarmError(unkept, "refused")


def delete_swarm(
    cluster: KubeApi,
    namespace: str,
    task: str,
    keep_for: timedelta,
    *,
    fresh: bool = False,
    now: Now = lambda: datetime.now(UTC),
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Delete it, and keep the data of its members and what they shared for so long. Deleting it twice does no harm.

    Of one that is `fresh`, which nobody was told of, only what was kept already is kept. What returned to its data
    and did not come up keeps the dates that it has.
    """
    swarm_fate.mark_deleted(cluster, namespace, task)
    # All of it is looked up first: of one that is made anew meanwhile nothing goes. Claims are first to go: their
    # sandboxes go with them, and let go of what they share. The pool is last: until then it says that the rest goes.
    kinds = (CLAIMS, TEMPLATES, VOLUME_CLAIMS, POOLS)
    found = [(kind, one) for kind in kinds for one in cluster.list(kind, namespace, {TASK_LABEL: task})]
    for kind, one in found:
        if kind is CLAIMS and (_is_marked_retained(one) or (_was_used(one) and not fresh)):
            _delete_member(cluster, one, keep_for, now, pause)
        elif kind is VOLUME_CLAIMS and (not fresh or shared_volumes.is_retained(cluster, one)):
            shared_volumes.delete_claim(cluster, one, None if fresh else keep_for, now())
        else:
            _delete(cluster, kind, one)


def destroy_retained_data(cluster: KubeApi, owner: str, task: str, now: datetime) -> int:
    """Request the destruction of all that is kept of a task's deleted swarm; of how many volumes."""
    requested = 0
    for one in cluster.list(VOLUMES, labels={USER_LABEL: owner, TASK_LABEL: task}):
        volume: Document | None = one
        while volume is not None and DELETED_AT in section(section(volume, "metadata"), "annotations"):
            notes, labels = shorten_retention_patch(volume, now, timedelta(0))
            changes = {"metadata": {"annotations": notes, "labels": labels}}
            if not (notes or labels) or cluster.change(VOLUMES, volume, changes):
                requested += 1
                break
            volume = cluster.find(VOLUMES, required(one, "metadata", "name"))
    return requested


class _SwarmCreation:
    """One maker's part in a swarm that others may make, wait for and take away at the same time."""

    def __init__(self, cluster: KubeApi, swarm: Swarm, *, used: bool, now: Now, pause: Callable[[float], None]) -> None:
        self._cluster, self._swarm, self._used = cluster, swarm, used
        self._now, self._pause = now, pause
        self._where = swarm.namespace, swarm.task
        self._missing = list(swarm.claims)  # those that are not made yet
        self._added: set[str] = set()  # names of claims
        self._own: dict[str, Document] = {}  # those of them that were seen since
        self._pool = ""  # its uid
        self._began = False

    def make(self) -> str:
        """Make what is not there yet; why something of it has to wait, or nothing."""
        waits = "" if self._pool else self._share()
        return waits or self._claim()

    def _share(self) -> str:
        """Make what its sandboxes have in common."""
        pool = swarm_fate.pool_of(self._cluster, *self._where)
        if pool is not None and swarm_fate.is_given_up(pool):
            # Whoever began with that may have been cut short.
            self._end(fresh=not swarm_fate.handed_over_count(pool))
            raise _being_deleted()
        try:
            shared_volumes.ensure(self._cluster, self._swarm.volume, self._now)
        except RestoreError as stop:
            if stop.outcome == "refused":
                self.undo()
                raise SwarmError(f"what its sandboxes share: {stop}", "refused") from None
            return str(stop)
        for kind, document in ((TEMPLATES, self._swarm.template), (POOLS, self._swarm.pool)):
            self._began |= self._cluster.make(kind, document) and kind is POOLS
        pool = swarm_fate.pool_of(self._cluster, *self._where)
        if pool is None or swarm_fate.is_given_up(pool):
            self._end(fresh=pool is None or not swarm_fate.handed_over_count(pool))
            raise _being_deleted()
        self._pool = pool["metadata"]["uid"]
        try:
            # Once more: both may have looked before either was there. Both may go then, and never do both stay.
            _refuse_another_class(self._cluster, self._swarm)
        except SwarmError:
            if self._began:
                self.undo()
            raise
        return ""

    def _claim(self) -> str:
        """Make the claims that are missing: of members whose homes were kept, on those."""
        if not self._missing:
            return ""
        listed = self._cluster.list(CLAIMS, self._swarm.namespace, self._of)
        there = {required(one, "metadata", "name"): one for one in listed}
        _, homes = shared_volumes.of_task(self._cluster, self._swarm.owner, self._swarm.task)
        left: list[tuple[Document, str]] = []
        for claim in self._missing:
            name = claim["metadata"]["name"]
            if why := self._member(claim, there.get(name), homes.get(name)):
                left.append((claim, f"{name}: {why}"))
        self._missing = [claim for claim, _ in left]
        return left[0][1] if left else ""

    def _member(self, claim: Document, there: Document | None, home: Document | None) -> str:
        """Make one claim; why it has to wait, or nothing."""
        name = claim["metadata"]["name"]
        if there is not None:
            going = section(there, "metadata").get("deletionTimestamp")
            return "its earlier claim is on its way out" if going else ""
        if home is None:
            if self._cluster.make(CLAIMS, claim):
                self._added.add(name)
            return ""
        returned = restore_workspace(
            self._cluster,
            home,
            self._swarm.namespace.removeprefix(namespace("")),
            shape=lambda document: {**document, "spec": claim["spec"]},
            now=self._now,
            into=self._swarm.template,
        )
        if returned.outcome == "made":
            self._added.add(name)
        if returned.outcome == "refused":
            self.undo()
            raise SwarmError(f"{name} does not return to its home: {returned.why}", "refused")
        return "" if returned.outcome in {"made", "there"} else returned.why

    def look(self) -> dict[str, Document]:
        """Its claims as they are."""
        if not self._pool:
            return {}
        found = {one["metadata"]["name"]: one for one in _claims(self._cluster, self._swarm)}
        pool = swarm_fate.pool_of(self._cluster, *self._where)
        if pool is None or pool["metadata"]["uid"] != self._pool or swarm_fate.is_given_up(pool):
            self._withdraw(self._own.values())
            raise _being_deleted()
        # Looked up before the pool was: they are of this swarm, and not of one that came after it.
        self._own = {name: one for name, one in found.items() if name in self._added}
        return found

    def hand_over(self) -> None:
        """Have nobody take it away for not having come up; what it returned to is not deleted any more."""
        count = len(self._swarm.claims)
        volume_claim = self._cluster.find(VOLUME_CLAIMS, self._swarm.volume["metadata"]["name"], self._swarm.namespace)
        pool = swarm_fate.pool_of(self._cluster, *self._where)
        if volume_claim is not None and pool is not None:
            most = max(count, swarm_fate.requested_count(pool))
            shared_volumes.retain(self._cluster, volume_claim, {REQUESTED_COUNT: str(most)})
        # Read first: dates that are written after it was handed over are of somebody who deletes it.
        shared, homes = shared_volumes.of_task(self._cluster, self._swarm.owner, self._swarm.task)
        if not swarm_fate.mark_handed_over(self._cluster, *self._where, self._pool, count):
            self._withdraw(self._own.values())
            raise _being_deleted()
        for volume in (shared, *(homes.get(one["metadata"]["name"]) for one in self._swarm.claims)):
            if volume is not None and RETURNING_SINCE in section(section(volume, "metadata"), "annotations"):
                clear_deletion_dates(self._cluster, volume)

    def undo(self) -> None:
        """Take away what did not come up: all of it, or of one that somebody may work in, what was added and is not
        theirs."""
        pool = swarm_fate.pool_of(self._cluster, *self._where)
        if pool is None and not self._pool:
            self._end(fresh=True)
            return
        # It was refused something before it came to its pool, which somebody else may have made.
        self._pool = self._pool or (pool or {})["metadata"]["uid"]
        fate = "handed-over" if self._used else swarm_fate.mark_given_up(self._cluster, *self._where, self._pool)
        if fate == "given-up":
            self._end(fresh=True)
        elif fate == "gone":
            self._withdraw(self._own.values())
        else:
            pool = swarm_fate.pool_of(self._cluster, *self._where)
            theirs = swarm_fate.handed_over_count(pool) if pool else 0
            names = [one["metadata"]["name"] for one in self._swarm.claims[theirs:]]
            own = [self._cluster.find(CLAIMS, name, self._swarm.namespace) for name in names if name in self._added]
            self._withdraw(claim for claim in own if claim is not None)

    def _withdraw(self, claims: Iterable[Document]) -> None:
        for claim in claims:
            if _is_marked_retained(claim):
                _delete_member(self._cluster, claim, self._swarm.keep_for, self._now, self._pause)
            else:
                _delete(self._cluster, CLAIMS, claim)

    def _end(self, *, fresh: bool) -> None:
        delete_swarm(self._cluster, *self._where, self._swarm.keep_for, fresh=fresh, now=self._now, pause=self._pause)

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


def _delete_member(
    cluster: KubeApi, claim: Document, keep_for: timedelta, now: Now, pause: Callable[[float], None]
) -> None:
    """Delete a member as a workspace is deleted: its volume is dated first, and then its claim goes."""
    name, space, uid = (required(claim, "metadata", key) for key in ("name", "namespace", "uid"))
    found: Document | None = claim
    for _ in range(RETAIN_ATTEMPTS):
        about = section(found, "metadata")
        if found is None or text(about, "uid") != uid or about.get("deletionTimestamp"):
            return
        if delete_workspace(cluster, found, keep_for, now()) == "done":
            return
        pause(RETAIN_PAUSE)
        found = cluster.find(CLAIMS, name, space)
    # One that has no volume yet has nothing to keep; what could not be dated is by the loop of retention.
    _delete(cluster, CLAIMS, claim)


def _delete(cluster: KubeApi, kind: Kind, one: Document) -> None:
    """Remove it, however often its controller changes it meanwhile."""
    about = one["metadata"]
    now: Document | None = one
    while now is not None and now["metadata"]["uid"] == about["uid"]:
        if cluster.remove(kind, now):
            return
        now = cluster.find(kind, about["name"], about["namespace"])


def _refuse_foreign_objects(cluster: KubeApi, swarm: Swarm) -> None:
    """A task is its owner's: nobody else adds to it, or mounts what its sandboxes share."""
    for kind, document in _documents(swarm):
        found = cluster.find(kind, document["metadata"]["name"], swarm.namespace)
        labels = section(found["metadata"], "labels") if found else {}
        if found and (labels.get(USER_LABEL), labels.get(TASK_LABEL)) != (swarm.owner, swarm.task):
            raise SwarmError(f"{document['metadata']['name']} is there and not of this task: choose another task")


def _refuse_another_class(cluster: KubeApi, swarm: Swarm) -> None:
    """The names of its workspaces follow from owner and task: of two classes there would be two of each."""
    for pool in swarm_fate.pools_of(cluster, swarm.task):
        if pool["metadata"]["namespace"] != swarm.namespace:
            of = section(pool["metadata"], "labels").get(CLASS_LABEL, "another")
            raise SwarmError(
                f"the task has a swarm of class {of}: end that first, or choose another task", "key-reused"
            )


def _refuse_destroyed(cluster: KubeApi, swarm: Swarm) -> None:
    """Destruction that was requested wins over returning; and who returns does so in the class that the data is of."""
    own = swarm.namespace.removeprefix(namespace(""))
    there = {
        text(about, "name")
        for one in cluster.list(CLAIMS, swarm.namespace, {TASK_LABEL: swarm.task})
        if not (about := section(one, "metadata")).get("deletionTimestamp")
    }
    shared, homes = shared_volumes.of_task(cluster, swarm.owner, swarm.task)
    needed = [homes.get(name) for one in swarm.claims if (name := one["metadata"]["name"]) not in there]
    for volume in (shared if not there else None, *needed):
        if volume is None:
            continue
        what = text(section(section(volume, "metadata"), "labels"), WORKSPACE_LABEL) or "what its sandboxes shared"
        if being_destroyed(volume):
            seconds = seconds_until_gone(volume)
            words = f"{what} was deleted, and its data is being destroyed: it is gone in about {seconds} seconds"
            raise SwarmError(words, "being-destroyed", seconds)
        if (of := target_class(volume)) != own:
            words = f"{what} is of class {of}: ask for the swarm in that class, or choose another task"
            raise SwarmError(words, "key-reused")


def _check_quota(cluster: KubeApi, swarm: Swarm) -> None:
    quota = cluster.find(QUOTAS, SANDBOX, swarm.namespace)
    wrong = quota_shortfalls(quota or {}, swarm.needs)
    if wrong:
        raise SwarmError(f"the class has no room for {len(swarm.claims)} more: {'; '.join(wrong)}")


def _documents(swarm: Swarm) -> list[tuple[Kind, Document]]:
    shared = [(VOLUME_CLAIMS, swarm.volume), (TEMPLATES, swarm.template), (POOLS, swarm.pool)]
    return [*shared, *((CLAIMS, one) for one in swarm.claims)]


def _claims(cluster: KubeApi, swarm: Swarm) -> list[Document]:
    asked = {one["metadata"]["name"] for one in swarm.claims}
    found = cluster.list(CLAIMS, swarm.namespace, {TASK_LABEL: swarm.task})
    return [one for one in found if one["metadata"]["name"] in asked]


def _sandbox(claim: Document) -> str | None:
    """The sandbox of a claim that is ready, or was and sleeps: it wakes when it is asked for."""
    asleep = SUSPENDED_BECAUSE in section(section(claim, "metadata"), "annotations")
    there = asleep or _condition(claim).get("status") == "True"
    return (text(section(section(claim, "status"), "sandbox"), "name") or None) if there else None


def _condition(claim: Document) -> Document:
    conditions = rows(section(claim, "status"), "conditions")
    return next((row for row in conditions if row.get("type") == "Ready"), Document())


def _retention_failure(cluster: KubeApi, claim: Document, pause: Callable[[float], None]) -> str | None:
    """Why the volume of one of its sandboxes cannot stay. What is overtaken still is left to the pass that keeps."""
    about = claim["metadata"]
    for _ in range(RETAIN_ATTEMPTS):
        kept = retain_volume(cluster, claim)
        if kept.outcome == "refused":
            return f"the volume of {about['name']} cannot be kept: {kept.why}"
        if kept.outcome in {"kept", "already"}:
            return None
        pause(RETAIN_PAUSE)
        claim = cluster.find(CLAIMS, about["name"], about["namespace"]) or claim
    return None


def _first_failure(found: Mapping[str, Document], ready: Mapping[str, str]) -> str:
    """What the first of those that are not there says of itself."""
    for name, one in sorted(found.items()):
        if name not in ready:
            said = _condition(one)
            return f"{name} says {said.get('message') or said.get('reason') or 'nothing'}"
    return "the others were taken away"
