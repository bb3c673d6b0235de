"""Headroom: idle pods of low priority that reserve capacity for sandboxes, which preempt them.

Karpenter's own feature for this is not stable; pods of low priority work everywhere. When a sandbox preempts a headroom
pod, the pod becomes pending and Karpenter launches another node, before the next sandbox needs it.

Karpenter removes only empty sandbox nodes. So a headroom pod keeps its node until the node expires, even where a
smaller node had capacity for it. This bounds the cost of headroom by the number of headroom pods.
"""

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi_kubernetes.apps import v1 as apps
from pulumi_kubernetes.scheduling import v1 as scheduling

from agentenv.components._lib.namespace_network_policy import create_network_policy, network_policy_spec
from agentenv.components._lib.namespaces import create_restricted_namespace
from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.tags import Labels
from agentenv.config.sections.capacity import Headroom
from agentenv.core.nodes.tiers import Wall, placement
from agentenv.core.pinned_versions import releases
from agentenv.core.plan import CapacityPlan

NAMESPACE = "headroom"
PRIORITY = "headroom"


def headroom_deployment_spec(name: str, wall: Wall, capacity: str, headroom: Headroom, image: str) -> dict[str, Any]:
    """Return the spec of the Deployment of headroom pods on one kind of node."""
    match_labels = {"app.kubernetes.io/name": "headroom", "app.kubernetes.io/instance": name}
    scheduling_terms = placement(wall, capacity)
    resources = {"cpu": str(headroom.cpu), "memory": str(headroom.memory)}
    return {
        "replicas": headroom.pods,
        "selector": {"matchLabels": match_labels},
        "template": {
            "metadata": {"labels": match_labels},
            "spec": {
                # Without the runtime class of sandboxes, and so without its pod overhead: a headroom pod is a little
                # smaller than the sandbox that preempts it, and starts a little sooner.
                "nodeSelector": scheduling_terms["nodeSelector"],
                "tolerations": scheduling_terms["tolerations"],
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
                        "image": image,
                        "resources": {"requests": resources, "limits": resources},
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
    plan: CapacityPlan, node_pools: Mapping[str, pulumi.Resource], labels: Labels, child: ChildOptions
) -> None:
    """Create the headroom pods of each kind of sandbox node without GPUs."""
    headroom, image = plan.settings.headroom, plan.mirrors.image(releases().images["pause"])
    node_kinds = {
        pool.node_class.name: (pool.node_class.wall, pool.capacity)
        for pool in plan.pools
        if pool.node_class.wall and not pool.node_class.gpu
    }
    if not headroom.pods or not node_kinds:
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
    namespace = create_restricted_namespace(f"{labels.base}-headroom", NAMESPACE, child)
    network_policy = create_network_policy(
        f"{labels.base}-headroom", namespace.metadata.name, network_policy_spec((), ()), child
    )
    for name, (wall, capacity) in node_kinds.items():
        apps.Deployment(
            f"{labels.base}-headroom-{name}",
            metadata={
                "name": name,
                "namespace": namespace.metadata.name,
                # In a node pool at its limit these pods stay pending, which is not a failure.
                "annotations": {"pulumi.com/skipAwait": "true"},
            },
            spec=headroom_deployment_spec(name, wall, capacity, headroom, image),  # pyright: ignore[reportArgumentType] - plain data of its shape
            opts=child(pulumi.ResourceOptions(depends_on=[priority, network_policy, *node_pools.values()])),
        )
