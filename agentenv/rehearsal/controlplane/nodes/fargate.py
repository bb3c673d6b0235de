"""Pods on Fargate, as EKS does it: a webhook marks them when they are made, a scheduler gives each a node of its own.

A pod that is made before its profile is never marked and waits for a node, as on EKS. Simplified: a node comes at once
(on EKS after about a minute), its address and zone are made up from the profile's first subnet, and pods of a deleted
profile stay.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from agentenv.core.nodes.fargate_sizes import Size, size_up
from agentenv.core.values.quantities import Quantity

Object = dict[str, Any]

SCHEDULER = "fargate-scheduler"
LABEL = "eks.amazonaws.com/fargate-profile"
COMPUTE = "eks.amazonaws.com/compute-type"


@dataclass(frozen=True)
class Profile:
    """A Fargate profile: its name and the pods it selects."""

    name: str
    selectors: tuple[tuple[str, Mapping[str, str]], ...]
    active: bool = True

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether a pod is this profile's: namespace and every label have to match, `*` and `?` allowed."""
        return any(
            fnmatch.fnmatchcase(namespace, space)
            and all(name in labels and fnmatch.fnmatchcase(labels[name], value) for name, value in wanted.items())
            for space, wanted in self.selectors
        )


def profile(told: Mapping[str, Any]) -> Profile:
    """Read one as DescribeFargateProfile tells it."""
    selectors = tuple((row["namespace"], dict(row.get("labels") or {})) for row in told.get("selectors") or ())
    return Profile(told["fargateProfileName"], selectors, told.get("status", "ACTIVE") == "ACTIVE")


def chosen(profiles: Iterable[Profile], namespace: str, labels: Mapping[str, str]) -> Profile | None:
    """The profile that takes a pod: the one its label names, else the first by name of those that select it."""
    matching = sorted((one for one in profiles if one.selects(namespace, labels)), key=lambda one: one.name)
    wanted = labels.get(LABEL)
    if wanted is not None:
        matching = [one for one in matching if one.name == wanted]
    return matching[0] if matching else None


def patch(pod: Object, taken_by: Profile) -> list[Object]:
    """What the webhook changes in a new pod, as a JSON patch."""
    labels = {**pod["metadata"].get("labels", {}), LABEL: taken_by.name}
    return [
        {"op": "add", "path": "/metadata/labels", "value": labels},
        {"op": "add", "path": "/spec/schedulerName", "value": SCHEDULER},
    ]


def unsupported(spec: Object) -> list[str]:
    """What in a pod's spec Fargate does not take."""
    found = [field for field in ("hostNetwork", "hostPID", "hostIPC", "runtimeClassName") if spec.get(field)]
    for volume in spec.get("volumes") or ():
        found.extend(
            f"volumes {volume['name']} ({kind})" for kind in ("hostPath", "awsElasticBlockStore") if kind in volume
        )
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        name, security = container["name"], container.get("securityContext") or {}
        if security.get("privileged"):
            found.append(f"privileged container {name}")
        if any(port.get("hostPort") for port in container.get("ports") or ()):
            found.append(f"host port of container {name}")
        resources = container.get("resources") or {}
        asked = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
        found.extend(f"{kind} of container {name}" for kind in asked if kind.endswith("/gpu"))
    return found


def size(spec: Object) -> Size | None:
    """What Fargate provides for a pod, or None if it asks for more than there is."""
    cpu, memory = (_requested(spec, name) for name in ("cpu", "memory"))
    return size_up(cpu, memory)


def capacity(provided: Size) -> str:
    """The size as EKS writes it into the pod's annotation `CapacityProvisioned`."""
    return f"{provided.cpu}vCPU {provided.memory}GB"


def _requested(spec: Object, name: str) -> Decimal:
    """Everything that runs at the same time, or the largest init container if that is more."""
    sidecars = [one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]
    first = [one for one in spec.get("initContainers") or () if one.get("restartPolicy") != "Always"]
    together = sum((_request(one, name) for one in (*sidecars, *spec["containers"])), Decimal(0))
    return max([together, *(_request(one, name) for one in first)])


def _request(container: Object, name: str) -> Decimal:
    resources = container.get("resources") or {}
    asked = (resources.get("requests") or {}).get(name) or (resources.get("limits") or {}).get(name) or "0"
    return Quantity.parse(str(asked)).value
