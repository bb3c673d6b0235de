"""Makes the swarm of a task: all of its sandboxes with what they share, or nothing at all.

It is made of documents whose names follow from the task, so that asking twice makes one, and whoever was killed half
way is made up for by asking again. Where it does not come up whole in time, what there is of it goes again; but of one
that somebody may have worked in, only what was added now: members that sleep or failed since are no reason to take away
the others, and what they share. That the API server cannot just now is no reason to take away anything: it is waited
for, and what there is stays for whoever asks again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from model.capabilities.surroundings import CLASS_LABEL
from model.classes.names import KEPT, SANDBOX, TASK_LABEL, USER_LABEL
from model.documents import rows, text
from model.swarms import Swarm, short_of
from model.workspaces import SUSPENDED_BECAUSE
from service import swarm_fate
from service.cluster import CLAIMS, POOLS, QUOTAS, TEMPLATES, VOLUME_CLAIMS, Api, Document, Kind, RefusedError, section
from service.keeping import keep
from service.patience import Patient

PATIENCE = 300.0
PAUSE = 0.5
# How often, and how far apart, the volume of one of its sandboxes is made to stay.
KEEPS, BETWEEN = 10, 0.1
Why = Literal["busy", "key-reused", "no-room", "refused", "unavailable"]


class SwarmError(Exception):
    """Why there is no swarm, in words for whoever asked; nothing is left of what was made for it, unless the server
    was `unavailable`."""

    def __init__(self, message: str, kind: Why = "no-room") -> None:
        super().__init__(message)
        self.kind: Why = kind


def make(
    cluster: Api,
    swarm: Swarm,
    *,
    patience: float = PATIENCE,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, str]:
    """Make it, and wait until all of it is there, with volumes that stay: the sandbox of each claim."""
    patient = Patient(cluster, patience, every=PAUSE, pause=pause, clock=clock)
    try:
        return _whole(patient, swarm, patience, pause, clock)
    except RefusedError as refusal:
        if not refusal.passes:
            raise
        left = "what there is of it stays, and whoever asks again goes on with it"
        raise SwarmError(f"the API server cannot just now: {refusal}; {left}", "unavailable") from None


def _whole(
    cluster: Api, swarm: Swarm, patience: float, pause: Callable[[float], None], clock: Callable[[], float]
) -> dict[str, str]:
    _refuse_strangers(cluster, swarm)
    _refuse_another_class(cluster, swarm)
    there = [*cluster.list(CLAIMS, swarm.namespace, {TASK_LABEL: swarm.task})]
    if not there:
        _refuse_without_room(cluster, swarm)
    making = _Making(cluster, swarm, used=any(_used(one) for one in there))
    try:
        making.make()
        until = clock() + patience
        while True:
            found = making.look()
            ready = {name: sandbox for name, one in found.items() if (sandbox := _sandbox(one))}
            if len(ready) == len(swarm.claims):
                break
            if clock() >= until:
                why = _why(found, ready)
                making.undo()
                raise SwarmError(f"{len(ready)} of {len(swarm.claims)} sandboxes came up in {patience:.0f} s: {why}")
            pause(PAUSE)
        unkept = next((words for one in found.values() if (words := _unkept(cluster, one, pause))), None)
        if unkept is None:
            making.hand_over()
            return ready
    except RefusedError as refusal:
        if refusal.passes:
            raise
        making.undo()
        raise SwarmError(f"the API server refused a part of it: {refusal}") from None
    making.undo()
    raise SwarmError(unkept, "refused")


def end(cluster: Api, namespace: str, task: str) -> None:
    """Take it away with what its sandboxes shared; volumes that were kept stay. Ending it twice does no harm."""
    swarm_fate.take_away(cluster, namespace, task)
    # All of it is looked up first: of one that is made anew meanwhile nothing goes. Claims are first to go: their
    # sandboxes go with them, and let go of what they share. The pool is last: until then it says that the rest goes.
    kinds = (CLAIMS, TEMPLATES, VOLUME_CLAIMS, POOLS)
    found = [(kind, one) for kind in kinds for one in cluster.list(kind, namespace, {TASK_LABEL: task})]
    for kind, one in found:
        _removed(cluster, kind, one)


class _Making:
    """One maker's part in a swarm that others may make, wait for and take away at the same time."""

    def __init__(self, cluster: Api, swarm: Swarm, *, used: bool) -> None:
        self._cluster, self._swarm, self._used = cluster, swarm, used
        self._where = swarm.namespace, swarm.task
        self._added: set[str] = set()  # names of claims
        self._own: dict[str, Document] = {}  # those of them that were seen since
        self._pool = ""  # its uid
        self._began = False

    def make(self) -> None:
        """Make what is not there yet."""
        for kind, document in _shared(self._swarm):
            self._began |= self._cluster.make(kind, document) and kind is POOLS
        pool = swarm_fate.pool_of(self._cluster, *self._where)
        if pool is None or swarm_fate.is_given_up(pool):
            # Whoever began with that may have been cut short.
            end(self._cluster, *self._where)
            raise _taken_away()
        self._pool = pool["metadata"]["uid"]
        try:
            # Once more: both may have looked before either was there. Both may go then, and never do both stay.
            _refuse_another_class(self._cluster, self._swarm)
        except SwarmError:
            if self._began:
                self.undo()
            raise
        for claim in self._swarm.claims:
            if self._cluster.make(CLAIMS, claim):
                self._added.add(claim["metadata"]["name"])

    def look(self) -> dict[str, Document]:
        """Its claims as they are."""
        found = {one["metadata"]["name"]: one for one in _claims(self._cluster, self._swarm)}
        pool = swarm_fate.pool_of(self._cluster, *self._where)
        if pool is None or pool["metadata"]["uid"] != self._pool or swarm_fate.is_given_up(pool):
            self._withdraw(self._own.values())
            raise _taken_away()
        # Looked up before the pool was: they are of this swarm, and not of one that came after it.
        self._own = {name: one for name, one in found.items() if name in self._added}
        return found

    def hand_over(self) -> None:
        """Have nobody take it away for not having come up."""
        if not swarm_fate.hand_over(self._cluster, *self._where, self._pool, len(self._swarm.claims)):
            self._withdraw(self._own.values())
            raise _taken_away()

    def undo(self) -> None:
        """Take away what did not come up: all of it, or of one that somebody may work in, what was added and is not
        theirs."""
        pool = swarm_fate.pool_of(self._cluster, *self._where)
        if pool is None and not self._pool:
            end(self._cluster, *self._where)
            return
        # It was refused something before it came to its pool, which somebody else may have made.
        self._pool = self._pool or (pool or {})["metadata"]["uid"]
        fate = "handed-over" if self._used else swarm_fate.give_up(self._cluster, *self._where, self._pool)
        if fate == "given-up":
            end(self._cluster, *self._where)
        elif fate == "gone":
            self._withdraw(self._own.values())
        else:
            pool = swarm_fate.pool_of(self._cluster, *self._where)
            theirs = swarm_fate.handed_over(pool) if pool else 0
            names = [one["metadata"]["name"] for one in self._swarm.claims[theirs:]]
            own = [self._cluster.find(CLAIMS, name, self._swarm.namespace) for name in names if name in self._added]
            self._withdraw(claim for claim in own if claim is not None)

    def _withdraw(self, claims: Iterable[Document]) -> None:
        for claim in claims:
            _removed(self._cluster, CLAIMS, claim)


def _taken_away() -> SwarmError:
    return SwarmError("it is being taken away, or was at the same time: ask again when it is gone", "busy")


def _used(claim: Document) -> bool:
    """Whether somebody may have been in its sandbox: it came up, was kept, or was put to sleep."""
    return _sandbox(claim) is not None or KEPT in section(section(claim, "metadata"), "annotations")


def _removed(cluster: Api, kind: Kind, one: Document) -> None:
    """Remove it, however often its controller changes it meanwhile."""
    about = one["metadata"]
    now: Document | None = one
    while now is not None and now["metadata"]["uid"] == about["uid"]:
        if cluster.remove(kind, now):
            return
        now = cluster.find(kind, about["name"], about["namespace"])


def _refuse_strangers(cluster: Api, swarm: Swarm) -> None:
    """A task is its owner's: nobody else adds to it, or mounts what its sandboxes share."""
    for kind, document in _documents(swarm):
        found = cluster.find(kind, document["metadata"]["name"], swarm.namespace)
        labels = section(found["metadata"], "labels") if found else {}
        if found and (labels.get(USER_LABEL), labels.get(TASK_LABEL)) != (swarm.owner, swarm.task):
            raise SwarmError(f"{document['metadata']['name']} is there and not of this task: choose another task")


def _refuse_another_class(cluster: Api, swarm: Swarm) -> None:
    """The names of its workspaces follow from owner and task: of two classes there would be two of each."""
    for pool in swarm_fate.pools_of(cluster, swarm.task):
        if pool["metadata"]["namespace"] != swarm.namespace:
            of = section(pool["metadata"], "labels").get(CLASS_LABEL, "another")
            raise SwarmError(
                f"the task has a swarm of class {of}: end that first, or choose another task", "key-reused"
            )


def _refuse_without_room(cluster: Api, swarm: Swarm) -> None:
    quota = cluster.find(QUOTAS, SANDBOX, swarm.namespace)
    wrong = short_of(quota or {}, swarm.needs)
    if wrong:
        raise SwarmError(f"the class has no room for {len(swarm.claims)} more: {'; '.join(wrong)}")


def _documents(swarm: Swarm) -> list[tuple[Kind, Document]]:
    return [*_shared(swarm), *((CLAIMS, one) for one in swarm.claims)]


def _shared(swarm: Swarm) -> list[tuple[Kind, Document]]:
    return [(VOLUME_CLAIMS, swarm.volume), (TEMPLATES, swarm.template), (POOLS, swarm.pool)]


def _claims(cluster: Api, swarm: Swarm) -> list[Document]:
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


def _unkept(cluster: Api, claim: Document, pause: Callable[[float], None]) -> str | None:
    """Why the volume of one of its sandboxes cannot stay. What is overtaken still is left to the pass that keeps."""
    about = claim["metadata"]
    for _ in range(KEEPS):
        kept = keep(cluster, claim)
        if kept.outcome == "refused":
            return f"the volume of {about['name']} cannot be kept: {kept.why}"
        if kept.outcome in {"kept", "already"}:
            return None
        pause(BETWEEN)
        claim = cluster.find(CLAIMS, about["name"], about["namespace"]) or claim
    return None


def _why(found: Mapping[str, Document], ready: Mapping[str, str]) -> str:
    """What the first of those that are not there says of itself."""
    for name, one in sorted(found.items()):
        if name not in ready:
            said = _condition(one)
            return f"{name} says {said.get('message') or said.get('reason') or 'nothing'}"
    return "the others were taken away"
