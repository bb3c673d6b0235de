"""The Fargate profile of a cluster, and the subnets it uses."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pulumi.runtime.invoke import invoke_async

from agentenv.core.values.addresses import PRIVATE_NETWORKS
from agentenv.rehearsal.providers.eks.children import Child, ChildFactory
from agentenv.rehearsal.providers.eks.service_roles import ServiceRole

if TYPE_CHECKING:
    import pulumi

_SELECTORS: Final = ({"namespace": "default"}, {"namespace": "kube-system"})


def profile(
    factory: ChildFactory,
    name: str,
    args: Mapping[str, Any],
    *,
    cluster: Child,
    subnets: pulumi.Output[list[str]],
    partition: pulumi.Output[str],
    tags: Any,
) -> Child:
    """Register the profile, with a pod execution role unless one is set."""
    role = args.get("podExecutionRoleArn")
    if not role:
        role = ServiceRole(
            f"{name}-podExecutionRole",
            factory,
            service="eks-fargate-pods.amazonaws.com",
            policies=["AmazonEKSFargatePodExecutionRolePolicy"],
            partition=partition,
            tags=tags,
        ).resolved_arn

    async def profile_subnets(cluster_subnets: Sequence[str]) -> list[str]:
        return await private_subnets(factory, args.get("subnetIds") or cluster_subnets)

    return factory.child(
        "aws:eks/fargateProfile:FargateProfile",
        _profile_name(name),
        {
            "clusterName": cluster.output("name"),
            "podExecutionRoleArn": role,
            "selectors": args.get("selectors") or list(_SELECTORS),
            "subnetIds": subnets.apply(profile_subnets),
        },
        ("status",),
    )


async def private_subnets(factory: ChildFactory, subnets: Sequence[str]) -> list[str]:
    """Return the subnets without a route to the internet, or all if each has one."""
    tables = await asyncio.gather(*(_routes(factory, subnet) for subnet in subnets))
    private = [subnet for subnet, routes in zip(subnets, tables, strict=True) if not any(map(_is_public_route, routes))]
    return private or list(subnets)


async def _routes(factory: ChildFactory, subnet: str) -> list[dict[str, Any]]:
    table = await _table(factory, subnet)
    return (table or {}).get("routes") or []


async def _table(factory: ChildFactory, subnet: str) -> Any:
    function = "aws:ec2/getRouteTable:getRouteTable"
    try:
        return await invoke_async(function, {"subnetId": subnet}, factory.invoke_options(function))
    except Exception:  # noqa: BLE001 - on any error: a subnet without its own route table uses the main one of the VPC
        subnet_function = "aws:ec2/getSubnet:getSubnet"
        vpc = (await invoke_async(subnet_function, {"id": subnet}, factory.invoke_options(subnet_function)))["vpcId"]
        main_table = [{"name": "association.main", "values": ["true"]}]
        return await invoke_async(function, {"vpcId": vpc, "filters": main_table}, factory.invoke_options(function))


def _is_public_route(route: Mapping[str, Any]) -> bool:
    if not route.get("gatewayId"):
        return False
    try:
        target = ipaddress.ip_network(route.get("cidrBlock") or "")
    except ValueError:
        return True
    return not any(
        isinstance(target, ipaddress.IPv4Network) and target.subnet_of(private_range)
        for private_range in PRIVATE_NETWORKS
    )


def _profile_name(name: str) -> str:
    """Return the profile's name. Names with the prefix `eks-` are reserved, so the name is changed."""
    if name == "eks" or name.lower().startswith("eks-"):
        return f"{name.replace('-', '_', 1)}fargateProfile"
    return f"{name}-fargateProfile"
