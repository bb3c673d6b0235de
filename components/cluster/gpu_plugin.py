"""The device plugin: without it no node says that it has graphics processors, and no sandbox with one is ever placed.

It runs on their nodes only, and is the one thing of the platform that reaches into a node; so it has a namespace of its
own, in which it is the only pod.
"""

from collections.abc import Sequence
from typing import Any

import pulumi
from pulumi_kubernetes.apps import v1 as apps
from pulumi_kubernetes.core import v1 as core

from agentenv.components._lib.namespace_network_policy import create_network_policy, network_policy_spec
from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.tags import Labels
from agentenv.core.nodes.node_pools import NodePool
from agentenv.core.nodes.tiers import GPU_LABEL, GPU_PLUGIN, GPU_TAINT, TIER_LABEL

NAME = "nvidia-device-plugin"
# Where the kubelet listens for plugins: a directory of the node, which no lesser standard lets a pod have.
_SOCKETS = "/var/lib/kubelet/device-plugins"
_SECURITY = {f"pod-security.kubernetes.io/{mode}": "privileged" for mode in ("enforce", "audit", "warn")}


def plugin(image: str) -> dict[str, Any]:
    """The DaemonSet's specification."""
    marks = {"app.kubernetes.io/name": NAME}
    amounts = {"cpu": "20m", "memory": "64Mi"}
    security = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    return {
        "selector": {"matchLabels": marks},
        "updateStrategy": {"type": "RollingUpdate"},
        "template": {
            "metadata": {"labels": marks},
            "spec": {
                "nodeSelector": {GPU_LABEL: "true"},
                "tolerations": [{"key": key, "operator": "Exists"} for key in (TIER_LABEL, GPU_TAINT)],
                "priorityClassName": "system-node-critical",
                "automountServiceAccountToken": False,
                "enableServiceLinks": False,
                "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [
                    {
                        "name": NAME,
                        "image": image,
                        "resources": {"requests": amounts, "limits": {**amounts, "cpu": "200m"}},
                        "securityContext": security,
                        "volumeMounts": [{"name": "sockets", "mountPath": _SOCKETS}],
                    }
                ],
                "volumes": [{"name": "sockets", "hostPath": {"path": _SOCKETS, "type": "Directory"}}],
            },
        },
    }


def create_device_plugin(
    pools: Sequence[NodePool], image: str, after: Sequence[pulumi.Resource], labels: Labels, child: ChildOptions
) -> list[pulumi.Resource]:
    """Make the plugin if some pool has graphics processors; it is there before their nodes, and goes after them."""
    if not any(pool.node_class.gpu for pool in pools):
        return []
    name = f"{labels.base}-gpu"
    space = core.Namespace(
        name,
        metadata={"name": GPU_PLUGIN, "labels": _SECURITY},
        opts=child(pulumi.ResourceOptions(depends_on=list(after), custom_timeouts=pulumi.CustomTimeouts(delete="15m"))),
    )
    # It speaks with the kubelet over a socket of the node, and with nobody over the network.
    closed = create_network_policy(name, space.metadata.name, network_policy_spec((), ()), child)
    daemons = apps.DaemonSet(
        name,
        metadata={"name": NAME, "namespace": GPU_PLUGIN},
        spec=plugin(image),  # pyright: ignore[reportArgumentType] - plain data of its shape
        opts=child(pulumi.ResourceOptions(depends_on=[space, closed])),
    )
    return [daemons]
