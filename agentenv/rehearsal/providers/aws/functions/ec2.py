"""Functions of EC2: VPCs, subnets, route tables and machine images."""

from __future__ import annotations

from typing import Any, Final

from agentenv.rehearsal.providers.aws.api_calls import Cloud, partition
from agentenv.rehearsal.providers.aws.functions.common import (
    Arguments,
    describe,
    filters_of,
    only,
    outputs_from,
    region_of,
    tags_of,
)


def vpc(cloud: Cloud, a: Arguments) -> dict[str, Any]:
    token, region = "aws:ec2/getVpc:getVpc", region_of(cloud, a)
    by_id = {"VpcIds": [a["id"]]} if a.get("id") else {}
    names = {"cidrBlock": "cidr", "default": "isDefault", "dhcpOptionsId": "dhcp-options-id", "state": "state"}
    matches = describe(cloud, "DescribeVpcs", region, "Vpcs", Filters=filters_of(a, **names), **by_id)
    match = only(matches, "EC2 VPC", "DescribeVpcs")
    id_ = match["VpcId"]
    attributes = {
        f"enable{name}": cloud.call("ec2", "DescribeVpcAttribute", region, VpcId=id_, Attribute=f"enable{name}")[
            f"Enable{name}"
        ]["Value"]
        for name in ("DnsHostnames", "DnsSupport", "NetworkAddressUsageMetrics")
    }
    main_filters = [{"Name": "vpc-id", "Values": [id_]}, {"Name": "association.main", "Values": ["true"]}]
    tables = cloud.call("ec2", "DescribeRouteTables", region, Filters=main_filters)["RouteTables"]
    associations = [
        {"AssociationId": c["AssociationId"], "CidrBlock": c["CidrBlock"], "State": c["CidrBlockState"]["State"]}
        for c in match.get("CidrBlockAssociationSet", [])
    ]
    return outputs_from(
        token,
        match,
        id=id_,
        arn=f"arn:{partition(region)}:ec2:{region}:{cloud.account()}:vpc/{id_}",
        default=match.get("IsDefault", False),
        cidrBlockAssociations=associations,
        mainRouteTableId=tables[0]["RouteTableId"] if tables else None,
        region=region,
        tags=tags_of(match),
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
    token, region = "aws:ec2/getSubnet:getSubnet", region_of(cloud, a)
    by_id = {"SubnetIds": [a["id"]]} if a.get("id") else {}
    matches = describe(cloud, "DescribeSubnets", region, "Subnets", Filters=filters_of(a, **SUBNET_FILTERS), **by_id)
    match = only(matches, "EC2 Subnet", "DescribeSubnets")
    return outputs_from(
        token, match, id=match["SubnetId"], arn=match.get("SubnetArn"), region=region, tags=tags_of(match)
    )


def subnets(cloud: Cloud, a: Arguments) -> dict[str, Any]:
    matches = cloud.call("ec2", "DescribeSubnets", region_of(cloud, a), Filters=filters_of(a))["Subnets"]
    ids = sorted(match["SubnetId"] for match in matches)
    return {"id": region_of(cloud, a), "ids": ids, "region": region_of(cloud, a)}


ROUTE_FILTERS: Final = {
    "gatewayId": "association.gateway-id",
    "routeTableId": "route-table-id",
    "subnetId": "association.subnet-id",
    "vpcId": "vpc-id",
}


def route_table(cloud: Cloud, a: Arguments) -> dict[str, Any]:
    token, region = "aws:ec2/getRouteTable:getRouteTable", region_of(cloud, a)
    matches = cloud.call("ec2", "DescribeRouteTables", region, Filters=filters_of(a, **ROUTE_FILTERS))["RouteTables"]
    match = only(matches, "EC2 Route Table", "DescribeRouteTables")
    id_ = match["RouteTableId"]
    routes = [
        {
            **route,
            "CidrBlock": route.get("DestinationCidrBlock"),
            "Ipv6CidrBlock": route.get("DestinationIpv6CidrBlock"),
            "EgressOnlyGatewayId": route.get("EgressOnlyInternetGatewayId"),
        }
        for route in match.get("Routes", [])
        if route.get("GatewayId") != "local"
    ]
    owner = match.get("OwnerId") or cloud.account()
    return outputs_from(
        token,
        match,
        id=id_,
        arn=f"arn:{partition(region)}:ec2:{region}:{owner}:route-table/{id_}",
        associations=[{**x, "RouteTableAssociationId": x["RouteTableAssociationId"]} for x in match["Associations"]],
        routes=routes,
        routeTableId=id_,
        region=region,
        tags=tags_of(match),
    )


def ami(cloud: Cloud, a: Arguments) -> dict[str, Any]:
    import re

    token, region = "aws:ec2/getAmi:getAmi", region_of(cloud, a)
    parameters = {
        member: a[name]
        for name, member in (("owners", "Owners"), ("executableUsers", "ExecutableUsers"))
        if a.get(name)
    }
    matches = cloud.call("ec2", "DescribeImages", region, Filters=filters_of(a), **parameters)["Images"]
    if a.get("nameRegex"):
        matches = [image for image in matches if re.search(a["nameRegex"], image.get("Name", ""))]
    if a.get("mostRecent") and matches:
        matches = [max(matches, key=lambda image: image["CreationDate"])]
    match = only(matches, "EC2 AMI", "DescribeImages")
    arn = f"arn:{partition(region)}:ec2:{region}::image/{match['ImageId']}"
    return outputs_from(token, match, id=match["ImageId"], arn=arn, region=region, tags=tags_of(match))
