"""VPC endpoints: AWS services reached without internet access."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_aws import ec2

from agentenv.components._lib import iam_policies
from agentenv.components._lib.aws_context import AwsContext
from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.security_group_rules import GroupRules, Traffic
from agentenv.components._lib.tags import Labels

HTTPS = 443

# Gateway endpoints are free, so every network has them.
GATEWAYS = {"s3": iam_policies.s3_endpoint_policy, "dynamodb": iam_policies.dynamodb_endpoint_policy}


@dataclass(frozen=True)
class EndpointNetwork:
    """The network that endpoints are created in, and their services."""

    vpc: ec2.Vpc
    subnets: Sequence[ec2.Subnet]
    tables: Sequence[ec2.RouteTable]
    nodes: ec2.SecurityGroup
    services: Sequence[str]


def create_endpoints(
    endpoint_network: EndpointNetwork, labels: Labels, aws: pulumi.Output[AwsContext], child: ChildOptions
) -> ec2.SecurityGroup | None:
    """Create the gateway and interface endpoints; return the security group of the latter, if there are any."""
    name = labels.base
    for service, policy in GATEWAYS.items():
        ec2.VpcEndpoint(
            f"{name}-{service}",
            vpc_id=endpoint_network.vpc.id,
            vpc_endpoint_type="Gateway",
            service_name=aws.apply(lambda context, service=service: service_name(context, service)),
            route_table_ids=[table.id for table in endpoint_network.tables],
            policy=iam_policies.policy_json(aws.apply(policy)),
            tags=labels.tags(service),
            opts=child(),
        )
    if not endpoint_network.services:
        return None
    group = _group(endpoint_network, labels, child)
    for service in endpoint_network.services:
        short = service.replace(".", "-")
        ec2.VpcEndpoint(
            f"{name}-endpoint-{short}",
            vpc_id=endpoint_network.vpc.id,
            vpc_endpoint_type="Interface",
            service_name=aws.apply(lambda context, service=service: service_name(context, service)),
            subnet_ids=[subnet.id for subnet in endpoint_network.subnets],
            security_group_ids=[group.id],
            # The usual DNS names of the services resolve to the endpoint, so clients need no configuration.
            private_dns_enabled=True,
            policy=iam_policies.policy_json(
                aws.apply(lambda context, service=service: iam_policies.interface_endpoint_policy(context, service))
            ),
            tags=labels.tags(f"endpoint-{short}"),
            opts=child(),
        )
    return group


def service_name(aws: AwsContext, service: str) -> str:
    """Return the full endpoint service name."""
    return f"com.amazonaws.{aws.region}.{service}"


def _group(endpoint_network: EndpointNetwork, labels: Labels, child: ChildOptions) -> ec2.SecurityGroup:
    """Create the security group of interface endpoints: ingress on 443 from nodes, no egress.

    Pods on nodes use the network interface of the node, and so its security group. Pods on Fargate are in the cluster
    security group, which does not exist yet; the component that creates the cluster adds their rule.
    """
    name = labels.base
    group = ec2.SecurityGroup(
        f"{name}-endpoints",
        name=labels.name("security-group", "endpoints"),
        description="Interface endpoints of the environment",
        vpc_id=endpoint_network.vpc.id,
        tags=labels.tags("endpoints"),
        opts=child(),
    )
    services = Traffic("AWS services for nodes", ports=(HTTPS, HTTPS))
    rules = GroupRules(labels, child)
    rules.ingress("endpoints-from-nodes", group.id, endpoint_network.nodes.id, services)
    rules.egress("nodes-to-endpoints", endpoint_network.nodes.id, group.id, services)
    return group
