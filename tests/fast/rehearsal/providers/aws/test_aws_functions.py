"""The stand-in's functions answer what the official ones do, and no output more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agentenv.rehearsal.providers.aws import functions, shapes
from agentenv.rehearsal.providers.aws.provider import Provider
from tests.fast.components.reads import everything
from tests.fast.rehearsal.providers.aws.official import sdk_kind, strange, unlike
from tests.fast.rehearsal.providers.aws.samples.sample import Ground

ONE_SUBNET = [{"name": "availability-zone", "values": ["us-east-1a"]}]


def _associated(ground: Ground) -> dict[str, Any]:
    vpc = ground.vpc()
    subnet, table = ground.subnet(vpc), ground.table(vpc)
    ground.client("ec2").associate_route_table(RouteTableId=table, SubnetId=subnet)
    return {"subnetId": subnet}


def _cluster(ground: Ground) -> dict[str, Any]:
    vpc = ground.vpc()
    subnets = [ground.subnet(vpc), ground.subnet(vpc, "10.20.2.0/24", "us-east-1b")]
    name = ground.fresh("cluster")
    ground.client("eks").create_cluster(
        name=name,
        roleArn=ground.role_arn(),
        resourcesVpcConfig={"subnetIds": subnets, "endpointPrivateAccess": True},
        accessConfig={"authenticationMode": "API"},
    )
    return {"name": name}


def _tagged(ground: Ground) -> dict[str, Any]:
    word = ground.fresh("tagged")
    ground.client("efs").create_file_system(CreationToken=word, Tags=[{"Key": word, "Value": "1"}])
    return {"tagFilters": [{"key": word}]}


ARGUMENTS: dict[str, Callable[[Ground], dict[str, Any]]] = {
    # One that moto has: it takes seconds to list all of them.
    "aws:ec2/getAmi:getAmi": lambda _: {"filters": [{"name": "image-id", "values": ["ami-03cf127a"]}]},
    "aws:ec2/getRouteTable:getRouteTable": _associated,
    "aws:ec2/getSubnet:getSubnet": lambda g: {"id": g.subnet(g.vpc())},
    "aws:ec2/getSubnets:getSubnets": lambda _: {"filters": ONE_SUBNET},
    "aws:ec2/getVpc:getVpc": lambda g: {"id": g.vpc()},
    "aws:efs/getFileSystem:getFileSystem": lambda g: {"fileSystemId": g.file_system()},
    "aws:eks/getAddonVersion:getAddonVersion": lambda _: {"addonName": "coredns", "kubernetesVersion": "1.35"},
    "aws:eks/getCluster:getCluster": _cluster,
    "aws:iam/getPolicyDocument:getPolicyDocument": lambda _: {
        "statements": [{"actions": ["s3:GetObject"], "resources": ["*"]}]
    },
    "aws:iam/getRole:getRole": lambda g: {"name": g.role()},
    "aws:index/getAvailabilityZones:getAvailabilityZones": lambda _: {},
    "aws:index/getCallerIdentity:getCallerIdentity": lambda _: {},
    "aws:index/getPartition:getPartition": lambda _: {},
    "aws:index/getRegion:getRegion": lambda _: {},
    "aws:resourcegroupstaggingapi/getResources:getResources": _tagged,
}


def test_every_function_has_arguments_here() -> None:
    assert set(ARGUMENTS) == set(functions.TABLE)


@pytest.mark.parametrize("token", sorted(functions.TABLE))
def test_function_returns_only_official_outputs(token: str, provider: Provider, ground: Ground) -> None:
    arguments = ARGUMENTS[token](ground)
    out, problems = provider.invoke(token, arguments)
    assert problems == []
    assert strange(out, {name: {"t": fact.type} for name, fact in shapes.shape(token).outputs.items()}, token) == []
    repeated = functions.FILTERS_ONLY.get(token, frozenset()) & out.keys()
    assert repeated <= arguments.keys()


@pytest.mark.parametrize("token", sorted(functions.TABLE))
def test_function_returns_all_outputs_that_components_read(token: str, provider: Provider, ground: Ground) -> None:
    read = {read_.output for read_ in everything()[0] if read_.token == token}
    out, _ = provider.invoke(token, ARGUMENTS[token](ground))
    assert [name for name in sorted(read) if out.get(name) is None] == []


@pytest.mark.parametrize("token", sorted(shapes.known()))
def test_sdk_has_every_returned_output(token: str) -> None:
    """The schema that the stand-in answers by is another version's than the SDK's."""
    outputs = {name: {"t": fact.type} for name, fact in shapes.shape(token).outputs.items()}
    assert unlike(outputs, sdk_kind(token), token) == []
