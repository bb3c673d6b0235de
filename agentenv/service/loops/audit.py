"""Audit what admission cannot check: whether each volume's access point has the right class, path and POSIX ids.

It changes nothing. Violations are logged and counted by a metric, for an alarm.
"""

from __future__ import annotations

import asyncio
import logging

from agentenv.core.classes.names import HOME_CLASS_LABEL, base_path, namespace
from agentenv.core.lifecycle.access_point_audit import Expected, Volume, audit
from agentenv.core.lifecycle.restore import home_class
from agentenv.core.values.object_fields import required, text
from agentenv.core.values.posix_ids import class_id, seat_id
from agentenv.core.workspaces.seats import FOLDER
from agentenv.service.kube.client import VOLUMES, Document, section
from agentenv.service.kube.unreadable import readable
from agentenv.service.loops.context import Context
from agentenv.service.loops.scheduler import PassResult, ShouldContinue
from agentenv.service.loops.slots import is_ours

SEATS = "seat-"
_LOG = logging.getLogger(__name__)


async def audit_access_points(context: Context, should_continue: ShouldContinue) -> PassResult:
    """Compare the volumes of all classes with their access points."""
    if context.points is None or not should_continue():
        return PassResult()
    # Volumes first: the access points of all listed volumes exist when access points are listed.
    systems, failures = tuple(context.file_systems), list[str]()
    listed = readable(
        "PersistentVolume", context.api.list(VOLUMES), lambda document: _ours(document, systems), failures
    )
    volumes = [volume async for _, volume in listed if volume is not None]
    points = {
        point.id: point
        for system in context.file_systems
        for point in await asyncio.to_thread(context.points.of, system)
    }
    violations = audit(volumes, points)
    counts: dict[str, int] = {}
    for violation in violations:
        counts[violation.wrong] = counts.get(violation.wrong, 0) + 1
        facts = {"volume": violation.volume, "wrong": violation.wrong, "why": violation.why}
        _LOG.error("a volume has a wrong access point", extra={"facts": facts})
    context.metrics.findings("audit", counts)
    return PassResult(len(violations), failures=tuple(failures))


def _ours(document: Document, file_systems: tuple[str, ...]) -> Volume | None:
    return volume_of(document, file_systems) if is_ours(document) else None


def volume_of(document: Document, file_systems: tuple[str, ...]) -> Volume:
    """Return a volume with its access point and the expected values."""
    metadata, spec = section(document, "metadata"), section(document, "spec")
    namespace_ = text(section(spec, "claimRef"), "namespace")
    created_class = home_class(document)
    name = required(document, "metadata", "name")
    if name.startswith(SEATS):
        seat = name.removeprefix(SEATS)
        expected = Expected(file_systems, f"{FOLDER}/{seat}-*", seat_id(seat), seat_id(seat))
    else:
        expected = Expected(
            file_systems, f"{base_path(created_class)}/{name}", class_id(created_class), class_id(created_class)
        )
    return Volume(
        name,
        text(section(spec, "csi"), "volumeHandle"),
        namespace_,
        created_class,
        namespace_.removeprefix(namespace("")),
        moved=HOME_CLASS_LABEL in section(metadata, "labels"),
        expected=expected,
    )
