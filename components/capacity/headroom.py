"""Room kept free for sandboxes that are not there yet: pods that hold it, do nothing, and give way at once.

What Karpenter offers for this is not finished; pods of low priority work everywhere. When a sandbox takes a holder's
place, the holder waits for another node, which is launched before somebody waits for it.

A node with a holder is not empty, and only empty nodes of sandboxes are given up: so a holder keeps its node until that
expires, even where a smaller node had room for it. That is what kept room costs, and it is never more than the holders.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_kubernetes.apps import v1 as apps
from pulumi_kubernetes.scheduling import v1 as scheduling

from agentenv.components._lib.namespace_network_policy import create_network_policy, network_policy_spec
from agentenv.components._lib.namespaces import create_restricted_namespace
from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.tags import Labels
from agentenv.core.nodes.node_pools import NodePool
from agentenv.core.nodes.tiers import Wall, placement

NAMESPACE = "headroom"
PRIORITY = "headroom"


@dataclass(frozen=True)
class HeadroomPods:
    """How many pods hold room on each kind of node, and how much each holds."""

    pods: int
    cpu: str
    memory: str
    image: str


def headroom_deployment_spec(name: str, wall: Wall, capacity: str, holders: HeadroomPods) -> dict[str, Any]:
    """The specification of the holders on one kind of node."""
    marks = {"app.kubernetes.io/name": "headroom", "app.kubernetes.io/instance": name}
    placed = placement(wall, capacity)
    amounts = {"cpu": holders.cpu, "memory": holders.memory}
    return {
        "replicas": holders.pods,
        "selector": {"matchLabels": marks},
        "template": {
            "metadata": {"labels": marks},
            "spec": {
                # Without the wall's runtime class, whose share a sandbox needs as well: a holder is a little smaller
                # than what takes its place, and starts a little sooner.
                "nodeSelector": placed["nodeSelector"],
                "tolerations": placed["tolerations"],
                "priorityClassName": PRIORITY,
                "terminationGracePeriodSeconds": 0,
                "automountServiceAccountToken": False,
                "enableServiceLinks": False,
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 65535,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [
                    {
                        "name": "holder",
                        "image": holders.image,
                        "resources": {"requests": amounts, "limits": amounts},
                        "securityContext": {
                            "allowPrivilegeEscalation": False,
                            "readOnlyRootFilesystem": True,
                            "capabilities": {"drop": ["ALL"]},
                        },
                    }
                ],
            },
        },
    }


def create_headroom(
    pools: Sequence[NodePool],
    made: Mapping[str, pulumi.Resource],
    holders: HeadroomPods,
    labels: Labels,
    child: ChildOptions,
) -> None:
    """Make the holders of every kind of node that sandboxes run on, but of those with graphics processors."""
    kinds = {
        pool.node_class.name: (pool.node_class.wall, pool.capacity)
        for pool in pools
        if pool.node_class.wall and not pool.node_class.gpu
    }
    if not holders.pods or not kinds:
        return
    priority = scheduling.PriorityClass(
        f"{labels.base}-headroom",
        metadata={"name": PRIORITY},
        value=-1000,
        global_default=False,
        preemption_policy="Never",
        description="Gives way to every other pod, and makes none give way",
        opts=child(),
    )
    space = create_restricted_namespace(f"{labels.base}-headroom", NAMESPACE, child)
    closed = create_network_policy(f"{labels.base}-headroom", space.metadata.name, network_policy_spec((), ()), child)
    for name, (wall, capacity) in kinds.items():
        apps.Deployment(
            f"{labels.base}-headroom-{name}",
            metadata={
                "name": name,
                "namespace": space.metadata.name,
                # A pool at its limit has no room to hold, which is no failure.
                "annotations": {"pulumi.com/skipAwait": "true"},
            },
            spec=headroom_deployment_spec(name, wall, capacity, holders),  # pyright: ignore[reportArgumentType] - plain data of its shape
            opts=child(pulumi.ResourceOptions(depends_on=[priority, closed, *made.values()])),
        )
