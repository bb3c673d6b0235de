"""Route tables: one target a route, one route a destination, one table a subnet, all in one VPC."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.request_context import Row
from agentenv.rehearsal.cloud.responses import Answer, Refused
from agentenv.rehearsal.cloud.rows.ec2_dependents import refuse_dependents
from agentenv.rehearsal.cloud.rows.ec2_vpc import canonical

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import Desk

TARGETS = (
    "GatewayId",
    "NatGatewayId",
    "NetworkInterfaceId",
    "InstanceId",
    "TransitGatewayId",
    "VpcPeeringConnectionId",
    "EgressOnlyInternetGatewayId",
    "LocalGatewayId",
    "CarrierGatewayId",
    "VpcEndpointId",
    "CoreNetworkArn",
    "OdbNetworkArn",
)
DESTINATIONS = ("DestinationCidrBlock", "DestinationIpv6CidrBlock", "DestinationPrefixListId")


def _vpc_of_target(desk: Desk) -> str | None:
    """The VPC that a route's target lies in, where it lies in one; refused if the target is not there."""
    asked, ec2 = desk.asked, desk.backend("ec2")
    if nat := asked.get("NatGatewayId"):
        gateway = ec2.nat_gateways.get(nat)
        if gateway is None or gateway.state == "deleted":
            raise Refused("InvalidNatGatewayID.NotFound", f"The natGateway ID '{nat}' does not exist", 400)
        return gateway.vpc_id
    name = asked.get("GatewayId", "")
    if name.startswith("igw-"):
        gateway = ec2.get_internet_gateway(name)
        return gateway.vpc.id if gateway.vpc else "nothing"
    if name.startswith("vpce-"):
        text = f"A route to the gateway endpoint {name} comes with the endpoint's route tables; it cannot be made."
        raise Refused("InvalidParameterValue", text, 400)
    return None


def _checked(desk: Desk, *, replacing: bool) -> dict[str, Any]:
    asked, ec2 = desk.asked, desk.backend("ec2")
    targets = [name for name in TARGETS if asked.get(name)]
    destinations = [name for name in DESTINATIONS if asked.get(name)]
    if len(targets) != 1:
        code = "InvalidParameterCombination" if targets else "MissingParameter"
        text = f"A route has exactly one target; found {', '.join(targets) or 'none'}."
        raise Refused(code, text, 400)
    if len(destinations) != 1:
        code = "InvalidParameterCombination" if destinations else "MissingParameter"
        raise Refused(code, "A route has exactly one destination.", 400)
    table = ec2.get_route_table(asked["RouteTableId"])
    vpc = _vpc_of_target(desk)
    if vpc is not None and vpc != table.vpc_id:
        text = f"route table {table.id} and network gateway {asked[targets[0]]} belong to different networks"
        raise Refused("InvalidParameterValue", text, 400)
    name = destinations[0]
    changed = {**asked, name: canonical(asked[name])} if name != "DestinationPrefixListId" else dict(asked)
    if not replacing:
        through_gateway = targets[0] in {"GatewayId", "NatGatewayId"}
        _refuse_taken(table, name, changed[name], through_gateway=through_gateway)
    return changed


def _refuse_taken(table: Any, name: str, destination: str, *, through_gateway: bool) -> None:
    attribute = {
        "DestinationCidrBlock": "destination_cidr_block",
        "DestinationIpv6CidrBlock": "destination_ipv6_cidr_block",
        "DestinationPrefixListId": "destination_prefix_list_id",
    }[name]
    for route in table._routes.values():
        taken = getattr(route, attribute, None)
        if taken and canonical(taken) == destination:
            raise Refused("RouteAlreadyExists", f"The route identified by {destination} already exists.", 400)
        if through_gateway and route.local and taken and _within(destination, taken):
            # More specific than local is for middleboxes only, never for a way out of the VPC.
            text = f"The destination CIDR block {destination} lies within the VPC's own range {taken}."
            raise Refused("InvalidParameterValue", text, 400)


def _within(inner: str, outer: str) -> bool:
    try:
        small, large = ipaddress.IPv4Network(inner), ipaddress.IPv4Network(outer)
    except ValueError:
        return False
    return small.subnet_of(large)


def create(desk: Desk) -> Answer:
    """A new route."""
    changed = _checked(desk, replacing=False)
    return desk.forward(None if changed == desk.asked else changed)


def associate(desk: Desk) -> Answer:
    """A subnet has one route table; said again, the same one is no matter."""
    asked, ec2 = desk.asked, desk.backend("ec2")
    table = ec2.get_route_table(asked["RouteTableId"])
    if subnet := asked.get("SubnetId"):
        if ec2.get_subnet(subnet).vpc_id != table.vpc_id:
            text = f"route table {table.id} and subnet {subnet} belong to different networks"
            raise Refused("InvalidParameterValue", text, 400)
        for other in ec2.route_tables.values():
            if other.id != table.id and subnet in other._associations.values():
                text = f"the specified association for route table {table.id} conflicts with an existing association"
                raise Refused("Resource.AlreadyAssociated", text, 400)
    return desk.forward()


def delete_table(desk: Desk) -> Answer:
    """The main table of a VPC goes with the VPC only."""
    table = desk.backend("ec2").get_route_table(desk.asked["RouteTableId"])
    holders = ("its VPC, whose main table it is" for _ in [0] if table.main_association_id)
    refuse_dependents(iter(holders), "routeTable", table.id)
    return desk.forward()


ROWS = (
    Row("ec2", "CreateRoute", create),
    Row("ec2", "ReplaceRoute", lambda desk: desk.forward(_checked(desk, replacing=True))),
    Row("ec2", "AssociateRouteTable", associate),
    Row("ec2", "DeleteRouteTable", delete_table),
)
