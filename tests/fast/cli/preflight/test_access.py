"""Access of the caller to the cluster: by the settings of a new one, by the access entries of an existing one."""

from __future__ import annotations

from typing import Any

import pytest

from agentenv.cli.preflight import access, quotas
from agentenv.cli.preflight.aws_calls import Account
from agentenv.cli.preflight.check import Check, run_checks
from tests.fast.cli.preflight.conftest import StubbedSession
from tests.fast.cli.preflight.test_permissions import ACCOUNT, EXISTING, ROLE, session
from tests.fast.config.stack_samples import settings

SHARED: dict[str, Any] = {"network": {"existing": EXISTING}, "cluster": {"existing": "shared"}}
POLICY = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"


def run_check(account: Account, sections: dict[str, Any]) -> Check:
    return run_checks(access.questions(settings(sections)), account)[0]


@pytest.mark.parametrize(
    ("cluster", "ok"),
    [
        ({}, True),
        ({"deployers": [ROLE]}, True),
        ({"admins": [ROLE]}, True),
        ({"deployers": [f"arn:aws:iam::{ACCOUNT}:role/another"]}, False),
        # Without its path it is another principal to EKS.
        ({"deployers": [f"arn:aws:iam::{ACCOUNT}:role/pipeline"]}, False),
        ({"readers": [ROLE]}, True),
    ],
)
def test_a_new_cluster_admits_its_deployers_and_admins(
    stubbed: StubbedSession, cluster: dict[str, Any], ok: bool
) -> None:
    session(stubbed)
    found = run_check(stubbed.account(), {"cluster": cluster})
    assert found.ok is ok
    assert ok or ROLE in found.why


def check_entry(stubbed: StubbedSession, policy: str, scope: str = "cluster") -> Check:
    """Return the check for an access entry with a policy."""
    session(stubbed)
    entry = {"clusterName": "shared", "principalArn": ROLE}
    stub = stubbed.stub("eks")
    stub.add_response("describe_access_entry", {"accessEntry": {"principalArn": ROLE}}, entry)
    policies = [{"policyArn": policy, "accessScope": {"type": scope}}]
    stub.add_response("list_associated_access_policies", {"associatedAccessPolicies": policies}, entry)
    return run_check(stubbed.account(), SHARED)


def test_an_existing_cluster_admits_its_administrators(stubbed: StubbedSession) -> None:
    assert check_entry(stubbed, POLICY).ok is True


@pytest.mark.parametrize(
    ("policy", "scope"), [(POLICY, "namespace"), (POLICY.replace("ClusterAdmin", "View"), "cluster")]
)
def test_an_entry_with_fewer_permissions_is_unknown(stubbed: StubbedSession, policy: str, scope: str) -> None:
    assert check_entry(stubbed, policy, scope).ok is None


@pytest.mark.parametrize(("mode", "ok"), [("API", False), ("API_AND_CONFIG_MAP", None)])
def test_a_caller_without_an_entry_gets_the_command_for_one(
    stubbed: StubbedSession, mode: str, ok: bool | None
) -> None:
    session(stubbed)
    stub = stubbed.stub("eks")
    stub.add_client_error("describe_access_entry", "ResourceNotFoundException", "none")
    stub.add_response("describe_cluster", {"cluster": {"accessConfig": {"authenticationMode": mode}}})
    found = run_check(stubbed.account(), SHARED)
    assert found.ok is ok
    assert ok is None or f"--principal-arn {ROLE}" in found.why
    assert ok is None or POLICY in found.why


def test_other_profiles_count_in_an_existing_cluster(stubbed: StubbedSession) -> None:
    found = settings(SHARED)
    (question,) = [
        question for question in quotas.questions(found) if question.name.startswith("quota: Fargate profiles")
    ]
    assert question.needed == 2
    entry = {"ServiceCode": "eks", "QuotaCode": "L-33415657"}
    stubbed.stub("service-quotas").add_response("get_service_quota", {"Quota": {"Value": 10.0}}, entry)
    theirs = [f"theirs-{number}" for number in range(9)]
    stubbed.stub("eks").add_response(
        "list_fargate_profiles", {"fargateProfileNames": theirs}, {"clusterName": "shared"}
    )
    check = run_checks([question], stubbed.account())[0]
    assert (check.ok, check.limit) == (False, 10)
