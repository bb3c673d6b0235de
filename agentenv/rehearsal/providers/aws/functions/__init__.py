"""Functions (data sources): what a program reads from AWS before it creates resources.

Each calls an operation and selects its outputs in the response; `name_mapping` does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from agentenv.rehearsal.providers.aws import shapes
from agentenv.rehearsal.providers.aws.api_calls import Cloud
from agentenv.rehearsal.providers.aws.check import Checker
from agentenv.rehearsal.providers.aws.functions import ec2, efs, eks, regions, tags
from agentenv.rehearsal.providers.aws.functions.common import Arguments
from agentenv.rehearsal.providers.aws.row import CustomCreate, Problem, ReadCall, ResourceType

Function = Callable[[Cloud, Arguments], dict[str, Any]]


def invoke(cloud: Cloud, token: str, arguments: Arguments) -> tuple[dict[str, Any], list[Problem]]:
    """Return the outputs of a function, and the problems of its arguments."""
    row = ResourceType(token, "", CustomCreate(lambda _: {}, ()), "", ReadCall(""), ())
    checker = Checker(row, shapes.shape(token), frozenset())
    checked = checker.check(arguments)
    if checker.problems:
        return {}, checker.problems
    out = {
        name: value for name, value in TABLE[token](cloud, checked).items() if name not in FILTERS_ONLY.get(token, ())
    }
    return {**{name: checked[name] for name in checked if name in shapes.shape(token).outputs}, **out}, []


# Outputs that the official function never reads from the service: it repeats its arguments, and leaves out those that
# are not set. The schema does not distinguish them from other outputs.
FILTERS_ONLY: Final[Mapping[str, frozenset[str]]] = {
    "aws:ec2/getRouteTable:getRouteTable": frozenset({"gatewayId", "subnetId"}),
    "aws:ec2/getVpc:getVpc": frozenset({"state"}),
}


TABLE: Final[dict[str, Function]] = {
    "aws:ec2/getAmi:getAmi": ec2.ami,
    "aws:ec2/getRouteTable:getRouteTable": ec2.route_table,
    "aws:ec2/getSubnet:getSubnet": ec2.subnet,
    "aws:ec2/getSubnets:getSubnets": ec2.subnets,
    "aws:ec2/getVpc:getVpc": ec2.vpc,
    "aws:efs/getFileSystem:getFileSystem": efs.file_system,
    "aws:eks/getAddonVersion:getAddonVersion": eks.addon_version,
    "aws:eks/getCluster:getCluster": eks.cluster,
    "aws:iam/getPolicyDocument:getPolicyDocument": eks.document,
    "aws:iam/getRole:getRole": eks.role,
    "aws:index/getAvailabilityZones:getAvailabilityZones": regions.availability_zones,
    "aws:index/getCallerIdentity:getCallerIdentity": regions.caller_identity,
    "aws:index/getPartition:getPartition": regions.partition_of,
    "aws:index/getRegion:getRegion": regions.region,
    "aws:resourcegroupstaggingapi/getResources:getResources": tags.resources,
}
