"""NodeClaims: the objects that represent nodes that Karpenter launched.

A claim belongs to its pool and blocks its deletion in the foreground until Karpenter has deleted the claim's node.
Without a controller both wait, as on AWS.
"""

from __future__ import annotations

from typing import Any

from agentenv.rehearsal.controlplane.nodes.kwok_nodes import NodeShape

Object = dict[str, Any]

PATH = "/apis/karpenter.sh/v1/nodeclaims"
FINALIZER = "karpenter.sh/termination"
_POOL = "karpenter.sh/nodepool"


def node_claim(pool: Object, shape: NodeShape) -> Object:
    """Return the claim for a node of a pool, under the node's own name."""
    metadata, template = pool["metadata"], pool["spec"]["template"]["spec"]
    owner = {
        "apiVersion": pool.get("apiVersion", "karpenter.sh/v1"),
        "kind": "NodePool",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "blockOwnerDeletion": True,
    }
    copied = ("nodeClassRef", "taints", "startupTaints", "expireAfter", "terminationGracePeriod")
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": shape.name,
            "labels": {_POOL: metadata["name"]},
            "ownerReferences": [owner],
            "finalizers": [FINALIZER],
        },
        "spec": {
            **{key: template[key] for key in copied if key in template},
            "requirements": template.get("requirements") or [],
        },
    }
