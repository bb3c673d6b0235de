"""A cluster with nodes and the controller of sandboxes, in a network that is somewhere else."""

import pulumi

from agentenv.components._lib.tags import Ownership
from agentenv.components.capacity.capacity import Capacity
from agentenv.components.cluster.cluster import Cluster
from agentenv.components.cluster.cluster_addons import ClusterAddons
from agentenv.components.platform_arguments import capacity_demands, capacity_headroom, capacity_layout, cluster_layout
from agentenv.components.sandboxes.agent_sandbox import AgentSandbox
from agentenv.config import read

NAME = "seats"
BOUNDARY = "arn:aws:iam::123456789012:policy/boundary"

settings = read({"aws:region": "us-east-1"}, "dev")
whose: Ownership = {"environment": "dev", "owner": "platform", "cost_center": "cc-1"}
cluster = Cluster(
    "eks",
    {
        "ownership": whose,
        "name": NAME,
        "layout": cluster_layout(settings.cluster),
        "vpc_id": "vpc-12345678",
        "subnet_ids": ["subnet-11111111", "subnet-22222222"],
        "nodes_security_group_id": "sg-12345678",
        "logs_key_arn": "arn:aws:kms:us-east-1:123456789012:key/00000000-0000-0000-0000-000000000000",
        "permissions_boundary": BOUNDARY,
    },
)
api: list[pulumi.ProviderResource] = [cluster.provider]
nodes = Capacity(
    "nodes",
    {
        "ownership": whose,
        "cluster_name": NAME,
        "cluster_endpoint": cluster.endpoint,
        "issuer_url": cluster.issuer_url,
        "issuer_arn": cluster.issuer_arn,
        "layout": capacity_layout(settings),
        "demands": capacity_demands(settings),
        "headroom": capacity_headroom(settings),
    },
    pulumi.ResourceOptions(depends_on=[cluster], providers=api),
)
ClusterAddons(
    "addons",
    {
        "ownership": whose,
        "cluster_name": NAME,
        "version": settings.cluster.version,
        "file_system_arns": ["arn:aws:elasticfilesystem:us-east-1:123456789012:file-system/fs-12345678"],
        "efs_node_role_arn": cluster.efs_client_role_arns.apply(lambda arns: arns[0]),
    },
    pulumi.ResourceOptions(depends_on=[nodes], providers=api),
)
AgentSandbox(
    "sandboxes",
    {"ownership": whose},
    pulumi.ResourceOptions(depends_on=[cluster], providers=api),
)
