"""Route tables: one target for a route, one route for a destination, one table for a subnet, all in one VPC."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.request_context import OperationHandler
from agentenv.rehearsal.cloud.responses import AwsError, Response
from agentenv.rehearsal.cloud.rows.ec2_dependents import check_dependents
from agentenv.rehearsal.cloud.rows.ec2_vpc import canonical

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import RequestContext

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


def _vpc_of_target(context: RequestContext) -> str | None:
    """Return the VPC of a route's target, if it has one; raise if the target does not exist."""
    parameters, ec2 = context.parameters, context.backend("ec2")
    if nat := parameters.get("NatGatewayId"):
        gateway = ec2.nat_gateways.get(nat)
        if gateway is None or gateway.state == "deleted":
            raise AwsError("InvalidNatGatewayID.NotFound", f"The natGateway ID '{nat}' does not exist", 400)
        return gateway.vpc_id
    if transit := parameters.get("TransitGatewayId"):
        vpc = ec2.get_route_table(parameters["RouteTableId"]).vpc_id
        attachments = ec2.transit_gateway_attachments.values()
        if not any(link.transit_gateway_id == transit and link.resource_id == vpc for link in attachments):
            text = f"The transitGateway ID '{transit}' does not exist"  # also without an attachment of the VPC
            raise AwsError("InvalidTransitGatewayID.NotFound", text, 400)
    name = parameters.get("GatewayId", "")
    if name.startswith("igw-"):
        gateway = ec2.get_internet_gateway(name)
        return gateway.vpc.id if gateway.vpc else "nothing"
    if name.startswith("vpce-"):
        text = f"A route to the gateway endpoint {name} comes with the endpoint's route tables; it cannot be made."
        raise AwsError("InvalidParameterValue", text, 400)
    return None


def _checked_parameters(context: RequestContext, *, replacing: bool) -> dict[str, Any]:
    parameters, ec2 = context.parameters, context.backend("ec2")
    targets = [name for name in TARGETS if parameters.get(name)]
    destinations = [name for name in DESTINATIONS if parameters.get(name)]
    if len(targets) != 1:
        code = "InvalidParameterCombination" if targets else "MissingParameter"
        text = f"A route has exactly one target; found {', '.join(targets) or 'none'}."
        raise AwsError(code, text, 400)
    if len(destinations) != 1:
        code = "InvalidParameterCombination" if destinations else "MissingParameter"
        raise AwsError(code, "A route has exactly one destination.", 400)
    table = ec2.get_route_table(parameters["RouteTableId"])
    vpc = _vpc_of_target(context)
    if vpc is not None and vpc != table.vpc_id:
        text = f"route table {table.id} and network gateway {parameters[targets[0]]} belong to different networks"
        raise AwsError("InvalidParameterValue", text, 400)
    name = destinations[0]
    changed = (
        {**parameters, name: canonical(parameters[name])} if name != "DestinationPrefixListId" else dict(parameters)
    )
    if not replacing:
        through_gateway = targets[0] in {"GatewayId", "NatGatewayId"}
        _check_free(table, name, changed[name], through_gateway=through_gateway)
    return changed


def _check_free(table: Any, name: str, destination: str, *, through_gateway: bool) -> None:
    attribute = {
        "DestinationCidrBlock": "destination_cidr_block",
        "DestinationIpv6CidrBlock": "destination_ipv6_cidr_block",
        "DestinationPrefixListId": "destination_prefix_list_id",
    }[name]
    for route in table._routes.values():
        existing = getattr(route, attribute, None)
        if existing and canonical(existing) == destination:
            raise AwsError("RouteAlreadyExists", f"The route identified by {destination} already exists.", 400)
        if through_gateway and route.local and existing and _within(destination, existing):
            # Routes within the local range are for middleboxes only, never for gateways.
            text = f"The destination CIDR block {destination} lies within the VPC's own range {existing}."
            raise AwsError("InvalidParameterValue", text, 400)


def _within(inner: str, outer: str) -> bool:
    try:
        small, large = ipaddress.IPv4Network(inner), ipaddress.IPv4Network(outer)
    except ValueError:
        return False
    return small.subnet_of(large)


def create(context: RequestContext) -> Response:
    """Create a route."""
    changed = _checked_parameters(context, replacing=False)
    return context.forward(None if changed == context.parameters else changed)


def associate(context: RequestContext) -> Response:
    """Associate a subnet with its only route table; repeating the association is no error."""
    parameters, ec2 = context.parameters, context.backend("ec2")
    table = ec2.get_route_table(parameters["RouteTableId"])
    if subnet := parameters.get("SubnetId"):
        if ec2.get_subnet(subnet).vpc_id != table.vpc_id:
            text = f"route table {table.id} and subnet {subnet} belong to different networks"
            raise AwsError("InvalidParameterValue", text, 400)
        for other in ec2.route_tables.values():
            if other.id != table.id and subnet in other._associations.values():
                text = f"the specified association for route table {table.id} conflicts with an existing association"
                raise AwsError("Resource.AlreadyAssociated", text, 400)
    return context.forward()


def delete_table(context: RequestContext) -> Response:
    """Delete a route table other than the main table of a VPC."""
    table = context.backend("ec2").get_route_table(context.parameters["RouteTableId"])
    holders = ("its VPC, whose main table it is" for _ in [0] if table.main_association_id)
    check_dependents(iter(holders), "routeTable", table.id)
    return context.forward()


ROWS = (
    OperationHandler("ec2", "CreateRoute", create),
    OperationHandler(
        "ec2", "ReplaceRoute", lambda context: context.forward(_checked_parameters(context, replacing=True))
    ),
    OperationHandler("ec2", "AssociateRouteTable", associate),
    OperationHandler("ec2", "DeleteRouteTable", delete_table),
)
