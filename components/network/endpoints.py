"""Endpoints: AWS services reached from inside a VPC, without a way out of it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_aws import ec2
from pulumi_aws import vpc as rules

from agentenv.components._lib import iam_policies
from agentenv.components._lib.arguments import ArgumentError, ArgumentReader
from agentenv.components._lib.aws_context import AwsContext
from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.tags import Labels

HTTPS = 443

# These cost nothing, so they are always there and need not be asked for.
GATEWAYS = {"s3": iam_policies.s3_endpoint_policy, "dynamodb": iam_policies.dynamodb_endpoint_policy}

# In China some services begin with "cn."; one that is not known here is given by its full name.
CHINESE = frozenset({"ecr.api", "ecr.dkr", "sts"})

_SERVICE = re.compile(r"[a-z0-9]+([.-][a-z0-9]+)*")


@dataclass(frozen=True)
class Doors:
    """What endpoints are put into and lead to."""

    vpc: ec2.Vpc
    subnets: Sequence[ec2.Subnet]
    tables: Sequence[ec2.RouteTable]
    nodes: ec2.SecurityGroup
    services: Sequence[str]


def endpoint_services(reader: ArgumentReader, key: str) -> list[str]:
    """The services asked for; one that cannot be meant is refused."""
    services = reader.texts(key)
    for service in services:
        if service in GATEWAYS:
            raise ArgumentError(
                f"{reader.path}.{key}", f"'{service}'", "services besides s3 and dynamodb, which always have one"
            )
        if not _SERVICE.fullmatch(service):
            raise ArgumentError(f"{reader.path}.{key}", f"'{service}'", "services such as ecr.api, sts or logs")
    return services


def create_endpoints(
    doors: Doors, labels: Labels, aws: pulumi.Output[AwsContext], child: ChildOptions
) -> ec2.SecurityGroup | None:
    """Make the gateways, and an interface endpoint a service; returns the group of the latter where there are any."""
    name = labels.base
    for service, policy in GATEWAYS.items():
        ec2.VpcEndpoint(
            f"{name}-{service}",
            vpc_id=doors.vpc.id,
            vpc_endpoint_type="Gateway",
            service_name=aws.apply(lambda context, service=service: service_name(context, service)),
            route_table_ids=[table.id for table in doors.tables],
            policy=iam_policies.policy_json(aws.apply(policy)),
            tags=labels.tags(service),
            opts=child(),
        )
    if not doors.services:
        return None
    group = _group(doors, labels, child)
    for service in doors.services:
        short = service.rsplit("amazonaws.", 1)[-1].replace(".", "-")
        ec2.VpcEndpoint(
            f"{name}-endpoint-{short}",
            vpc_id=doors.vpc.id,
            vpc_endpoint_type="Interface",
            service_name=aws.apply(lambda context, service=service: service_name(context, service)),
            subnet_ids=[subnet.id for subnet in doors.subnets],
            security_group_ids=[group.id],
            # The services' usual names lead to the endpoint, so no client has to know that there is one.
            private_dns_enabled=True,
            policy=iam_policies.policy_json(
                aws.apply(lambda context, service=service: iam_policies.interface_endpoint_policy(context, service))
            ),
            tags=labels.tags(f"endpoint-{short}"),
            opts=child(),
        )
    return group


def service_name(aws: AwsContext, service: str) -> str:
    """A service's name as AWS wants it for an endpoint."""
    if "amazonaws." in service:
        return service
    chinese = "cn." if aws.partition == "aws-cn" and service in CHINESE else ""
    return f"{chinese}com.amazonaws.{aws.region}.{service}"


def _group(doors: Doors, labels: Labels, child: ChildOptions) -> ec2.SecurityGroup:
    """The endpoints' group: the nodes' group in at 443, nothing out, for an endpoint answers and never asks.

    A pod on a node shares the node's interface, and with it the group. A pod on Fargate does not: it is in the
    cluster's group, which does not exist yet, and whoever makes it adds its rule to this one.
    """
    name = labels.base
    group = ec2.SecurityGroup(
        f"{name}-endpoints",
        name=labels.name("security-group", "endpoints"),
        description="Interface endpoints of the environment",
        vpc_id=doors.vpc.id,
        tags=labels.tags("endpoints"),
        opts=child(),
    )
    rules.SecurityGroupIngressRule(
        f"{name}-endpoints-from-nodes",
        security_group_id=group.id,
        referenced_security_group_id=doors.nodes.id,
        ip_protocol="tcp",
        from_port=HTTPS,
        to_port=HTTPS,
        description="AWS services for nodes",
        tags=labels.tags("endpoints-from-nodes"),
        opts=child(),
    )
    rules.SecurityGroupEgressRule(
        f"{name}-nodes-to-endpoints",
        security_group_id=doors.nodes.id,
        referenced_security_group_id=group.id,
        ip_protocol="tcp",
        from_port=HTTPS,
        to_port=HTTPS,
        description="AWS services for nodes",
        tags=labels.tags("nodes-to-endpoints"),
        opts=child(),
    )
    return group
