"""Decide on the resize of a running pod, as a kubelet does: by its node's capacity and the memory in use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from agentenv.core.values.quantities import Quantity
from agentenv.rehearsal.controlplane.client import PodApi

Object = dict[str, Any]

PENDING, IN_PROGRESS = "PodResizePending", "PodResizeInProgress"


@dataclass(frozen=True)
class Resize:
    """The resources that a container has after a request, and a condition if they are not the requested ones."""

    resources: Object
    condition: Object | None = None

    def conditions(self) -> list[Object]:
        """Return the changes of the pod's conditions, as a strategic merge patch."""
        current = self.condition["type"] if self.condition else None
        removed = [{"type": kind, "$patch": "delete"} for kind in (PENDING, IN_PROGRESS) if kind != current]
        return [*removed, *([self.condition] if self.condition else [])]


def decide(client: PodApi, pod: Object, current: Object, used_memory: Callable[[], int]) -> Resize:
    """Return what a pod's container gets of the resources that its specification requests now."""
    spec = pod["spec"]
    requested: Object = spec["containers"][0].get("resources") or {}
    if requested == current:
        return Resize(current)
    node = client.find(f"/api/v1/nodes/{spec['nodeName']}") or {}
    allocatable: Object = (node.get("status") or {}).get("allocatable") or {}
    pods = client.request("GET", "/api/v1/pods", query={"fieldSelector": f"spec.nodeName={spec['nodeName']}"})["items"]
    others = [row for row in pods if row["metadata"]["uid"] != pod["metadata"]["uid"] and _runs(row)]
    for name in ("cpu", "memory"):
        capacity, needed = _amount(allocatable, name), _requests([pod], name)
        if needed <= _requests([_with(pod, current)], name):
            continue
        if needed > capacity:
            text = f"Node didn't have enough capacity: {name}, requested: {needed}, capacity: {capacity}"
            return Resize(current, _condition(pod, PENDING, "Infeasible", text))
        if needed + _requests(others, name) > capacity:
            text = f"Node didn't have enough resource: {name}"
            return Resize(current, _condition(pod, PENDING, "Deferred", text))
    limit = _amount(requested.get("limits") or {}, "memory")
    if limit < _amount(current.get("limits") or {}, "memory") and (used := used_memory()) > limit:
        text = f"attempting to set pod memory limit ({limit}) below current usage ({used})"
        return Resize(current, _condition(pod, IN_PROGRESS, "Error", text))
    return Resize(requested)


def _condition(pod: Object, kind: str, reason: str, message: str) -> Object:
    seen = pod["metadata"].get("generation", 0)
    return {"type": kind, "status": "True", "reason": reason, "message": message, "observedGeneration": seen}


def _with(pod: Object, resources: Object) -> Object:
    first, *rest = pod["spec"]["containers"]
    return {**pod, "spec": {**pod["spec"], "containers": [{**first, "resources": resources}, *rest]}}


def _runs(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") not in {"Succeeded", "Failed"}


def _requests(pods: Iterable[Object], name: str) -> Decimal:
    """Return what pods request, with the overhead of their runtime classes; init containers never request more."""
    total = Decimal(0)
    for pod in pods:
        rows = [(row.get("resources") or {}).get("requests") or {} for row in pod["spec"]["containers"]]
        total += sum((_amount(row, name) for row in [*rows, pod["spec"].get("overhead") or {}]), Decimal(0))
    return total


def _amount(amounts: Object, name: str) -> Decimal:
    return Quantity.parse(str(amounts.get(name, "0"))).value
