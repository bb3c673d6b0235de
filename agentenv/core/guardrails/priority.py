"""The priority of sandboxes among pods."""

from __future__ import annotations

from typing import Any

NAME = "sandbox"
# That of pods which say nothing. Pods that only keep room have less and give way; what the cluster cannot do without
# has Kubernetes's own, far above. Nothing between them ends somebody's computer.
VALUE = 0


def priority_class() -> dict[str, Any]:
    """The PriorityClass that every sandbox has."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": NAME},
        "value": VALUE,
        "globalDefault": False,
        "preemptionPolicy": "PreemptLowerPriority",
        "description": "Sandboxes: they take the place of pods that only keep room, and give theirs to no other pod.",
    }
