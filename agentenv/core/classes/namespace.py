"""The namespace of a class, its service account, its ResourceQuota and its LimitRange.

The quota counts warm and claimed sandboxes of every release and of the release that it replaces: the new pool fills
before the old one is emptied, so both must fit.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import CLAIMABLE_BY, PARENT, SANDBOX, namespace, owner_labels
from agentenv.core.classes.pods.resources import GPU, Amounts, container_resources, format_amounts, pod_resources
from agentenv.core.classes.pools.sizes import max_sandboxes_with_rollover, max_volumes
from agentenv.core.classes.sizes import largest_size
from agentenv.core.nodes.tiers import TIER_LABEL
from agentenv.core.values.quantities import Quantity, size

if TYPE_CHECKING:
    from agentenv.core.classes.plan import ClassPlan

Plain = dict[str, Any]

ROLE_ANNOTATION = "eks.amazonaws.com/role-arn"


def namespace_document(plan: ClassPlan) -> Plain:
    """Return the namespace, with the restricted Pod Security Standard of the cluster's version."""
    parent = plan.settings.parent
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": namespace(plan.name),
            "labels": {**restricted(plan.version), **class_labels(plan)},
            "annotations": {CLAIMABLE_BY: claimable_by(plan), **({PARENT: parent} if parent else {})},
        },
    }


def restricted(version: str) -> dict[str, str]:
    """Return the labels that enforce the restricted Pod Security Standard of a Kubernetes version."""
    return {
        f"pod-security.kubernetes.io/{mode}{suffix}": value
        for mode in ("enforce", "audit", "warn")
        for suffix, value in (("", "restricted"), ("-version", f"v{version}"))
    }


def account(plan: ClassPlan, role_arn: Any = None) -> Plain:
    """Return the service account of sandboxes. It has no RBAC permissions; the IAM role may have AWS permissions."""
    annotations = {} if role_arn is None else {ROLE_ANNOTATION: role_arn}
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {**_metadata(plan), **({"annotations": annotations} if annotations else {})},
        "automountServiceAccountToken": False,
    }


def quota(plan: ClassPlan) -> Plain:
    """Return the ResourceQuota of the namespace.

    Each sandbox may have the largest size. The quota limits pods and volumes, not Sandbox objects: Kubernetes refuses
    all objects of a kind that it has not counted yet, and it takes minutes until it counts a kind whose definition is
    new.
    """
    count = max_pods(plan)
    pod = pod_resources(plan, largest_size(plan.settings))
    hard = {
        "pods": str(count),
        **{f"requests.{name}": value for name, value in format_amounts(_times(pod.requests, count)).items()},
        **{f"limits.{name}": value for name, value in format_amounts(_times(pod.limits, count)).items() if name != GPU},
        **_volumes(plan),
        # Sandboxes have no Services: they are reached through the workspace service only.
        "services": "0",
    }
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": _metadata(plan), "spec": {"hard": hard}}


def limits(plan: ClassPlan) -> Plain:
    """Return the LimitRange: maximums of containers, pods and volumes, and the defaults of containers."""
    container, largest = container_resources(plan), largest_size(plan.settings)
    rows: list[Plain] = [
        {
            "type": "Container",
            "max": format_amounts(_required_amounts(container_resources(plan, largest).limits)),
            "default": format_amounts(_required_amounts(container.limits)),
            "defaultRequest": format_amounts(_required_amounts(container.requests)),
        },
        {"type": "Pod", "max": format_amounts(_required_amounts(pod_resources(plan, largest).limits))},
    ]
    if volume := _largest_volume(plan):
        rows.append({"type": "PersistentVolumeClaim", "max": {"storage": size(volume)}})
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": _metadata(plan), "spec": {"limits": rows}}


def max_pods(plan: ClassPlan) -> int:
    """Return the maximum number of sandboxes: claimed, warm, declared, and warm of releases that are retired."""
    return max_sandboxes_with_rollover(plan.settings) + len(plan.seats)


def claimable_by(plan: ClassPlan) -> str:
    """Return who may claim a sandbox, as JSON: roles and token claims, of which one is enough."""
    return json.dumps(plan.settings.claimable_by.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))


def class_labels(plan: ClassPlan) -> dict[str, str]:
    """Return the labels of all objects in a class's namespace."""
    return {CLASS_LABEL: plan.name, TIER_LABEL: plan.settings.tier, **owner_labels(plan)}


def _volumes(plan: ClassPlan) -> dict[str, str]:
    own = max_volumes(plan.settings)
    seats = sum((Quantity.parse(seat.size).value for seat in plan.seats), Decimal(0))
    stored = own * plan.settings.storage.size.value + seats
    return {"persistentvolumeclaims": str(own + len(plan.seats)), "requests.storage": size(stored)}


def _largest_volume(plan: ClassPlan) -> Decimal:
    homes = [plan.settings.storage.size.value] if plan.slots else []
    return max([*homes, *(Quantity.parse(seat.size).value for seat in plan.seats)], default=Decimal(0))


def _required_amounts(amounts: Amounts) -> Amounts:
    """Return the amounts without GPUs: a maximum in a LimitRange would force every container to request them."""
    return {name: value for name, value in amounts.items() if name != GPU}


def _times(amounts: Amounts, count: int) -> Amounts:
    return {name: value * count for name, value in amounts.items()}


def _metadata(plan: ClassPlan) -> Plain:
    return {"name": SANDBOX, "namespace": namespace(plan.name), "labels": class_labels(plan)}
