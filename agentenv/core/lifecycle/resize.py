"""Resizing of a sandbox: the resources of its pod, the node's answer, and the time to grow.

A pod is resized in place. What its kubelet cannot do now, the sandbox gets with its next pod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from agentenv.config.sections.classes import SizeName
from agentenv.core.classes.names import SANDBOX
from agentenv.core.classes.pods.resources import CPU, MEMORY, ResourceRequirements
from agentenv.core.values.object_fields import number, rows, section, strings, text
from agentenv.core.values.quantities import Quantity

Plain = dict[str, Any]

# A sandbox grows when it uses this share of its memory limit.
NEAR_LIMIT = Decimal("0.9")
_RESIZED = (CPU, MEMORY)
_PENDING, _IN_PROGRESS = "PodResizePending", "PodResizeInProgress"


@dataclass(frozen=True)
class Verdict:
    """The state of a request: `waiting` before the node has answered, `denied` where the API server refused."""

    outcome: Literal["resized", "refused", "denied", "waiting"]
    why: str = ""


def with_resources(containers: Sequence[Mapping[str, Any]], target: ResourceRequirements) -> list[Plain]:
    """Return the containers of a pod spec, with the CPU and memory of the sandbox changed."""
    return [
        {**container, "resources": _changed(section(container, "resources"), target)}
        if container.get("name") == SANDBOX
        else dict(container)
        for container in containers
    ]


def has_resources(containers: Sequence[Mapping[str, Any]], target: ResourceRequirements) -> bool:
    """Return whether the sandbox among the containers, or their statuses, has the target CPU and memory."""
    resources = next((section(row, "resources") for row in containers if row.get("name") == SANDBOX), Plain())
    return all(
        _amount(strings(resources, part).get(name)) == amounts[name]
        for part, amounts in (("requests", target.requests), ("limits", target.limits))
        for name in _RESIZED
    )


def node_verdict(pod: Mapping[str, Any], target: ResourceRequirements) -> Verdict:
    """Return what a pod's node says of the resources that its spec requests."""
    status = section(pod, "status")
    for condition in rows(status, "conditions"):
        if condition.get("status") != "True" or condition.get("type") not in {_PENDING, _IN_PROGRESS}:
            continue
        seen = number(condition, "observedGeneration")
        if seen and seen < number(section(pod, "metadata"), "generation"):
            return Verdict("waiting")
        reason, message = text(condition, "reason"), text(condition, "message")
        if condition["type"] == _PENDING or reason == "Error":
            return Verdict("refused", f"{reason}: {message}" if message else reason)
        return Verdict("waiting")
    if has_resources(rows(status, "containerStatuses"), target):
        return Verdict("resized")
    return Verdict("waiting")


def next_size(sizes: Mapping[SizeName, ResourceRequirements], current: SizeName, used_memory: int) -> SizeName | None:
    """Return the size that a sandbox grows to; None while it has memory left, or where none has more."""
    limit = sizes[current].limits[MEMORY]
    if used_memory < limit * NEAR_LIMIT:
        return None
    return next((name for name, size in sizes.items() if size.limits[MEMORY] > limit), None)


def _changed(resources: Mapping[str, Any], target: ResourceRequirements) -> Plain:
    texts = target.to_kubernetes()
    return {
        **resources,
        **{
            part: {**section(resources, part), **{name: texts[part][name] for name in _RESIZED}}
            for part in ("requests", "limits")
        },
    }


def _amount(quantity: str | None) -> Decimal | None:
    try:
        return None if quantity is None else Quantity.parse(quantity).value
    except ValueError:
        return None
