"""What there is of file systems."""

from __future__ import annotations

from typing import Any

from agentenv.rehearsal.providers.aws.api_calls import Cloud
from agentenv.rehearsal.providers.aws.functions.common import Arguments, only, region_of, tags_of, told


def file_system(cloud: Cloud, a: Arguments) -> dict[str, Any]:
    token, at = "aws:efs/getFileSystem:getFileSystem", region_of(cloud, a)
    named = {"fileSystemId": "FileSystemId", "creationToken": "CreationToken"}
    asked = {member: a[name] for name, member in named.items() if a.get(name)}
    systems = cloud.call("efs", "DescribeFileSystems", at, **asked)["FileSystems"]
    wanted: dict[str, str] = a.get("tags") or {}
    one = only(
        [one for one in systems if wanted.items() <= tags_of(one).items()],
        "EFS file system",
        "DescribeFileSystems",
        "efs",
    )
    id_ = one["FileSystemId"]
    moves = cloud.call("efs", "DescribeLifecycleConfiguration", at, FileSystemId=id_)["LifecyclePolicies"]
    overwrite = (one.get("FileSystemProtection") or {}).get("ReplicationOverwriteProtection")
    return told(
        token,
        one,
        id=id_,
        arn=one["FileSystemArn"],
        # Its own name may be left out, and so may the zone of one that is in all of them.
        name=one.get("Name") or "",
        availabilityZoneId=one.get("AvailabilityZoneId") or "",
        availabilityZoneName=one.get("AvailabilityZoneName") or "",
        dnsName=f"{id_}.efs.{at}.amazonaws.com",
        kmsKeyId=one.get("KmsKeyId") or "",
        lifecyclePolicies=moves,
        protections=[{"ReplicationOverwrite": overwrite}] if overwrite else [],
        provisionedThroughputInMibps=one.get("ProvisionedThroughputInMibps") or 0,
        sizeInBytes=(one.get("SizeInBytes") or {}).get("Value", 0),
        region=at,
        tags=tags_of(one),
    )
