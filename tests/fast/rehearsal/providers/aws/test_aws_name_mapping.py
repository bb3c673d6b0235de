"""Names by rule: which member of an operation an input is."""

import pytest

from agentenv.rehearsal.providers.aws import name_mapping


@pytest.mark.parametrize(
    ("members", "name", "result"),
    [
        (["CidrBlock"], "cidrBlock", "CidrBlock"),
        (["SubnetIds"], "subnetId", "SubnetIds"),
        (["LifecyclePolicy"], "lifecyclePolicies", "LifecyclePolicy"),
        (["TransitionToIA"], "transitionToIa", "TransitionToIA"),
        (["Name"], "names", "Name"),
        (["Other"], "name", None),
    ],
)
def test_a_member_is_found_by_rule(members: list[str], name: str, result: str | None) -> None:
    assert name_mapping.member(members, name) == result
