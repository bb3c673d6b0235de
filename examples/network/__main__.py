"""One component in a program of its own: a VPC with the addresses, endpoints and flow logs of an environment."""

import pulumi
from pulumi_aws import ec2

from agentenv.components.network.network import Network
from agentenv.config import read
from agentenv.core.plan import plan

settings = read(
    {
        "aws:region": pulumi.Config("aws").require("region"),
        "agent-environment:network": {"cidr": "10.80.0.0/16", "nat": "single"},
        "agent-environment:cluster": {"publicAccessCidrs": ["203.0.113.0/24"]},
        "agent-environment:cost": {"owner": "platform", "costCenter": "4711"},
    },
    pulumi.get_stack(),
)
network = Network("net", plan(settings).network)

# What else the program creates refers to the outputs of the component.
database = ec2.SecurityGroup("database", vpc_id=network.vpc_id, description="The database of the program")

pulumi.export("vpcId", network.vpc_id)
pulumi.export("databaseGroupId", database.id)
