"""The attachment of a VPC to an existing transit gateway, with routes to the networks behind it."""

from collections.abc import Sequence

import pulumi
from pulumi_aws import ec2, ec2transitgateway

from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.tags import Labels
from agentenv.config.sections.network import Network


def attach_transit_gateway(
    settings: Network,
    subnets: Sequence[ec2.Subnet],
    tables: Sequence[ec2.RouteTable],
    labels: Labels,
    child: ChildOptions,
) -> None:
    """Attach the VPC in its private subnets, and route the peers there; do nothing without a transit gateway."""
    if settings.transit_gateway is None:
        return
    attachment = ec2transitgateway.VpcAttachment(
        f"{labels.base}-transit",
        transit_gateway_id=settings.transit_gateway,
        vpc_id=subnets[0].vpc_id,
        subnet_ids=[subnet.id for subnet in subnets],
        tags=labels.tags("transit"),
        opts=child(),
    )
    after = pulumi.ResourceOptions(depends_on=[attachment])
    for number, table in enumerate(tables):
        for peer in settings.peers:
            ec2.Route(
                f"{labels.base}-transit-{number}-{str(peer).replace('.', '-').replace('/', '-')}",
                route_table_id=table.id,
                destination_cidr_block=str(peer),
                transit_gateway_id=settings.transit_gateway,
                opts=child(after),
            )
