"""The pass over slots: tag access points with their owner, and find orphaned objects.

Orphans that can be repaired without losing data are repaired. The others are logged and counted by a metric, for an
alarm.
"""

from __future__ import annotations

import asyncio
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
from agentenv.core.service.home_emptying import NAME as EMPTYING
from agentenv.core.values.object_fields import required, text
from agentenv.core.values.timestamps import LATEST, format_timestamp, parse_timestamp
from agentenv.core.workspaces.seats import CLASS_TAG, USER_TAG
from agentenv.core.workspaces.workspace import DESTROY_REQUESTED, LAST_ACTIVE
from agentenv.service.kube.client import CLAIMS, POOLS, VOLUME_CLAIMS, VOLUMES, Document, collect, section
from agentenv.service.kube.unreadable import readable
from agentenv.service.loops.context import Context
from agentenv.service.loops.scheduler import PassResult, ShouldContinue, isolated
from agentenv.service.workspaces.repair_home import repair_home
from agentenv.service.workspaces.restore import delete_unused_volume_claim
from agentenv.service.workspaces.shared_volumes import delete_claim

# Most steps tag an access point, which is quick, and listing everything was the expensive part.
MOST = 500
CLASSES = "/classes/"
# The tag of an access point without a volume: the time at which that was first seen.
ORPHAN_TAG = "sandbox-orphan-since"
GOING = "going"  # the phase of a volume that is being deleted
_LOG = logging.getLogger(__name__)


async def maintain_slots(context: Context, should_continue: ShouldContinue) -> PassResult:
    """Tag access points with their owner, find orphaned objects, and repair what can be repaired."""
    return await _Pass(context, should_continue).take()


class _Pass:
    def __init__(self, context: Context, should_continue: ShouldContinue) -> None:
        self._context = context
        self._api = context.api
        self._should_continue = should_continue
        self._failures: list[str] = []
        self._steps = 0

    async def take(self) -> PassResult:
        # The order matters: objects are read after the objects that use them. Only the fields that decisions need are
        # kept, as there may be ten thousand of each kind.
        claims = [
            row
            async for _, row in readable("SandboxClaim", self._api.list(CLAIMS), _claim, self._failures)
            if row is not None
        ]
        homes = self._api.list(VOLUME_CLAIMS, labels={CLASS_LABEL: None})
        volume_claims = [
            row
            async for _, row in readable("PersistentVolumeClaim", homes, _volume_claim, self._failures)
            if row.name.startswith((f"{HOME}-", f"{SHARED}-"))
        ]
        pools = self._api.list(POOLS, labels={TASK_LABEL: None})
        swarms = {row async for _, row in readable("SandboxWarmPool", pools, _task, self._failures)}
        used_in: dict[str, str] = {}  # the class in which each volume is or was used
        volumes: list[Volume] = []
        failures_before = len(self._failures)
        async for document, volume in readable(
            "PersistentVolume", self._api.list(VOLUMES), _our_volume, self._failures
        ):
            if volume is not None:
                volumes.append(volume)
                used_in[volume.name] = sys.intern(_used_in(document) or home_class(document))
        # Access points without a volume are known only if every volume could be read.
        points = await self._points() if len(self._failures) == failures_before else None
        now = self._context.clock.now()
        if points is not None:
            await self._tag(volumes, used_in, points)
            await self._mark(volumes, points, now)
        stored = Inventory(
            _with_volumes(claims, volume_claims, volumes),
            volume_claims,
            volumes,
            None if points is None else [_point(document) for document in points.values()],
            swarms,
        )
        rows = orphans(stored, now)
        for row in rows:
            facts = {"kind": row.kind, "name": row.name, "why": row.why, "heal": row.heal, **row.about}
            _LOG.warning("an orphaned object was found", extra={"facts": facts})
            if row.heal != "nothing" and self._should_continue() and self._steps < MOST:
                await self._heal(row, now)
        self._context.metrics.findings("slots", _count_by_kind(row.kind for row in rows))
        return PassResult(self._steps, self._steps >= MOST, tuple(self._failures))

    async def _points(self) -> dict[str, audits.Point] | None:
        if self._context.points is None:
            return None
        try:
            return {
                point.id: point
                for system in self._context.file_systems
                for point in await asyncio.to_thread(self._context.points.of, system)
                if _is_home(point.path)
            }
        except Exception as failure:  # noqa: BLE001 - objects of the cluster are checked without EFS
            self._failures.append(f"EFS: {failure}")
            return None

    async def _tag(
        self, volumes: Sequence[Volume], used_in: Mapping[str, str], points: Mapping[str, audits.Point]
    ) -> None:
        """Tag access points with owner and class, for the bill and the audit, even if the cluster is lost.

        An access point with another owner's tag keeps it, and is reported: the tag may be the only evidence of whose
        files these are.
        """
        owners = {point.id: (point.tags or {}).get(USER_TAG) or None for point in points.values()}
        for volume in volumes:
            point = points.get(volume.point)
            if point is None or not volume.owner or volume.phase == GOING:
                continue
            if owners[point.id] not in {None, volume.owner}:
                continue
            owners[point.id] = volume.owner
            expected = {USER_TAG: volume.owner, CLASS_TAG: used_in[volume.name]}
            if expected.items() - (point.tags or {}).items():
                await self._add_tags(point.id, expected)

    async def _mark(self, volumes: Sequence[Volume], points: Mapping[str, audits.Point], now: datetime) -> None:
        """Tag access points without a volume with the time, which a restarted replica does not remember."""
        used = {volume.point for volume in volumes}
        for point in points.values():
            marked = ORPHAN_TAG in (point.tags or {})
            if point.id not in used and not marked:
                await self._add_tags(point.id, {ORPHAN_TAG: format_timestamp(now)})
            elif point.id in used and marked and self._can_act():
                await self._remove_orphan_tag(point.id)

    def _can_act(self) -> bool:
        return self._should_continue() and self._steps < MOST and self._context.points is not None

    async def _add_tags(self, point: str, tags: Mapping[str, str]) -> None:
        if self._can_act() and self._context.points is not None:
            try:
                await asyncio.to_thread(self._context.points.tag, point, tags)
                self._steps += 1
            except Exception as failure:  # noqa: BLE001 - a failure of one access point does not stop the others
                self._failures.append(f"{point}: {failure}")

    async def _remove_orphan_tag(self, point: str) -> None:
        if self._context.points is not None:
            try:
                await asyncio.to_thread(self._context.points.untag, point, [ORPHAN_TAG])
                self._steps += 1
            except Exception as failure:  # noqa: BLE001 - nor does a tag that cannot be removed
                self._failures.append(f"{point}: {failure}")

    async def _heal(self, row: Orphan, now: datetime) -> None:
        space, _, name = row.name.partition("/")
        with isolated(self._failures, row.name):
            if row.kind == "volume-claim-without-swarm":
                self._steps += await self._delete_shared_claim(space, name, row.about)
            elif row.heal == "remove-volume-claim":
                self._steps += await delete_unused_volume_claim(self._api, space, name, row.about["uid"])
            elif row.heal == "restore":
                claim = await self._api.find(CLAIMS, name, space)
                if claim is not None:
                    self._steps += await repair_home(self._api, claim, row.about["has"], row.about["home"], now)

    async def _delete_shared_claim(self, namespace_: str, name: str, about: Mapping[str, str]) -> bool:
        """Delete the claim of a shared volume if its task is gone; the retention loop dates the volume."""
        task = {TASK_LABEL: about["task"]}
        for kind in (CLAIMS, POOLS):
            if await collect(self._api.list(kind, namespace_, task)):
                return False
        volume_claim = await self._api.find(VOLUME_CLAIMS, name, namespace_)
        if volume_claim is None or text(section(volume_claim, "metadata"), "uid") != about["uid"]:
            return False
        await delete_claim(self._api, volume_claim, None, self._context.clock.now())
        return True


def _task(document: Document) -> tuple[str, str]:
    """Return the namespace and the task of an object."""
    return required(document, "metadata", "namespace"), text(
        section(section(document, "metadata"), "labels"), TASK_LABEL
    )


def _is_home(path: str) -> bool:
    """Return whether a path is the home of a sandbox in a class: not a declared seat's, nor the class's base path."""
    class_, _, home = path.removeprefix(CLASSES).partition("/")
    return path.startswith(CLASSES) and bool(class_ and home)


def is_ours(volume: Document) -> bool:
    """Return whether the driver provisioned a volume for a class, also while its home is being emptied."""
    within = _claim_namespace(volume)
    of_class = within.startswith(namespace("")) or within == EMPTYING
    return section(section(volume, "spec"), "csi").get("driver") == DRIVER and of_class


def volume_of(volume: Document) -> Volume:
    """Return the fields of a volume that decisions need."""
    metadata, spec, status = section(volume, "metadata"), section(volume, "spec"), section(volume, "status")
    labels = section(metadata, "labels")
    return Volume(
        required(volume, "metadata", "name"),
        text(section(spec, "csi"), "volumeHandle").partition("::")[2],
        GOING if metadata.get("deletionTimestamp") else sys.intern(text(status, "phase")),
        sys.intern(text(spec, "persistentVolumeReclaimPolicy")),
        parse_timestamp(status.get("lastPhaseTransitionTime")),
        sys.intern(text(labels, USER_LABEL)),
        sys.intern(text(labels, WORKSPACE_LABEL)),
        text(section(spec, "claimRef"), "uid"),
        DESTROY_REQUESTED in labels,
    )


def _our_volume(volume: Document) -> Volume | None:
    return volume_of(volume) if is_ours(volume) else None


def _claim(document: Document) -> tuple[Claim, str] | None:
    """Return the fields of a claim, still without its volume, and the name of its sandbox."""
    metadata = section(document, "metadata")
    labels, annotations = section(metadata, "labels"), section(metadata, "annotations")
    created = parse_timestamp(metadata.get("creationTimestamp"))
    if created is None:
        return None
    claim = Claim(
        sys.intern(required(document, "metadata", "namespace")),
        sys.intern(required(document, "metadata", "name")),
        created,
        sys.intern(text(labels, USER_LABEL)),
        sys.intern(text(labels, WORKSPACE_LABEL)),
        last_active=parse_timestamp(annotations.get(LAST_ACTIVE)),
        going=bool(metadata.get("deletionTimestamp")),
        task=sys.intern(text(labels, TASK_LABEL)),
    )
    return claim, text(section(section(document, "status"), "sandbox"), "name")


def _with_volumes(
    claims: Sequence[tuple[Claim, str]], volume_claims: Sequence[VolumeClaim], volumes: Sequence[Volume]
) -> list[Claim]:
    """Return the claims, each with the current volume of its sandbox."""
    bound = {(row.namespace, row.name): row.volume for row in volume_claims}
    since = {row.name: row.since for row in volumes}
    with_volumes: list[Claim] = []
    for claim, sandbox in claims:
        volume = bound.get((claim.namespace, f"{HOME}-{sandbox}"), "")
        with_volumes.append(replace(claim, volume=volume, volume_since=since.get(volume)) if volume else claim)
    return with_volumes


def _volume_claim(document: Document) -> VolumeClaim:
    metadata, name = section(document, "metadata"), required(document, "metadata", "name")
    return VolumeClaim(
        sys.intern(required(document, "metadata", "namespace")),
        name,
        parse_timestamp(metadata.get("creationTimestamp")) or LATEST,
        bool(metadata.get("ownerReferences")) or bool(metadata.get("deletionTimestamp")),
        text(section(document, "spec"), "volumeName"),
        section(metadata, "labels").get(RETURNING_LABEL) == "true",
        required(document, "metadata", "uid"),
        text(section(metadata, "labels"), TASK_LABEL) if name.startswith(f"{SHARED}-") else "",
    )


def _point(point: audits.Point) -> Point:
    tags = point.tags or {}
    return Point(point.id, point.path, parse_timestamp(tags.get(ORPHAN_TAG)), tags.get(USER_TAG, ""))


def _used_in(volume: Document) -> str:
    return _claim_namespace(volume).removeprefix(namespace(""))


def _claim_namespace(volume: Document) -> str:
    return text(section(section(volume, "spec"), "claimRef"), "namespace")


def _count_by_kind(kinds: Iterator[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for kind in kinds:
        counts[kind] = counts.get(kind, 0) + 1
    return counts
