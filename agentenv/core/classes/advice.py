"""What somebody who wrote a class might not expect of it, in plain words: no mistakes, and good to know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentenv.core.capabilities.from_settings import egress_of
from agentenv.core.capabilities.grants import grants_of
from agentenv.core.capabilities.resolve import notes
from agentenv.core.capabilities.sets.boxes import VERSIONS
from agentenv.core.classes.pods.network_gate import gate_note

if TYPE_CHECKING:
    from agentenv.core.capabilities.sets.intervals import Intervals
    from agentenv.core.capabilities.sets.reach import Reach
    from agentenv.core.classes.plan import ClassPlan

HTTPS = 443


def class_notes(plan: ClassPlan) -> tuple[str, ...]:
    """What to tell of a class whenever it is previewed."""
    of_grants = (f"class {plan.name}: {note}" for note in notes(grants_of(plan.settings.capabilities), plan.cluster))
    others = (gate_note(plan.settings, plan.cluster), _image_note(plan))
    return (*of_grants, *(note for note in others if note))


def _image_note(plan: ClassPlan) -> str:
    """Where no registry can be reached: AWS does not say which way an image takes to Fargate."""
    reaches = [bounds.most for bounds in egress_of(plan.settings, plan.cluster).worlds.values()]
    if not plan.on_fargate or any(HTTPS in ports for reach in reaches for ports in _open_to_tcp(reach)):
        return ""
    return (
        f"class {plan.name} on Fargate may reach nothing on TCP 443, and its images are, by all reports, pulled through"
        " its sandboxes' own interface: grant web, or the range in which their registries have their endpoints"
    )


def _open_to_tcp(reach: Reach) -> list[Intervals]:
    return [ports for version in VERSIONS for _, _, ports in reach.boxes.slabs((version, "TCP"))]
