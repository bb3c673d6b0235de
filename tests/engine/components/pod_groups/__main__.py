"""Security groups of classes on Fargate, and a group in place of the cluster's."""

import pulumi
from pulumi_aws import ec2

from agentenv.components._lib.tags import Labels
from agentenv.components.sandboxes.fargate_security_groups import PodGroups
from agentenv.config import read
from agentenv.core.plan import plan

IMAGE = f"registry.example.com/sandbox@sha256:{'ab' * 32}"
ON_FARGATE = {"tier": "untrusted", "compute": "fargate", "image": IMAGE, "pool": {"size": 0}}

settings = read(
    {
        "aws:region": "us-east-1",
        "agent-environment:cluster": {"publicAccessCidrs": ["203.0.113.0/24"]},
        "agent-environment:sandboxClasses": [
            {**ON_FARGATE, "name": "open", "capabilities": ["dns", "web", {"class": "closed", "ports": [8080]}]},
            {**ON_FARGATE, "name": "closed"},
        ],
    },
    "dev",
)
labels = Labels("dev", "cluster", "eks", {"environment": "dev"})
network = ec2.Vpc("net", cidr_block="10.40.0.0/16")
cluster = ec2.SecurityGroup("cluster", vpc_id=network.id, description="Stands for the group that EKS makes")
nodes = ec2.SecurityGroup("nodes", vpc_id=network.id, description="Stands for the group of the nodes")
created = PodGroups(
    network.id, cluster.id, nodes.id, labels, lambda more=None: more or pulumi.ResourceOptions()
).create(plan(settings).cluster.fargate_classes)
pulumi.export("groups", {name: [group.id for group in groups] for name, groups in created.items()})
pulumi.export("cluster", cluster.id)
