"""NodeClaims: what stands in the cluster for a node that Karpenter launched.

A claim belongs to its pool and holds it: a pool that is deleted in the foreground is gone only once its claims are, and
a claim goes only when Karpenter has taken its node away. Without a controller both wait, as on AWS.
"""

from __future__ import annotations

from typing import Any

from agentenv.rehearsal.controlplane.nodes.kwok_nodes import NodeShape

Object = dict[str, Any]

PATH = "/apis/karpenter.sh/v1/nodeclaims"
FINALIZER = "karpenter.sh/termination"
_POOL = "karpenter.sh/nodepool"


def node_claim(pool: Object, shape: NodeShape) -> Object:
    """The claim for a node of a pool, under the node's own name."""
    about, template = pool["metadata"], pool["spec"]["template"]["spec"]
    owner = {
        "apiVersion": pool.get("apiVersion", "karpenter.sh/v1"),
        "kind": "NodePool",
        "name": about["name"],
        "uid": about["uid"],
        "blockOwnerDeletion": True,
    }
    kept = ("nodeClassRef", "taints", "startupTaints", "expireAfter", "terminationGracePeriod")
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": shape.name,
            "labels": {_POOL: about["name"]},
            "ownerReferences": [owner],
            "finalizers": [FINALIZER],
        },
        "spec": {
            **{key: template[key] for key in kept if key in template},
            "requirements": template.get("requirements") or [],
        },
    }
