"""EFS: what it refuses, and the calls that moto lacks."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from agentenv.rehearsal.cloud.rows import efs as efs_rows
from tests.fast.rehearsal.cloud.calls import refused, remove, subnets
from tests.fast.rehearsal.cloud.conftest import ClientFactory

ROOT = {"Path": "/u/1", "CreationInfo": {"OwnerUid": 1000, "OwnerGid": 1000, "Permissions": "0700"}}
pytestmark = pytest.mark.usefixtures("unchanged")


@pytest.fixture
def efs(aws_client: ClientFactory) -> Any:
    return aws_client("efs")


@pytest.fixture
def system(efs: Any, unchanged: None) -> Iterator[dict[str, Any]]:
    created = efs.create_file_system(CreationToken="t", ThroughputMode="elastic", Tags=[{"Key": "Name", "Value": "n"}])
    yield created
    efs.delete_file_system(FileSystemId=created["FileSystemId"])


def policy(arn: str, **condition: Any) -> str:
    statement = {
        "Effect": "Deny",
        "Principal": {"AWS": "*"},
        "Action": "*",
        "Resource": arn,
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        **condition,
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def test_a_file_system_has_settings_that_go_together(
    aws_client: ClientFactory, efs: Any, system: dict[str, Any]
) -> None:
    assert system["LifeCycleState"] == "available"
    with refused("FileSystemAlreadyExists"):
        efs.create_file_system(CreationToken="t")
    for condition in (
        {"ThroughputMode": "provisioned"},
        {"ThroughputMode": "elastic", "ProvisionedThroughputInMibps": 5.0},
        {"PerformanceMode": "maxIO", "ThroughputMode": "elastic"},
        {"KmsKeyId": "4a58c8a8-32c2-4a3d-8e20-6a4f1d8f3f00"},
        {"KmsKeyId": "4a58c8a8-32c2-4a3d-8e20-6a4f1d8f3f00", "Encrypted": True},
        {"ThroughputMode": "fast"},
    ):
        with refused("BadRequest"):
            efs.create_file_system(CreationToken="u", **condition)
    name = system["FileSystemId"]
    assert efs.update_file_system(FileSystemId=name, ThroughputMode="bursting")["ThroughputMode"] == "bursting"
    with refused("BadRequest"):
        efs.update_file_system(FileSystemId=name, ThroughputMode="provisioned")
    efs.update_file_system_protection(FileSystemId=name, ReplicationOverwriteProtection="DISABLED")
    shown = efs.describe_file_systems(FileSystemId=name)["FileSystems"][0]
    assert shown["FileSystemProtection"] == {"ReplicationOverwriteProtection": "DISABLED"}
    with refused("FileSystemNotFound"):
        efs.describe_file_systems(FileSystemId="fs-00000000")


def test_file_system_policy_is_set_and_deleted(efs: Any, system: dict[str, Any]) -> None:
    name, arn = system["FileSystemId"], system["FileSystemArn"]
    with refused("PolicyNotFound"):
        efs.describe_file_system_policy(FileSystemId=name)
    efs.put_file_system_policy(FileSystemId=name, Policy=policy(arn))
    assert efs.describe_file_system_policy(FileSystemId=name)["Policy"] == policy(arn)
    for text in (
        "{}",
        policy(arn, Effect="Maybe"),
        policy(arn.replace(name, "fs-00000000")),
        policy(arn, Condition={}),
        policy(arn, Principal={"AWS": "arn:aws:iam::123456789012:role/nobody"}),
    ):
        with refused("InvalidPolicyException"):
            efs.put_file_system_policy(FileSystemId=name, Policy=text)
    with refused("BadRequest"):
        efs.put_file_system_policy(FileSystemId=name, Policy=policy(arn) + " " * efs_rows.POLICY_LENGTH)
    efs.delete_file_system_policy(FileSystemId=name)
    with refused("PolicyNotFound"):
        efs.describe_file_system_policy(FileSystemId=name)


def test_backup_and_lifecycle_policies_are_stored(efs: Any, system: dict[str, Any]) -> None:
    name = system["FileSystemId"]
    with refused("PolicyNotFound"):
        efs.describe_backup_policy(FileSystemId=name)
    efs.put_backup_policy(FileSystemId=name, BackupPolicy={"Status": "ENABLED"})
    assert efs.describe_backup_policy(FileSystemId=name)["BackupPolicy"] == {"Status": "ENABLED"}
    with refused("ValidationException"):
        efs.put_backup_policy(FileSystemId=name, BackupPolicy={"Status": "ENABLING"})
    moves = [{"TransitionToIA": "AFTER_30_DAYS"}, {"TransitionToPrimaryStorageClass": "AFTER_1_ACCESS"}]
    efs.put_lifecycle_configuration(FileSystemId=name, LifecyclePolicies=moves)
    assert efs.describe_lifecycle_configuration(FileSystemId=name)["LifecyclePolicies"] == moves
    for wrong in ([{**moves[0], **moves[1]}], [moves[0], moves[0]], [{"TransitionToIA": "SOON"}]):
        with refused("BadRequest"):
            efs.put_lifecycle_configuration(FileSystemId=name, LifecyclePolicies=wrong)


def test_a_zone_has_one_mount_target(aws_client: ClientFactory, efs: Any, system: dict[str, Any]) -> None:
    ec2, name = aws_client("ec2"), system["FileSystemId"]
    vpc, places = subnets(ec2, "aab")
    group = ec2.create_security_group(GroupName="nfs", Description="d", VpcId=vpc)["GroupId"]
    first = efs.create_mount_target(FileSystemId=name, SubnetId=places[0], SecurityGroups=[group])["MountTargetId"]
    with refused("MountTargetConflict"):
        efs.create_mount_target(FileSystemId=name, SubnetId=places[1])
    with refused("SecurityGroupNotFound"):
        efs.create_mount_target(FileSystemId=name, SubnetId=places[2], SecurityGroups=["sg-00000000"])
    with refused("SubnetNotFound"):
        efs.create_mount_target(FileSystemId=name, SubnetId="subnet-00000000000000000")
    with refused("FileSystemNotFound"):
        efs.create_mount_target(FileSystemId="fs-00000000", SubnetId=places[2])
    two = efs.create_mount_target(FileSystemId=name, SubnetId=places[2])["MountTargetId"]
    assert len(efs.describe_mount_target_security_groups(MountTargetId=two)["SecurityGroups"]) == 1
    efs.modify_mount_target_security_groups(MountTargetId=two, SecurityGroups=[group])
    assert efs.describe_mount_target_security_groups(MountTargetId=two)["SecurityGroups"] == [group]
    with refused("SecurityGroupNotFound"):
        efs.modify_mount_target_security_groups(MountTargetId=two, SecurityGroups=["sg-00000000"])
    with refused("FileSystemInUse"):
        efs.delete_file_system(FileSystemId=name)
    with refused("DependencyViolation"):
        ec2.delete_subnet(SubnetId=places[0])
    with refused("DependencyViolation"):
        ec2.delete_security_group(GroupId=group)
    for target in (first, two):
        efs.delete_mount_target(MountTargetId=target)
    with refused("MountTargetNotFound"):
        efs.describe_mount_targets(MountTargetId=first)
    ec2.delete_security_group(GroupId=group)
    remove(ec2, vpc, places)


def test_access_point_needs_its_file_system(efs: Any, system: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    name, user = system["FileSystemId"], {"Uid": 1000, "Gid": 1000}
    created = efs.create_access_point(FileSystemId=name, ClientToken="one", PosixUser=user, RootDirectory=ROOT)
    again = efs.create_access_point(FileSystemId=name, ClientToken="one", PosixUser=user, RootDirectory=ROOT)
    assert created["AccessPointId"] == again["AccessPointId"]
    assert (created["PosixUser"], created["RootDirectory"]) == (user, ROOT)
    for wrong in (
        {"RootDirectory": {"Path": "/1/2/3/4/5"}},
        {"RootDirectory": {"Path": "/" + "a" * 100}},
        {"RootDirectory": {"Path": "/", "CreationInfo": ROOT["CreationInfo"]}},
        {"RootDirectory": {**ROOT, "CreationInfo": {"OwnerUid": 1, "OwnerGid": 1, "Permissions": "999"}}},
        {"PosixUser": {"Uid": 4294967296, "Gid": 1}},
    ):
        with refused("BadRequest"):
            efs.create_access_point(FileSystemId=name, ClientToken="two", **wrong)
    with refused("FileSystemNotFound"):
        efs.create_access_point(FileSystemId="fs-00000000", ClientToken="two")
    with refused("FileSystemNotFound"):
        efs.describe_access_points(FileSystemId="fs-00000000")
    with refused("AccessPointNotFound"):
        efs.describe_access_points(AccessPointId="fsap-00000000")
    assert [
        access_point["AccessPointId"] for access_point in efs.describe_access_points(FileSystemId=name)["AccessPoints"]
    ] == [created["AccessPointId"]]
    monkeypatch.setattr(efs_rows, "ACCESS_POINTS", 1)
    with refused("AccessPointLimitExceeded"):
        efs.create_access_point(FileSystemId=name, ClientToken="two")
    efs.tag_resource(ResourceId=created["AccessPointId"], Tags=[{"Key": "sandbox-user", "Value": "u"}])
    assert {"Key": "sandbox-user", "Value": "u"} in efs.list_tags_for_resource(ResourceId=created["AccessPointId"])[
        "Tags"
    ]
    with refused("AccessPointNotFound"):
        efs.tag_resource(ResourceId="fsap-00000000", Tags=[])
    efs.delete_access_point(AccessPointId=created["AccessPointId"])
    with refused("AccessPointNotFound"):
        efs.delete_access_point(AccessPointId=created["AccessPointId"])
    # One that stays goes with the file system.
    efs.create_access_point(FileSystemId=name, ClientToken="three")
