"""Functions (data sources): what a program asks of the cloud before it makes anything.

Each asks an operation and says where in the answer its outputs stand; the renaming rule does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from agentenv.rehearsal.providers.aws import shapes
from agentenv.rehearsal.providers.aws.api_calls import Cloud
from agentenv.rehearsal.providers.aws.check import Checker
from agentenv.rehearsal.providers.aws.functions import ec2 as networks
from agentenv.rehearsal.providers.aws.functions import efs as files
from agentenv.rehearsal.providers.aws.functions import eks as clusters
from agentenv.rehearsal.providers.aws.functions import regions as places
from agentenv.rehearsal.providers.aws.functions import tags
from agentenv.rehearsal.providers.aws.functions.common import Arguments
from agentenv.rehearsal.providers.aws.row import Look, Make, Problem, Row

Function = Callable[[Cloud, Arguments], dict[str, Any]]


def invoke(cloud: Cloud, token: str, arguments: Arguments) -> tuple[dict[str, Any], list[Problem]]:
    """The function's outputs, and what is wrong with its arguments."""
    row = Row(token, "", Make(lambda _: {}, ()), "", Look(""), ())
    checker = Checker(row, shapes.shape(token), frozenset())
    kept = checker.check(arguments)
    if checker.problems:
        return {}, checker.problems
    out = {name: value for name, value in TABLE[token](cloud, kept).items() if name not in FILTERS_ONLY.get(token, ())}
    return {**{name: kept[name] for name in kept if name in shapes.shape(token).outputs}, **out}, []


# The outputs of a function that the official one never reads from the service: it repeats them from its arguments, and
# leaves them out where there was none. The schema does not tell them from other outputs.
FILTERS_ONLY: Final[Mapping[str, frozenset[str]]] = {
    "aws:ec2/getRouteTable:getRouteTable": frozenset({"gatewayId", "subnetId"}),
    "aws:ec2/getVpc:getVpc": frozenset({"state"}),
}


TABLE: Final[dict[str, Function]] = {
    "aws:ec2/getAmi:getAmi": networks.ami,
    "aws:ec2/getRouteTable:getRouteTable": networks.route_table,
    "aws:ec2/getSubnet:getSubnet": networks.subnet,
    "aws:ec2/getSubnets:getSubnets": networks.subnets,
    "aws:ec2/getVpc:getVpc": networks.vpc,
    "aws:efs/getFileSystem:getFileSystem": files.file_system,
    "aws:eks/getAddonVersion:getAddonVersion": clusters.addon_version,
    "aws:eks/getCluster:getCluster": clusters.cluster,
    "aws:iam/getPolicyDocument:getPolicyDocument": clusters.document,
    "aws:iam/getRole:getRole": clusters.role,
    "aws:index/getAvailabilityZones:getAvailabilityZones": places.availability_zones,
    "aws:index/getCallerIdentity:getCallerIdentity": places.caller_identity,
    "aws:index/getPartition:getPartition": places.partition_of,
    "aws:index/getRegion:getRegion": places.region,
    "aws:resourcegroupstaggingapi/getResources:getResources": tags.resources,
}
