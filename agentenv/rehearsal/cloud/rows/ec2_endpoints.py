"""VPC endpoints: valid services, one subnet a zone and one endpoint a route table, with their routes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from moto.ec2.models.vpcs import AWS_ENDPOINT_SERVICES, COVERED_ENDPOINT_SERVICES
from moto.ec2.utils import random_private_ip

from agentenv.rehearsal.cloud.request_context import OperationHandler
from agentenv.rehearsal.cloud.responses import AwsError, Response

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import RequestContext

GATEWAYS = ("s3", "dynamodb")
KNOWN = frozenset(AWS_ENDPOINT_SERVICES) | frozenset(COVERED_ENDPOINT_SERVICES)


def _check_policy(text: str | None) -> None:
    if not text:
        return
    try:
        policy = json.loads(text)
    except ValueError:
        policy = None
    if not isinstance(policy, dict) or not policy.get("Statement"):
        raise AwsError("InvalidPolicyDocument", "The policy document is malformed: it is not a JSON policy.", 400)


def create(context: RequestContext) -> Response:
    """Create an endpoint of an existing service, in subnets of different zones or in route tables without one."""
    parameters, ec2 = context.parameters, context.backend("ec2")
    vpc = ec2.get_vpc(parameters["VpcId"])
    service, kind = parameters.get("ServiceName", ""), parameters.get("VpcEndpointType", "Gateway")
    if not service.startswith(
        (f"com.amazonaws.{context.region}.", f"aws.api.{context.region}.", "com.amazonaws.vpce.")
    ):
        raise AwsError("InvalidServiceName", f"The Vpc Endpoint Service '{service}' does not exist", 400)
    short = service.removeprefix(f"com.amazonaws.{context.region}.")
    if short not in KNOWN and short != service:
        text = f"The Vpc Endpoint Service '{service}' does not exist, or is newer than the list that this cloud has"
        raise AwsError("InvalidServiceName", text, 400)
    _check_policy(parameters.get("PolicyDocument"))
    if kind == "Gateway":
        if short not in GATEWAYS:
            text = f"Endpoint type (Gateway) does not match available service types ([Interface]) of {service}."
            raise AwsError("InvalidParameter", text, 400)
        _check_gateway(context, service)
    if kind == "Interface":
        _check_interface(context, vpc, service)
    # Where the kind is left out moto keeps none, and cannot delete the endpoint later; names are of interfaces only.
    names = {"PrivateDnsEnabled": False} if kind == "Gateway" else {}
    response = context.forward({**parameters, "VpcEndpointType": kind, **names})
    if response.ok and kind == "Interface":
        _set_default_security_group(context)
    return response


def _check_gateway(context: RequestContext, service: str) -> None:
    parameters = context.parameters
    if parameters.get("SubnetIds") or parameters.get("SecurityGroupIds"):
        raise AwsError("InvalidParameter", "Subnets and security groups are for interface endpoints only.", 400)
    _check_route_tables(context, parameters["VpcId"], service, parameters.get("RouteTableIds", []))


def _check_route_tables(context: RequestContext, vpc: str, service: str, tables: list[str]) -> None:
    """Raise for route tables of another VPC, and for those with a route to the service."""
    ec2 = context.backend("ec2")
    for name in tables:
        if ec2.get_route_table(name).vpc_id != vpc:
            raise AwsError("InvalidParameter", f"Route table {name} is not in VPC {vpc}.", 400)
        for other in ec2.vpc_end_points.values():
            if other.service_name == service and other.state != "deleted" and name in (other.route_table_ids or []):
                text = f"route table {name} already has a route with destination-prefix-list-id "
                raise AwsError("RouteAlreadyExists", text + str(other.destination_prefix_list_id), 400)


def _check_interface(context: RequestContext, vpc: Any, service: str) -> None:
    parameters = context.parameters
    _check_subnets(context, vpc, [], parameters.get("SubnetIds", []))
    _check_security_groups(context, vpc, parameters.get("SecurityGroupIds", []))
    if parameters.get("RouteTableIds"):
        raise AwsError("InvalidParameter", "Route tables are for gateway endpoints only.", 400)
    if parameters.get("PrivateDnsEnabled", True) and not service.startswith("com.amazonaws.vpce."):
        _check_private_dns(context, vpc, service)


def _check_subnets(context: RequestContext, vpc: Any, existing: list[str], added: list[str]) -> None:
    """Raise for subnets of another VPC, and for a second one in a zone."""
    ec2 = context.backend("ec2")
    zones = {ec2.get_subnet(name).availability_zone for name in existing}
    for name in added:
        subnet = ec2.get_subnet(name)
        if subnet.vpc_id != vpc.id:
            raise AwsError("InvalidParameter", f"Subnet {name} is not in VPC {vpc.id}.", 400)
        if subnet.availability_zone in zones:
            text = f"Found another VPC endpoint subnet in the availability zone of {name}."
            raise AwsError("DuplicateSubnetsInSameZone", text, 400)
        zones.add(subnet.availability_zone)


def _check_security_groups(context: RequestContext, vpc: Any, groups: list[str]) -> None:
    for name in groups:
        if name not in context.backend("ec2").groups.get(vpc.id, {}):
            raise AwsError("InvalidSecurityGroupId.NotFound", f"The security group '{name}' does not exist", 400)


def _check_private_dns(context: RequestContext, vpc: Any, service: str) -> None:
    if not (vpc.enable_dns_support and vpc.enable_dns_hostnames):
        text = "Enabling private DNS requires both enableDnsSupport and enableDnsHostnames VPC attributes set to true"
        raise AwsError("InvalidParameter", f"{text} for {vpc.id}", 400)
    for other in context.backend("ec2").vpc_end_points.values():
        if (other.vpc_id, other.service_name, other.state) == (vpc.id, service, "available") and (
            other.private_dns_enabled and other.vpc_endpoint_type == "Interface"
        ):
            text = f"private-dns-enabled cannot be set because there is already a conflicting DNS domain for {service}"
            raise AwsError("InvalidParameter", f"{text} in the VPC {vpc.id}", 400)


def _set_default_security_group(context: RequestContext) -> None:
    """Attach the VPC's default security group if none was requested, as EC2 does."""
    ec2 = context.backend("ec2")
    endpoint = list(ec2.vpc_end_points.values())[-1]
    if not endpoint.security_group_ids:
        endpoint.security_group_ids = [ec2.get_default_security_group(endpoint.vpc_id).id]


def modify(context: RequestContext) -> Response:
    """Change tables, subnets and groups with their routes and interfaces; moto changes the lists only."""
    parameters, ec2 = context.parameters, context.backend("ec2")
    endpoint = ec2.vpc_end_points.get(parameters["VpcEndpointId"])
    if endpoint is None or endpoint.state == "deleted":
        text = f"The Vpc Endpoint Id '{parameters['VpcEndpointId']}' does not exist"
        raise AwsError("InvalidVpcEndpointId.NotFound", text, 400)
    vpc = ec2.get_vpc(endpoint.vpc_id)
    _check_policy(parameters.get("PolicyDocument"))
    tables = [name for name in parameters.get("AddRouteTableIds", []) if name not in endpoint.route_table_ids]
    subnets = [name for name in parameters.get("AddSubnetIds", []) if name not in (endpoint.subnet_ids or [])]
    if endpoint.vpc_endpoint_type == "Interface":
        if tables:
            raise AwsError("InvalidParameter", "Route tables are for gateway endpoints only.", 400)
        stay = [name for name in endpoint.subnet_ids if name not in parameters.get("RemoveSubnetIds", [])]
        _check_subnets(context, vpc, stay, subnets)
        _check_security_groups(context, vpc, parameters.get("AddSecurityGroupIds", []))
        if parameters.get("PrivateDnsEnabled") and not endpoint.private_dns_enabled:
            _check_private_dns(context, vpc, endpoint.service_name)
    elif subnets or parameters.get("AddSecurityGroupIds"):
        raise AwsError("InvalidParameter", "Subnets and security groups are for interface endpoints only.", 400)
    else:
        _check_route_tables(context, vpc.id, endpoint.service_name, tables)
    response = context.forward()
    if response.ok:
        _update_routes(ec2, endpoint, tables, parameters.get("RemoveRouteTableIds", []))
        _update_interfaces(ec2, endpoint, subnets, parameters.get("RemoveSubnetIds", []))
        endpoint.private_dns_enabled = parameters.get("PrivateDnsEnabled", endpoint.private_dns_enabled)
        if parameters.get("ResetPolicy"):
            endpoint.policy_document = json.dumps(endpoint.DEFAULT_POLICY)
    return response


def _update_routes(ec2: Any, endpoint: Any, more: list[str], fewer: list[str]) -> None:
    prefixes = endpoint.destination_prefix_list_id
    for name in more:
        ec2.create_route(name, None, gateway_id=endpoint.id, destination_prefix_list_id=prefixes)
    for name in fewer:
        if _has_route(ec2, name, prefixes):
            ec2.delete_route(name, None, destination_prefix_list_id=prefixes)


def _has_route(ec2: Any, table: str, prefixes: str) -> bool:
    route_table = ec2.route_tables.get(table)
    lists = (route.destination_prefix_list for route in (route_table.routes if route_table is not None else ()))
    return any(prefix_list is not None and prefix_list.id == prefixes for prefix_list in lists)


def _update_interfaces(ec2: Any, endpoint: Any, more: list[str], fewer: list[str]) -> None:
    """Create and delete an interface for each subnet."""
    for name in list(endpoint.network_interface_ids):
        if name in ec2.enis and ec2.enis[name].subnet.id in fewer:
            del ec2.enis[name]
            endpoint.network_interface_ids.remove(name)
    for subnet in more:
        interface = ec2.create_network_interface(ec2.get_subnet(subnet), random_private_ip())
        endpoint.network_interface_ids.append(interface.id)


def delete(context: RequestContext) -> dict[str, Any]:
    """Delete existing endpoints, with or without their routes; return the missing ones."""
    ec2, existing, missing = context.backend("ec2"), [], []
    for name in context.parameters["VpcEndpointIds"]:
        endpoint = ec2.vpc_end_points.get(name)
        if endpoint is None or endpoint.state == "deleted":
            missing.append(name)
            continue
        existing.append(name)
        tables = endpoint.route_table_ids or []
        endpoint.route_table_ids = [
            table for table in tables if _has_route(ec2, table, endpoint.destination_prefix_list_id)
        ]
    if existing:
        context.result({**context.parameters, "VpcEndpointIds": existing})
    message = "The Vpc Endpoint Id '{}' does not exist"
    return {
        "Unsuccessful": [
            {"ResourceId": name, "Error": {"Code": "InvalidVpcEndpoint.NotFound", "Message": message.format(name)}}
            for name in missing
        ]
    }


ROWS = (
    OperationHandler("ec2", "CreateVpcEndpoint", create),
    OperationHandler("ec2", "ModifyVpcEndpoint", modify),
    OperationHandler("ec2", "DeleteVpcEndpoints", delete),
)
