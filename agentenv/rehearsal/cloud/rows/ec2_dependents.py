"""The dependents because of which AWS refuses to delete a VPC resource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.responses import AwsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentenv.rehearsal.cloud.request_context import RequestContext


def check_dependents(holders: Iterator[str], what: str, name: str) -> None:
    """Raise EC2's error if a resource has dependents; name the dependent, which EC2 does not."""
    holder = next(holders, None)
    if holder is not None:
        text = f"The {what} '{name}' has dependencies and cannot be deleted. Held by {holder}."
        raise AwsError("DependencyViolation", text, 400)


def _balancers(context: RequestContext) -> Iterator[Any]:
    yield from context.backend("elbv2").load_balancers.values()


def _clusters(context: RequestContext) -> Iterator[Any]:
    yield from context.backend("eks").clusters.values()


def _subnets_of(attachment: Any) -> list[str]:
    return getattr(attachment, "subnet_ids", [])  # only attachments of VPCs have subnets


def holders_of_subnet(context: RequestContext, subnet: str) -> Iterator[str]:
    """Yield everything with an address in a subnet."""
    ec2 = context.backend("ec2")
    yield from (nat.id for nat in ec2.nat_gateways.values() if nat.subnet_id == subnet and nat.state != "deleted")
    yield from (eni.id for eni in ec2.enis.values() if eni.subnet.id == subnet)
    yield from (
        target.mount_target_id
        for target in context.backend("efs").mount_targets_by_id.values()
        if target.subnet_id == subnet
    )
    yield from (name for name, link in ec2.transit_gateway_attachments.items() if subnet in _subnets_of(link))
    for cluster in _clusters(context):
        if subnet in cluster.resources_vpc_config.get("subnetIds", []):
            yield f"the EKS cluster {cluster.name}"
    for balancer in _balancers(context):
        if subnet in {getattr(subnet, "id", subnet) for subnet in balancer.subnets}:
            yield balancer.arn


def holders_of_group(context: RequestContext, group: str) -> Iterator[str]:
    """Yield everything that uses a security group, and the groups whose rules reference it."""
    ec2 = context.backend("ec2")
    yield from (eni.id for eni in ec2.enis.values() if group in {attached.id for attached in eni.group_set})
    yield from (
        endpoint.id
        for endpoint in ec2.vpc_end_points.values()
        if group in endpoint.security_group_ids and endpoint.state != "deleted"
    )
    for target in context.backend("efs").mount_targets_by_id.values():
        if group in (target.security_groups or []):
            yield target.mount_target_id
    for cluster in _clusters(context):
        config = cluster.resources_vpc_config
        if group in [*config.get("securityGroupIds", []), config.get("clusterSecurityGroupId")]:
            yield f"the EKS cluster {cluster.name}"
    for balancer in _balancers(context):
        if group in (balancer.security_groups or []):
            yield balancer.arn
    for groups in ec2.groups.values():
        for other in groups.values():
            rules = [*other.ingress_rules, *other.egress_rules]
            if other.id != group and any((rule.source_group or {}).get("GroupId") == group for rule in rules):
                yield f"a rule of {other.id}"


def holders_of_vpc(context: RequestContext, vpc: str) -> Iterator[str]:
    """Yield everything in a VPC, except what AWS created with it."""
    ec2 = context.backend("ec2")
    yield from (name for zone in ec2.subnets.values() for name, subnet in zone.items() if subnet.vpc_id == vpc)
    yield from (gateway.id for gateway in ec2.internet_gateways.values() if gateway.vpc and gateway.vpc.id == vpc)
    yield from (
        endpoint.id
        for endpoint in ec2.vpc_end_points.values()
        if endpoint.vpc_id == vpc and endpoint.state != "deleted"
    )
    yield from (
        table.id for table in ec2.route_tables.values() if table.vpc_id == vpc and not table.main_association_id
    )
    yield from (name for name, group in ec2.groups.get(vpc, {}).items() if not group.is_default)
    yield from (acl.id for acl in ec2.network_acls.values() if acl.vpc_id == vpc and str(acl.default).lower() != "true")
    yield from (gateway.id for gateway in ec2.egress_only_internet_gateways.values() if gateway.vpc_id == vpc)
