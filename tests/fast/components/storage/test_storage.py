"""The storage's graph: shards, who may reach them, and what is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pulumi
import pytest

from agentenv.components._lib.arguments import ArgumentError
from tests.fast.components.graph import REGION, Graph, registered
from tests.fast.components.shapes import FACTS, NETWORK, storage

ROLES = ["arn:aws:iam::123456789012:role/nodes", "arn:aws:iam::123456789012:role/driver"]


def build_graph(**settings: Any) -> Graph:
    return registered(lambda: storage(**settings))


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_each_shard_is_encrypted_guarded_backed_up_and_reachable_in_each_zone(shards: int) -> None:
    graph = build_graph(fileSystems=shards, within=replace(NETWORK, subnet_ids="abc"))
    assert {system.name for system in graph.of("FileSystem")} == {f"files-{shard}" for shard in range(shards)}
    assert all(
        system.inputs["encrypted"] and system.inputs["kmsKeyId"].endswith(":files-key")
        for system in graph.of("FileSystem")
    )
    for type_ in ("FileSystemPolicy", "BackupPolicy"):
        assert {resource.inputs["fileSystemId"] for resource in graph.of(type_)} == {
            f"files-{shard}-id" for shard in range(shards)
        }
    assert sorted((target.inputs["fileSystemId"], target.inputs["subnetId"]) for target in graph.of("MountTarget")) == [
        (f"files-{shard}-id", subnet) for shard in range(shards) for subnet in "abc"
    ]
    assert all(target.inputs["securityGroups"] == ["files-mount-id"] for target in graph.of("MountTarget"))


def test_another_shard_or_zone_leaves_what_exists_as_it_was() -> None:
    for less, more in (
        (build_graph(fileSystems=2), build_graph(fileSystems=3)),
        tuple(build_graph(within=replace(NETWORK, subnet_ids=subnets)) for subnets in ("ab", "abc")),
    ):
        before, after = less.shape(), more.shape()
        assert {key: after[key] for key in before} == before
        assert len(after) > len(before)


def test_files_are_reached_from_the_nodes_group_only() -> None:
    graph = build_graph()
    inside, outside = (
        graph.resource("SecurityGroupIngressRule").inputs,
        graph.resource("SecurityGroupEgressRule").inputs,
    )
    assert (inside["securityGroupId"], inside["referencedSecurityGroupId"]) == ("files-mount-id", "sg-nodes")
    assert (inside["ipProtocol"], inside["fromPort"], inside["toPort"]) == ("tcp", 2049, 2049)
    # The way out is the nodes', to here; the mount targets themselves have none.
    assert (outside["securityGroupId"], outside["referencedSecurityGroupId"]) == ("sg-nodes", "files-mount-id")
    assert not {"ingress", "egress"} & set(graph.resource("SecurityGroup").inputs)


def test_the_key_is_used_through_efs_and_administered_by_the_account() -> None:
    graph = build_graph()
    key = graph.resource("Key")
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


def test_existing_key_is_used_instead_of_a_new_one() -> None:
    key = "arn:aws:kms:eu-west-1:123456789012:key/00000000-0000-0000-0000-000000000000"
    graph = build_graph(kmsKey=key)
    assert graph.of("Key") == graph.of("Alias") == []
    assert graph.resource("FileSystem").inputs["kmsKeyId"] == key


@pytest.mark.parametrize(
    ("layout", "mode", "moves"),
    [
        ({}, "elastic", ["AFTER_30_DAYS", "AFTER_1_ACCESS"]),
        ({"throughput": "bursting"}, "bursting", ["AFTER_30_DAYS", "AFTER_1_ACCESS"]),
        ({"infrequentAccessAfter": "1d", "archiveAfter": "never"}, "elastic", ["AFTER_1_DAY", "AFTER_1_ACCESS"]),
        (
            {"infrequentAccessAfter": "7d", "archiveAfter": "14d", "backOnAccess": False},
            "elastic",
            ["AFTER_7_DAYS", "AFTER_14_DAYS"],
        ),
        ({"infrequentAccessAfter": "never"}, "elastic", []),
        ({"throughput": "provisioned", "provisionedMibps": 64, "infrequentAccessAfter": "never"}, "provisioned", []),
    ],
)
def test_throughput_and_lifecycle(layout: dict[str, Any], mode: str, moves: list[str]) -> None:
    inputs = build_graph(**layout).resource("FileSystem").inputs
    assert inputs["throughputMode"] == mode
    # EFS takes one transition an entry.
    assert all(len(entry) == 1 for entry in inputs["lifecyclePolicies"])
    assert [value for entry in inputs["lifecyclePolicies"] for value in entry.values()] == moves
    assert inputs.get("provisionedThroughputInMibps") == layout.get("provisionedMibps")


@pytest.mark.parametrize(("backups", "status"), [(True, "ENABLED"), (False, "DISABLED")])
def test_backups_are_switched_and_not_forgotten(backups: bool, status: str) -> None:
    assert build_graph(backup=backups).resource("BackupPolicy").inputs["backupPolicy"] == {"status": status}


@pytest.mark.parametrize("keep_data", [True, False])
def test_data_is_protected_and_retained_where_configured(*, keep_data: bool) -> None:
    graph = build_graph(fileSystems=2, facts=replace(FACTS, keep_data=keep_data))
    held = {resource.key for resource in graph.aws_resources() if resource.protect and resource.retain}
    assert held == {
        resource.key
        for resource in graph.aws_resources()
        if keep_data and resource.type.endswith((":FileSystem", ":Key", ":FileSystemPolicy"))
    }
    assert graph.resource("Key").inputs["deletionWindowInDays"] == (30 if keep_data else 7)


def test_the_policy_names_the_clients_once_they_are_known() -> None:
    first = registered(lambda: storage(clients=pulumi.Output.from_input(ROLES)))
    again = build_graph(clients=list(reversed(ROLES)))
    text = first.resource("FileSystemPolicy").inputs["policy"]
    assert text == again.resource("FileSystemPolicy").inputs["policy"], "the order of the roles must not show"
    assert all(role in text for role in ROLES)


def test_a_policy_longer_than_efs_takes_is_refused() -> None:
    roles = [f"arn:aws:iam::123456789012:role/{number:03}-{'x' * 60}" for number in range(200)]
    with pytest.raises(ArgumentError, match=r"storage\.client_role_arns: found 200 roles, .*; allowed: as many"):
        build_graph(clients=roles)
