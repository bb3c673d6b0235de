"""Makes the swarm of a task: all of its sandboxes with what they share, or nothing at all.

It is made of documents whose names follow from the task, so that asking twice makes one, and whoever was killed half
way is made up for by asking again. Where it does not come up whole in time, what there is of it goes again; but of one
that somebody may have worked in, only what was added now: members that sleep or failed since are no reason to take away
the others, and what they share.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from model.classes.names import KEPT, SANDBOX, TASK_LABEL, USER_LABEL
from model.swarms import Swarm, short_of
from model.workspaces import SUSPENDED_BECAUSE
from service.cluster import CLAIMS, POOLS, QUOTAS, TEMPLATES, VOLUME_CLAIMS, Api, Document, Kind, RefusedError, section

PATIENCE = 300.0
PAUSE = 0.5


class SwarmError(Exception):
    """Why there is no swarm, in words for whoever asked; nothing of it is left."""


def make(
    cluster: Api,
    swarm: Swarm,
    *,
    patience: float = PATIENCE,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, str]:
    """Make it, and wait until all of it is there: the sandbox of each claim."""
    _refuse_strangers(cluster, swarm)
    there = [*cluster.list(CLAIMS, swarm.namespace, {TASK_LABEL: swarm.task})]
    used = any(_used(one) for one in there)
    if not there:
        _refuse_without_room(cluster, swarm)
    added: list[str] = []
    try:
        for kind, document in _documents(swarm):
            if cluster.make(kind, document) and kind is CLAIMS:
                added.append(document["metadata"]["name"])
    except RefusedError as refusal:
        _undo(cluster, swarm, added, used=used)
        raise SwarmError(f"the API server refused a part of it: {refusal}") from None
    until = clock() + patience
    while True:
        found = {one["metadata"]["name"]: one for one in _claims(cluster, swarm)}
        ready = {name: sandbox for name, one in found.items() if (sandbox := _sandbox(one))}
        if len(ready) == len(swarm.claims):
            return ready
        if clock() >= until:
            why = _why(found, ready)
            _undo(cluster, swarm, added, used=used)
            raise SwarmError(f"{len(ready)} of {len(swarm.claims)} sandboxes came up in {patience:.0f} s: {why}")
        pause(PAUSE)


def end(cluster: Api, namespace: str, task: str) -> None:
    """Take it away with what its sandboxes shared; volumes that were kept stay. Ending it twice does no harm."""
    # Claims first: their sandboxes go with them, and let go of what they share.
    for kind in (CLAIMS, POOLS, TEMPLATES, VOLUME_CLAIMS):
        for one in cluster.list(kind, namespace, {TASK_LABEL: task}):
            _removed(cluster, kind, one)


def _undo(cluster: Api, swarm: Swarm, added: Sequence[str], *, used: bool) -> None:
    """Take away what did not come up: all of it, or what was added to one that somebody may have worked in."""
    if not used:
        end(cluster, swarm.namespace, swarm.task)
        return
    for name in added:
        claim = cluster.find(CLAIMS, name, swarm.namespace)
        if claim is not None:
            _removed(cluster, CLAIMS, claim)


def _used(claim: Document) -> bool:
    """Whether somebody may have been in its sandbox: it came up, was kept, or was put to sleep."""
    return _sandbox(claim) is not None or KEPT in section(claim["metadata"], "annotations")


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


def _refuse_without_room(cluster: Api, swarm: Swarm) -> None:
    quota = cluster.find(QUOTAS, SANDBOX, swarm.namespace)
    wrong = short_of(quota or {}, swarm.needs)
    if wrong:
        raise SwarmError(f"the class has no room for {len(swarm.claims)} more: {'; '.join(wrong)}")


def _documents(swarm: Swarm) -> list[tuple[Kind, Document]]:
    shared = [(VOLUME_CLAIMS, swarm.volume), (TEMPLATES, swarm.template), (POOLS, swarm.pool)]
    return [*shared, *((CLAIMS, one) for one in swarm.claims)]


def _claims(cluster: Api, swarm: Swarm) -> list[Document]:
    asked = {one["metadata"]["name"] for one in swarm.claims}
    found = cluster.list(CLAIMS, swarm.namespace, {TASK_LABEL: swarm.task})
    return [one for one in found if one["metadata"]["name"] in asked]


def _sandbox(claim: Document) -> str | None:
    """The sandbox of a claim that is ready, or was and sleeps: it wakes when it is asked for."""
    asleep = SUSPENDED_BECAUSE in section(claim["metadata"], "annotations")
    there = asleep or _condition(claim).get("status") == "True"
    return section(section(claim, "status"), "sandbox").get("name") if there else None


def _condition(claim: Document) -> Document:
    rows: list[Document] = section(claim, "status").get("conditions") or []
    found: Document = next((row for row in rows if row["type"] == "Ready"), Document())
    return found


def _why(found: Mapping[str, Document], ready: Mapping[str, str]) -> str:
    """What the first of those that are not there says of itself."""
    for name, one in sorted(found.items()):
        if name not in ready:
            said = _condition(one)
            return f"{name} says {said.get('message') or said.get('reason') or 'nothing'}"
    return "the others were taken away"
