"""The room of a class: its namespace, its account, and how much of the cluster it may take.

A quota counts what is there, warm and claimed, of every release and of the one that a release replaces: the new pool
fills before the old one goes, and both have to fit for as long.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import CLAIMABLE_BY, PARENT, SANDBOX, namespace, owner_labels
from agentenv.core.classes.pods.resources import GPU, Amounts, container_resources, format_amounts, pod_resources
from agentenv.core.classes.pools.sizes import max_sandboxes_with_rollover, max_volumes
from agentenv.core.nodes.tiers import TIER_LABEL
from agentenv.core.values.quantities import Quantity, size

if TYPE_CHECKING:
    from agentenv.core.classes.plan import ClassPlan

Plain = dict[str, Any]

ROLE_ANNOTATION = "eks.amazonaws.com/role-arn"


def namespace_document(plan: ClassPlan) -> Plain:
    """The namespace: with the strictest pod security there is, as this version of the cluster knows it."""
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
    """The labels by which a namespace takes no pod beyond the restricted standard of that version of Kubernetes."""
    return {
        f"pod-security.kubernetes.io/{mode}{what}": value
        for mode in ("enforce", "audit", "warn")
        for what, value in (("", "restricted"), ("-version", f"v{version}"))
    }


def account(plan: ClassPlan, role_arn: Any = None) -> Plain:
    """The account that sandboxes run as. The cluster gives it no rights; AWS may, by the role."""
    annotations = {} if role_arn is None else {ROLE_ANNOTATION: role_arn}
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {**_metadata(plan), **({"annotations": annotations} if annotations else {})},
        "automountServiceAccountToken": False,
    }


def quota(plan: ClassPlan) -> Plain:
    """How much of everything there may be in the namespace.

    Sandboxes are counted by their pods and volumes. Kubernetes would count the objects as well, but it refuses all of a
    kind that it has not counted yet, and it is minutes before it counts one whose definition is new.
    """
    count = max_pods(plan)
    pod = pod_resources(plan)
    hard = {
        "pods": str(count),
        **{f"requests.{name}": value for name, value in format_amounts(_times(pod.requests, count)).items()},
        **{f"limits.{name}": value for name, value in format_amounts(_times(pod.limits, count)).items() if name != GPU},
        **_volumes(plan),
        # No sandbox has an address of its own, and none is reached from outside but through the service.
        "services": "0",
    }
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": _metadata(plan), "spec": {"hard": hard}}


def limits(plan: ClassPlan) -> Plain:
    """How much one container, pod and volume may have, and what a container has that does not say."""
    container, pod = container_resources(plan), pod_resources(plan)
    rows: list[Plain] = [
        {
            "type": "Container",
            "max": format_amounts(_required_amounts(container.limits)),
            "default": format_amounts(_required_amounts(container.limits)),
            "defaultRequest": format_amounts(_required_amounts(container.requests)),
        },
        {"type": "Pod", "max": format_amounts(_required_amounts(pod.limits))},
    ]
    if volume := _largest_volume(plan):
        rows.append({"type": "PersistentVolumeClaim", "max": {"storage": size(volume)}})
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": _metadata(plan), "spec": {"limits": rows}}


def max_pods(plan: ClassPlan) -> int:
    """How many sandboxes there may be at once: claimed, warm, declared, and warm of releases on their way out."""
    return max_sandboxes_with_rollover(plan.settings) + len(plan.seats)


def claimable_by(plan: ClassPlan) -> str:
    """Who may claim one, as the service reads it: roles, and claims of tokens, of which one is enough."""
    return json.dumps(plan.settings.claimable_by.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))


def class_labels(plan: ClassPlan) -> dict[str, str]:
    """What everything of a class's room is found by."""
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
    """Amounts less those that a container may do without: whoever has a maximum of something has to ask for it."""
    return {name: value for name, value in amounts.items() if name != GPU}


def _times(amounts: Amounts, count: int) -> Amounts:
    return {name: value * count for name, value in amounts.items()}


def _metadata(plan: ClassPlan) -> Plain:
    return {"name": SANDBOX, "namespace": namespace(plan.name), "labels": class_labels(plan)}
