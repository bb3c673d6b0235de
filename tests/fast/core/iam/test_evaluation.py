"""Conditions and verdicts, as IAM's reference has them."""

from typing import Any

import pytest

from agentenv.core.iam.conditions import RequestKeys, conditions_of
from agentenv.core.iam.evaluation import Principal, grants, request_keys, trusts
from tests.fast.rehearsal.cloud.calls import allow

REQUEST = request_keys(
    **{
        "aws:PrincipalTag/team": "blue",
        "aws:SourceArn": "arn:aws:eks:us-east-1:123456789012:cluster/a/b",
        "aws:TagKeys": ["one", "two"],
        "aws:SecureTransport": "true",
        "aws:SourceIp": "10.1.2.3",
        "aws:CurrentTime": "2026-11-18T12:00:00Z",
        "s3:max-keys": "10",
    }
)


def is_met(element: dict[str, Any], keys: RequestKeys) -> bool:
    """Return whether a request meets all conditions of a `Condition` element."""
    return all(condition.is_met(keys) for condition in conditions_of(element))


@pytest.mark.parametrize(
    ("operator", "key", "expected", "holds"),
    [
        ("StringEquals", "aws:principaltag/TEAM", "blue", True),
        ("StringEquals", "aws:PrincipalTag/team", "Blue", False),
        ("StringEquals", "aws:PrincipalTag/team", ["red", "blue"], True),
        ("StringEquals", "aws:PrincipalTag/team", "bl*", False),
        ("StringEqualsIgnoreCase", "aws:PrincipalTag/team", "BLUE", True),
        ("StringLike", "aws:PrincipalTag/team", "b?u*", True),
        ("StringLike", "aws:PrincipalTag/team", "b?", False),
        ("StringNotEquals", "aws:PrincipalTag/team", ["red", "blue"], False),
        ("StringNotEquals", "aws:PrincipalTag/team", ["red", "green"], True),
        ("StringNotLike", "aws:PrincipalTag/team", "r*", True),
        ("StringEquals", "absent", "blue", False),
        ("StringNotEquals", "absent", "blue", True),
        ("StringEqualsIfExists", "absent", "blue", True),
        ("StringEqualsIfExists", "aws:PrincipalTag/team", "red", False),
        ("Null", "absent", "true", True),
        ("Null", "aws:TagKeys", True, False),
        ("Null", "aws:TagKeys", "false", True),
        ("ForAllValues:StringEquals", "aws:TagKeys", ["one", "two", "three"], True),
        ("ForAllValues:StringEquals", "aws:TagKeys", ["one"], False),
        ("ForAllValues:StringEquals", "absent", ["one"], True),
        ("ForAnyValue:StringEquals", "aws:TagKeys", ["two"], True),
        ("ForAnyValue:StringEquals", "aws:TagKeys", ["three"], False),
        ("ForAnyValue:StringEquals", "absent", ["one"], False),
        ("ForAnyValue:StringNotEquals", "aws:TagKeys", ["one"], True),
        ("ArnLike", "aws:SourceArn", "arn:aws:eks:*:123456789012:cluster/*", True),
        ("ArnEquals", "aws:SourceArn", "arn:aws:*:cluster/a/b", False),
        ("ArnNotLike", "aws:SourceArn", "arn:aws:eks:*:*:cluster/a/?", False),
        ("Bool", "aws:SecureTransport", True, True),
        ("Bool", "aws:SecureTransport", "false", False),
        ("IpAddress", "aws:SourceIp", "10.1.0.0/16", True),
        ("NotIpAddress", "aws:SourceIp", "10.1.0.0/16", False),
        ("IpAddress", "aws:PrincipalTag/team", "10.1.0.0/16", False),
        ("NumericLessThanEquals", "s3:max-keys", 10, True),
        ("NumericGreaterThan", "s3:max-keys", "10", False),
        ("NumericNotEquals", "s3:max-keys", "9", True),
        ("DateLessThan", "aws:CurrentTime", "2026-11-18T12:00:01Z", True),
        ("DateGreaterThan", "aws:CurrentTime", "1800000000", False),
        ("StringEquals", "aws:PrincipalTag/team", "${aws:PrincipalTag/team}", True),
        ("StringEquals", "aws:PrincipalTag/team", "${aws:PrincipalTag/none}", False),
        ("StringEquals", "aws:PrincipalTag/team", "${aws:PrincipalTag/none, 'blue'}", True),
    ],
)
def test_every_operator_holds_when_it_should(operator: str, key: str, expected: Any, holds: bool) -> None:
    assert is_met({operator: {key: expected}}, REQUEST) is holds


def test_every_test_has_to_hold() -> None:
    tag, address = {"aws:PrincipalTag/team": "blue"}, {"aws:SourceIp": "10.0.0.0/8"}
    assert is_met({"StringEquals": tag, "IpAddress": address}, REQUEST)
    assert not is_met({"StringEquals": {**tag, "s3:max-keys": "9"}, "IpAddress": address}, REQUEST)
    assert is_met({}, REQUEST)


def test_a_verdict_goes_by_action_and_resource_and_denial() -> None:
    reads = allow(Action=["s3:Get*", "s3:ListBucket"], Resource="arn:aws:s3:::b/*")
    assert grants([reads], "s3:getobject", "arn:aws:s3:::b/c/d", {})
    assert not grants([reads], "s3:PutObject", "arn:aws:s3:::b/c", {})
    assert not grants([reads], "s3:GetObject", "arn:aws:s3:::c/c", {})
    assert grants([allow(Action=..., NotAction="iam:*")], "s3:GetObject", "arn:aws:s3:::c", {})
    assert not grants([allow(Action=..., NotAction="s3:*")], "s3:GetObject", "arn:aws:s3:::c", {})
    assert not grants([allow(Resource=..., NotResource="arn:aws:s3:::b/*")], "s3:GetObject", "arn:aws:s3:::b/c", {})
    assert not grants([allow(), allow(Effect="Deny", Action="*")], "s3:GetObject", "arn:aws:s3:::b/c", {})
    assert not grants([], "s3:GetObject", "arn:aws:s3:::b/c", {})


@pytest.mark.parametrize(
    ("statement", "trusted"),
    [
        ({"Principal": "*"}, True),
        ({"Principal": {"AWS": "*"}}, True),
        ({"Principal": {"AWS": ["arn:aws:iam::123456789012:role/r"]}}, True),
        ({"Principal": {"AWS": "arn:aws:iam::123456789012:role/s"}}, False),
        ({"Principal": {"Service": "eks.amazonaws.com"}}, False),
        ({"Principal": ..., "NotPrincipal": {"AWS": "arn:aws:iam::123456789012:role/r"}}, False),
        ({"Principal": ..., "NotPrincipal": {"AWS": "arn:aws:iam::123456789012:role/s"}}, True),
    ],
)
def test_trust_goes_by_the_principal(statement: dict[str, Any], trusted: bool) -> None:
    document = allow(**{"Resource": ..., "Action": "sts:AssumeRole", **statement})
    who = Principal("AWS", frozenset({"arn:aws:iam::123456789012:role/r"}))
    assert trusts(document, who, "sts:AssumeRole", {}) is trusted
    assert not trusts(document, who, "sts:TagSession", {})
