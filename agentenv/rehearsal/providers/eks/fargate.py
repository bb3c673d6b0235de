"""The Fargate profile of a cluster, and which of its subnets it takes."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pulumi.runtime.invoke import invoke_async

from agentenv.rehearsal.providers.eks.children import Child, Maker
from agentenv.rehearsal.providers.eks.service_roles import ServiceRole

if TYPE_CHECKING:
    import pulumi

_SELECTORS: Final = ({"namespace": "default"}, {"namespace": "kube-system"})
_PRIVATE: Final = tuple(ipaddress.IPv4Network(cidr) for cidr in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))


def profile(
    maker: Maker,
    name: str,
    given: Mapping[str, Any],
    *,
    cluster: Child,
    subnets: pulumi.Output[list[str]],
    partition: pulumi.Output[str],
    tags: Any,
) -> Child:
    """The profile, with a role for its pods unless one is given."""
    role = given.get("podExecutionRoleArn")
    if not role:
        role = ServiceRole(
            f"{name}-podExecutionRole",
            maker,
            service="eks-fargate-pods.amazonaws.com",
            policies=["AmazonEKSFargatePodExecutionRolePolicy"],
            partition=partition,
            tags=tags,
        ).resolved_arn

    async def chosen(all_of_them: Sequence[str]) -> list[str]:
        return await private(maker, given.get("subnetIds") or all_of_them)

    return maker.child(
        "aws:eks/fargateProfile:FargateProfile",
        _profile_name(name),
        {
            "clusterName": cluster.out("name"),
            "podExecutionRoleArn": role,
            "selectors": given.get("selectors") or list(_SELECTORS),
            "subnetIds": subnets.apply(chosen),
        },
        ("status",),
    )


async def private(maker: Maker, subnets: Sequence[str]) -> list[str]:
    """The subnets without a route to the internet; all of them if each has one."""
    tables = await asyncio.gather(*(_routes(maker, subnet) for subnet in subnets))
    inside = [subnet for subnet, routes in zip(subnets, tables, strict=True) if not any(map(_leads_out, routes))]
    return inside or list(subnets)


async def _routes(maker: Maker, subnet: str) -> list[dict[str, Any]]:
    found = await _table(maker, subnet)
    return (found or {}).get("routes") or []


async def _table(maker: Maker, subnet: str) -> Any:
    ask = "aws:ec2/getRouteTable:getRouteTable"
    try:
        return await invoke_async(ask, {"subnetId": subnet}, maker.asking(ask))
    except Exception:  # noqa: BLE001 - whatever it failed by, a subnet without a table of its own has the VPC's
        about = "aws:ec2/getSubnet:getSubnet"
        vpc = (await invoke_async(about, {"id": subnet}, maker.asking(about)))["vpcId"]
        main = [{"name": "association.main", "values": ["true"]}]
        return await invoke_async(ask, {"vpcId": vpc, "filters": main}, maker.asking(ask))


def _leads_out(route: Mapping[str, Any]) -> bool:
    if not route.get("gatewayId"):
        return False
    try:
        target = ipaddress.ip_network(route.get("cidrBlock") or "")
    except ValueError:
        return True
    return not any(isinstance(target, ipaddress.IPv4Network) and target.subnet_of(inner) for inner in _PRIVATE)


def _profile_name(name: str) -> str:
    """Names that begin with `eks-` are AWS's own, so the component's name is bent there."""
    if name == "eks" or name.lower().startswith("eks-"):
        return f"{name.replace('-', '_', 1)}fargateProfile"
    return f"{name}-fargateProfile"
