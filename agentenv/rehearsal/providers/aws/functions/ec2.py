"""What there is of networks, and images to start in them."""

from __future__ import annotations

from typing import Any, Final

from agentenv.rehearsal.providers.aws.api_calls import Cloud, partition
from agentenv.rehearsal.providers.aws.functions.common import (
    Arguments,
    described,
    filters_of,
    only,
    region_of,
    tags_of,
    told,
)


def vpc(cloud: Cloud, a: Arguments) -> dict[str, Any]:
    token, at = "aws:ec2/getVpc:getVpc", region_of(cloud, a)
    by_id = {"VpcIds": [a["id"]]} if a.get("id") else {}
    names = {"cidrBlock": "cidr", "default": "isDefault", "dhcpOptionsId": "dhcp-options-id", "state": "state"}
    found = described(cloud, "DescribeVpcs", at, "Vpcs", Filters=filters_of(a, **names), **by_id)
    one = only(found, "EC2 VPC", "DescribeVpcs")
    id_ = one["VpcId"]
    attributes = {
        f"enable{name}": cloud.call("ec2", "DescribeVpcAttribute", at, VpcId=id_, Attribute=f"enable{name}")[
            f"Enable{name}"
        ]["Value"]
        for name in ("DnsHostnames", "DnsSupport", "NetworkAddressUsageMetrics")
    }
    where = [{"Name": "vpc-id", "Values": [id_]}, {"Name": "association.main", "Values": ["true"]}]
    tables = cloud.call("ec2", "DescribeRouteTables", at, Filters=where)["RouteTables"]
    associations = [
        {"AssociationId": c["AssociationId"], "CidrBlock": c["CidrBlock"], "State": c["CidrBlockState"]["State"]}
        for c in one.get("CidrBlockAssociationSet", [])
    ]
    return told(
        token,
        one,
        id=id_,
        arn=f"arn:{partition(at)}:ec2:{at}:{cloud.account()}:vpc/{id_}",
        default=one.get("IsDefault", False),
        cidrBlockAssociations=associations,
        mainRouteTableId=tables[0]["RouteTableId"] if tables else None,
        region=at,
        tags=tags_of(one),
        **attributes,
    )


SUBNET_FILTERS: Final = {
    "availabilityZone": "availability-zone",
    "availabilityZoneId": "availability-zone-id",
    "cidrBlock": "cidr-block",
    "defaultForAz": "default-for-az",
    "state": "state",
    "vpcId": "vpc-id",
}


def subnet(cloud: Cloud, a: Arguments) -> dict[str, Any]:
    token, at = "aws:ec2/getSubnet:getSubnet", region_of(cloud, a)
    by_id = {"SubnetIds": [a["id"]]} if a.get("id") else {}
    found = described(cloud, "DescribeSubnets", at, "Subnets", Filters=filters_of(a, **SUBNET_FILTERS), **by_id)
    one = only(found, "EC2 Subnet", "DescribeSubnets")
    return told(token, one, id=one["SubnetId"], arn=one.get("SubnetArn"), region=at, tags=tags_of(one))


def subnets(cloud: Cloud, a: Arguments) -> dict[str, Any]:
    found = cloud.call("ec2", "DescribeSubnets", region_of(cloud, a), Filters=filters_of(a))["Subnets"]
    ids = sorted(one["SubnetId"] for one in found)
    return {"id": region_of(cloud, a), "ids": ids, "region": region_of(cloud, a)}


ROUTE_FILTERS: Final = {
    "gatewayId": "association.gateway-id",
    "routeTableId": "route-table-id",
    "subnetId": "association.subnet-id",
    "vpcId": "vpc-id",
}


def route_table(cloud: Cloud, a: Arguments) -> dict[str, Any]:
    token, at = "aws:ec2/getRouteTable:getRouteTable", region_of(cloud, a)
    found = cloud.call("ec2", "DescribeRouteTables", at, Filters=filters_of(a, **ROUTE_FILTERS))["RouteTables"]
    one = only(found, "EC2 Route Table", "DescribeRouteTables")
    id_ = one["RouteTableId"]
    routes = [
        {
            **route,
            "CidrBlock": route.get("DestinationCidrBlock"),
            "Ipv6CidrBlock": route.get("DestinationIpv6CidrBlock"),
            "EgressOnlyGatewayId": route.get("EgressOnlyInternetGatewayId"),
        }
        for route in one.get("Routes", [])
        if route.get("GatewayId") != "local"
    ]
    owner = one.get("OwnerId") or cloud.account()
    return told(
        token,
        one,
        id=id_,
        arn=f"arn:{partition(at)}:ec2:{at}:{owner}:route-table/{id_}",
        associations=[{**x, "RouteTableAssociationId": x["RouteTableAssociationId"]} for x in one["Associations"]],
        routes=routes,
        routeTableId=id_,
        region=at,
        tags=tags_of(one),
    )


def ami(cloud: Cloud, a: Arguments) -> dict[str, Any]:
    import re

    token, at = "aws:ec2/getAmi:getAmi", region_of(cloud, a)
    asked = {
        member: a[name]
        for name, member in (("owners", "Owners"), ("executableUsers", "ExecutableUsers"))
        if a.get(name)
    }
    found = cloud.call("ec2", "DescribeImages", at, Filters=filters_of(a), **asked)["Images"]
    if a.get("nameRegex"):
        found = [image for image in found if re.search(a["nameRegex"], image.get("Name", ""))]
    if a.get("mostRecent") and found:
        found = [max(found, key=lambda image: image["CreationDate"])]
    one = only(found, "EC2 AMI", "DescribeImages")
    arn = f"arn:{partition(at)}:ec2:{at}::image/{one['ImageId']}"
    return told(token, one, id=one["ImageId"], arn=arn, region=at, tags=tags_of(one))
