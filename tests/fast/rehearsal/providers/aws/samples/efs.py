"""Samples of EFS."""

import json
from typing import Any

from tests.fast.rehearsal.providers.aws.samples.sample import MORE_TAGS, TAGS, Ground, Sample


def _mount_target(ground: Ground) -> dict[str, Any]:
    vpc = ground.vpc()
    subnet = ground.subnet(vpc)
    return {"fileSystemId": ground.file_system(), "subnetId": subnet, "securityGroups": [ground.group(vpc)]}


def _other_groups(ground: Ground, old: dict[str, Any]) -> dict[str, Any]:
    vpc = ground.client("ec2").describe_subnets(SubnetIds=[old["subnetId"]])["Subnets"][0]["VpcId"]
    return {"securityGroups": [ground.group(vpc)]}


def _drop_groups(ground: Ground, target: str, outputs: dict[str, Any]) -> object:
    vpc = ground.client("ec2").describe_subnets(SubnetIds=[outputs["subnetId"]])["Subnets"][0]["VpcId"]
    efs = ground.client("efs")
    return efs.modify_mount_target_security_groups(MountTargetId=target, SecurityGroups=[ground.group(vpc)])


def _policy(action: str) -> str:
    statement = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": [action], "Resource": "*"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


MOUNT = _policy("elasticfilesystem:ClientMount")
WRITE = _policy("elasticfilesystem:ClientWrite")
SAMPLES = {
    "aws:efs/fileSystem:FileSystem": Sample(
        inputs=lambda _: {
            "encrypted": True,
            "lifecyclePolicies": [{"transitionToIa": "AFTER_30_DAYS"}],
            "throughputMode": "elastic",
            "tags": {**TAGS, "Name": "files"},
        },
        update={
            "lifecyclePolicies": [
                {"transitionToIa": "AFTER_7_DAYS"},
                {"transitionToPrimaryStorageClass": "AFTER_1_ACCESS"},
            ],
            "tags": MORE_TAGS,
        },
        replace={"encrypted": False},
        behind=lambda g, i, _: g.client("efs").put_lifecycle_configuration(FileSystemId=i, LifecyclePolicies=[]),
        drift=("lifecyclePolicies",),
    ),
    "aws:efs/fileSystemPolicy:FileSystemPolicy": Sample(
        inputs=lambda g: {"fileSystemId": g.file_system(), "policy": MOUNT},
        update={"policy": WRITE},
        replace={"fileSystemId": "fs-0123456789abcdef0"},
        behind=lambda g, i, _: g.client("efs").put_file_system_policy(FileSystemId=i, Policy=MOUNT),
        drift=("policy",),
    ),
    "aws:efs/backupPolicy:BackupPolicy": Sample(
        inputs=lambda g: {"fileSystemId": g.file_system(), "backupPolicy": {"status": "DISABLED"}},
        update={"backupPolicy": {"status": "ENABLED"}},
        replace={"fileSystemId": "fs-0123456789abcdef0"},
        behind=lambda g, i, _: g.client("efs").put_backup_policy(FileSystemId=i, BackupPolicy={"Status": "DISABLED"}),
        drift=("backupPolicy",),
        stays=True,
    ),
    "aws:efs/mountTarget:MountTarget": Sample(
        inputs=_mount_target,
        update_more=_other_groups,
        replace={"subnetId": "subnet-0123456789abcdef0"},
        behind=_drop_groups,
        drift=("securityGroups",),
    ),
    "aws:efs/accessPoint:AccessPoint": Sample(
        inputs=lambda g: {
            "fileSystemId": g.file_system(),
            "posixUser": {"uid": 1000, "gid": 1000, "secondaryGids": [1001]},
            "rootDirectory": {
                "path": "/u",
                "creationInfo": {"ownerUid": 1000, "ownerGid": 1000, "permissions": "0700"},
            },
            "tags": TAGS,
        },
        update={"tags": MORE_TAGS},
        replace={"posixUser": {"uid": 1001, "gid": 1001}},
        behind=lambda g, i, _: g.client("efs").tag_resource(ResourceId=i, Tags=[{"Key": "owner", "Value": "somebody"}]),
        drift=("tags",),
    ),
}
