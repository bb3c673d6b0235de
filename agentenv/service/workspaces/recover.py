"""Recover workspaces in a cluster that has lost them, from the records of homes and from access points.

An access point of a home that still exists gets its volume again; nothing of it is started. What has a volume already
is left unchanged, so a recovery may be killed and repeated. A record whose access point is gone is lost, and so is one
that names another owner than the access point: both are reported, and nothing is created for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from agentenv.core.classes.names import HOME, USER_LABEL, WORKSPACE_LABEL, base_path, storage_class
from agentenv.core.lifecycle.access_point_audit import Point
from agentenv.core.values.object_fields import section, text
from agentenv.core.workspaces.recovery import HomeRecord, record_of_point, recovered_volume
from agentenv.core.workspaces.seats import CLASS_TAG, USER_TAG
from agentenv.service.kube.client import CLAIMS, VOLUMES, KubeApi, KubeApiError


@dataclass
class Recovery:
    """The result: the homes with an owner, the workspaces that can be used again, and what is lost."""

    homes: int = 0
    workspaces: int = 0
    created: int = 0  # volumes, by this run
    lost: list[str] = field(default_factory=list[str])
    tags_only: list[str] = field(default_factory=list[str])  # workspaces with a new id


@dataclass(frozen=True)
class Recovering:
    """A recovery: where to, and what is known of classes."""

    api: KubeApi
    capacities: Mapping[str, str]  # of the homes of each class
    file_systems: Sequence[str]  # in the order of shards
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    progress: Callable[[int, int], None] = lambda _, __: None

    async def run(self, records: Iterable[HomeRecord], points: Iterable[Point]) -> Recovery:
        """Create the volumes that are missing."""
        found = Recovery()
        by_handle = {f"{point.file_system}::{point.id}": point for point in points}
        by_record = {record.handle: record for record in records}
        existing = {
            text(section(section(volume, "spec"), "csi"), "volumeHandle"): section(
                section(volume, "metadata"), "labels"
            )
            async for volume in self.api.list(VOLUMES)
        }
        chosen = [*self._with_point(by_record, by_handle, found), *self._of_tags(by_record, by_handle, found)]
        found.homes = len(chosen) + len(found.lost)
        for count, record in enumerate(chosen, 1):
            await self._create(record, existing, found)
            self.progress(count, len(chosen))
        return found

    def _with_point(
        self, records: Mapping[str, HomeRecord], points: Mapping[str, Point], found: Recovery
    ) -> Iterable[HomeRecord]:
        for handle, record in records.items():
            name = record.labels.get(WORKSPACE_LABEL) or record.claim
            point = points.get(handle)
            if point is None:
                found.lost.append(f"{name} of {record.owner}: its access point {handle} is gone")
            elif (point.tags or {}).get(USER_TAG, record.owner) != record.owner:
                found.lost.append(f"{name} of {record.owner}: its access point {handle} has another owner's tag")
            else:
                yield record

    def _of_tags(
        self, records: Mapping[str, HomeRecord], points: Mapping[str, Point], found: Recovery
    ) -> Iterable[HomeRecord]:
        """Return records for access points that have an owner and no record: claimed just before the loss."""
        for handle, point in points.items():
            tags = point.tags or {}
            owner, class_name = tags.get(USER_TAG), tags.get(CLASS_TAG, "")
            if handle in records or not owner or not point.path.startswith(f"{base_path(class_name)}/"):
                continue
            if class_name not in self.capacities or point.file_system not in self.file_systems:
                found.lost.append(f"{handle} of {owner}: class {class_name or 'unknown'} is not in the stack")
                continue
            shard = self.file_systems.index(point.file_system)
            name = storage_class(class_name, shard)
            record = record_of_point(handle, owner, class_name, name, self.capacities[class_name])
            found.tags_only.append(f"{record.labels[WORKSPACE_LABEL]} of {owner}")
            yield record

    async def _create(self, record: HomeRecord, existing: Mapping[str, Mapping[str, str]], found: Recovery) -> None:
        name = record.labels.get(WORKSPACE_LABEL) or record.claim
        labels = existing.get(record.handle)
        if labels is None:
            try:
                # A claim without this home would be another one of the same id.
                claim = await self.api.find(CLAIMS, record.claim.removeprefix(f"{HOME}-"), record.namespace)
                if claim is None and await self.api.create(VOLUMES, recovered_volume(record, self.now())) is not None:
                    found.created += 1
                    labels = record.labels
            except KubeApiError as refusal:
                found.lost.append(f"{name} of {record.owner}: {refusal}")
                return
        if labels is None or labels.get(USER_LABEL) != record.owner:
            found.lost.append(f"{name} of {record.owner}: a volume or claim of its name exists with other data")
        elif WORKSPACE_LABEL in record.labels:
            found.workspaces += 1
