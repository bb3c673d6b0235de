"""What the workspace service may do in AWS, as a policy: write its ledger, look after access points, give out roles.

It may read no secret and mount no file system. Whoever takes it over has what is written here, and no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentenv.core.classes.storage_classes import DRIVER_MARK
from agentenv.core.iam.identity_exchange import SecretsPlace, service_rights

Plain = dict[str, Any]

SECRETS_FOLDER = "sandbox-secrets"
# Tags of ours on access points: whose data one leads to. None of those that others go by is the service's to change.
SLOT_TAGS = ("sandbox-*",)


def secrets_prefix(environment: str) -> str:
    """What the names of owners' secrets begin with: no two environments of an account share one."""
    return f"{SECRETS_FOLDER}/{environment}"


def service_policy(
    table: str, systems: Sequence[str], points: str, roles: Sequence[str], secrets: SecretsPlace | None
) -> Plain:
    """The policy of its role: `table` and `systems` by ARN, `points` for the ARNs of access points."""
    ledger: Plain = {
        "Sid": "KeepLedger",
        "Effect": "Allow",
        # It deletes no row: what is over a year old goes by itself.
        "Action": ["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query"],
        "Resource": [table, f"{table}/index/*"],
    }
    slots: list[Plain] = [
        {
            "Sid": "LookAtSlots",
            "Effect": "Allow",
            "Action": "elasticfilesystem:DescribeAccessPoints",
            "Resource": sorted([*systems, points]),
        },
        {
            "Sid": "SayWhoseSlotsAre",
            "Effect": "Allow",
            "Action": ["elasticfilesystem:TagResource", "elasticfilesystem:UntagResource"],
            "Resource": points,
            # Of what the storage driver made: no seat's, and none that somebody else has in the account.
            "Condition": {
                "ForAllValues:StringLike": {"aws:TagKeys": [*SLOT_TAGS]},
                "StringEquals": {f"aws:ResourceTag/{DRIVER_MARK}": "true"},
            },
        },
    ]
    given = service_rights(roles, secrets) if secrets is not None else []
    return {"Version": "2012-10-17", "Statement": [ledger, *slots, *given]}
