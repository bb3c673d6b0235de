"""The pass over slots: access points get their owner's tag once they have one, and what is left over is found.

What can be put right without losing anything is; the rest is told, in the log and as a number to be alarmed by.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import HOME, TASK_LABEL, USER_LABEL, WORKSPACE_LABEL, namespace
from agentenv.core.classes.storage_classes import DRIVER
from agentenv.core.classes.swarm import SHARED
from agentenv.core.lifecycle import access_point_audit as audits
from agentenv.core.lifecycle.orphaned_storage import Claim, Inventory, Orphan, Point, Volume, VolumeClaim, orphans
from agentenv.core.lifecycle.restore import RETURNING_LABEL, home_class
from agentenv.core.values.object_fields import required, text
from agentenv.core.values.timestamps import LATEST, format_timestamp, parse_timestamp
from agentenv.core.workspaces.seats import CLASS_TAG, USER_TAG
from agentenv.core.workspaces.workspace import DESTROY_REQUESTED, LAST_ACTIVE
from agentenv.service.kube.sync_client import CLAIMS, POOLS, VOLUME_CLAIMS, VOLUMES, Document, SyncKubeApiError, section
from agentenv.service.kube.unreadable import ODD, readable
from agentenv.service.loops.context import Context
from agentenv.service.loops.scheduler import PassResult, ShouldContinue
from agentenv.service.workspaces.repair_home import repair_home
from agentenv.service.workspaces.restore import delete_unused_volume_claim
from agentenv.service.workspaces.shared_volumes import delete_claim

# Tagging is most of it, and quick; all of what there is has been listed for it.
MOST = 500
CLASSES = "/classes/"
# On an access point that no volume leads to: since when it was seen so.
ORPHAN_TAG = "sandbox-orphan-since"
GOING = "going"  # the phase of a volume that is being taken away
_LOG = logging.getLogger(__name__)


def maintain_slots(context: Context, still: ShouldContinue) -> PassResult:
    """Tag what has an owner, find what has none."""
    return _Pass(context, still).take()


class _Pass:
    def __init__(self, context: Context, still: ShouldContinue) -> None:
        self._context = context
        self._api = context.api
        self._still = still
        self._failures: list[str] = []
        self._steps = 0

    def take(self) -> PassResult:
        # In this order: whatever is used by something that was read is read after it. Of each no more is held than
        # what decisions look at: there may be ten thousand of everything.
        claims = [
            row
            for _, row in readable("SandboxClaim", self._api.list(CLAIMS), _claim, self._failures)
            if row is not None
        ]
        homes = self._api.list(VOLUME_CLAIMS, labels={CLASS_LABEL: None})
        volume_claims = [
            row
            for _, row in readable("PersistentVolumeClaim", homes, _volume_claim, self._failures)
            if row.name.startswith((f"{HOME}-", f"{SHARED}-"))
        ]
        pools = self._api.list(POOLS, labels={TASK_LABEL: None})
        swarms = {row for _, row in readable("SandboxWarmPool", pools, _task, self._failures)}
        used_in: dict[str, str] = {}  # the class that each volume is used in, or was
        volumes: list[Volume] = []
        unread = len(self._failures)
        for one, volume in readable("PersistentVolume", self._api.list(VOLUMES), _our_volume, self._failures):
            if volume is not None:
                volumes.append(volume)
                used_in[volume.name] = sys.intern(_used_in(one) or home_class(one))
        # What leads to an access point is known only where every volume could be read.
        points = self._points() if len(self._failures) == unread else None
        now = self._context.clock.now()
        if points is not None:
            self._tag(volumes, used_in, points)
            self._mark(volumes, points, now)
        shelf = Inventory(
            _with_volumes(claims, volume_claims, volumes),
            volume_claims,
            volumes,
            None if points is None else [_point(one) for one in points.values()],
            swarms,
        )
        rows = orphans(shelf, now)
        for row in rows:
            facts = {"kind": row.kind, "name": row.name, "why": row.why, "heal": row.heal, **row.about}
            _LOG.warning("something is left over", extra={"facts": facts})
            if row.heal != "nothing" and self._still() and self._steps < MOST:
                self._heal(row, now)
        self._context.told.findings("slots", _counted(row.kind for row in rows))
        return PassResult(self._steps, self._steps >= MOST, tuple(self._failures))

    def _points(self) -> dict[str, audits.Point] | None:
        if self._context.points is None:
            return None
        try:
            return {
                one.id: one
                for system in self._context.file_systems
                for one in self._context.points.of(system)
                if _is_home(one.path)
            }
        except Exception as failure:  # noqa: BLE001 - what the cluster says is looked at without it
            self._failures.append(f"EFS: {failure}")
            return None

    def _tag(self, volumes: Sequence[Volume], used_in: Mapping[str, str], points: Mapping[str, audits.Point]) -> None:
        """Whose an access point is, on itself: the bill and the audit go by it, should the cluster be gone.

        One that is tagged as somebody else's stays so, and is found: that may be the only trace of whose files it has.
        """
        owners = {point.id: (point.tags or {}).get(USER_TAG) or None for point in points.values()}
        for one in volumes:
            point = points.get(one.point)
            if point is None or not one.owner or one.phase == GOING:
                continue
            if owners[point.id] not in {None, one.owner}:
                continue
            owners[point.id] = one.owner
            wanted = {USER_TAG: one.owner, CLASS_TAG: used_in[one.name]}
            if wanted.items() - (point.tags or {}).items():
                self._tagged(point.id, wanted)

    def _mark(self, volumes: Sequence[Volume], points: Mapping[str, audits.Point], now: datetime) -> None:
        """Since when an access point has no volume, on itself: a replica that starts anew has not seen it before."""
        used = {one.point for one in volumes}
        for point in points.values():
            marked = ORPHAN_TAG in (point.tags or {})
            if point.id not in used and not marked:
                self._tagged(point.id, {ORPHAN_TAG: format_timestamp(now)})
            elif point.id in used and marked and self._may():
                self._untagged(point.id)

    def _may(self) -> bool:
        return self._still() and self._steps < MOST and self._context.points is not None

    def _tagged(self, point: str, tags: Mapping[str, str]) -> None:
        if self._may() and self._context.points is not None:
            try:
                self._context.points.tag(point, tags)
                self._steps += 1
            except Exception as failure:  # noqa: BLE001 - one that cannot be tagged leaves the others
                self._failures.append(f"{point}: {failure}")

    def _untagged(self, point: str) -> None:
        if self._context.points is not None:
            try:
                self._context.points.untag(point, [ORPHAN_TAG])
                self._steps += 1
            except Exception as failure:  # noqa: BLE001 - nor does one whose mark stays
                self._failures.append(f"{point}: {failure}")

    def _heal(self, row: Orphan, now: datetime) -> None:
        space, _, name = row.name.partition("/")
        try:
            if row.kind == "volume-claim-without-swarm":
                self._steps += self._leave_shared(space, name, row.about)
            elif row.heal == "remove-volume-claim":
                self._steps += delete_unused_volume_claim(self._api, space, name, row.about["uid"])
            elif row.heal == "restore":
                claim = self._api.find(CLAIMS, name, space)
                if claim is not None:
                    self._steps += repair_home(self._api, claim, row.about["has"], row.about["home"], now)
        except SyncKubeApiError as refusal:
            if refusal.passes:
                raise
            self._failures.append(f"{row.name}: {refusal}")
        except ODD as failure:
            self._failures.append(f"{row.name} cannot be read: {type(failure).__name__}")

    def _leave_shared(self, space: str, name: str, about: Mapping[str, str]) -> bool:
        """Delete the claim of what a task shared, once more looked for; the loop of retention dates its volume."""
        task = {TASK_LABEL: about["task"]}
        if any(True for kind in (CLAIMS, POOLS) for _ in self._api.list(kind, space, task)):
            return False
        orphans = self._api.find(VOLUME_CLAIMS, name, space)
        if orphans is None or text(section(orphans, "metadata"), "uid") != about["uid"]:
            return False
        delete_claim(self._api, orphans, None, self._context.clock.now())
        return True


def _task(document: Document) -> tuple[str, str]:
    """The namespace and the task of something that is of one."""
    return required(document, "metadata", "namespace"), text(
        section(section(document, "metadata"), "labels"), TASK_LABEL
    )


def _is_home(path: str) -> bool:
    """Whether a folder is a home of a class, and neither a seat's nor what holds the homes of a class."""
    class_, _, home = path.removeprefix(CLASSES).partition("/")
    return path.startswith(CLASSES) and bool(class_ and home)


def is_ours(volume: Document) -> bool:
    """Whether a volume was made by the driver for a class."""
    return section(section(volume, "spec"), "csi").get("driver") == DRIVER and _space(volume).startswith(namespace(""))


def volume_of(volume: Document) -> Volume:
    """A volume as decisions look at it."""
    about, spec, status = section(volume, "metadata"), section(volume, "spec"), section(volume, "status")
    labels = section(about, "labels")
    return Volume(
        required(volume, "metadata", "name"),
        text(section(spec, "csi"), "volumeHandle").partition("::")[2],
        GOING if about.get("deletionTimestamp") else sys.intern(text(status, "phase")),
        sys.intern(text(spec, "persistentVolumeReclaimPolicy")),
        parse_timestamp(status.get("lastPhaseTransitionTime")),
        sys.intern(text(labels, USER_LABEL)),
        sys.intern(text(labels, WORKSPACE_LABEL)),
        text(section(spec, "claimRef"), "uid"),
        DESTROY_REQUESTED in labels,
    )


def _our_volume(volume: Document) -> Volume | None:
    return volume_of(volume) if is_ours(volume) else None


def _claim(one: Document) -> tuple[Claim, str] | None:
    """A claim, still without its volume, and the sandbox by which it has one."""
    about = section(one, "metadata")
    labels, notes = section(about, "labels"), section(about, "annotations")
    made = parse_timestamp(about.get("creationTimestamp"))
    if made is None:
        return None
    claim = Claim(
        sys.intern(required(one, "metadata", "namespace")),
        sys.intern(required(one, "metadata", "name")),
        made,
        sys.intern(text(labels, USER_LABEL)),
        sys.intern(text(labels, WORKSPACE_LABEL)),
        last_active=parse_timestamp(notes.get(LAST_ACTIVE)),
        going=bool(about.get("deletionTimestamp")),
        task=sys.intern(text(labels, TASK_LABEL)),
    )
    return claim, text(section(section(one, "status"), "sandbox"), "name")


def _with_volumes(
    claims: Sequence[tuple[Claim, str]], volume_claims: Sequence[VolumeClaim], volumes: Sequence[Volume]
) -> list[Claim]:
    """Claims, each with the volume that its sandbox has now."""
    bound = {(one.namespace, one.name): one.volume for one in volume_claims}
    since = {one.name: one.since for one in volumes}
    orphans: list[Claim] = []
    for claim, sandbox in claims:
        volume = bound.get((claim.namespace, f"{HOME}-{sandbox}"), "")
        orphans.append(replace(claim, volume=volume, volume_since=since.get(volume)) if volume else claim)
    return orphans


def _volume_claim(one: Document) -> VolumeClaim:
    about, name = section(one, "metadata"), required(one, "metadata", "name")
    return VolumeClaim(
        sys.intern(required(one, "metadata", "namespace")),
        name,
        parse_timestamp(about.get("creationTimestamp")) or LATEST,
        bool(about.get("ownerReferences")) or bool(about.get("deletionTimestamp")),
        text(section(one, "spec"), "volumeName"),
        section(about, "labels").get(RETURNING_LABEL) == "true",
        required(one, "metadata", "uid"),
        text(section(about, "labels"), TASK_LABEL) if name.startswith(f"{SHARED}-") else "",
    )


def _point(point: audits.Point) -> Point:
    tags = point.tags or {}
    return Point(point.id, point.path, parse_timestamp(tags.get(ORPHAN_TAG)), tags.get(USER_TAG, ""))


def _used_in(volume: Document) -> str:
    return _space(volume).removeprefix(namespace(""))


def _space(volume: Document) -> str:
    return text(section(section(volume, "spec"), "claimRef"), "namespace")


def _counted(kinds: Iterator[str]) -> dict[str, int]:
    counted: dict[str, int] = {}
    for kind in kinds:
        counted[kind] = counted.get(kind, 0) + 1
    return counted
