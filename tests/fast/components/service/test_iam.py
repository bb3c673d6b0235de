"""The service's table and its rights in AWS, and the roles that it hands to sandboxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from agentenv.components.service.workspace_service import WorkspaceService
from agentenv.core.environment import EnvironmentFacts
from agentenv.core.ledger.table import create_table
from agentenv.policies.packs.planned_documents import plan_mismatches
from tests.fast.components.graph import ACCOUNT, REGION, Graph, registered
from tests.fast.components.node_shapes import on_cluster
from tests.fast.components.shapes import FACTS, NETWORK, planned

if TYPE_CHECKING:
    import pulumi

IMAGE = f"registry.example.com/a@sha256:{'0' * 64}"
POLICY = "arn:aws:iam::123456789012:policy/read-artifacts"


def service(
    classes: list[dict[str, Any]], nat_addresses: Sequence[pulumi.Input[str]] = (), facts: EnvironmentFacts = FACTS
) -> Graph:
    plan = planned({"sandboxClasses": classes, "service": {"image": IMAGE}}).service
    assert plan is not None

    def program() -> None:
        cluster = on_cluster().with_file_systems(["fs-0123456789abcdef0"])
        network = replace(NETWORK, nat_addresses=nat_addresses)
        WorkspaceService("service", replace(plan, environment=facts), cluster, network)

    return registered(program)


PLAIN: dict[str, Any] = {"name": "plain", "image": IMAGE}
TRADES: dict[str, Any] = {
    "name": "builder",
    "image": IMAGE,
    "capabilities": ["dns", "identity"],
    "identity": {"kind": "exchange", "policies": [POLICY]},
}


def test_the_table_is_encrypted_restorable_and_forgets() -> None:
    table = service([PLAIN]).one("Table", "ledger").inputs
    assert table["pointInTimeRecovery"] == {"enabled": True, "recoveryPeriodInDays": 35}
    assert table["serverSideEncryption"] == {"enabled": True}
    assert table["ttl"] == {"enabled": True, "attributeName": "expires"}
    assert (table["hashKey"], table["rangeKey"], table["deletionProtectionEnabled"]) == ("owner", "row", False)
    (index,) = table["globalSecondaryIndexes"]
    (expected,) = create_table("ledger")["GlobalSecondaryIndexes"]
    assert [(key["attributeName"], key["keyType"]) for key in index["keySchemas"]] == [
        (key["AttributeName"], key["KeyType"]) for key in expected["KeySchema"]
    ]
    assert not {"hashKey", "rangeKey"} & set(index)  # deprecated
    with_planned_documents = service([PLAIN], facts=replace(FACTS, keep_data=True)).one("Table", "ledger")
    assert (
        with_planned_documents.inputs["deletionProtectionEnabled"],
        with_planned_documents.protect,
        with_planned_documents.retain,
    ) == (True, True, True)


def test_without_an_exchange_the_service_gives_out_nothing_and_keeps_no_secrets() -> None:
    made = service([PLAIN])
    said = made.one("RolePolicy", "work").policy()
    assert {one["Sid"] for one in said["Statement"]} == {"KeepLedger", "LookAtSlots", "SayWhoseSlotsAre"}
    assert [one.name for one in made.made if one.type == "aws:iam/role:Role"] == ["service-role"]


def test_a_class_that_exchanges_has_a_role_that_only_the_service_takes_on() -> None:
    made = service([PLAIN, TRADES], ["203.0.113.7"])
    role = made.one("Role", "class-builder")
    (trust,) = role.policy("assumeRolePolicy")["Statement"]
    assert trust["Principal"] == {"AWS": _arn("service-role")}
    assert trust["Condition"]["StringEquals"] == {"aws:RequestTag/sandbox-class": "builder"}
    rights = {one["Sid"]: one for one in made.one("RolePolicy", "class-builder").policy()["Statement"]}
    assert rights["OwnSecrets"]["Resource"].endswith("secret:sandbox-secrets/dev/${aws:PrincipalTag/sandbox-user}/*")
    assert rights["FromItsNetwork"]["Condition"] == {
        "StringNotEqualsIfExists": {"aws:SourceVpc": "vpc-1"},
        "BoolIfExists": {"aws:ViaAWSService": "false"},
        "NotIpAddressIfExists": {"aws:SourceIp": ["203.0.113.7/32"]},
    }
    (attached,) = (one for one in made.made if one.type.endswith("RolePolicyAttachment"))
    assert attached.inputs["policyArn"] == POLICY
    network_policy_spec = {one["Sid"]: one for one in made.one("RolePolicy", "work").policy()["Statement"]}
    assert network_policy_spec["GiveSandboxesTheirRoles"]["Resource"] == [_arn("service-class-builder")]
    assert not [one for one in network_policy_spec.values() if "secretsmanager:GetSecretValue" in one["Action"]]


@pytest.mark.parametrize("addresses", [[], ["203.0.113.7"], ["203.0.113.7", "203.0.113.8"]])
def test_the_planned_policies_have_the_shape_of_the_real_ones(addresses: list[pulumi.Input[str]]) -> None:
    made = service([PLAIN, TRADES], addresses)
    planned = [one for outputs in made.outputs.values() for one in outputs.get("documents", ())]
    assert {(one["name"], one["property"]) for one in planned} >= {
        ("service-class-builder", "assumeRolePolicy"),
        ("service-class-builder", "policy"),
        ("service-work", "policy"),
    }
    assert list(plan_mismatches(made.resources())) == []


def _arn(name: str) -> str:
    """What AWS answers for what is made here."""
    return f"arn:aws:made:{REGION}:{ACCOUNT}:{name}"
