"""Functions about the caller's account, partition, region and availability zones."""

from __future__ import annotations

import functools
from typing import Any

from agentenv.rehearsal.providers.aws.api_calls import Cloud, CloudError, partition
from agentenv.rehearsal.providers.aws.functions.common import Arguments, filters_of, region_of


def availability_zones(cloud: Cloud, a: Arguments) -> dict[str, Any]:
    direct = {"allAvailabilityZones": "AllAvailabilityZones"}
    parameters = {member: a[name] for name, member in direct.items() if a.get(name) is not None}
    filters = filters_of(a, state="state")
    response = cloud.call("ec2", "DescribeAvailabilityZones", region_of(cloud, a), Filters=filters, **parameters)
    zones = [
        zone
        for zone in sorted(response["AvailabilityZones"], key=lambda zone: zone["ZoneName"])
        if zone["ZoneName"] not in (a.get("excludeNames") or ())
        and zone["ZoneId"] not in (a.get("excludeZoneIds") or ())
    ]
    return {
        "id": region_of(cloud, a),
        "region": region_of(cloud, a),
        "names": [zone["ZoneName"] for zone in zones],
        "zoneIds": [zone["ZoneId"] for zone in zones],
        "groupNames": sorted({zone.get("GroupName") or region_of(cloud, a) for zone in zones}),
    }


def caller_identity(cloud: Cloud, _: Arguments) -> dict[str, Any]:
    response = cloud.call("sts", "GetCallerIdentity")
    return {
        "accountId": response["Account"],
        "arn": response["Arn"],
        "userId": response["UserId"],
        "id": response["Account"],
    }


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
    from agentenv.rehearsal.providers.aws.api_calls import session

    for partition_data in session().get_component("data_loader").load_data("endpoints")["partitions"]:
        if name in partition_data["regions"]:
            return partition_data["regions"][name]["description"]
    return name
