"""The audit of what admission cannot see: whether each access point is of the class, path and ids that it should be.

It changes nothing. What it finds is in the log and counted, and an alarm on that number is what it is for.
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


async def audit_access_points(context: Context, still: ShouldContinue) -> PassResult:
    """Look at every volume of every class, and at its access point."""
    if context.points is None or not still():
        return PassResult()
    # Volumes first: of one that is made meanwhile the access point is there already.
    systems, failures = tuple(context.file_systems), list[str]()
    listed = readable(
        "PersistentVolume", context.api.list(VOLUMES), lambda violation: _ours(violation, systems), failures
    )
    volumes = [volume async for _, volume in listed if volume is not None]
    points = {
        violation.id: violation
        for system in context.file_systems
        for violation in await asyncio.to_thread(context.points.of, system)
    }
    violations = audit(volumes, points)
    counts: dict[str, int] = {}
    for violation in violations:
        counts[violation.wrong] = counts.get(violation.wrong, 0) + 1
        facts = {"volume": violation.volume, "wrong": violation.wrong, "why": violation.why}
        _LOG.error("a volume does not lead where it should", extra={"facts": facts})
    context.metrics.findings("audit", counts)
    return PassResult(len(violations), failures=tuple(failures))


def _ours(document: Document, file_systems: tuple[str, ...]) -> Volume | None:
    return volume_of(document, file_systems) if is_ours(document) else None


def volume_of(document: Document, file_systems: tuple[str, ...]) -> Volume:
    """A volume, and where it should lead."""
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
