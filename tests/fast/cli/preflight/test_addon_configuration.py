"""The configuration of add-ons, checked against the schemas of the simulated EKS or of stubs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentenv.cli.preflight import addon_configuration
from agentenv.cli.preflight.check import Check, run_checks
from tests.fast.cli.preflight.conftest import StubbedSession
from tests.fast.config.stack_samples import settings

ACCOUNTS = [{"serviceAccount": name} for name in ("efs-csi-controller-sa", "efs-csi-node-sa")]
CLOSED = {"type": "object", "additionalProperties": False}


def check(stubbed: StubbedSession, name: str, schema: Any, accounts: list[dict[str, str]] = ACCOUNTS) -> Check:
    """Return the check of an add-on whose schema and service accounts EKS describes so."""
    (question,) = [each for each in addon_configuration.questions(settings()) if each.name.endswith(f" {name}")]
    text = schema if isinstance(schema, str) else json.dumps(schema)
    response = {"addonName": name, "configurationSchema": text, "podIdentityConfiguration": accounts}
    stubbed.stub("eks").add_response("describe_addon_configuration", response)
    return run_checks([question], stubbed.account())[0]


def test_the_pinned_builds_take_the_configuration(simulated: StubbedSession) -> None:
    found = addon_configuration.questions(settings())
    assert [question.name.rpartition(" ")[2] for question in found] == [
        "vpc-cni",
        "coredns",
        "aws-efs-csi-driver",
        "kube-state-metrics",
    ]
    assert [check for check in run_checks(found, simulated.account()) if check.ok is not True] == []


def test_an_unknown_property_fails(stubbed: StubbedSession) -> None:
    found = check(stubbed, "coredns", {**CLOSED, "properties": {"computeType": {"type": "string"}}})
    assert found.ok is False
    assert "'autoScaling' was unexpected" in found.why


def test_a_value_of_another_type_fails(stubbed: StubbedSession) -> None:
    found = check(stubbed, "vpc-cni", {"properties": {"enableNetworkPolicy": {"type": "boolean"}}})
    assert (found.ok, found.limit) == (False, "refused")
    assert "$.enableNetworkPolicy: 'true' is not of type 'boolean'" in found.why


@pytest.mark.parametrize(("accounts", "missing"), [(ACCOUNTS[:1], "efs-csi-node-sa"), ([], "efs-csi-controller-sa")])
def test_a_driver_without_pod_identity_fails(
    stubbed: StubbedSession, accounts: list[dict[str, str]], missing: str
) -> None:
    found = check(stubbed, "aws-efs-csi-driver", CLOSED, accounts)
    assert (found.ok, found.limit) == (False, "no Pod Identity")
    assert missing in found.why


@pytest.mark.parametrize("schema", ["", "[", '{"type": "nothing"}'])
def test_an_unreadable_schema_is_unknown(stubbed: StubbedSession, schema: str) -> None:
    found = check(stubbed, "coredns", schema)
    assert found.ok is None
    assert found.why.startswith("its schema cannot be read: ")


def test_a_build_that_eks_does_not_offer_is_unknown_here(simulated: StubbedSession) -> None:
    parsed = settings({"cluster": {"addonVersions": {"coredns": "v1.0.0-eksbuild.1"}}})
    found = [each for each in addon_configuration.questions(parsed) if each.name.endswith(" coredns")]
    assert simulated.check(found).ok is None
