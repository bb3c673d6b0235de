"""Documents that are not known yet are judged as their component promised, and one that comes otherwise is told."""

from __future__ import annotations

import json
from typing import Any

from agentenv.components._lib.iam_policies import document
from agentenv.components._lib.planned_documents import ISSUER, PROVIDER, Promises
from agentenv.components.cluster.irsa import Bearer, token_trust
from agentenv.core.capabilities.unknown_values import UNKNOWN
from agentenv.policies.packs.planned_documents import broken, kept
from agentenv.policies.view.resource import Resource

BEARER = Bearer("agents", "controller")
ROLE = "aws:iam/role:Role"


def stack(real: object, says: Any, *, parent: str = "component", name: str = "agents-controller") -> list[Resource]:
    promises = Promises()
    promises.of(ROLE, name, "assumeRolePolicy", says)
    return [
        Resource("component", "agent-environment:index:Capacity", "agents", {}, outputs={"documents": promises.made}),
        Resource("role", ROLE, "agents-controller", {"assumeRolePolicy": real, "name": "r"}, parent=parent),
    ]


def test_what_is_not_known_is_what_was_promised_of_a_child() -> None:
    says = token_trust(PROVIDER, ISSUER, BEARER)
    resources = stack(UNKNOWN, says)
    _, role = kept(resources)
    assert role.inputs == {"assumeRolePolicy": says, "name": "r"}
    assert role.at("assumeRolePolicy", "Statement", 0, "Effect").raw == "Allow"
    for other in (stack(UNKNOWN, says, parent="another"), stack(UNKNOWN, says, name="another")):
        assert kept(other)[1] is other[1]


def test_a_document_that_is_known_is_judged_as_it_is() -> None:
    resources = stack("{}", token_trust(PROVIDER, ISSUER, BEARER))
    assert kept(resources)[1] is resources[1]


def test_a_promise_is_held_by_the_same_document_with_other_names_and_broken_by_another() -> None:
    says = token_trust(PROVIDER, ISSUER, BEARER)
    real = token_trust("arn:aws:iam::111122223333:oidc-provider/a/id/B", "https://a/id/B", BEARER)
    assert not list(broken(stack(json.dumps(real), says)))
    assert not list(broken(stack(UNKNOWN, says)))
    statement = real["Statement"][0]
    for worse in (
        document(),
        document({**statement, "Condition": {}}),
        document({**statement, "Action": "sts:*"}),
        document(statement, {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": "*"}),
        document({**statement, "Principal": "*"}),
    ):
        [said] = broken(stack(json.dumps(worse), says))
        assert (said.rule, said.urn, said.path) == ("PACK-02", "role", "assumeRolePolicy")
