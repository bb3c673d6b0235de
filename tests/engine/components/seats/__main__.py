"""A cluster with nodes and the sandbox controller, in the network of another stack."""

import pulumi

from agentenv.components.capacity.capacity import Capacity
from agentenv.components.cluster.cluster import Cluster
from agentenv.components.cluster.cluster_addons import ClusterAddons
from agentenv.components.network.network import NetworkContext
from agentenv.components.sandboxes.agent_sandbox import AgentSandbox
from agentenv.config import read
from agentenv.core.plan import plan

BOUNDARY = "arn:aws:iam::123456789012:policy/boundary"

planned = plan(
    read(
        {
            "aws:region": "us-east-1",
            "agent-environment:cluster": {
                "name": "seats",
                "permissionsBoundary": BOUNDARY,
                "publicAccessCidrs": ["203.0.113.0/24"],
            },
            "agent-environment:cost": {"costCenter": "cc-1"},
        },
        "dev",
    )
)
network = NetworkContext(
    "vpc-12345678",
    ("subnet-11111111", "subnet-22222222"),
    "sg-12345678",
    "arn:aws:kms:us-east-1:123456789012:key/00000000-0000-0000-0000-000000000000",
)
cluster = Cluster("eks", planned.cluster, network)
api: list[pulumi.ProviderResource] = [cluster.provider]
after_cluster = pulumi.ResourceOptions(depends_on=[cluster], providers=api)
nodes = Capacity("nodes", planned.capacity, cluster.context, after_cluster)
ClusterAddons(
    "addons",
    planned.cluster,
    ["arn:aws:elasticfilesystem:us-east-1:123456789012:file-system/fs-12345678"],
    cluster.efs_client_role_arns.apply(lambda arns: arns[0]),
    pulumi.ResourceOptions(depends_on=[nodes], providers=api),
)
AgentSandbox("sandboxes", planned.sandbox_controller, after_cluster)
