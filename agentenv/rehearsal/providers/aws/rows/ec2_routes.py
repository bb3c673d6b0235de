"""Route tables, their routes, and which subnet uses which."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws import api_calls as calls
from agentenv.rehearsal.providers.aws import name_mapping as spelling
from agentenv.rehearsal.providers.aws.row import Call, Do, Form, Look, Row
from agentenv.rehearsal.providers.aws.rows.ec2_vpc import ec2_tags
from agentenv.rehearsal.providers.aws.value_kinds import CIDR, CIDR6, exactly_one

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Situation

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
PLACES: Final = {
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


def _ours(route: Mapping[str, Any]) -> bool:
    """Not the VPC's own route, not one that a gateway endpoint or a propagation put there."""
    by_endpoint = "DestinationPrefixListId" in route and str(route.get("GatewayId", "")).startswith("vpce-")
    return route.get("GatewayId") != "local" and route.get("Origin") != "EnableVgwRoutePropagation" and not by_endpoint


def _place(route: Mapping[str, Any]) -> dict[str, Any]:
    return {member: route[member] for member in PLACES.values() if route.get(member)}


def _inline(s: Situation) -> None:
    """Bring the table's own routes to what is asked for: take away, put anew, add."""
    table = s.call("DescribeRouteTables", RouteTableIds=[s.id])["RouteTables"][0]
    there = {str(_place(r)): r for r in table["Routes"] if _ours(r)}
    model = calls.input_shape("ec2", "CreateRoute")
    asked = [spelling.send({k: v for k, v in r.items() if v}, model, INLINE) for r in s.inputs.get("routes") or []]
    wanted = {str(_place(r)): r for r in asked}
    for key, route in there.items():
        if key not in wanted:
            s.call("DeleteRoute", RouteTableId=s.id, **_place(route))
    for key, route in wanted.items():
        if key not in there:
            s.call("CreateRoute", RouteTableId=s.id, **route)
        elif any(there[key].get(member) != value for member, value in route.items()):
            s.call("ReplaceRoute", RouteTableId=s.id, **route)


def _let_go(s: Situation) -> None:
    """A table that subnets still use cannot be deleted."""
    gone = ("InvalidRouteTableID.NotFound", "InvalidAssociationID.NotFound")
    for table in s.call("DescribeRouteTables", RouteTableIds=[s.id], forgives=gone).get("RouteTables", []):
        for association in table.get("Associations", []):
            s.call("DisassociateRouteTable", AssociationId=association["RouteTableAssociationId"], forgives=gone)


ROUTE_TABLE = Row(
    type="aws:ec2/routeTable:RouteTable",
    service="ec2",
    create=Call("CreateRouteTable", ("vpcId",)),
    id="RouteTable.RouteTableId",
    find=Look(
        "DescribeRouteTables", {"RouteTableIds": ["$id"]}, "RouteTables[0]", gone=("InvalidRouteTableID.NotFound",)
    ),
    sets=(Do(_inline, ("routes",)),),
    delete=(Do(_let_go), Call("DeleteRouteTable", given={"RouteTableId": "$id"})),
    shows={
        "arn": Form("arn:{partition}:ec2:{region}:{account}:route-table/{id}"),
        "routes": lambda _, d: [route for route in d.get("Routes", []) if _ours(route)],
    },
    names={f"routes.{name}": member for name, member in INLINE.items()},
    tags=ec2_tags("route-table"),
    kinds={"routes.cidrBlock": CIDR, "routes.ipv6CidrBlock": CIDR6},
    refused={"propagatingVgws": "virtual private gateways are not simulated"},
)


def _destination(s: Situation) -> str:
    return next(str(s.value(name)) for name in PLACES if s.value(name))


def _route_id(table: str, destination: str) -> str:
    """The official provider's id: the table's and a checksum of the destination."""
    return f"r-{table}{zlib.crc32(destination.encode())}"


def _find_route(s: Situation) -> Mapping[str, Any] | None:
    gone = ("InvalidRouteTableID.NotFound",)
    told = s.call("DescribeRouteTables", RouteTableIds=[s.value("routeTableId")], forgives=gone)
    wanted = _destination(s)
    for table in told.get("RouteTables", []):
        for route in table["Routes"]:
            if wanted in _place(route).values() and _ours(route):
                return {**route, "RouteTableId": table["RouteTableId"]}
    return None


def _retarget(s: Situation) -> None:
    if not s.creating:
        model = calls.input_shape("ec2", "ReplaceRoute")
        target = {name: s.inputs[name] for name in TARGETS if s.inputs.get(name)}
        place = {name: s.inputs[name] for name in PLACES if s.inputs.get(name)}
        sent = spelling.send({**target, **place, "routeTableId": s.inputs["routeTableId"]}, model, EGRESS)
        s.call("ReplaceRoute", **sent)


def _unroute(s: Situation) -> None:
    place = {member: s.value(name) for name, member in PLACES.items() if s.value(name)}
    gone = ("InvalidRoute.NotFound", "InvalidRouteTableID.NotFound")
    s.call("DeleteRoute", RouteTableId=s.value("routeTableId"), **place, forgives=gone)


def _parse_route(text: str) -> tuple[str, dict[str, Any]]:
    table, _, destination = text.partition("_")
    if not table.startswith("rtb-") or not destination:
        raise ValueError("write ROUTETABLEID_DESTINATION, rtb-1a2b3c_10.0.0.0/16 for example")
    six, prefix = "destinationIpv6CidrBlock", "destinationPrefixListId"
    name = prefix if destination.startswith("pl-") else six if ":" in destination else "destinationCidrBlock"
    return _route_id(table, destination), {"routeTableId": table, name: destination}


ROUTE = Row(
    type="aws:ec2/route:Route",
    service="ec2",
    create=Call("CreateRoute", (*TARGETS, *PLACES, "routeTableId"), names=EGRESS),
    id=lambda s, _: _route_id(s.inputs["routeTableId"], _destination(s)),
    find=_find_route,
    sets=(Do(_retarget, TARGETS),),
    delete=(Do(_unroute),),
    shows={"egressOnlyGatewayId": "EgressOnlyInternetGatewayId"},
    kinds={"destinationCidrBlock": CIDR, "destinationIpv6CidrBlock": CIDR6},
    refused={"coreNetworkArn": NO_OTHER, "localGatewayId": NO_OTHER, "odbNetworkArn": NO_OTHER},
    rules=(exactly_one(*PLACES), exactly_one(*TARGETS)),
    early=("InvalidRouteTableID.NotFound", "InvalidGatewayID.NotFound"),
    parse=_parse_route,
)


def _find_association(s: Situation) -> Mapping[str, Any] | None:
    """By its id, else by who uses the table: moving to another table gives an association another id."""
    for table in s.call("DescribeRouteTables", Filters=_narrow(s)).get("RouteTables", []):
        for one in table.get("Associations", []):
            by_id = one.get("RouteTableAssociationId") == s.id
            user = one.get("SubnetId") or one.get("GatewayId")
            by_user = user and user in {s.value("subnetId"), s.value("gatewayId")}
            if (by_id or by_user) and not one.get("Main"):
                return {**one, "RouteTableId": table["RouteTableId"]}
    return None


def _narrow(s: Situation) -> list[dict[str, Any]]:
    if s.value("subnetId"):
        return [{"Name": "association.subnet-id", "Values": [s.value("subnetId")]}]
    return []


def _reassociate(s: Situation) -> None:
    found = _find_association(s)
    if found and not s.creating:
        mine = found["RouteTableAssociationId"]
        s.call("ReplaceRouteTableAssociation", AssociationId=mine, RouteTableId=s.inputs["routeTableId"])


def _disassociate(s: Situation) -> None:
    found = _find_association(s)
    if found:
        gone = ("InvalidAssociationID.NotFound",)
        s.call("DisassociateRouteTable", AssociationId=found["RouteTableAssociationId"], forgives=gone)


def _parse_association(text: str) -> tuple[str, dict[str, Any]]:
    user, _, table = text.partition("/")
    if not table.startswith("rtb-"):
        raise ValueError("write SUBNETID/ROUTETABLEID or GATEWAYID/ROUTETABLEID")
    return "", {"subnetId" if user.startswith("subnet-") else "gatewayId": user, "routeTableId": table}


def _id_of_association(s: Situation, document: Mapping[str, Any], _: dict[str, Any]) -> None:
    """An import knows the subnet and the table only; the id is what the cloud calls the pair."""
    s.id = s.id or str(document["RouteTableAssociationId"])


ROUTE_TABLE_ASSOCIATION = Row(
    type="aws:ec2/routeTableAssociation:RouteTableAssociation",
    service="ec2",
    create=Call("AssociateRouteTable", ("gatewayId", "routeTableId", "subnetId")),
    id="AssociationId",
    find=_find_association,
    sets=(Do(_reassociate, ("routeTableId",)),),
    delete=(Do(_disassociate),),
    rules=(exactly_one("subnetId", "gatewayId"),),
    parse=_parse_association,
    repairs=_id_of_association,
)

ROWS: Final = (ROUTE_TABLE, ROUTE, ROUTE_TABLE_ASSOCIATION)
