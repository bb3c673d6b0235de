"""The exchange of a sandbox's token for AWS credentials: the STS request, and the policies of the roles.

Each class has a role that only the workspace service can assume, with session tags of the owner of the sandbox. A
session policy limits the session to the class's policies and the owner's secrets, even if the role is widened later.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agentenv.core.iam.documents import policy_document

Plain = dict[str, Any]

# The audience of a sandbox's token. Tokens for the API server or for AWS are not accepted by the exchange.
AUDIENCE = "identity.sandbox.users.io"
# The lifetime of the token; the kubelet rotates it after 80 percent.
TOKEN_SECONDS = 3600
USER_TAG, CLASS_TAG, WORKSPACE_TAG = "sandbox-user", "sandbox-class", "sandbox-workspace"
TAGS = (USER_TAG, CLASS_TAG, WORKSPACE_TAG)

# STS gives no session shorter than the first, and none longer than the second to whoever is in a session already, as
# the service is.
SHORTEST_SECONDS, LONGEST_SECONDS = 900, 3600
MOST_POLICIES = 10
MOST_CHARACTERS = 2048  # of an inline session policy
_NAME = re.compile(r"[\w+=,.@-]{2,64}", re.ASCII)
_TAG_VALUE = re.compile(r"[\w .:/=+@-]{1,256}", re.ASCII)
# A part of a secret's name, which may not lead out of its owner's folder, nor match more than itself in a policy.
_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_SECRET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")

READ_SECRET = "secretsmanager:GetSecretValue"  # noqa: S105 - the name of an action


class ExchangeError(ValueError):
    """STS would reject the request; the message has the reason."""


@dataclass(frozen=True)
class Holder:
    """The owner, class and workspace of a sandbox."""

    owner: str
    sandbox_class: str
    workspace: str


@dataclass(frozen=True)
class SecretsPlace:
    """The location of owners' secrets: the ARN up to the name of a secret, and the prefix of all names."""

    arn_prefix: str  # arn:aws:secretsmanager:us-east-1:111122223333:secret:
    prefix: str  # agent-environment/dev/secrets

    def folder(self, owner: str) -> str:
        """Return the prefix of the names of an owner's secrets."""
        if not _FOLDER.fullmatch(owner):
            raise ExchangeError(f"{owner!r} can have no secrets: it is no plain word")
        return f"{self.prefix}/{owner}/"

    def name(self, owner: str, secret: str) -> str:
        """Return the name of a secret of an owner."""
        if not _SECRET.fullmatch(secret):
            raise ExchangeError(f"{secret!r} is no name of a secret: letters, digits, '.', '_' and '-', at most 128")
        return f"{self.folder(owner)}{secret}"

    def arns(self, owner: str) -> str:
        """Return the ARN pattern of all secrets of an owner."""
        return f"{self.arn_prefix}{self.folder(owner)}*"

    @property
    def arns_by_tag(self) -> str:
        """Return the ARN pattern of all secrets of the owner in the session's tags."""
        return f"{self.arn_prefix}{self.prefix}/${{aws:PrincipalTag/{USER_TAG}}}/*"

    @property
    def everybody(self) -> str:
        """Return the ARN pattern of the secrets of all owners."""
        return f"{self.arn_prefix}{self.prefix}/*"


def seconds(now: datetime, deadline: datetime | None) -> int:
    """Return the duration of a session: until the deadline of its workspace, within the limits of STS."""
    if deadline is None:
        return LONGEST_SECONDS
    left = int((deadline - now).total_seconds())
    return min(max(left, SHORTEST_SECONDS), LONGEST_SECONDS)


def request(role: str, holder: Holder, policies: Sequence[str], secrets: SecretsPlace | None, duration: int) -> Plain:
    """Return the STS request; raise `ExchangeError` for a request that STS would reject."""
    values = {USER_TAG: holder.owner, CLASS_TAG: holder.sandbox_class, WORKSPACE_TAG: holder.workspace}
    for key, value in values.items():
        if not _TAG_VALUE.fullmatch(value):
            raise ExchangeError(f"{value!r} cannot be the tag {key} of a session")
    if not _NAME.fullmatch(holder.workspace):
        raise ExchangeError(f"{holder.workspace!r} cannot be the name of a session")
    if len(policies) > MOST_POLICIES:
        raise ExchangeError(f"a session has at most {MOST_POLICIES} policies, not {len(policies)}")
    # A session policy there has to be: without any, a session may do all that its role may.
    own = session_policy(holder.owner, secrets) if secrets is not None or not policies else None
    inline = json.dumps(own, separators=(",", ":"), sort_keys=True) if own else ""
    if len(inline) > MOST_CHARACTERS:
        raise ExchangeError(f"the session's policy has {len(inline)} characters, and {MOST_CHARACTERS} fit")
    return {
        "RoleArn": role,
        "RoleSessionName": holder.workspace,
        "DurationSeconds": duration,
        **({"Policy": inline} if inline else {}),
        **({"PolicyArns": [{"arn": arn} for arn in policies]} if policies else {}),
        "Tags": [{"Key": key, "Value": value} for key, value in values.items()],
        # Whatever role it may take on from there has to see whose it is too.
        "TransitiveTagKeys": [*TAGS],
    }


def session_policy(owner: str, secrets: SecretsPlace | None) -> Plain:
    """Return the session policy, which allows reading the owner's secrets."""
    if secrets is None:
        # Nothing: a policy has to have a statement.
        return policy_document({"Effect": "Deny", "Action": READ_SECRET, "Resource": "*"})
    return policy_document({"Effect": "Allow", "Action": READ_SECRET, "Resource": secrets.arns(owner)})


def role_trust(service_role: Any, sandbox_class: str) -> Plain:
    """Return the trust policy of a class's role: only the service may assume it, with the tags of a sandbox."""
    return policy_document(
        {
            "Sid": "ServiceForItsSandboxes",
            "Effect": "Allow",
            "Action": ["sts:AssumeRole", "sts:TagSession"],
            "Principal": {"AWS": service_role},
            "Condition": {
                "StringEquals": {f"aws:RequestTag/{CLASS_TAG}": sandbox_class},
                "StringLike": {f"aws:RequestTag/{USER_TAG}": "?*", f"aws:RequestTag/{WORKSPACE_TAG}": "?*"},
                "ForAllValues:StringEquals": {"aws:TagKeys": sorted(TAGS)},
            },
        }
    )


def role_rights(secrets: SecretsPlace, vpc: str, addresses: Sequence[str]) -> Plain:
    """Return the inline policy of a class's role: read own secrets, from its VPC only.

    Stolen credentials cannot be used outside of the VPC.
    """
    elsewhere: Plain = {
        "StringNotEqualsIfExists": {"aws:SourceVpc": vpc},
        # What a service of AWS does on its behalf comes from where that service is.
        "BoolIfExists": {"aws:ViaAWSService": "false"},
    }
    if addresses:
        elsewhere["NotIpAddressIfExists"] = {"aws:SourceIp": [f"{address}/32" for address in sorted(addresses)]}
    return policy_document(
        {
            "Sid": "OwnSecrets",
            "Effect": "Allow",
            "Action": READ_SECRET,
            "Resource": secrets.arns_by_tag,
        },
        {"Sid": "FromItsNetwork", "Effect": "Deny", "Action": "*", "Resource": "*", "Condition": elsewhere},
    )


def service_rights(roles: Sequence[str], secrets: SecretsPlace) -> list[Plain]:
    """Return the permissions of the service: assume roles with tags, and write secrets that it cannot read."""
    statements: list[Plain] = []
    if roles:
        statements.append(
            {
                "Sid": "GiveSandboxesTheirRoles",
                "Effect": "Allow",
                "Action": ["sts:AssumeRole", "sts:TagSession"],
                "Resource": sorted(roles),
            }
        )
    return [
        *statements,
        {
            "Sid": "KeepOwnersSecrets",
            "Effect": "Allow",
            "Action": [
                "secretsmanager:CreateSecret",
                "secretsmanager:DeleteSecret",
                "secretsmanager:DescribeSecret",
                "secretsmanager:PutSecretValue",
                "secretsmanager:RestoreSecret",
                "secretsmanager:TagResource",
            ],
            "Resource": secrets.everybody,
        },
        # Lists cannot be limited to some names; they show names, never values.
        {
            "Sid": "ListSecrets",
            "Effect": "Allow",
            "Action": "secretsmanager:ListSecrets",
            "Resource": "*",
        },
    ]
