"""Whether the caller gets into the cluster: by the stack file where it is made, by its entries where it stands."""

from __future__ import annotations

from typing import Any

import pytest

from agentenv.cli.preflight import access, quotas
from agentenv.cli.preflight.aws_calls import Account
from agentenv.cli.preflight.check import Check, run_checks
from tests.fast.cli.preflight.conftest import Written
from tests.fast.cli.preflight.test_permissions import ACCOUNT, EXISTING, ROLE, session
from tests.fast.config.stack_samples import settings

SHARED: dict[str, Any] = {"network": {"existing": EXISTING}, "cluster": {"existing": "shared"}}
POLICY = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"


def asked(account: Account, sections: dict[str, Any]) -> Check:
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
def test_a_cluster_that_is_made_lets_in_whom_the_stack_names(
    written: Written, cluster: dict[str, Any], ok: bool
) -> None:
    session(written)
    found = asked(written.account(), {"cluster": cluster})
    assert found.ok is ok
    assert ok or ROLE in found.why


def entry(written: Written, policy: str, scope: str = "cluster") -> Check:
    """The check where there is an entry with a policy."""
    session(written)
    named = {"clusterName": "shared", "principalArn": ROLE}
    stub = written.write("eks")
    stub.add_response("describe_access_entry", {"accessEntry": {"principalArn": ROLE}}, named)
    policies = [{"policyArn": policy, "accessScope": {"type": scope}}]
    stub.add_response("list_associated_access_policies", {"associatedAccessPolicies": policies}, named)
    return asked(written.account(), SHARED)


def test_an_existing_cluster_lets_its_administrators_in(written: Written) -> None:
    assert entry(written, POLICY).ok is True


@pytest.mark.parametrize(
    ("policy", "scope"), [(POLICY, "namespace"), (POLICY.replace("ClusterAdmin", "View"), "cluster")]
)
def test_an_entry_that_may_do_less_is_not_known_to_be_enough(written: Written, policy: str, scope: str) -> None:
    assert entry(written, policy, scope).ok is None


@pytest.mark.parametrize(("mode", "ok"), [("API", False), ("API_AND_CONFIG_MAP", None)])
def test_a_caller_without_an_entry_is_told_how_to_get_one(written: Written, mode: str, ok: bool | None) -> None:
    session(written)
    stub = written.write("eks")
    stub.add_client_error("describe_access_entry", "ResourceNotFoundException", "none")
    stub.add_response("describe_cluster", {"cluster": {"accessConfig": {"authenticationMode": mode}}})
    found = asked(written.account(), SHARED)
    assert found.ok is ok
    assert ok is None or f"--principal-arn {ROLE}" in found.why
    assert ok is None or POLICY in found.why


def test_profiles_of_others_count_in_a_cluster_that_stands(written: Written) -> None:
    found = settings(SHARED)
    (question,) = [one for one in quotas.questions(found) if one.name.startswith("quota: Fargate profiles")]
    assert question.needed == 2
    named = {"ServiceCode": "eks", "QuotaCode": "L-33415657"}
    written.write("service-quotas").add_response("get_service_quota", {"Quota": {"Value": 10.0}}, named)
    theirs = [f"theirs-{number}" for number in range(9)]
    written.write("eks").add_response(
        "list_fargate_profiles", {"fargateProfileNames": theirs}, {"clusterName": "shared"}
    )
    check = run_checks([question], written.account())[0]
    assert (check.ok, check.limit) == (False, 10)
