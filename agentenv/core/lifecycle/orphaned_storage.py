"""Orphaned access points, volumes and volume claims, and workspaces with a volume that is not their home.

The lists are read one after the other, so an object may only seem orphaned: it is reported after it was unchanged for
a while, and nothing is destroyed. What can be repaired without losing data is repaired; the rest is reported.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

# After this time, operations that create or delete objects have ended.
SETTLED = timedelta(minutes=15)
# Somebody who has worked with a wrong home for longer than this would lose work.
UNNOTICED = timedelta(minutes=10)

Kind = Literal[
    "point-without-volume",
    "point-of-another",
    "volume-without-owner",
    "volume-stuck",
    "volume-claim-without-sandbox",
    "volume-claim-without-swarm",
    "claim-without-owner",
    "workspace-off-its-home",
]
Heal = Literal["nothing", "remove-volume-claim", "restore"]


@dataclass(frozen=True, slots=True)
class Point:
    """An access point of the driver, and since when it was seen without a volume."""

    id: str
    path: str
    missed_since: datetime | None = None
    user: str = ""  # its owner, by its tag


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume of the driver."""

    name: str
    point: str
    phase: str
    policy: str
    since: datetime | None  # in that phase
    owner: str = ""
    workspace: str = ""
    claim_uid: str = ""  # of its volume claim
    destroy_requested: bool = False


@dataclass(frozen=True, slots=True)
class VolumeClaim:
    """A claim of a volume: of a home, or of the shared volume of a task."""

    namespace: str
    name: str
    created: datetime
    owned: bool  # by a sandbox
    volume: str = ""
    own: bool = False  # created by the service for a restore
    uid: str = ""
    task: str = ""  # for the shared volume of a task


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of a sandbox, and the volume that its sandbox has now."""

    namespace: str
    name: str
    created: datetime
    owner: str
    workspace: str
    volume: str = ""
    volume_since: datetime | None = None  # bound to its sandbox, which may have been a warm slot then
    last_active: datetime | None = None
    going: bool = False
    task: str = ""


@dataclass(frozen=True, slots=True)
class Orphan:
    """An orphaned object, or a workspace with a wrong volume."""

    kind: Kind
    name: str
    why: str
    heal: Heal = "nothing"
    about: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Inventory:
    """The objects, read in the order of the fields, so that an object is read after its owner."""

    claims: Sequence[Claim] = ()
    volume_claims: Sequence[VolumeClaim] = ()
    volumes: Sequence[Volume] = ()
    points: Sequence[Point] | None = None  # None if they could not be read
    swarms: Collection[tuple[str, str]] = ()  # namespace and task of each swarm with a pool


def orphans(inventory: Inventory, now: datetime) -> tuple[Orphan, ...]:
    """Return all orphaned objects and all workspaces with a wrong volume."""
    return (
        *_claims(inventory, now),
        *_volume_claims(inventory, now),
        *_volumes(inventory, now),
        *_points(inventory, now),
    )


def _settled(since: datetime | None, now: datetime) -> bool:
    return since is not None and now - since >= SETTLED


def _claims(inventory: Inventory, now: datetime) -> Iterator[Orphan]:
    homes: dict[tuple[str, str], list[Volume]] = {}
    for volume in inventory.volumes:
        if volume.owner and volume.workspace and not volume.destroy_requested:
            homes.setdefault((volume.owner, volume.workspace), []).append(volume)
    for claim in inventory.claims:
        name = f"{claim.namespace}/{claim.name}"
        if claim.going:
            continue
        if not claim.owner:
            if _settled(claim.created, now):
                yield Orphan("claim-without-owner", name, "it has no owner")
            continue
        others = [
            volume
            for volume in homes.get((claim.owner, claim.workspace), [])
            if volume.name != claim.volume and volume.phase == "Released" and volume.policy == "Retain"
        ]
        if claim.volume and others:
            yield _wrong_volume(claim, others, now)


def _wrong_volume(claim: Claim, others: Sequence[Volume], now: datetime) -> Orphan:
    """Return the finding for a claim whose sandbox was lost, and which got another one with an empty home."""
    name, about = f"{claim.namespace}/{claim.name}", {"has": claim.volume}
    if len(others) > 1:
        names = ", ".join(sorted(volume.name for volume in others))
        return Orphan("workspace-off-its-home", name, f"it has several homes: {names}", about=about)
    (home,) = others
    about |= {"home": home.name}
    why = f"it has {claim.volume}, and its home is {home.name}"
    if claim.task:
        # The swarm shares data with it, so a caller must decide which of the two volumes it gets.
        return Orphan("workspace-off-its-home", name, f"{why}; it is a member of task {claim.task}", about=about)
    if claim.volume_since is None or home.since is None:
        return Orphan("workspace-off-its-home", name, why, about=about)
    # Its current volume may be that of a slot that was warm for hours; it was not used before the home was lost.
    since = max(claim.volume_since, home.since)
    if now - since < timedelta(seconds=5):
        return Orphan("workspace-off-its-home", name, why, about=about)
    used = claim.last_active is not None and claim.last_active - since > timedelta(0)
    if used and now - since > UNNOTICED:
        return Orphan("workspace-off-its-home", name, f"{why}; its current volume was used since", about=about)
    return Orphan("workspace-off-its-home", name, why, "restore", about)


def _volume_claims(inventory: Inventory, now: datetime) -> Iterator[Orphan]:
    claims = {(claim.namespace, claim.name) for claim in inventory.claims}
    retained = {volume.name for volume in inventory.volumes if volume.policy == "Retain"}
    tasks = {*inventory.swarms, *((claim.namespace, claim.task) for claim in inventory.claims if claim.task)}
    for volume_claim in inventory.volume_claims:
        if volume_claim.owned or not _settled(volume_claim.created, now):
            continue
        name = f"{volume_claim.namespace}/{volume_claim.name}"
        if volume_claim.task:
            if (volume_claim.namespace, volume_claim.task) not in tasks:
                why = f"task {volume_claim.task}, whose sandboxes share it, has no claims"
                about = {"uid": volume_claim.uid, "task": volume_claim.task}
                yield Orphan("volume-claim-without-swarm", name, why, "remove-volume-claim", about)
            continue
        if (volume_claim.namespace, volume_claim.name.removeprefix("home-")) in claims:
            continue
        # It is only safe to delete it if its volume is retained.
        safe = volume_claim.own and (not volume_claim.volume or volume_claim.volume in retained)
        why = "no sandbox owns it, and no claim has its name"
        heal: Heal = "remove-volume-claim" if safe else "nothing"
        yield Orphan("volume-claim-without-sandbox", name, why, heal, {"uid": volume_claim.uid})


def _volumes(inventory: Inventory, now: datetime) -> Iterator[Orphan]:
    for volume in inventory.volumes:
        if volume.phase not in {"Released", "Failed"} or not _settled(volume.since, now):
            continue
        about = {"point": volume.point}
        if volume.policy == "Delete":
            yield Orphan("volume-stuck", volume.name, "the driver has not deleted it", about=about)
        elif not volume.owner:
            yield Orphan("volume-without-owner", volume.name, "it is retained and has no owner", about=about)


def _points(inventory: Inventory, now: datetime) -> Iterator[Orphan]:
    used = {volume.point for volume in inventory.volumes}
    tagged = {point.id: point.user for point in inventory.points or ()}
    for volume in inventory.volumes:
        if volume.owner and (user := tagged.get(volume.point)) and user != volume.owner:
            # A home never changes its owner, so the tag or the volume is wrong.
            why = f"its tag names {user} as its owner, and its volume {volume.name} names {volume.owner}"
            yield Orphan("point-of-another", volume.point, why, about={"volume": volume.name})
    for point in inventory.points or ():
        if point.id not in used and _settled(point.missed_since, now):
            why = f"no volume uses its path {point.path}"
            yield Orphan("point-without-volume", point.id, why, about={"path": point.path})
