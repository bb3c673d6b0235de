"""The effect of the policies, evaluated as AWS evaluates them, and not their text."""

from __future__ import annotations

from typing import Any

import pytest

from agentenv.components._lib import iam_policies
from agentenv.components._lib.aws_context import AwsContext
from tests.fast.components.iam import ANONYMOUS, decided

HERE = AwsContext("aws", "amazonaws.com", "eu-west-1", "123456789012")
NODE, STRANGER = (f"arn:aws:iam::123456789012:role/{name}" for name in ("node", "stranger"))
POINT = "arn:aws:elasticfilesystem:eu-west-1:123456789012:access-point/fsap-1"
THEIR_POINT = POINT.replace("123456789012", "210987654321")
GOOD = {
    "aws:SecureTransport": "true",
    "elasticfilesystem:AccessedViaMountTarget": "true",
    "elasticfilesystem:AccessPointArn": POINT,
}
MOUNT, WRITE, ROOT = (f"elasticfilesystem:Client{verb}" for verb in ("Mount", "Write", "RootAccess"))


def through(service: str, account: str = "123456789012") -> dict[str, str]:
    return {"kms:ViaService": f"{service}.eu-west-1.amazonaws.com", "kms:CallerAccount": account}


def without(key: str) -> dict[str, str]:
    return {name: value for name, value in GOOD.items() if name != key}


@pytest.mark.parametrize("partition", ["aws", "aws-cn", "aws-us-gov"])
@pytest.mark.parametrize(
    ("caller", "action", "context", "answer"),
    [
        (NODE, MOUNT, GOOD, "allow"),
        (NODE, WRITE, GOOD, "allow"),
        (NODE, ROOT, GOOD, "deny"),
        (NODE, MOUNT, {**GOOD, "aws:SecureTransport": "false"}, "deny"),
        (NODE, MOUNT, without("elasticfilesystem:AccessPointArn"), "deny"),
        (NODE, WRITE, without("elasticfilesystem:AccessPointArn"), "deny"),
        (NODE, MOUNT, {**GOOD, "elasticfilesystem:AccessedViaMountTarget": "false"}, "silent"),
        (
            NODE,
            MOUNT,
            {**GOOD, "elasticfilesystem:AccessPointArn": POINT.replace("123456789012", "210987654321")},
            "silent",
        ),
        # EFS enforces no key that names the caller, so others are left out and not denied.
        (STRANGER, MOUNT, GOOD, "silent"),
        (STRANGER, WRITE, GOOD, "silent"),
        (STRANGER, MOUNT, without("elasticfilesystem:AccessPointArn"), "deny"),
        (ANONYMOUS, MOUNT, GOOD, "silent"),
        (ANONYMOUS, ROOT, {}, "deny"),
    ],
)
def test_who_may_do_what_with_a_file_system(
    partition: str, caller: str | None, action: str, context: dict[str, str], answer: str
) -> None:
    def there(arn: str | None) -> str | None:
        return arn.replace("arn:aws:", f"arn:{partition}:") if arn else arn

    place = AwsContext(partition, "amazonaws.com", HERE.region, HERE.account)
    policy = iam_policies.file_system_policy(place, "arn:fs", [str(there(NODE))])
    assert decided(policy, there(caller), action, {key: str(there(value)) for key, value in context.items()}) == answer


@pytest.mark.parametrize("caller", [NODE, STRANGER, ANONYMOUS])
@pytest.mark.parametrize("action", [MOUNT, WRITE, ROOT])
def test_file_system_without_known_clients_refuses_all_mounts(caller: str | None, action: str) -> None:
    assert decided(iam_policies.file_system_policy(HERE, "arn:fs", []), caller, action, GOOD) == "deny"


def test_a_file_system_policy_has_only_conditions_that_efs_enforces() -> None:
    policy = iam_policies.file_system_policy(HERE, "arn:fs", [NODE])
    keys = {key for row in policy["Statement"] for condition in row.get("Condition", {}).values() for key in condition}
    assert keys <= set(GOOD)


def test_looking_after_a_file_system_stays_possible() -> None:
    policy = iam_policies.file_system_policy(HERE, "arn:fs", [NODE])
    assert (
        decided(policy, STRANGER, "elasticfilesystem:PutFileSystemPolicy", {"aws:SecureTransport": "true"}) == "silent"
    )


@pytest.mark.parametrize(
    ("caller", "action", "context", "answer"),
    [
        (HERE.root, "kms:PutKeyPolicy", {}, "allow"),
        (HERE.root, "kms:ScheduleKeyDeletion", {}, "allow"),
        (HERE.root, "kms:Decrypt", {}, "silent"),
        (NODE, "kms:Decrypt", {}, "silent"),
        (
            NODE,
            "kms:Decrypt",
            through("elasticfilesystem"),
            "allow",
        ),
        (
            NODE,
            "kms:CreateGrant",
            through("elasticfilesystem"),
            "allow",
        ),
        (
            NODE,
            "kms:Decrypt",
            through("s3"),
            "silent",
        ),
        (
            NODE,
            "kms:Decrypt",
            through("elasticfilesystem", "2"),
            "silent",
        ),
        (STRANGER, "kms:PutKeyPolicy", {}, "silent"),
    ],
)
def test_the_file_systems_key_encrypts_through_efs_only(
    caller: str, action: str, context: dict[str, str], answer: str
) -> None:
    assert decided(iam_policies.file_system_key_policy(HERE), caller, action, context) == answer


@pytest.mark.parametrize(
    ("service", "action", "context", "answer"),
    [
        ("ec2", "ec2:RunInstances", {"aws:PrincipalAccount": "123456789012"}, "allow"),
        ("ec2", "ec2:RunInstances", {"aws:PrincipalAccount": "210987654321"}, "silent"),
        ("sts", "sts:AssumeRole", {"aws:PrincipalAccount": "210987654321"}, "silent"),
        ("sts", "sts:AssumeRoleWithWebIdentity", {}, "allow"),
        ("ec2", "sts:AssumeRoleWithWebIdentity", {}, "silent"),
    ],
)
def test_an_endpoint_is_for_this_accounts_identities(
    service: str, action: str, context: dict[str, str], answer: str
) -> None:
    assert decided(iam_policies.interface_endpoint_policy(HERE, service), NODE, action, context) == answer


@pytest.mark.parametrize(
    ("policy", "action", "owner", "answer"),
    [
        (iam_policies.s3_endpoint_policy(HERE), "s3:PutObject", "123456789012", "allow"),
        (iam_policies.s3_endpoint_policy(HERE), "s3:PutObject", "210987654321", "silent"),
        (iam_policies.s3_endpoint_policy(HERE), "s3:GetObject", "210987654321", "allow"),
        (iam_policies.s3_endpoint_policy(HERE), "s3:ListBucket", "210987654321", "silent"),
        (iam_policies.dynamodb_endpoint_policy(HERE), "dynamodb:PutItem", "123456789012", "allow"),
        (iam_policies.dynamodb_endpoint_policy(HERE), "dynamodb:GetItem", "210987654321", "silent"),
    ],
)
def test_gateway_endpoint_reaches_no_other_account(
    policy: dict[str, Any], action: str, owner: str, answer: str
) -> None:
    assert decided(policy, NODE, action, {"aws:ResourceAccount": owner}) == answer


def test_the_same_policy_is_always_the_same_text() -> None:
    first, other = (
        iam_policies.file_system_policy(HERE, "arn:fs", roles) for roles in ([NODE, STRANGER], [STRANGER, NODE, NODE])
    )
    assert iam_policies.to_json(first) == iam_policies.to_json(other)


def test_each_sid_is_one_that_iam_takes() -> None:
    policies = [
        iam_policies.file_system_policy(HERE, "arn:fs", [NODE]),
        iam_policies.file_system_key_policy(HERE),
        iam_policies.logs_key_policy(HERE, "/logs/*"),
        iam_policies.log_writer_policy("arn:logs"),
        iam_policies.s3_endpoint_policy(HERE),
        iam_policies.dynamodb_endpoint_policy(HERE),
        iam_policies.interface_endpoint_policy(HERE, "sts"),
        iam_policies.service_trust_policy(HERE, "vpc-flow-logs.amazonaws.com", "arn:flow"),
    ]
    for policy in policies:
        sids = [statement["Sid"] for statement in policy["Statement"]]
        assert all(sid.isalnum() for sid in sids)
        assert len(set(sids)) == len(sids)
