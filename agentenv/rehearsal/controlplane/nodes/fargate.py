"""Pods on Fargate, as EKS runs them: a webhook marks them at creation, a scheduler gives each a node of its own.

A pod that is created before its profile is never marked and waits for a node, as on EKS. So does a pod that is created
in the first seconds of a profile, when the webhook does not know it yet (aws/karpenter-provider-aws#7455). Simplified:
a node is created at once (on EKS after about a minute), its address and zone are derived from the profile's first
subnet, and pods of a deleted profile stay.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from agentenv.core.nodes.fargate_profiles import SCHEDULER
from agentenv.core.nodes.fargate_sizes import Size, size_up
from agentenv.core.values.quantities import Quantity

Object = dict[str, Any]

LABEL = "eks.amazonaws.com/fargate-profile"
COMPUTE = "eks.amazonaws.com/compute-type"
WEBHOOK_SECONDS = 3.0  # from the creation of a profile until the webhook marks its pods


@dataclass(frozen=True)
class Profile:
    """A Fargate profile: its name and the pods it selects."""

    name: str
    selectors: tuple[tuple[str, Mapping[str, str]], ...]
    active: bool = True
    created_at: float = 0.0

    def marks_pods(self, now: float) -> bool:
        """Return whether the webhook knows the profile."""
        return self.active and now - self.created_at >= WEBHOOK_SECONDS

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Return whether the profile selects a pod: namespace and every label have to match, `*` and `?` allowed."""
        return any(
            fnmatch.fnmatchcase(namespace, pattern)
            and all(name in labels and fnmatch.fnmatchcase(labels[name], value) for name, value in required.items())
            for pattern, required in self.selectors
        )


def parse_profile(description: Mapping[str, Any]) -> Profile:
    """Parse a profile as DescribeFargateProfile returns it."""
    selectors = tuple((row["namespace"], dict(row.get("labels") or {})) for row in description.get("selectors") or ())
    active = description.get("status", "ACTIVE") == "ACTIVE"
    created_at = description["createdAt"].timestamp() if "createdAt" in description else 0.0
    return Profile(description["fargateProfileName"], selectors, active, created_at)


def select_profile(profiles: Iterable[Profile], namespace: str, labels: Mapping[str, str]) -> Profile | None:
    """Return the profile of a pod: the one that its label names, else the first by name of those that select it."""
    matching = sorted(
        (candidate for candidate in profiles if candidate.selects(namespace, labels)),
        key=lambda candidate: candidate.name,
    )
    label = labels.get(LABEL)
    if label is not None:
        matching = [candidate for candidate in matching if candidate.name == label]
    return matching[0] if matching else None


def patch(pod: Object, profile: Profile) -> list[Object]:
    """Return the webhook's JSON patch of a new pod."""
    labels = {**pod["metadata"].get("labels", {}), LABEL: profile.name}
    return [
        {"op": "add", "path": "/metadata/labels", "value": labels},
        {"op": "add", "path": "/spec/schedulerName", "value": SCHEDULER},
    ]


def unsupported(spec: Object) -> list[str]:
    """Return the parts of a pod's spec that Fargate does not support."""
    fields = [field for field in ("hostNetwork", "hostPID", "hostIPC", "runtimeClassName") if spec.get(field)]
    for volume in spec.get("volumes") or ():
        fields.extend(
            f"volumes {volume['name']} ({kind})" for kind in ("hostPath", "awsElasticBlockStore") if kind in volume
        )
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        name, security = container["name"], container.get("securityContext") or {}
        if security.get("privileged"):
            fields.append(f"privileged container {name}")
        if any(port.get("hostPort") for port in container.get("ports") or ()):
            fields.append(f"host port of container {name}")
        resources = container.get("resources") or {}
        quantities = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
        fields.extend(f"{kind} of container {name}" for kind in quantities if kind.endswith("/gpu"))
    return fields


def size(spec: Object) -> Size | None:
    """Return the size that Fargate provides for a pod, or None if it requests more than the largest."""
    cpu, memory = (_requested(spec, name) for name in ("cpu", "memory"))
    return size_up(cpu, memory)


def capacity(provided: Size) -> str:
    """Return the size as EKS writes it into the pod's annotation `CapacityProvisioned`."""
    return f"{provided.cpu}vCPU {provided.memory}GB"


def _requested(spec: Object, name: str) -> Decimal:
    """Return the sum of the containers that run at the same time, or the largest init container if that is more."""
    sidecars = [
        container for container in spec.get("initContainers") or () if container.get("restartPolicy") == "Always"
    ]
    first = [container for container in spec.get("initContainers") or () if container.get("restartPolicy") != "Always"]
    total = sum((_request(container, name) for container in (*sidecars, *spec["containers"])), Decimal(0))
    return max([total, *(_request(container, name) for container in first)])


def _request(container: Object, name: str) -> Decimal:
    resources = container.get("resources") or {}
    quantity = (resources.get("requests") or {}).get(name) or (resources.get("limits") or {}).get(name) or "0"
    return Quantity.parse(str(quantity)).value
