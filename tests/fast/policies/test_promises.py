"""Unknown documents are evaluated as planned by their component, and a different document is a finding."""

from __future__ import annotations

import json
from typing import Any

from agentenv.components._lib.planned_documents import (
    PLACEHOLDER_ISSUER_URL,
    PLACEHOLDER_PROVIDER_ARN,
    PlannedDocuments,
)
from agentenv.components.cluster.irsa import ServiceAccount, irsa_trust_policy
from agentenv.core.capabilities.unknown_values import UNKNOWN
from agentenv.core.iam.documents import policy_document
from agentenv.policies.packs.planned_documents import plan_mismatches, with_planned_documents
from agentenv.policies.view.resource import Resource

SERVICE_ACCOUNT = ServiceAccount("agents", "controller")
ROLE = "aws:iam/role:Role"


def stack(real: object, planned: Any, *, parent: str = "component", name: str = "agents-controller") -> list[Resource]:
    planned_documents = PlannedDocuments()
    planned_documents.add(ROLE, name, "assumeRolePolicy", planned)
    return [
        Resource(
            "component",
            "agent-environment:index:Capacity",
            "agents",
            {},
            outputs={"documents": planned_documents.entries},
        ),
        Resource("role", ROLE, "agents-controller", {"assumeRolePolicy": real, "name": "r"}, parent=parent),
    ]


def test_an_unknown_document_is_replaced_by_the_planned_one() -> None:
    planned = irsa_trust_policy(PLACEHOLDER_PROVIDER_ARN, PLACEHOLDER_ISSUER_URL, SERVICE_ACCOUNT)
    resources = stack(UNKNOWN, planned)
    _, role = with_planned_documents(resources)
    assert role.inputs == {"assumeRolePolicy": planned, "name": "r"}
    assert role.at("assumeRolePolicy", "Statement", 0, "Effect").raw == "Allow"
    for other in (stack(UNKNOWN, planned, parent="another"), stack(UNKNOWN, planned, name="another")):
        assert with_planned_documents(other)[1] is other[1]


def test_a_known_document_is_not_replaced() -> None:
    resources = stack("{}", irsa_trust_policy(PLACEHOLDER_PROVIDER_ARN, PLACEHOLDER_ISSUER_URL, SERVICE_ACCOUNT))
    assert with_planned_documents(resources)[1] is resources[1]


def test_a_document_may_differ_from_its_plan_only_in_names() -> None:
    planned = irsa_trust_policy(PLACEHOLDER_PROVIDER_ARN, PLACEHOLDER_ISSUER_URL, SERVICE_ACCOUNT)
    real = irsa_trust_policy("arn:aws:iam::111122223333:oidc-provider/a/id/B", "https://a/id/B", SERVICE_ACCOUNT)
    assert not list(plan_mismatches(stack(json.dumps(real), planned)))
    assert not list(plan_mismatches(stack(UNKNOWN, planned)))
    statement = real["Statement"][0]
    for changed in (
        policy_document(),
        policy_document({**statement, "Condition": {}}),
        policy_document({**statement, "Action": "sts:*"}),
        policy_document(statement, {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": "*"}),
        policy_document({**statement, "Principal": "*"}),
    ):
        [mismatch] = plan_mismatches(stack(json.dumps(changed), planned))
        assert (mismatch.rule, mismatch.urn, mismatch.path) == ("PACK-02", "role", "assumeRolePolicy")
