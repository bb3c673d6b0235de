"""Documents that are not known yet are judged as their component promised, and one that comes otherwise is told."""

from __future__ import annotations

import json
from typing import Any

from agentenv.components._lib.iam_policies import document
from agentenv.components._lib.planned_documents import (
    PLACEHOLDER_ISSUER_URL,
    PLACEHOLDER_PROVIDER_ARN,
    PlannedDocuments,
)
from agentenv.components.cluster.irsa import ServiceAccount, irsa_trust_policy
from agentenv.core.capabilities.unknown_values import UNKNOWN
from agentenv.policies.packs.planned_documents import plan_mismatches, with_planned_documents
from agentenv.policies.view.resource import Resource

SERVICE_ACCOUNT = ServiceAccount("agents", "controller")
ROLE = "aws:iam/role:Role"


def stack(real: object, says: Any, *, parent: str = "component", name: str = "agents-controller") -> list[Resource]:
    planned_documents = PlannedDocuments()
    planned_documents.add(ROLE, name, "assumeRolePolicy", says)
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


def test_what_is_not_known_is_what_was_promised_of_a_child() -> None:
    says = irsa_trust_policy(PLACEHOLDER_PROVIDER_ARN, PLACEHOLDER_ISSUER_URL, SERVICE_ACCOUNT)
    resources = stack(UNKNOWN, says)
    _, role = with_planned_documents(resources)
    assert role.inputs == {"assumeRolePolicy": says, "name": "r"}
    assert role.at("assumeRolePolicy", "Statement", 0, "Effect").raw == "Allow"
    for other in (stack(UNKNOWN, says, parent="another"), stack(UNKNOWN, says, name="another")):
        assert with_planned_documents(other)[1] is other[1]


def test_a_document_that_is_known_is_judged_as_it_is() -> None:
    resources = stack("{}", irsa_trust_policy(PLACEHOLDER_PROVIDER_ARN, PLACEHOLDER_ISSUER_URL, SERVICE_ACCOUNT))
    assert with_planned_documents(resources)[1] is resources[1]


def test_a_promise_is_held_by_the_same_document_with_other_names_and_broken_by_another() -> None:
    says = irsa_trust_policy(PLACEHOLDER_PROVIDER_ARN, PLACEHOLDER_ISSUER_URL, SERVICE_ACCOUNT)
    real = irsa_trust_policy("arn:aws:iam::111122223333:oidc-provider/a/id/B", "https://a/id/B", SERVICE_ACCOUNT)
    assert not list(plan_mismatches(stack(json.dumps(real), says)))
    assert not list(plan_mismatches(stack(UNKNOWN, says)))
    statement = real["Statement"][0]
    for worse in (
        document(),
        document({**statement, "Condition": {}}),
        document({**statement, "Action": "sts:*"}),
        document(statement, {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": "*"}),
        document({**statement, "Principal": "*"}),
    ):
        [said] = plan_mismatches(stack(json.dumps(worse), says))
        assert (said.rule, said.urn, said.path) == ("PACK-02", "role", "assumeRolePolicy")
