"""VPC endpoints and flow logs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from moto.ec2.models.vpcs import AWS_ENDPOINT_SERVICES, COVERED_ENDPOINT_SERVICES

from rehearsal.cloud.answers import Answer, Refused
from rehearsal.cloud.desk import Row

if TYPE_CHECKING:
    from rehearsal.cloud.desk import Desk

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
    answer = desk.forward()
    if answer.ok and kind == "Interface":
        _dress(desk)
    return answer


def _gateway(desk: Desk, service: str) -> None:
    asked, ec2 = desk.asked, desk.backend("ec2")
    if asked.get("SubnetIds") or asked.get("SecurityGroupIds"):
        raise Refused("InvalidParameter", "Subnets and security groups are for interface endpoints only.", 400)
    for name in asked.get("RouteTableIds", []):
        if ec2.get_route_table(name).vpc_id != asked["VpcId"]:
            raise Refused("InvalidParameter", f"Route table {name} is not in VPC {asked['VpcId']}.", 400)
        for other in ec2.vpc_end_points.values():
            if other.service_name == service and other.state != "deleted" and name in (other.route_table_ids or []):
                text = f"route table {name} already has a route with destination-prefix-list-id "
                raise Refused("RouteAlreadyExists", text + str(other.destination_prefix_list_id), 400)


def _interface(desk: Desk, vpc: Any, service: str) -> None:
    asked, ec2 = desk.asked, desk.backend("ec2")
    zones: dict[str, str] = {}
    for name in asked.get("SubnetIds", []):
        subnet = ec2.get_subnet(name)
        if subnet.vpc_id != vpc.id:
            raise Refused("InvalidParameter", f"Subnet {name} is not in VPC {vpc.id}.", 400)
        if subnet.availability_zone in zones:
            text = f"Found another VPC endpoint subnet in the availability zone of {name}."
            raise Refused("DuplicateSubnetsInSameZone", text, 400)
        zones[subnet.availability_zone] = name
    for name in asked.get("SecurityGroupIds", []):
        if name not in ec2.groups.get(vpc.id, {}):
            raise Refused("InvalidSecurityGroupId.NotFound", f"The security group '{name}' does not exist", 400)
    if asked.get("RouteTableIds"):
        raise Refused("InvalidParameter", "Route tables are for gateway endpoints only.", 400)
    if asked.get("PrivateDnsEnabled", True) and not service.startswith("com.amazonaws.vpce."):
        _private_dns(desk, vpc, service)


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


def flow_logs(desk: Desk) -> Answer:
    """Flow logs into a group named by its ARN count as delivered if the group is there; moto looks by name only."""
    asked = desk.asked
    before = set(desk.backend("ec2").flow_logs)
    if asked.get("LogDestinationType", "cloud-watch-logs") == "cloud-watch-logs":
        role = asked.get("DeliverLogsPermissionArn")
        if not role:
            text = "DeliverLogsPermissionArn can't be empty if LogDestinationType is cloud-watch-logs."
            raise Refused("InvalidParameter", text, 400)
    answer = desk.forward()
    groups = desk.backend("logs").groups
    for name, log in desk.backend("ec2").flow_logs.items():
        destination = log.log_destination or ""
        if name not in before and ":log-group:" in destination:
            group = destination.partition(":log-group:")[2].removesuffix(":*")
            if group in groups:
                log.deliver_logs_status, log.deliver_logs_error_message = "SUCCESS", None
    return answer


ROWS = (
    Row("ec2", "CreateVpcEndpoint", create),
    Row("ec2", "CreateFlowLogs", flow_logs),
)
