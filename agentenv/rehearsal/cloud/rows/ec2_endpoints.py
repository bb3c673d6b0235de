"""VPC endpoints: services that are there, once in a zone and once in a table, with the routes that go along."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from moto.ec2.models.vpcs import AWS_ENDPOINT_SERVICES, COVERED_ENDPOINT_SERVICES
from moto.ec2.utils import random_private_ip

from agentenv.rehearsal.cloud.request_context import Row
from agentenv.rehearsal.cloud.responses import Answer, Refused

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import Desk

GATEWAYS = ("s3", "dynamodb")
KNOWN = frozenset(AWS_ENDPOINT_SERVICES) | frozenset(COVERED_ENDPOINT_SERVICES)


def _policy(text: str | None) -> None:
    if not text:
        return
    try:
        policy = json.loads(text)
    except ValueError:
        policy = None
    if not isinstance(policy, dict) or not policy.get("Statement"):
        raise Refused("InvalidPolicyDocument", "The policy document is malformed: it is not a JSON policy.", 400)


def create(desk: Desk) -> Answer:
    """An endpoint for a service that is there, in subnets of different zones, or in route tables that lack it."""
    asked, ec2 = desk.asked, desk.backend("ec2")
    vpc = ec2.get_vpc(asked["VpcId"])
    service, kind = asked.get("ServiceName", ""), asked.get("VpcEndpointType", "Gateway")
    if not service.startswith((f"com.amazonaws.{desk.region}.", f"aws.api.{desk.region}.", "com.amazonaws.vpce.")):
        raise Refused("InvalidServiceName", f"The Vpc Endpoint Service '{service}' does not exist", 400)
    short = service.removeprefix(f"com.amazonaws.{desk.region}.")
    if short not in KNOWN and short != service:
        text = f"The Vpc Endpoint Service '{service}' does not exist, or is newer than the list that this cloud has"
        raise Refused("InvalidServiceName", text, 400)
    _policy(asked.get("PolicyDocument"))
    if kind == "Gateway":
        if short not in GATEWAYS:
            text = f"Endpoint type (Gateway) does not match available service types ([Interface]) of {service}."
            raise Refused("InvalidParameter", text, 400)
        _gateway(desk, service)
    if kind == "Interface":
        _interface(desk, vpc, service)
    # Where the kind is left out moto keeps none, and cannot delete the endpoint later; names are of interfaces only.
    names = {"PrivateDnsEnabled": False} if kind == "Gateway" else {}
    answer = desk.forward({**asked, "VpcEndpointType": kind, **names})
    if answer.ok and kind == "Interface":
        _dress(desk)
    return answer


def _gateway(desk: Desk, service: str) -> None:
    asked = desk.asked
    if asked.get("SubnetIds") or asked.get("SecurityGroupIds"):
        raise Refused("InvalidParameter", "Subnets and security groups are for interface endpoints only.", 400)
    _tables(desk, asked["VpcId"], service, asked.get("RouteTableIds", []))


def _tables(desk: Desk, vpc: str, service: str, tables: list[str]) -> None:
    """Refuse route tables of another VPC, and those that lead to the service already."""
    ec2 = desk.backend("ec2")
    for name in tables:
        if ec2.get_route_table(name).vpc_id != vpc:
            raise Refused("InvalidParameter", f"Route table {name} is not in VPC {vpc}.", 400)
        for other in ec2.vpc_end_points.values():
            if other.service_name == service and other.state != "deleted" and name in (other.route_table_ids or []):
                text = f"route table {name} already has a route with destination-prefix-list-id "
                raise Refused("RouteAlreadyExists", text + str(other.destination_prefix_list_id), 400)


def _interface(desk: Desk, vpc: Any, service: str) -> None:
    asked = desk.asked
    _subnets(desk, vpc, [], asked.get("SubnetIds", []))
    _groups(desk, vpc, asked.get("SecurityGroupIds", []))
    if asked.get("RouteTableIds"):
        raise Refused("InvalidParameter", "Route tables are for gateway endpoints only.", 400)
    if asked.get("PrivateDnsEnabled", True) and not service.startswith("com.amazonaws.vpce."):
        _private_dns(desk, vpc, service)


def _subnets(desk: Desk, vpc: Any, there: list[str], more: list[str]) -> None:
    """Refuse subnets of another VPC, and a second one in a zone."""
    ec2 = desk.backend("ec2")
    zones = {ec2.get_subnet(name).availability_zone for name in there}
    for name in more:
        subnet = ec2.get_subnet(name)
        if subnet.vpc_id != vpc.id:
            raise Refused("InvalidParameter", f"Subnet {name} is not in VPC {vpc.id}.", 400)
        if subnet.availability_zone in zones:
            text = f"Found another VPC endpoint subnet in the availability zone of {name}."
            raise Refused("DuplicateSubnetsInSameZone", text, 400)
        zones.add(subnet.availability_zone)


def _groups(desk: Desk, vpc: Any, groups: list[str]) -> None:
    for name in groups:
        if name not in desk.backend("ec2").groups.get(vpc.id, {}):
            raise Refused("InvalidSecurityGroupId.NotFound", f"The security group '{name}' does not exist", 400)


def _private_dns(desk: Desk, vpc: Any, service: str) -> None:
    if not (vpc.enable_dns_support and vpc.enable_dns_hostnames):
        text = "Enabling private DNS requires both enableDnsSupport and enableDnsHostnames VPC attributes set to true"
        raise Refused("InvalidParameter", f"{text} for {vpc.id}", 400)
    for other in desk.backend("ec2").vpc_end_points.values():
        if (other.vpc_id, other.service_name, other.state) == (vpc.id, service, "available") and (
            other.private_dns_enabled and other.vpc_endpoint_type == "Interface"
        ):
            text = f"private-dns-enabled cannot be set because there is already a conflicting DNS domain for {service}"
            raise Refused("InvalidParameter", f"{text} in the VPC {vpc.id}", 400)


def _dress(desk: Desk) -> None:
    """Give the endpoint its security groups: the VPC's default one if none was asked for, as EC2 does."""
    ec2 = desk.backend("ec2")
    endpoint = list(ec2.vpc_end_points.values())[-1]
    if not endpoint.security_group_ids:
        endpoint.security_group_ids = [ec2.get_default_security_group(endpoint.vpc_id).id]


def modify(desk: Desk) -> Answer:
    """Other tables, subnets and groups, with the routes and interfaces that go along; moto changes the lists only."""
    asked, ec2 = desk.asked, desk.backend("ec2")
    endpoint = ec2.vpc_end_points.get(asked["VpcEndpointId"])
    if endpoint is None or endpoint.state == "deleted":
        text = f"The Vpc Endpoint Id '{asked['VpcEndpointId']}' does not exist"
        raise Refused("InvalidVpcEndpointId.NotFound", text, 400)
    vpc = ec2.get_vpc(endpoint.vpc_id)
    _policy(asked.get("PolicyDocument"))
    tables = [name for name in asked.get("AddRouteTableIds", []) if name not in endpoint.route_table_ids]
    subnets = [name for name in asked.get("AddSubnetIds", []) if name not in (endpoint.subnet_ids or [])]
    if endpoint.vpc_endpoint_type == "Interface":
        if tables:
            raise Refused("InvalidParameter", "Route tables are for gateway endpoints only.", 400)
        stay = [name for name in endpoint.subnet_ids if name not in asked.get("RemoveSubnetIds", [])]
        _subnets(desk, vpc, stay, subnets)
        _groups(desk, vpc, asked.get("AddSecurityGroupIds", []))
        if asked.get("PrivateDnsEnabled") and not endpoint.private_dns_enabled:
            _private_dns(desk, vpc, endpoint.service_name)
    elif subnets or asked.get("AddSecurityGroupIds"):
        raise Refused("InvalidParameter", "Subnets and security groups are for interface endpoints only.", 400)
    else:
        _tables(desk, vpc.id, endpoint.service_name, tables)
    answer = desk.forward()
    if answer.ok:
        _reroute(ec2, endpoint, tables, asked.get("RemoveRouteTableIds", []))
        _replug(ec2, endpoint, subnets, asked.get("RemoveSubnetIds", []))
        endpoint.private_dns_enabled = asked.get("PrivateDnsEnabled", endpoint.private_dns_enabled)
        if asked.get("ResetPolicy"):
            endpoint.policy_document = json.dumps(endpoint.DEFAULT_POLICY)
    return answer


def _reroute(ec2: Any, endpoint: Any, more: list[str], fewer: list[str]) -> None:
    prefixes = endpoint.destination_prefix_list_id
    for name in more:
        ec2.create_route(name, None, gateway_id=endpoint.id, destination_prefix_list_id=prefixes)
    for name in fewer:
        if _routed(ec2, name, prefixes):
            ec2.delete_route(name, None, destination_prefix_list_id=prefixes)


def _routed(ec2: Any, table: str, prefixes: str) -> bool:
    found = ec2.route_tables.get(table)
    lists = (route.destination_prefix_list for route in (found.routes if found is not None else ()))
    return any(one is not None and one.id == prefixes for one in lists)


def _replug(ec2: Any, endpoint: Any, more: list[str], fewer: list[str]) -> None:
    """An interface a subnet; it goes with its subnet, which could not be deleted otherwise."""
    for name in list(endpoint.network_interface_ids):
        if name in ec2.enis and ec2.enis[name].subnet.id in fewer:
            del ec2.enis[name]
            endpoint.network_interface_ids.remove(name)
    for subnet in more:
        made = ec2.create_network_interface(ec2.get_subnet(subnet), random_private_ip())
        endpoint.network_interface_ids.append(made.id)


def delete(desk: Desk) -> dict[str, Any]:
    """Endpoints that are there go, whatever became of their routes; the others are told one by one."""
    ec2, there, missing = desk.backend("ec2"), [], []
    for name in desk.asked["VpcEndpointIds"]:
        endpoint = ec2.vpc_end_points.get(name)
        if endpoint is None or endpoint.state == "deleted":
            missing.append(name)
            continue
        there.append(name)
        tables = endpoint.route_table_ids or []
        endpoint.route_table_ids = [one for one in tables if _routed(ec2, one, endpoint.destination_prefix_list_id)]
    if there:
        desk.result({**desk.asked, "VpcEndpointIds": there})
    said = "The Vpc Endpoint Id '{}' does not exist"
    return {
        "Unsuccessful": [
            {"ResourceId": name, "Error": {"Code": "InvalidVpcEndpoint.NotFound", "Message": said.format(name)}}
            for name in missing
        ]
    }


ROWS = (
    Row("ec2", "CreateVpcEndpoint", create),
    Row("ec2", "ModifyVpcEndpoint", modify),
    Row("ec2", "DeleteVpcEndpoints", delete),
)
