"""The NVIDIA device plugin: without it no node reports GPUs, and no sandbox with a GPU is scheduled.

It runs on GPU nodes only. It is the only privileged pod of the platform, so it has a namespace of its own.
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
# The kubelet's plugin directory. It is a hostPath volume, which only the `privileged` standard allows.
_SOCKETS = "/var/lib/kubelet/device-plugins"
_SECURITY = {f"pod-security.kubernetes.io/{mode}": "privileged" for mode in ("enforce", "audit", "warn")}


def daemon_set_spec(image: str) -> dict[str, Any]:
    """Return the spec of the DaemonSet."""
    match_labels = {"app.kubernetes.io/name": NAME}
    resources = {"cpu": "20m", "memory": "64Mi"}
    security = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    return {
        "selector": {"matchLabels": match_labels},
        "updateStrategy": {"type": "RollingUpdate"},
        "template": {
            "metadata": {"labels": match_labels},
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
                        "resources": {"requests": resources, "limits": {**resources, "cpu": "200m"}},
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
    """Create the plugin if a pool has GPUs; it is created before their nodes and deleted after them."""
    if not any(pool.node_class.gpu for pool in pools):
        return []
    name = f"{labels.base}-gpu"
    namespace = core.Namespace(
        name,
        metadata={"name": GPU_PLUGIN, "labels": _SECURITY},
        opts=child(pulumi.ResourceOptions(depends_on=list(after), custom_timeouts=pulumi.CustomTimeouts(delete="15m"))),
    )
    # It talks to the kubelet over a socket, and to nothing over the network.
    network_policy = create_network_policy(name, namespace.metadata.name, network_policy_spec((), ()), child)
    daemon_set = apps.DaemonSet(
        name,
        metadata={"name": NAME, "namespace": GPU_PLUGIN},
        spec=daemon_set_spec(image),  # pyright: ignore[reportArgumentType] - plain data of its shape
        opts=child(pulumi.ResourceOptions(depends_on=[namespace, network_policy])),
    )
    return [daemon_set]
