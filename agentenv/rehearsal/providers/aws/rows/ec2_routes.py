"""Route tables, routes and the associations with subnets."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws import api_calls, name_mapping
from agentenv.rehearsal.providers.aws.row import Call, CustomStep, ReadCall, ResourceType, Template
from agentenv.rehearsal.providers.aws.rows.ec2_vpc import ec2_tags
from agentenv.rehearsal.providers.aws.value_kinds import CIDR, CIDR6, exactly_one

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Operation

NO_OTHER: Final = "this kind of target is not simulated"
TARGETS: Final = (
    "carrierGatewayId",
    "egressOnlyGatewayId",
    "gatewayId",
    "natGatewayId",
    "networkInterfaceId",
    "transitGatewayId",
    "vpcEndpointId",
    "vpcPeeringConnectionId",
)
DESTINATIONS: Final = {
    "destinationCidrBlock": "DestinationCidrBlock",
    "destinationIpv6CidrBlock": "DestinationIpv6CidrBlock",
    "destinationPrefixListId": "DestinationPrefixListId",
}
INLINE: Final = {
    "cidrBlock": "DestinationCidrBlock",
    "ipv6CidrBlock": "DestinationIpv6CidrBlock",
    "destinationPrefixListId": "DestinationPrefixListId",
    "egressOnlyGatewayId": "EgressOnlyInternetGatewayId",
}
EGRESS: Final = {"egressOnlyGatewayId": "EgressOnlyInternetGatewayId"}


def _is_managed(route: Mapping[str, Any]) -> bool:
    """Return whether a program manages the route: it is not local, and no endpoint or propagation added it."""
    by_endpoint = "DestinationPrefixListId" in route and str(route.get("GatewayId", "")).startswith("vpce-")
    return route.get("GatewayId") != "local" and route.get("Origin") != "EnableVgwRoutePropagation" and not by_endpoint


def _destination_members(route: Mapping[str, Any]) -> dict[str, Any]:
    return {member: route[member] for member in DESTINATIONS.values() if route.get(member)}


def _update_inline_routes(op: Operation) -> None:
    """Delete, replace and create routes until the table has those of the inputs."""
    table = op.call("DescribeRouteTables", RouteTableIds=[op.id])["RouteTables"][0]
    existing = {str(_destination_members(r)): r for r in table["Routes"] if _is_managed(r)}
    model = api_calls.input_shape("ec2", "CreateRoute")
    routes = [{k: v for k, v in route.items() if v} for route in op.inputs.get("routes") or []]
    expected = {str(_destination_members(r)): r for r in (name_mapping.send(route, model, INLINE) for route in routes)}
    for key, route in existing.items():
        if key not in expected:
            op.call("DeleteRoute", RouteTableId=op.id, **_destination_members(route))
    for key, route in expected.items():
        if key not in existing:
            op.call("CreateRoute", RouteTableId=op.id, **route)
        elif any(existing[key].get(member) != value for member, value in route.items()):
            op.call("ReplaceRoute", RouteTableId=op.id, **route)


def _disassociate_all(op: Operation) -> None:
    """Remove all associations: a table in use cannot be deleted."""
    not_found = ("InvalidRouteTableID.NotFound", "InvalidAssociationID.NotFound")
    for table in op.call("DescribeRouteTables", RouteTableIds=[op.id], ignored_errors=not_found).get("RouteTables", []):
        for association in table.get("Associations", []):
            op.call(
                "DisassociateRouteTable", AssociationId=association["RouteTableAssociationId"], ignored_errors=not_found
            )


ROUTE_TABLE = ResourceType(
    type="aws:ec2/routeTable:RouteTable",
    service="ec2",
    create=Call("CreateRouteTable", ("vpcId",)),
    id="RouteTable.RouteTableId",
    read=ReadCall(
        "DescribeRouteTables",
        {"RouteTableIds": ["$id"]},
        "RouteTables[0]",
        not_found_errors=("InvalidRouteTableID.NotFound",),
    ),
    updates=(CustomStep(_update_inline_routes, ("routes",)),),
    delete=(CustomStep(_disassociate_all), Call("DeleteRouteTable", constants={"RouteTableId": "$id"})),
    output_sources={
        "arn": Template("arn:{partition}:ec2:{region}:{account}:route-table/{id}"),
        "routes": lambda _, d: [route for route in d.get("Routes", []) if _is_managed(route)],
    },
    member_names={f"routes.{name}": member for name, member in INLINE.items()},
    tags=ec2_tags("route-table"),
    value_kinds={"routes.cidrBlock": CIDR, "routes.ipv6CidrBlock": CIDR6},
    unsupported={"propagatingVgws": "virtual private gateways are not simulated"},
)


def _destination(op: Operation) -> str:
    return next(str(op.value(name)) for name in DESTINATIONS if op.value(name))


def _route_id(table: str, destination: str) -> str:
    """Return the official provider's id: the table's id and a checksum of the destination."""
    return f"r-{table}{zlib.crc32(destination.encode())}"


def _read_route(op: Operation) -> Mapping[str, Any] | None:
    not_found = ("InvalidRouteTableID.NotFound",)
    response = op.call("DescribeRouteTables", RouteTableIds=[op.value("routeTableId")], ignored_errors=not_found)
    expected = _destination(op)
    for table in response.get("RouteTables", []):
        for route in table["Routes"]:
            if expected in _destination_members(route).values() and _is_managed(route):
                return {**route, "RouteTableId": table["RouteTableId"]}
    return None


def _replace_route(op: Operation) -> None:
    if not op.creating:
        model = api_calls.input_shape("ec2", "ReplaceRoute")
        target = {name: op.inputs[name] for name in TARGETS if op.inputs.get(name)}
        place = {name: op.inputs[name] for name in DESTINATIONS if op.inputs.get(name)}
        sent = name_mapping.send({**target, **place, "routeTableId": op.inputs["routeTableId"]}, model, EGRESS)
        op.call("ReplaceRoute", **sent)


def _delete_route(op: Operation) -> None:
    place = {member: op.value(name) for name, member in DESTINATIONS.items() if op.value(name)}
    not_found = ("InvalidRoute.NotFound", "InvalidRouteTableID.NotFound")
    op.call("DeleteRoute", RouteTableId=op.value("routeTableId"), **place, ignored_errors=not_found)


def _parse_route(text: str) -> tuple[str, dict[str, Any]]:
    table, _, destination = text.partition("_")
    if not table.startswith("rtb-") or not destination:
        raise ValueError("write ROUTETABLEID_DESTINATION, rtb-1a2b3c_10.0.0.0/16 for example")
    six, prefix = "destinationIpv6CidrBlock", "destinationPrefixListId"
    name = prefix if destination.startswith("pl-") else six if ":" in destination else "destinationCidrBlock"
    return _route_id(table, destination), {"routeTableId": table, name: destination}


ROUTE = ResourceType(
    type="aws:ec2/route:Route",
    service="ec2",
    create=Call("CreateRoute", (*TARGETS, *DESTINATIONS, "routeTableId"), member_names=EGRESS),
    id=lambda op, _: _route_id(op.inputs["routeTableId"], _destination(op)),
    read=_read_route,
    updates=(CustomStep(_replace_route, TARGETS),),
    delete=(CustomStep(_delete_route),),
    output_sources={"egressOnlyGatewayId": "EgressOnlyInternetGatewayId"},
    value_kinds={"destinationCidrBlock": CIDR, "destinationIpv6CidrBlock": CIDR6},
    unsupported={"coreNetworkArn": NO_OTHER, "localGatewayId": NO_OTHER, "odbNetworkArn": NO_OTHER},
    validators=(exactly_one(*DESTINATIONS), exactly_one(*TARGETS)),
    retry_create_on=("InvalidRouteTableID.NotFound", "InvalidGatewayID.NotFound"),
    parse_import_id=_parse_route,
)


def _read_association(op: Operation) -> Mapping[str, Any] | None:
    """Read an association by id, else by subnet: an association with another table has another id."""
    for table in op.call("DescribeRouteTables", Filters=_target(op)).get("RouteTables", []):
        for association in table.get("Associations", []):
            by_id = association.get("RouteTableAssociationId") == op.id
            user = association.get("SubnetId") or association.get("GatewayId")
            by_user = user and user in {op.value("subnetId"), op.value("gatewayId")}
            if (by_id or by_user) and not association.get("Main"):
                return {**association, "RouteTableId": table["RouteTableId"]}
    return None


def _target(op: Operation) -> list[dict[str, Any]]:
    if op.value("subnetId"):
        return [{"Name": "association.subnet-id", "Values": [op.value("subnetId")]}]
    return []


def _replace_association(op: Operation) -> None:
    current = _read_association(op)
    if current and not op.creating:
        association_id = current["RouteTableAssociationId"]
        op.call("ReplaceRouteTableAssociation", AssociationId=association_id, RouteTableId=op.inputs["routeTableId"])


def _delete_association(op: Operation) -> None:
    current = _read_association(op)
    if current:
        not_found = ("InvalidAssociationID.NotFound",)
        op.call("DisassociateRouteTable", AssociationId=current["RouteTableAssociationId"], ignored_errors=not_found)


def _parse_association(text: str) -> tuple[str, dict[str, Any]]:
    user, _, table = text.partition("/")
    if not table.startswith("rtb-"):
        raise ValueError("write SUBNETID/ROUTETABLEID or GATEWAYID/ROUTETABLEID")
    return "", {"subnetId" if user.startswith("subnet-") else "gatewayId": user, "routeTableId": table}


def _id_of_association(op: Operation, document: Mapping[str, Any], _: dict[str, Any]) -> None:
    """Set the id after an import, which has only the subnet and the table."""
    op.id = op.id or str(document["RouteTableAssociationId"])


ROUTE_TABLE_ASSOCIATION = ResourceType(
    type="aws:ec2/routeTableAssociation:RouteTableAssociation",
    service="ec2",
    create=Call("AssociateRouteTable", ("gatewayId", "routeTableId", "subnetId")),
    id="AssociationId",
    read=_read_association,
    updates=(CustomStep(_replace_association, ("routeTableId",)),),
    delete=(CustomStep(_delete_association),),
    validators=(exactly_one("subnetId", "gatewayId"),),
    parse_import_id=_parse_association,
    adjust_outputs=_id_of_association,
)

ROWS: Final = (ROUTE_TABLE, ROUTE, ROUTE_TABLE_ASSOCIATION)
