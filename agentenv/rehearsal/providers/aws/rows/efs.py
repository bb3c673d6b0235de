"""EFS: file systems, their policies, mount targets and access points."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws.row import (
    Call,
    CustomStep,
    Problem,
    ReadCall,
    ResourceType,
    StateCheck,
    Tagging,
    Template,
)
from agentenv.rehearsal.providers.aws.value_kinds import ADDRESS, IS_ARN, POLICY, matching, one_of

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Operation

FILE_SYSTEM_ID: Final = {"FileSystemId": "$id"}
NOT_FOUND: Final = ("FileSystemNotFound",)
BY_ID: Final = Tagging("Tags", "", "TagResource", "UntagResource", {"ResourceId": "$id"})
READY: Final = StateCheck("LifeCycleState", ("available",), ("error", "deleting", "deleted"))
DELETED: Final = StateCheck("LifeCycleState", ("deleted",))
BUSY: Final = ("FileSystemInUse", "IncorrectFileSystemLifeCycleState", "IncorrectMountTargetState", "DependencyTimeout")


def _token(op: Operation) -> str:
    """Return the creation token, which makes the create idempotent."""
    return op.inputs.get("creationToken") or f"agentenv-{secrets.token_hex(13)}"


def _throughput(op: Operation) -> None:
    if op.creating:
        return
    parameters: dict[str, Any] = {"ThroughputMode": op.inputs.get("throughputMode") or "bursting"}
    if parameters["ThroughputMode"] == "provisioned":
        parameters["ProvisionedThroughputInMibps"] = op.inputs.get("provisionedThroughputInMibps")
    op.call("UpdateFileSystem", FileSystemId=op.id, **parameters)


def _update_protection(op: Operation) -> None:
    expected = (op.inputs.get("protection") or {}).get("replicationOverwrite") or "ENABLED"
    op.call("UpdateFileSystemProtection", FileSystemId=op.id, ReplicationOverwriteProtection=expected)


def _lifecycle_problems(inputs: Mapping[str, Any]) -> list[Problem]:
    policies = inputs.get("lifecyclePolicies")
    if isinstance(policies, list) and len(policies) > 3:
        return [("lifecyclePolicies", f"has {len(policies)} policies: at most 3, one for each transition")]
    return []


FILE_SYSTEM = ResourceType(
    type="aws:efs/fileSystem:FileSystem",
    service="efs",
    create=Call(
        "CreateFileSystem",
        (
            *("availabilityZoneName", "creationToken", "encrypted", "kmsKeyId", "performanceMode"),
            *("provisionedThroughputInMibps", "throughputMode"),
        ),
        constants={"CreationToken": _token},
    ),
    id="FileSystemId",
    read=ReadCall("DescribeFileSystems", FILE_SYSTEM_ID, "FileSystems[0]", not_found_errors=NOT_FOUND),
    more_reads=(
        ReadCall(
            "DescribeLifecycleConfiguration",
            FILE_SYSTEM_ID,
            fields={"LifecyclePolicies": "LifecyclePolicies"},
            not_found_errors=NOT_FOUND,
        ),
    ),
    updates=(
        CustomStep(_throughput, ("provisionedThroughputInMibps", "throughputMode")),
        Call("PutLifecycleConfiguration", ("lifecyclePolicies",), constants=FILE_SYSTEM_ID),
        CustomStep(_update_protection, ("protection",)),
    ),
    delete=(Call("DeleteFileSystem", constants=FILE_SYSTEM_ID),),
    output_sources={
        "arn": "FileSystemArn",
        "dnsName": Template("{id}.efs.{region}.amazonaws.com"),
        "protection": lambda _, d: {
            "ReplicationOverwrite": (d.get("FileSystemProtection") or {}).get("ReplicationOverwriteProtection")
        },
    },
    tags=BY_ID,
    ready=READY,
    deleted_state=DELETED,
    wait_until_deleted=True,
    retry_delete_on=BUSY,
    value_kinds={"kmsKeyId": IS_ARN, "protection.replicationOverwrite": one_of("ENABLED", "DISABLED")},
    defaults={"throughputMode": "bursting"},
    validators=(_lifecycle_problems,),
    updated_outputs=frozenset({"name", "sizeInBytes"}),
)


def _policy(operation: str, constants: Mapping[str, Any], **more: Any) -> Call:
    return Call(operation, ("policy", "bypassPolicyLockoutSafetyCheck"), constants=constants, **more)


FILE_SYSTEM_POLICY = ResourceType(
    type="aws:efs/fileSystemPolicy:FileSystemPolicy",
    service="efs",
    create=Call("PutFileSystemPolicy", None),
    id="$in.fileSystemId",
    read=ReadCall("DescribeFileSystemPolicy", FILE_SYSTEM_ID, not_found_errors=(*NOT_FOUND, "PolicyNotFound")),
    updates=(_policy("PutFileSystemPolicy", FILE_SYSTEM_ID, condition=lambda op: not op.creating),),
    delete=(Call("DeleteFileSystemPolicy", constants=FILE_SYSTEM_ID),),
    write_only=frozenset({"bypassPolicyLockoutSafetyCheck"}),
    value_kinds={"policy": POLICY},
    defaults={"bypassPolicyLockoutSafetyCheck": False},
    retry_create_on=("IncorrectFileSystemLifeCycleState",),
)

BACKUP_POLICY = ResourceType(
    type="aws:efs/backupPolicy:BackupPolicy",
    service="efs",
    create=Call("PutBackupPolicy", None),
    id="$in.fileSystemId",
    read=ReadCall("DescribeBackupPolicy", FILE_SYSTEM_ID, not_found_errors=(*NOT_FOUND, "PolicyNotFound")),
    updates=(
        Call("PutBackupPolicy", ("backupPolicy",), constants=FILE_SYSTEM_ID, condition=lambda op: not op.creating),
    ),
    # A file system always has a backup policy: to delete it is to switch it off.
    delete=(Call("PutBackupPolicy", constants={**FILE_SYSTEM_ID, "BackupPolicy": {"Status": "DISABLED"}}),),
    output_sources={"fileSystemId": lambda op, _: op.id},
    value_kinds={"backupPolicy.status": one_of("ENABLED", "DISABLED")},
    retry_create_on=("IncorrectFileSystemLifeCycleState",),
)

MOUNT_TARGET_ID: Final = {"MountTargetId": "$id"}
TARGET_NOT_FOUND: Final = ("MountTargetNotFound",)
MOUNT_TARGET = ResourceType(
    type="aws:efs/mountTarget:MountTarget",
    service="efs",
    create=Call("CreateMountTarget", None),
    id="MountTargetId",
    read=ReadCall("DescribeMountTargets", MOUNT_TARGET_ID, "MountTargets[0]", not_found_errors=TARGET_NOT_FOUND),
    more_reads=(
        ReadCall(
            "DescribeMountTargetSecurityGroups",
            MOUNT_TARGET_ID,
            fields={"SecurityGroups": "SecurityGroups"},
            not_found_errors=TARGET_NOT_FOUND,
        ),
    ),
    updates=(
        Call(
            "ModifyMountTargetSecurityGroups",
            ("securityGroups",),
            constants=MOUNT_TARGET_ID,
            condition=lambda op: not op.creating,
        ),
    ),
    delete=(Call("DeleteMountTarget", constants=MOUNT_TARGET_ID),),
    output_sources={
        "dnsName": Template("{fileSystemId}.efs.{region}.amazonaws.com"),
        "mountTargetDnsName": Template("{availabilityZoneName}.{fileSystemId}.efs.{region}.amazonaws.com"),
        "fileSystemArn": Template("arn:{partition}:elasticfilesystem:{region}:{account}:file-system/{fileSystemId}"),
    },
    ready=READY,
    deleted_state=DELETED,
    wait_until_deleted=True,
    retry_delete_on=BUSY,
    retry_create_on=("IncorrectFileSystemLifeCycleState",),
    value_kinds={
        "ipAddress": ADDRESS,
        "ipv6Address": ADDRESS,
        "ipAddressType": one_of("IPV4_ONLY", "IPV6_ONLY", "DUAL_STACK"),
    },
)

ACCESS_POINT = ResourceType(
    type="aws:efs/accessPoint:AccessPoint",
    service="efs",
    create=Call("CreateAccessPoint", None, constants={"ClientToken": _token}),
    id="AccessPointId",
    read=ReadCall(
        "DescribeAccessPoints",
        {"AccessPointId": "$id"},
        "AccessPoints[0]",
        not_found_errors=("AccessPointNotFound", *NOT_FOUND),
    ),
    delete=(Call("DeleteAccessPoint", constants={"AccessPointId": "$id"}),),
    output_sources={
        "arn": "AccessPointArn",
        "fileSystemArn": Template("arn:{partition}:elasticfilesystem:{region}:{account}:file-system/{fileSystemId}"),
    },
    tags=BY_ID,
    ready=READY,
    deleted_state=DELETED,
    wait_until_deleted=True,
    retry_create_on=("IncorrectFileSystemLifeCycleState",),
    value_kinds={
        "rootDirectory.creationInfo.permissions": matching(r"[0-7]{3,4}", "is not a mode of 3 or 4 octal digits")
    },
)

ROWS: Final = (FILE_SYSTEM, FILE_SYSTEM_POLICY, BACKUP_POLICY, MOUNT_TARGET, ACCESS_POINT)
