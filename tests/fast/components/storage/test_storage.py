"""The storage's graph: shards, who may reach them, and what is kept."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest

from agentenv.components._lib.arguments import ArgumentError
from tests.fast.components.graph import REGION, Graph, registered
from tests.fast.components.shapes import OWNERSHIP, storage

ROLES = ["arn:aws:iam::123456789012:role/nodes", "arn:aws:iam::123456789012:role/driver"]


def graph(**given: Any) -> Graph:
    return registered(lambda: storage(**given))


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_each_shard_is_encrypted_guarded_backed_up_and_reachable_in_each_zone(shards: int) -> None:
    made = graph(file_systems=shards, more={"subnet_ids": ["a", "b", "c"]})
    assert {one.name for one in made.of("FileSystem")} == {f"files-{shard}" for shard in range(shards)}
    assert all(
        one.inputs["encrypted"] and one.inputs["kmsKeyId"].endswith(":files-key") for one in made.of("FileSystem")
    )
    for type_ in ("FileSystemPolicy", "BackupPolicy"):
        assert {one.inputs["fileSystemId"] for one in made.of(type_)} == {
            f"files-{shard}-id" for shard in range(shards)
        }
    assert sorted((one.inputs["fileSystemId"], one.inputs["subnetId"]) for one in made.of("MountTarget")) == [
        (f"files-{shard}-id", subnet) for shard in range(shards) for subnet in "abc"
    ]
    assert all(one.inputs["securityGroups"] == ["files-mount-id"] for one in made.of("MountTarget"))


def test_another_shard_or_zone_leaves_what_exists_as_it_was() -> None:
    for less, more in (
        (graph(file_systems=2), graph(file_systems=3)),
        (graph(more={"subnet_ids": ["a", "b"]}), graph(more={"subnet_ids": ["a", "b", "c"]})),
    ):
        before, after = less.shape(), more.shape()
        assert {key: after[key] for key in before} == before
        assert len(after) > len(before)


def test_files_are_reached_from_the_nodes_group_only() -> None:
    made = graph()
    inside, outside = made.one("SecurityGroupIngressRule").inputs, made.one("SecurityGroupEgressRule").inputs
    assert (inside["securityGroupId"], inside["referencedSecurityGroupId"]) == ("files-mount-id", "sg-nodes")
    assert (inside["ipProtocol"], inside["fromPort"], inside["toPort"]) == ("tcp", 2049, 2049)
    # The way out is the nodes', to here; the mount targets themselves have none.
    assert (outside["securityGroupId"], outside["referencedSecurityGroupId"]) == ("sg-nodes", "files-mount-id")
    assert not {"ingress", "egress"} & set(made.one("SecurityGroup").inputs)


def test_a_class_on_fargate_with_seats_reaches_its_files_itself() -> None:
    made = graph(more={"class_group_ids": {"batch": "sg-batch"}})
    before = graph().shape()
    # Nothing changes for the others.
    assert {key: made.shape()[key] for key in before} == before
    inside = made.one("SecurityGroupIngressRule", "from-class-batch").inputs
    outside = made.one("SecurityGroupEgressRule", "class-batch-out").inputs
    assert (inside["securityGroupId"], inside["referencedSecurityGroupId"]) == ("files-mount-id", "sg-batch")
    assert (outside["securityGroupId"], outside["referencedSecurityGroupId"]) == ("sg-batch", "files-mount-id")
    for rule in (inside, outside):
        assert (rule["ipProtocol"], rule["fromPort"], rule["toPort"]) == ("tcp", 2049, 2049)


def test_the_key_is_used_through_efs_and_administered_by_the_account() -> None:
    made = graph()
    key = made.one("Key")
    assert key.inputs["enableKeyRotation"] is True
    administer, use = key.policy()["Statement"]
    assert administer["Principal"] == {"AWS": "arn:aws:iam::123456789012:root"}
    assert not [
        action for action in administer["Action"] if "crypt" in action or "DataKey" in action or action == "kms:*"
    ]
    assert use["Condition"] == {
        "StringEquals": {
            "kms:CallerAccount": "123456789012",
            "kms:ViaService": f"elasticfilesystem.{REGION}.amazonaws.com",
        }
    }


def test_a_key_of_somebody_elses_is_used_instead_of_one_of_its_own() -> None:
    made = graph(key_arn="arn:aws:kms:eu-west-1:123456789012:key/theirs")
    assert made.of("Key") == made.of("Alias") == []
    assert made.one("FileSystem").inputs["kmsKeyId"].endswith("key/theirs")


@pytest.mark.parametrize(
    ("layout", "mode", "moves"),
    [
        ({}, "elastic", ["AFTER_30_DAYS", "AFTER_90_DAYS", "AFTER_1_ACCESS"]),
        ({"throughput": "bursting"}, "bursting", ["AFTER_30_DAYS", "AFTER_1_ACCESS"]),
        ({"infrequent_after_days": 1, "archive_after_days": 0}, "elastic", ["AFTER_1_DAY", "AFTER_1_ACCESS"]),
        (
            {"infrequent_after_days": 7, "archive_after_days": 14, "back_on_access": False},
            "elastic",
            ["AFTER_7_DAYS", "AFTER_14_DAYS"],
        ),
        ({"infrequent_after_days": 0}, "elastic", []),
        ({"throughput": "provisioned", "provisioned_mibps": 64.0, "infrequent_after_days": 0}, "provisioned", []),
    ],
)
def test_throughput_and_lifecycle(layout: dict[str, Any], mode: str, moves: list[str]) -> None:
    inputs = graph(**layout).one("FileSystem").inputs
    assert inputs["throughputMode"] == mode
    # EFS takes one transition an entry.
    assert all(len(entry) == 1 for entry in inputs["lifecyclePolicies"])
    assert [value for entry in inputs["lifecyclePolicies"] for value in entry.values()] == moves
    assert inputs.get("provisionedThroughputInMibps") == layout.get("provisioned_mibps")


@pytest.mark.parametrize(("backups", "status"), [(True, "ENABLED"), (False, "DISABLED")])
def test_backups_are_switched_and_not_forgotten(backups: bool, status: str) -> None:
    assert graph(backups=backups).one("BackupPolicy").inputs["backupPolicy"] == {"status": status}


@pytest.mark.parametrize(
    ("environment", "keep", "kept"),
    [("prod", None, True), ("prod-eu", None, True), ("dev", None, False), ("dev", True, True), ("prod", False, False)],
)
def test_what_holds_data_is_protected_and_outlives_the_stack_in_prod(
    environment: str, keep: bool | None, kept: bool
) -> None:
    more: dict[str, Any] = {"ownership": {**OWNERSHIP, "environment": environment}}
    if keep is not None:
        more["keep_data"] = keep
    made = graph(file_systems=2, more=more)
    held = {one.key for one in made.cloud() if one.protect and one.retain}
    assert held == {
        one.key for one in made.cloud() if kept and one.type.endswith((":FileSystem", ":Key", ":FileSystemPolicy"))
    }
    assert made.one("Key").inputs["deletionWindowInDays"] == (30 if kept else 7)


def test_the_policy_names_the_clients_once_they_are_known() -> None:
    first = registered(lambda: storage(more={"client_role_arns": pulumi.Output.from_input(ROLES)}))
    again = graph(more={"client_role_arns": list(reversed(ROLES))})
    text = first.one("FileSystemPolicy").inputs["policy"]
    assert text == again.one("FileSystemPolicy").inputs["policy"], "the order of the roles must not show"
    assert all(role in text for role in ROLES)


def test_a_policy_longer_than_efs_takes_is_refused() -> None:
    roles = [f"arn:aws:iam::123456789012:role/{number:03}-{'x' * 60}" for number in range(100)]
    with pytest.raises(ArgumentError, match=r"storage\.client_role_arns: found 100 roles, .*; allowed: as many"):
        graph(more={"client_role_arns": roles})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"file_systems": 0}, r"storage\.layout\.file_systems: found 0; allowed: a whole number from 1 to 100"),
        ({"throughput": "fast"}, r"storage\.layout\.throughput: found 'fast'; allowed: bursting, elastic, provisioned"),
        ({"throughput": "provisioned"}, r"storage\.layout\.provisioned_mibps: found nothing"),
        ({"provisioned_mibps": 10}, r"storage\.layout\.provisioned_mibps: found a value with 'elastic'"),
        ({"infrequent_after_days": 31}, r"storage\.layout\.infrequent_after_days: found 31; allowed: 0, 1, 7"),
        ({"throughput": "bursting", "archive_after_days": 90}, r"storage\.layout\.archive_after_days: found 90 with"),
        ({"infrequent_after_days": 90, "archive_after_days": 60}, r"archive_after_days: found 60 with infrequent"),
        ({"backups": "yes"}, r"storage\.layout\.backups: found 'yes'; allowed: true or false"),
        ({"more": {"subnet_ids": []}}, r"storage\.subnet_ids: found an empty list; allowed: one subnet per zone"),
        ({"more": {"subnet_ids": "subnet-1"}}, r"storage\.subnet_ids: found 'subnet-1'; allowed: a list"),
        ({"more": {"subnet": []}}, r"storage\.subnet: found an unknown name \(did you mean 'subnet_ids'\?\)"),
        ({"more": {"vpc_id": None}}, r"storage\.vpc_id: found nothing; allowed: a value"),
        ({"more": {"layout": []}}, r"storage\.layout: found \[\]; allowed: a dictionary"),
    ],
)
def test_a_wrong_argument_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        graph(**given)
