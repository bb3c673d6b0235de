"""The configuration of EKS add-ons, and the service accounts whose roles they get from Pod Identity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentenv.core.metering.exporters import allowlist

CONFIGURATION: Mapping[str, dict[str, Any]] = {
    "vpc-cni": {
        "enableNetworkPolicy": "true",
        "env": {
            # In strict mode a pod that no policy selects has no traffic. In standard mode a new pod has all traffic
            # until its policies are applied.
            "NETWORK_POLICY_ENFORCING_MODE": "strict",
            "ENABLE_PREFIX_DELEGATION": "true",
            "WARM_PREFIX_TARGET": "1",
            # The network policy agent always admits traffic between a pod and its own node, so the CNI serves nothing
            # there. Pods have no IPv6, over whose link-local addresses they would reach the node, too.
            "DISABLE_INTROSPECTION": "true",
            "DISABLE_METRICS": "true",
            "DISABLE_POD_V6": "true",
        },
    },
    # EKS adds replicas as nodes and their cores grow. Two are billed; more come with some hundred nodes.
    "coredns": {"computeType": "Fargate", "autoScaling": {"enabled": True, "minReplicas": 2, "maxReplicas": 10}},
    "kube-state-metrics": {"metricLabelsAllowlist": allowlist()},
}

EFS_CONTROLLER_ACCOUNT, EFS_NODE_ACCOUNT = "efs-csi-controller-sa", "efs-csi-node-sa"
POD_IDENTITY_ACCOUNTS: Mapping[str, tuple[str, ...]] = {
    "aws-efs-csi-driver": (EFS_CONTROLLER_ACCOUNT, EFS_NODE_ACCOUNT)
}
