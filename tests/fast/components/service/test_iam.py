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
    table = service([PLAIN]).resource("Table", "ledger").inputs
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
    table_of_prod = service([PLAIN], facts=replace(FACTS, keep_data=True)).resource("Table", "ledger")
    assert (
        table_of_prod.inputs["deletionProtectionEnabled"],
        table_of_prod.protect,
        table_of_prod.retain,
    ) == (True, True, True)


def test_without_an_exchange_the_service_gives_out_nothing_and_keeps_no_secrets() -> None:
    graph = service([PLAIN])
    policy = graph.resource("RolePolicy", "work").policy()
    assert {statement["Sid"] for statement in policy["Statement"]} == {
        "KeepAccess",
        "KeepLedger",
        "LookAtSlots",
        "SayWhoseSlotsAre",
    }
    assert [resource.name for resource in graph.resources if resource.type == "aws:iam/role:Role"] == ["service-role"]


def test_a_class_that_exchanges_has_a_role_that_only_the_service_takes_on() -> None:
    graph = service([PLAIN, TRADES], ["203.0.113.7"])
    role = graph.resource("Role", "class-builder")
    (trust,) = role.policy("assumeRolePolicy")["Statement"]
    assert trust["Principal"] == {"AWS": _arn("service-role")}
    assert trust["Condition"]["StringEquals"] == {"aws:RequestTag/sandbox-class": "builder"}
    rights = {
        statement["Sid"]: statement for statement in graph.resource("RolePolicy", "class-builder").policy()["Statement"]
    }
    assert rights["OwnSecrets"]["Resource"].endswith("secret:sandbox-secrets/dev/${aws:PrincipalTag/sandbox-user}/*")
    assert rights["FromItsNetwork"]["Condition"] == {
        "StringNotEqualsIfExists": {"aws:SourceVpc": "vpc-1"},
        "BoolIfExists": {"aws:ViaAWSService": "false"},
        "NotIpAddressIfExists": {"aws:SourceIp": ["203.0.113.7/32"]},
    }
    (attached,) = (resource for resource in graph.resources if resource.type.endswith("RolePolicyAttachment"))
    assert attached.inputs["policyArn"] == POLICY
    statements = {
        statement["Sid"]: statement for statement in graph.resource("RolePolicy", "work").policy()["Statement"]
    }
    assert statements["GiveSandboxesTheirRoles"]["Resource"] == [_arn("service-class-builder")]
    assert not [document for document in statements.values() if "secretsmanager:GetSecretValue" in document["Action"]]


@pytest.mark.parametrize("addresses", [[], ["203.0.113.7"], ["203.0.113.7", "203.0.113.8"]])
def test_the_planned_policies_have_the_shape_of_the_real_ones(addresses: list[pulumi.Input[str]]) -> None:
    graph = service([PLAIN, TRADES], addresses)
    planned = [document for outputs in graph.outputs.values() for document in outputs.get("documents", ())]
    assert {(document["name"], document["property"]) for document in planned} >= {
        ("service-class-builder", "assumeRolePolicy"),
        ("service-class-builder", "policy"),
        ("service-work", "policy"),
    }
    assert list(plan_mismatches(graph.policy_resources())) == []


def _arn(name: str) -> str:
    """Return the ARN that AWS gives a resource of this name."""
    return f"arn:aws:made:{REGION}:{ACCOUNT}:{name}"
