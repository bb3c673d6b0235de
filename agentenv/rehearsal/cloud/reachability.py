"""The page of reachability: whether the deployer's address reaches the API server of a cluster.

The public endpoint admits the cluster's public ranges. The private one has addresses of the VPC: a client elsewhere
needs a rule in a security group of the cluster, and a route back in the route tables of its subnets.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, ip_address, ip_network
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.eks_registration import registered_plane
from agentenv.rehearsal.cloud.iam.access_keys import account_of

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.moto_backend import MotoBackend
    from agentenv.rehearsal.cloud.store import Store

HTTPS = 443


class InvalidQuestion(Exception):
    """The body is invalid; the message says why."""


def handle(moto: MotoBackend, store: Store, body: bytes) -> dict[str, str]:
    """Handle the page: POST a cluster, and learn why the deployer does not reach it; the reason is empty if it does."""
    try:
        question = json.loads(body)
        account, region = account_of(question["account_key"]), question["region"]
        name = question["cluster"]
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidQuestion(f"A question is an object of account_key, region and cluster: {error}.") from None
    plane = registered_plane(store)
    cluster = moto.backend("eks", account, region).clusters.get(name)
    if cluster is None or plane is None or not plane.deployer_address:
        return {"reason": ""}
    address = IPv4Address(plane.deployer_address)
    config = cluster.resources_vpc_config
    if config.get("endpointPublicAccess") and _within(address, config.get("publicAccessCidrs") or ["0.0.0.0/0"]):
        return {"reason": ""}
    if not config.get("endpointPrivateAccess"):
        return {"reason": f"its public endpoint does not admit {address}, and it has no private one"}
    return {"reason": _why_not_private(moto.backend("ec2", account, region), config, address)}


def _why_not_private(ec2: Any, config: dict[str, Any], address: IPv4Address) -> str:
    vpc = ec2.get_vpc(config["vpcId"])
    groups = {config.get("clusterSecurityGroupId"), *config.get("securityGroupIds", [])}
    ranges = (cidr for name, group in ec2.groups[vpc.id].items() if name in groups for cidr in _admitted(group))
    if not _within(address, ranges):
        return f"no ingress rule of its security groups admits {address} on port {HTTPS}"
    if _within(address, [vpc.cidr_block]):
        return ""
    for subnet in config["subnetIds"]:
        if not _routed(ec2, vpc.id, subnet, address):
            return f"{subnet} has no route to {address}"
    return ""


def _admitted(group: Any) -> Iterator[str]:
    for rule in group.ingress_rules:
        everything = str(rule.ip_protocol) == "-1"
        if everything or (rule.ip_protocol == "tcp" and int(rule.from_port) <= HTTPS <= int(rule.to_port)):
            yield from filter(None, [rule.ip_range.get("CidrIp")])


def _routed(ec2: Any, vpc: str, subnet: str, address: IPv4Address) -> bool:
    """Return whether a subnet's table routes an address to an attached transit gateway, a peer or a VPN."""
    tables = [table for table in ec2.route_tables.values() if table.vpc_id == vpc]
    own = [table for table in tables if subnet in table._associations.values()]
    for table in own or [table for table in tables if table.main_association_id]:
        routes = [route for route in table._routes.values() if _leads_out_privately(route)]
        if _within(address, (route.destination_cidr_block for route in routes)):
            return True
    return False


def _leads_out_privately(route: Any) -> bool:
    gateway = getattr(route.gateway, "id", "") or ""
    return bool(route.transit_gateway or route.vpc_pcx or gateway.startswith("vgw-"))


def _within(address: IPv4Address, ranges: Iterable[str]) -> bool:
    return any(ip_address(address) in ip_network(cidr) for cidr in ranges)
