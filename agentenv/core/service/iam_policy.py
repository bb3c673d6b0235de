"""The IAM policy of the workspace service: it writes the ledger, tags access points and assumes the roles of classes.

It may not read secrets or mount file systems.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentenv.core.classes.storage_classes import DRIVER_MARK
from agentenv.core.iam.identity_exchange import SecretsPlace, service_rights

Plain = dict[str, Any]

SECRETS_FOLDER = "sandbox-secrets"
# The tags of access points that the service may change: those of the owner. It may not change tags that grant access.
SLOT_TAGS = ("sandbox-*",)


def secrets_prefix(environment: str) -> str:
    """Return the prefix of the names of owners' secrets, which is unique to an environment."""
    return f"{SECRETS_FOLDER}/{environment}"


def service_policy(
    table: str, systems: Sequence[str], points: str, roles: Sequence[str], secrets: SecretsPlace | None
) -> Plain:
    """Return the policy of its role. `table` and `systems` are ARNs, `points` is a pattern of access point ARNs."""
    ledger: Plain = {
        "Sid": "KeepLedger",
        "Effect": "Allow",
        # It deletes no rows: the table's time to live does.
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
            # Only those that the CSI driver created: not those of seats, nor others in the account.
            "Condition": {
                "ForAllValues:StringLike": {"aws:TagKeys": [*SLOT_TAGS]},
                "StringEquals": {f"aws:ResourceTag/{DRIVER_MARK}": "true"},
            },
        },
    ]
    exchange = service_rights(roles, secrets) if secrets is not None else []
    return {"Version": "2012-10-17", "Statement": [ledger, *slots, *exchange]}
