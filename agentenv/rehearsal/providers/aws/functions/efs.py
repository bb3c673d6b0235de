"""Functions of EFS: file systems."""

from __future__ import annotations

from typing import Any

from agentenv.rehearsal.providers.aws.api_calls import Cloud
from agentenv.rehearsal.providers.aws.functions.common import Arguments, only, outputs_from, region_of, tags_of


def file_system(cloud: Cloud, a: Arguments) -> dict[str, Any]:
    token, region = "aws:efs/getFileSystem:getFileSystem", region_of(cloud, a)
    members_by_name = {"fileSystemId": "FileSystemId", "creationToken": "CreationToken"}
    parameters = {member: a[name] for name, member in members_by_name.items() if a.get(name)}
    systems = cloud.call("efs", "DescribeFileSystems", region, **parameters)["FileSystems"]
    expected_tags: dict[str, str] = a.get("tags") or {}
    match = only(
        [system for system in systems if expected_tags.items() <= tags_of(system).items()],
        "EFS file system",
        "DescribeFileSystems",
        "efs",
    )
    id_ = match["FileSystemId"]
    policies = cloud.call("efs", "DescribeLifecycleConfiguration", region, FileSystemId=id_)["LifecyclePolicies"]
    overwrite = (match.get("FileSystemProtection") or {}).get("ReplicationOverwriteProtection")
    return outputs_from(
        token,
        match,
        id=id_,
        arn=match["FileSystemArn"],
        # A file system may have no name, and a regional one has no zone.
        name=match.get("Name") or "",
        availabilityZoneId=match.get("AvailabilityZoneId") or "",
        availabilityZoneName=match.get("AvailabilityZoneName") or "",
        dnsName=f"{id_}.efs.{region}.amazonaws.com",
        kmsKeyId=match.get("KmsKeyId") or "",
        lifecyclePolicies=policies,
        protections=[{"ReplicationOverwrite": overwrite}] if overwrite else [],
        provisionedThroughputInMibps=match.get("ProvisionedThroughputInMibps") or 0,
        sizeInBytes=(match.get("SizeInBytes") or {}).get("Value", 0),
        region=region,
        tags=tags_of(match),
    )
