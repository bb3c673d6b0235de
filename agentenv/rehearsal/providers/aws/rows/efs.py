"""EFS: file systems, where they can be mounted, who may, and the doors into them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws.row import Call, Do, Form, Look, Problem, Row, Tags, Until
from agentenv.rehearsal.providers.aws.value_kinds import ADDRESS, IS_ARN, POLICY, among, matching

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Situation

FILE_SYSTEM_ID: Final = {"FileSystemId": "$id"}
GONE: Final = ("FileSystemNotFound",)
BY_ID: Final = Tags("Tags", "", "TagResource", "UntagResource", {"ResourceId": "$id"})
READY: Final = Until("LifeCycleState", ("available",), ("error", "deleting", "deleted"))
DELETED: Final = Until("LifeCycleState", ("deleted",))
BUSY: Final = ("FileSystemInUse", "IncorrectFileSystemLifeCycleState", "IncorrectMountTargetState", "DependencyTimeout")


def _token(s: Situation) -> str:
    """EFS makes nothing twice under the same token."""
    return s.inputs.get("creationToken") or f"agentenv-{secrets.token_hex(13)}"


def _throughput(s: Situation) -> None:
    if s.creating:
        return
    asked: dict[str, Any] = {"ThroughputMode": s.inputs.get("throughputMode") or "bursting"}
    if asked["ThroughputMode"] == "provisioned":
        asked["ProvisionedThroughputInMibps"] = s.inputs.get("provisionedThroughputInMibps")
    s.call("UpdateFileSystem", FileSystemId=s.id, **asked)


def _protect(s: Situation) -> None:
    wanted = (s.inputs.get("protection") or {}).get("replicationOverwrite") or "ENABLED"
    s.call("UpdateFileSystemProtection", FileSystemId=s.id, ReplicationOverwriteProtection=wanted)


def _lifecycle_wrong(inputs: Mapping[str, Any]) -> list[Problem]:
    policies = inputs.get("lifecyclePolicies")
    if isinstance(policies, list) and len(policies) > 3:
        return [("lifecyclePolicies", f"has {len(policies)} policies: at most 3, one for each transition")]
    return []


FILE_SYSTEM = Row(
    type="aws:efs/fileSystem:FileSystem",
    service="efs",
    create=Call(
        "CreateFileSystem",
        (
            *("availabilityZoneName", "creationToken", "encrypted", "kmsKeyId", "performanceMode"),
            *("provisionedThroughputInMibps", "throughputMode"),
        ),
        given={"CreationToken": _token},
    ),
    id="FileSystemId",
    find=Look("DescribeFileSystems", FILE_SYSTEM_ID, "FileSystems[0]", gone=GONE),
    also=(
        Look(
            "DescribeLifecycleConfiguration", FILE_SYSTEM_ID, puts={"LifecyclePolicies": "LifecyclePolicies"}, gone=GONE
        ),
    ),
    sets=(
        Do(_throughput, ("provisionedThroughputInMibps", "throughputMode")),
        Call("PutLifecycleConfiguration", ("lifecyclePolicies",), given=FILE_SYSTEM_ID),
        Do(_protect, ("protection",)),
    ),
    delete=(Call("DeleteFileSystem", given=FILE_SYSTEM_ID),),
    shows={
        "arn": "FileSystemArn",
        "dnsName": Form("{id}.efs.{region}.amazonaws.com"),
        "protection": lambda _, d: {
            "ReplicationOverwrite": (d.get("FileSystemProtection") or {}).get("ReplicationOverwriteProtection")
        },
    },
    tags=BY_ID,
    ready=READY,
    gone=DELETED,
    ends=True,
    busy=BUSY,
    kinds={"kmsKeyId": IS_ARN, "protection.replicationOverwrite": among("ENABLED", "DISABLED")},
    defaults={"throughputMode": "bursting"},
    rules=(_lifecycle_wrong,),
    moves=frozenset({"name", "sizeInBytes"}),
)


def _policy(operation: str, given: Mapping[str, Any], **more: Any) -> Call:
    return Call(operation, ("policy", "bypassPolicyLockoutSafetyCheck"), given=given, **more)


FILE_SYSTEM_POLICY = Row(
    type="aws:efs/fileSystemPolicy:FileSystemPolicy",
    service="efs",
    create=Call("PutFileSystemPolicy", None),
    id="$in.fileSystemId",
    find=Look("DescribeFileSystemPolicy", FILE_SYSTEM_ID, gone=(*GONE, "PolicyNotFound")),
    sets=(_policy("PutFileSystemPolicy", FILE_SYSTEM_ID, when=lambda s: not s.creating),),
    delete=(Call("DeleteFileSystemPolicy", given=FILE_SYSTEM_ID),),
    unread=frozenset({"bypassPolicyLockoutSafetyCheck"}),
    kinds={"policy": POLICY},
    defaults={"bypassPolicyLockoutSafetyCheck": False},
    early=("IncorrectFileSystemLifeCycleState",),
)

BACKUP_POLICY = Row(
    type="aws:efs/backupPolicy:BackupPolicy",
    service="efs",
    create=Call("PutBackupPolicy", None),
    id="$in.fileSystemId",
    find=Look("DescribeBackupPolicy", FILE_SYSTEM_ID, gone=(*GONE, "PolicyNotFound")),
    sets=(Call("PutBackupPolicy", ("backupPolicy",), given=FILE_SYSTEM_ID, when=lambda s: not s.creating),),
    # A file system always has a backup policy: to delete it is to switch it off.
    delete=(Call("PutBackupPolicy", given={**FILE_SYSTEM_ID, "BackupPolicy": {"Status": "DISABLED"}}),),
    shows={"fileSystemId": lambda s, _: s.id},
    kinds={"backupPolicy.status": among("ENABLED", "DISABLED")},
    early=("IncorrectFileSystemLifeCycleState",),
)

MOUNT_TARGET_ID: Final = {"MountTargetId": "$id"}
TARGET_GONE: Final = ("MountTargetNotFound",)
MOUNT_TARGET = Row(
    type="aws:efs/mountTarget:MountTarget",
    service="efs",
    create=Call("CreateMountTarget", None),
    id="MountTargetId",
    find=Look("DescribeMountTargets", MOUNT_TARGET_ID, "MountTargets[0]", gone=TARGET_GONE),
    also=(
        Look(
            "DescribeMountTargetSecurityGroups",
            MOUNT_TARGET_ID,
            puts={"SecurityGroups": "SecurityGroups"},
            gone=TARGET_GONE,
        ),
    ),
    sets=(
        Call(
            "ModifyMountTargetSecurityGroups",
            ("securityGroups",),
            given=MOUNT_TARGET_ID,
            when=lambda s: not s.creating,
        ),
    ),
    delete=(Call("DeleteMountTarget", given=MOUNT_TARGET_ID),),
    shows={
        "dnsName": Form("{fileSystemId}.efs.{region}.amazonaws.com"),
        "mountTargetDnsName": Form("{availabilityZoneName}.{fileSystemId}.efs.{region}.amazonaws.com"),
        "fileSystemArn": Form("arn:{partition}:elasticfilesystem:{region}:{account}:file-system/{fileSystemId}"),
    },
    ready=READY,
    gone=DELETED,
    ends=True,
    busy=BUSY,
    early=("IncorrectFileSystemLifeCycleState",),
    kinds={
        "ipAddress": ADDRESS,
        "ipv6Address": ADDRESS,
        "ipAddressType": among("IPV4_ONLY", "IPV6_ONLY", "DUAL_STACK"),
    },
)

ACCESS_POINT = Row(
    type="aws:efs/accessPoint:AccessPoint",
    service="efs",
    create=Call("CreateAccessPoint", None, given={"ClientToken": _token}),
    id="AccessPointId",
    find=Look(
        "DescribeAccessPoints",
        {"AccessPointId": "$id"},
        "AccessPoints[0]",
        gone=("AccessPointNotFound", *GONE),
    ),
    delete=(Call("DeleteAccessPoint", given={"AccessPointId": "$id"}),),
    shows={
        "arn": "AccessPointArn",
        "fileSystemArn": Form("arn:{partition}:elasticfilesystem:{region}:{account}:file-system/{fileSystemId}"),
    },
    tags=BY_ID,
    ready=READY,
    gone=DELETED,
    ends=True,
    early=("IncorrectFileSystemLifeCycleState",),
    kinds={"rootDirectory.creationInfo.permissions": matching(r"[0-7]{3,4}", "is not a mode of 3 or 4 octal digits")},
)

ROWS: Final = (FILE_SYSTEM, FILE_SYSTEM_POLICY, BACKUP_POLICY, MOUNT_TARGET, ACCESS_POINT)
