"""The IAM policy of the workspace service: it writes its tables, tags access points and assumes the roles of classes.

It may read one secret, for the sign-in, and not mount file systems.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentenv.core.classes.storage_classes import DRIVER_MARK
from agentenv.core.iam.documents import policy_document
from agentenv.core.iam.identity_exchange import READ_SECRET, SecretsPlace, service_rights

Plain = dict[str, Any]

SECRETS_FOLDER = "sandbox-secrets"
# The tags of access points that the service may change: those of the owner. It may not change tags that grant access.
SLOT_TAGS = ("sandbox-*",)


def secrets_prefix(environment: str) -> str:
    """Return the prefix of the names of owners' secrets, which is unique to an environment."""
    return f"{SECRETS_FOLDER}/{environment}"


def service_policy(
    table: str,
    access: str,
    *,
    systems: Sequence[str],
    points: str,
    roles: Sequence[str],
    secrets: SecretsPlace | None,
    own_secrets: Sequence[str] = (),
    target_group: str = "",
) -> Plain:
    """Return the policy of its role. The tables and `systems` are ARNs, `points` is a pattern of access point ARNs.

    `table` is that of the ledger, `access` that of API keys, links and sessions, and `target_group` that of the pods of
    the gateway. `own_secrets` are those of the sign-in and of the webhook.
    """
    ledger: Plain = {
        "Sid": "KeepLedger",
        "Effect": "Allow",
        # It deletes no rows: the table's time to live does.
        "Action": ["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query"],
        "Resource": [table, f"{table}/index/*"],
    }
    entry: Plain = {
        "Sid": "KeepAccess",
        "Effect": "Allow",
        "Action": ["dynamodb:BatchWriteItem", "dynamodb:PutItem", "dynamodb:Query", "dynamodb:UpdateItem"],
        "Resource": [access, f"{access}/index/*"],
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
    # Secrets Manager appends six characters to the name, which the setting may leave out.
    named = [name for secret in own_secrets for name in (secret, f"{secret}-??????")]
    read: Plain = {"Sid": "SignIn", "Effect": "Allow", "Action": READ_SECRET, "Resource": named}
    sign_in = [read] if named else []
    exchange = service_rights(roles, secrets) if secrets is not None else []
    return policy_document(ledger, entry, *slots, *sign_in, *exchange, *_targets(target_group))


def _targets(group: str) -> list[Plain]:
    if not group:
        return []
    return [
        {
            "Sid": "RegisterGateway",
            "Effect": "Allow",
            "Action": ["elasticloadbalancing:DeregisterTargets", "elasticloadbalancing:RegisterTargets"],
            "Resource": group,
        },
        {
            "Sid": "LookAtTargets",
            "Effect": "Allow",
            # This action knows no resources.
            "Action": "elasticloadbalancing:DescribeTargetHealth",
            "Resource": "*",
        },
    ]
