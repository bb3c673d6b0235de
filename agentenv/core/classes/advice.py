"""Notes on a class that a preview shows: consequences of its settings that are not errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentenv.core.capabilities.from_settings import egress_of
from agentenv.core.capabilities.grants import grants_of
from agentenv.core.capabilities.resolve import notes
from agentenv.core.capabilities.sets.boxes import VERSIONS
from agentenv.core.classes.names import SHARED_PATH
from agentenv.core.classes.pods.network_gate import gate_note

if TYPE_CHECKING:
    from agentenv.core.capabilities.sets.intervals import Intervals
    from agentenv.core.capabilities.sets.reach import Reach
    from agentenv.core.classes.plan import ClassPlan

HTTPS = 443


def class_notes(plan: ClassPlan) -> tuple[str, ...]:
    """Return the notes that a preview shows for a class."""
    grant_notes = (f"class {plan.name}: {note}" for note in notes(grants_of(plan.settings.capabilities), plan.cluster))
    class_notes = (gate_note(plan.settings, plan.cluster), _image_note(plan), _lock_note(plan))
    return (*grant_notes, *(note for note in class_notes if note))


def _image_note(plan: ClassPlan) -> str:
    """Return a note for a Fargate class that reaches no registry: AWS does not document how Fargate pulls images."""
    reaches = [bounds.most for bounds in egress_of(plan.settings, plan.cluster).worlds.values()]
    if not plan.on_fargate or any(HTTPS in ports for reach in reaches for ports in _open_to_tcp(reach)):
        return ""
    return (
        f"class {plan.name} on Fargate may reach nothing on TCP 443, and Fargate is reported to pull images through the"
        " pod's own network interface: grant web, or the address ranges of the registries' endpoints"
    )


def _lock_note(plan: ClassPlan) -> str:
    """Return a note for a class whose sandboxes share a folder, each with a kernel that knows its own locks only."""
    if plan.settings.storage.kind != "shared" or plan.wall is None or plan.wall.runtime_class is None:
        return ""
    return (
        f"class {plan.name} shares {SHARED_PATH} between sandboxes with kernels of their own: flock and fcntl locks of"
        " one do not exclude another, so SQLite loses writes there; create lock files with O_EXCL, or use tier verified"
    )


def _open_to_tcp(reach: Reach) -> list[Intervals]:
    return [ports for version in VERSIONS for _, _, ports in reach.boxes.slabs((version, "TCP"))]
