"""What is left over: access points, volumes and volume claims that belong to nothing, and workspaces off their home.

Each is found from lists that were read one after the other, so it may only seem so: nothing is said of a thing before
it has been left alone for a while, and nothing of what is found is destroyed. What can be put right without losing
anything is; the rest is told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

# Whoever is making or taking away something has come to an end after this.
SETTLED = timedelta(minutes=15)
# Somebody who has worked on another home than theirs for longer than this would miss what they did.
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
    """An access point of the driver's, and since when it has been seen without a volume."""

    id: str
    path: str
    missed_since: datetime | None = None
    user: str = ""  # whose it is, as its tag says


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume of the driver's."""

    name: str
    point: str
    phase: str
    policy: str
    since: datetime | None  # in that phase
    owner: str = ""
    workspace: str = ""
    claim_uid: str = ""  # of the volume claim that it is for
    destroy_requested: bool = False


@dataclass(frozen=True, slots=True)
class VolumeClaim:
    """A claim of a volume that is some sandbox's home."""

    namespace: str
    name: str
    made: datetime
    owned: bool  # by a sandbox
    volume: str = ""
    own: bool = False  # made by the service for somebody who comes back
    uid: str = ""
    task: str = ""  # whose sandboxes share it, where it is no home


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of a sandbox, and the volume that its sandbox has now."""

    namespace: str
    name: str
    made: datetime
    owner: str
    workspace: str
    volume: str = ""
    volume_since: datetime | None = None  # bound to its sandbox, which may have been a warm slot then
    last_active: datetime | None = None
    going: bool = False
    task: str = ""


@dataclass(frozen=True, slots=True)
class Orphan:
    """Something that is not as it should be."""

    kind: Kind
    name: str
    why: str
    heal: Heal = "nothing"
    about: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Inventory:
    """What there is, as it was read: claims first, points last, so that what belongs to something is seen to."""

    claims: Sequence[Claim] = ()
    volume_claims: Sequence[VolumeClaim] = ()
    volumes: Sequence[Volume] = ()
    points: Sequence[Point] | None = None  # None where nobody could ask
    swarms: Collection[tuple[str, str]] = ()  # namespaces and tasks of those that have a pool


def orphans(shelf: Inventory, now: datetime) -> tuple[Orphan, ...]:
    """Everything that is left over or off its place."""
    return (*_claims(shelf, now), *_volume_claims(shelf, now), *_volumes(shelf, now), *_points(shelf, now))


def _settled(moment: datetime | None, now: datetime, settled: timedelta = SETTLED) -> bool:
    return moment is not None and now - moment >= settled


def _claims(shelf: Inventory, now: datetime) -> Iterator[Orphan]:
    homes: dict[tuple[str, str], list[Volume]] = {}
    for volume in shelf.volumes:
        if volume.owner and volume.workspace and not volume.destroy_requested:
            homes.setdefault((volume.owner, volume.workspace), []).append(volume)
    for claim in shelf.claims:
        name = f"{claim.namespace}/{claim.name}"
        if claim.going:
            continue
        if not claim.owner:
            if _settled(claim.made, now):
                yield Orphan("claim-without-owner", name, "nobody's name is on it")
            continue
        others = [
            one
            for one in homes.get((claim.owner, claim.workspace), [])
            if one.name != claim.volume and one.phase == "Released" and one.policy == "Retain"
        ]
        if claim.volume and others:
            yield _wrong_volume(claim, others, now)


def _wrong_volume(claim: Claim, others: Sequence[Volume], now: datetime) -> Orphan:
    """Its sandbox was lost, and upstream gave it another one with an empty home."""
    name, about = f"{claim.namespace}/{claim.name}", {"has": claim.volume}
    if len(others) > 1:
        names = ", ".join(sorted(one.name for one in others))
        return Orphan("workspace-off-its-home", name, f"several volumes are its own: {names}", about=about)
    (home,) = others
    about |= {"home": home.name}
    said = f"it has {claim.volume}, and its files are on {home.name}"
    if claim.task:
        # Others work with it, on what they share: whoever asks for it says which of the two it is to have.
        return Orphan("workspace-off-its-home", name, f"{said}; it is of the task {claim.task}", about=about)
    if claim.volume_since is None or home.since is None:
        return Orphan("workspace-off-its-home", name, said, about=about)
    # What it has may be a slot that was there for hours when its own was lost; nobody worked in it before.
    since = max(claim.volume_since, home.since)
    if now - since < timedelta(seconds=5):
        return Orphan("workspace-off-its-home", name, said, about=about)
    used = claim.last_active is not None and claim.last_active - since > timedelta(0)
    if used and now - since > UNNOTICED:
        return Orphan("workspace-off-its-home", name, f"{said}; somebody has worked with what it has", about=about)
    return Orphan("workspace-off-its-home", name, said, "restore", about)


def _volume_claims(shelf: Inventory, now: datetime) -> Iterator[Orphan]:
    claims = {(one.namespace, one.name) for one in shelf.claims}
    kept = {one.name for one in shelf.volumes if one.policy == "Retain"}
    tasks = {*shelf.swarms, *((one.namespace, one.task) for one in shelf.claims if one.task)}
    for one in shelf.volume_claims:
        if one.owned or not _settled(one.made, now):
            continue
        if one.task:
            if (one.namespace, one.task) not in tasks:
                why = f"nobody claims a sandbox of the task {one.task}, which share it"
                about = {"uid": one.uid, "task": one.task}
                name = f"{one.namespace}/{one.name}"
                yield Orphan("volume-claim-without-swarm", name, why, "remove-volume-claim", about)
            continue
        if (one.namespace, one.name.removeprefix("home-")) in claims:
            continue
        # Its volume is kept whatever becomes of it; of another one that cannot be said.
        safe = one.own and (not one.volume or one.volume in kept)
        why = "no sandbox has it, and nobody claims one of that name"
        heal: Heal = "remove-volume-claim" if safe else "nothing"
        yield Orphan("volume-claim-without-sandbox", f"{one.namespace}/{one.name}", why, heal, {"uid": one.uid})


def _volumes(shelf: Inventory, now: datetime) -> Iterator[Orphan]:
    for one in shelf.volumes:
        if one.phase not in {"Released", "Failed"} or not _settled(one.since, now):
            continue
        if one.policy == "Delete":
            yield Orphan("volume-stuck", one.name, "the driver should have taken it away", about={"point": one.point})
        elif not one.owner:
            yield Orphan("volume-without-owner", one.name, "it is kept, and nobody's", about={"point": one.point})


def _points(shelf: Inventory, now: datetime) -> Iterator[Orphan]:
    used = {one.point for one in shelf.volumes}
    tagged = {one.id: one.user for one in shelf.points or ()}
    for volume in shelf.volumes:
        if volume.owner and (user := tagged.get(volume.point)) and user != volume.owner:
            # Nobody's home becomes somebody else's: one of the two is not to be believed.
            why = f"it is tagged as that of {user}, and {volume.name} that leads to it is {volume.owner}'s"
            yield Orphan("point-of-another", volume.point, why, about={"volume": volume.name})
    for one in shelf.points or ():
        if one.id not in used and _settled(one.missed_since, now):
            yield Orphan("point-without-volume", one.id, f"no volume leads to {one.path}", about={"path": one.path})
