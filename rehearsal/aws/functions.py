"""Functions (data sources): what a program asks of the cloud before it makes anything.

Each asks an operation and says where in the answer its outputs stand; the renaming rule does the rest.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

from rehearsal.aws import shapes, spelling
from rehearsal.aws.calls import Cloud, CloudError, partition
from rehearsal.aws.check import Checker
from rehearsal.aws.policy_documents import policy_document
from rehearsal.aws.row import Look, Make, Problem, Row

Arguments = Mapping[str, Any]
Function = Callable[[Cloud, Arguments], dict[str, Any]]


def invoke(cloud: Cloud, token: str, arguments: Arguments) -> tuple[dict[str, Any], list[Problem]]:
    """The function's outputs, and what is wrong with its arguments."""
    row = Row(token, "", Make(lambda _: {}, ()), "", Look(""), ())
    checker = Checker(row, shapes.shape(token), frozenset())
    kept = checker.check(arguments)
    if checker.problems:
        return {}, checker.problems
    out = TABLE[token](cloud, kept)
    return {**{name: kept[name] for name in kept if name in shapes.shape(token).outputs}, **out}, []


def _region(cloud: Cloud, a: Arguments) -> str:
    return a.get("region") or cloud.access.region


def _told(token: str, document: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """The outputs the rule finds in an answer."""
    out: dict[str, Any] = {}
    for name, fact in shapes.shape(token).outputs.items():
        value = more[name] if name in more else spelling.find(document, name)[1]
        if value is not None:
            out[name] = spelling.receive(value, fact.type, {}, name)
    return out


def _tags(document: Mapping[str, Any], at: str = "Tags") -> dict[str, str]:
    found = document.get(at) or {}
    return dict(found) if isinstance(found, Mapping) else {tag["Key"]: tag["Value"] for tag in found}


def _filters(a: Arguments, **direct: str) -> list[dict[str, Any]]:
    """EC2's filters from a function's: those written as filters, tags, and arguments that are filters themselves."""
    out = [{"Name": f["name"], "Values": f["values"]} for f in a.get("filters") or []]
    out += [{"Name": f"tag:{key}", "Values": [value]} for key, value in sorted((a.get("tags") or {}).items())]
    for name, filter_ in direct.items():
        if a.get(name) is not None:
            value = a[name]
            out.append({"Name": filter_, "Values": [str(value).lower() if isinstance(value, bool) else value]})
    return out


def _only(found: list[Any], what: str, operation: str, service: str = "ec2") -> Any:
    if len(found) != 1:
        told = "none" if not found else f"{len(found)} of them"
        raise CloudError(service, operation, "NotOne", f"one {what} was asked for, {told} matched: be more specific")
    return found[0]


# -- where we are -----------------------------------------------------------------------------------------------------


def availability_zones(cloud: Cloud, a: Arguments) -> dict[str, Any]:
    direct = {"allAvailabilityZones": "AllAvailabilityZones"}
    asked = {member: a[name] for name, member in direct.items() if a.get(name) is not None}
    filters = _filters(a, state="state")
    told = cloud.call("ec2", "DescribeAvailabilityZones", _region(cloud, a), Filters=filters, **asked)
    zones = [
        zone
        for zone in sorted(told["AvailabilityZones"], key=lambda zone: zone["ZoneName"])
        if zone["ZoneName"] not in (a.get("excludeNames") or ())
        and zone["ZoneId"] not in (a.get("excludeZoneIds") or ())
    ]
    return {
        "id": _region(cloud, a),
        "region": _region(cloud, a),
        "names": [zone["ZoneName"] for zone in zones],
        "zoneIds": [zone["ZoneId"] for zone in zones],
        "groupNames": sorted({zone.get("GroupName") or _region(cloud, a) for zone in zones}),
    }


def caller_identity(cloud: Cloud, _: Arguments) -> dict[str, Any]:
    told = cloud.call("sts", "GetCallerIdentity")
    return {"accountId": told["Account"], "arn": told["Arn"], "userId": told["UserId"], "id": told["Account"]}


def partition_of(cloud: Cloud, _: Arguments) -> dict[str, Any]:
    name = partition(cloud.access.region)
    suffix = "amazonaws.com.cn" if name == "aws-cn" else "amazonaws.com"
    reverse = ".".join(reversed(suffix.split(".")))
    return {"partition": name, "id": name, "dnsSuffix": suffix, "reverseDnsPrefix": reverse}


def region(cloud: Cloud, a: Arguments) -> dict[str, Any]:
    from botocore.session import Session

    name = a.get("region") or a.get("name") or cloud.access.region
    known = Session().get_available_regions("ec2", partition(name))
    if name not in known:
        raise CloudError("ec2", "getRegion", "NoSuchRegion", f"{name!r} is not a region")
    suffix = "amazonaws.com.cn" if partition(name) == "aws-cn" else "amazonaws.com"
    return {
        "name": name,
        "region": name,
        "id": name,
        "description": _region_name(name),
        "endpoint": f"ec2.{name}.{suffix}",
    }


@functools.cache
def _region_name(name: str) -> str:
    from rehearsal.aws.calls import session

    for one in session().get_component("data_loader").load_data("endpoints")["partitions"]:
        if name in one["regions"]:
            return one["regions"][name]["description"]
    return name


# -- the network ------------------------------------------------------------------------------------------------------


def vpc(cloud: Cloud, a: Arguments) -> dict[str, Any]:
    token, at = "aws:ec2/getVpc:getVpc", _region(cloud, a)
    by_id = {"VpcIds": [a["id"]]} if a.get("id") else {}
    names = {"cidrBlock": "cidr", "default": "isDefault", "dhcpOptionsId": "dhcp-options-id", "state": "state"}
    found = cloud.call("ec2", "DescribeVpcs", at, Filters=_filters(a, **names), **by_id)["Vpcs"]
    one = _only(found, "VPC", "DescribeVpcs")
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
    return _told(
        token,
        one,
        id=id_,
        arn=f"arn:{partition(at)}:ec2:{at}:{cloud.account()}:vpc/{id_}",
        default=one.get("IsDefault", False),
        cidrBlockAssociations=associations,
        mainRouteTableId=tables[0]["RouteTableId"] if tables else None,
        region=at,
        tags=_tags(one),
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
    token, at = "aws:ec2/getSubnet:getSubnet", _region(cloud, a)
    by_id = {"SubnetIds": [a["id"]]} if a.get("id") else {}
    found = cloud.call("ec2", "DescribeSubnets", at, Filters=_filters(a, **SUBNET_FILTERS), **by_id)["Subnets"]
    one = _only(found, "subnet", "DescribeSubnets")
    return _told(token, one, id=one["SubnetId"], arn=one.get("SubnetArn"), region=at, tags=_tags(one))


def subnets(cloud: Cloud, a: Arguments) -> dict[str, Any]:
    found = cloud.call("ec2", "DescribeSubnets", _region(cloud, a), Filters=_filters(a))["Subnets"]
    ids = sorted(one["SubnetId"] for one in found)
    return {"id": _region(cloud, a), "ids": ids, "region": _region(cloud, a)}


ROUTE_FILTERS: Final = {
    "gatewayId": "association.gateway-id",
    "routeTableId": "route-table-id",
    "subnetId": "association.subnet-id",
    "vpcId": "vpc-id",
}


def route_table(cloud: Cloud, a: Arguments) -> dict[str, Any]:
    token, at = "aws:ec2/getRouteTable:getRouteTable", _region(cloud, a)
    found = cloud.call("ec2", "DescribeRouteTables", at, Filters=_filters(a, **ROUTE_FILTERS))["RouteTables"]
    one = _only(found, "route table", "DescribeRouteTables")
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
    return _told(
        token,
        one,
        id=id_,
        arn=f"arn:{partition(at)}:ec2:{at}:{owner}:route-table/{id_}",
        associations=[{**x, "RouteTableAssociationId": x["RouteTableAssociationId"]} for x in one["Associations"]],
        routes=routes,
        routeTableId=id_,
        subnetId=a.get("subnetId"),
        gatewayId=a.get("gatewayId"),
        region=at,
        tags=_tags(one),
    )


def ami(cloud: Cloud, a: Arguments) -> dict[str, Any]:
    import re

    token, at = "aws:ec2/getAmi:getAmi", _region(cloud, a)
    asked = {
        member: a[name]
        for name, member in (("owners", "Owners"), ("executableUsers", "ExecutableUsers"))
        if a.get(name)
    }
    found = cloud.call("ec2", "DescribeImages", at, Filters=_filters(a), **asked)["Images"]
    if a.get("nameRegex"):
        found = [image for image in found if re.search(a["nameRegex"], image.get("Name", ""))]
    if a.get("mostRecent") and found:
        found = [max(found, key=lambda image: image["CreationDate"])]
    one = _only(found, "image", "DescribeImages")
    arn = f"arn:{partition(at)}:ec2:{at}::image/{one['ImageId']}"
    return _told(token, one, id=one["ImageId"], arn=arn, region=at, tags=_tags(one))


# -- clusters and identities ------------------------------------------------------------------------------------------


def cluster(cloud: Cloud, a: Arguments) -> dict[str, Any]:
    token, at = "aws:eks/getCluster:getCluster", _region(cloud, a)
    one = cloud.call("eks", "DescribeCluster", at, name=a["name"])["cluster"]
    identity = one.get("identity") or {}
    return _told(
        token,
        one,
        id=a["name"],
        clusterId=one.get("id"),
        accessConfigs=[one["accessConfig"]] if one.get("accessConfig") else [],
        certificateAuthorities=[one["certificateAuthority"]] if one.get("certificateAuthority") else [],
        enabledClusterLogTypes=sorted(
            kind
            for setup in (one.get("logging") or {}).get("clusterLogging", [])
            if setup.get("enabled")
            for kind in setup.get("types", [])
        ),
        identities=[{"Oidcs": [identity["oidc"]]}] if identity.get("oidc") else [],
        kubernetesNetworkConfigs=[one["kubernetesNetworkConfig"]] if one.get("kubernetesNetworkConfig") else [],
        vpcConfig=one.get("resourcesVpcConfig"),
        region=at,
        tags=_tags(one, "tags"),
    )


def addon_version(cloud: Cloud, a: Arguments) -> dict[str, Any]:
    """The default version for that Kubernetes, or the newest."""
    at = _region(cloud, a)
    asked = {"addonName": a["addonName"], "kubernetesVersion": a["kubernetesVersion"]}
    addons = cloud.call("eks", "DescribeAddonVersions", at, **asked)["addons"]
    versions = [v for addon in addons if addon["addonName"] == a["addonName"] for v in addon["addonVersions"]]
    usual = [v for v in versions if any(c.get("defaultVersion") for c in v.get("compatibilities", []))]
    chosen = versions if a.get("mostRecent") else usual
    if not chosen:
        raise CloudError("eks", "DescribeAddonVersions", "NotFound", f"no version of {a['addonName']} for {asked}")
    return {"id": a["addonName"], "region": at, "version": chosen[0]["addonVersion"]}


def role(cloud: Cloud, a: Arguments) -> dict[str, Any]:
    from rehearsal.aws.rows.identity import read_document

    one = cloud.call("iam", "GetRole", RoleName=a["name"])["Role"]
    return _told(
        "aws:iam/getRole:getRole",
        one,
        id=one["RoleName"],
        name=one["RoleName"],
        uniqueId=one["RoleId"],
        assumeRolePolicy=read_document(one["AssumeRolePolicyDocument"]),
        permissionsBoundary=(one.get("PermissionsBoundary") or {}).get("PermissionsBoundaryArn", ""),
        tags=_tags(one),
    )


def document(_: Cloud, a: Arguments) -> dict[str, Any]:
    return policy_document(a)


TABLE: Final[dict[str, Function]] = {
    "aws:ec2/getAmi:getAmi": ami,
    "aws:ec2/getRouteTable:getRouteTable": route_table,
    "aws:ec2/getSubnet:getSubnet": subnet,
    "aws:ec2/getSubnets:getSubnets": subnets,
    "aws:ec2/getVpc:getVpc": vpc,
    "aws:eks/getAddonVersion:getAddonVersion": addon_version,
    "aws:eks/getCluster:getCluster": cluster,
    "aws:iam/getPolicyDocument:getPolicyDocument": document,
    "aws:iam/getRole:getRole": role,
    "aws:index/getAvailabilityZones:getAvailabilityZones": availability_zones,
    "aws:index/getCallerIdentity:getCallerIdentity": caller_identity,
    "aws:index/getPartition:getPartition": partition_of,
    "aws:index/getRegion:getRegion": region,
}
