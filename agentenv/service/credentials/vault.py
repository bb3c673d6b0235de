"""Owners' secrets in Secrets Manager: the service writes them under their owner's name and cannot read them.

A sandbox reads them with its owner's session from the exchange. None is ever in an environment variable, a template or
a log.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agentenv.core.iam.identity_exchange import USER_TAG, SecretsPlace
from agentenv.service.aws import clients as aws
from agentenv.service.aws.remote import Remote

# Within this time a deleted secret is restored by putting it again, or by an operator.
RECOVERY_DAYS = 7
MAX_BYTES = 65_536


@dataclass(frozen=True)
class StoredSecret:
    """A secret, without its value."""

    name: str
    reference: str  # its name in Secrets Manager
    arn: str
    changed: datetime | None = None


class Vault:
    """The secrets of all owners of one environment."""

    def __init__(self, client: Any, place: SecretsPlace, tags: dict[str, str] | None = None) -> None:
        """`client` is a Secrets Manager client; `tags` are the environment's."""
        self._client = client
        self._place = place
        self._tags = tags or {}
        self.calls = Remote("Secrets Manager")

    def put(self, owner: str, name: str, value: str) -> StoredSecret:
        """Create a secret, or replace its value."""
        secret_name = self._place.name(owner, name)
        tags = [{"Key": key, "Value": tag_value} for key, tag_value in {**self._tags, USER_TAG: owner}.items()]
        try:
            secret = aws.call(self._client, "create_secret", Name=secret_name, SecretString=value, Tags=tags)
        except aws.AwsRefusedError as refusal:
            if refusal.code not in {"ResourceExistsException", "InvalidRequestException"}:
                raise
            # Restores a secret in its recovery window; it does not change others.
            aws.call(self._client, "restore_secret", SecretId=secret_name)
            secret = aws.call(self._client, "put_secret_value", SecretId=secret_name, SecretString=value)
        return StoredSecret(name, secret_name, str(secret["ARN"]))

    def all(self, owner: str) -> list[StoredSecret]:
        """Return an owner's secrets by name."""
        folder = self._place.folder(owner)
        secrets: list[StoredSecret] = []
        next_page: dict[str, str] = {}
        while True:
            filters = [{"Key": "name", "Values": [folder]}]
            response = aws.call(self._client, "list_secrets", Filters=filters, MaxResults=100, **next_page)
            secrets += [
                StoredSecret(
                    str(secret["Name"])[len(folder) :],
                    str(secret["Name"]),
                    str(secret["ARN"]),
                    secret.get("LastChangedDate"),
                )
                for secret in response["SecretList"]
                # The filter matches prefixes, and ignores case in places.
                if str(secret["Name"]).startswith(folder) and "DeletedDate" not in secret
            ]
            if not response.get("NextToken"):
                return sorted(secrets, key=lambda secret: secret.name)
            next_page = {"NextToken": response["NextToken"]}

    def delete(self, owner: str, name: str) -> bool:
        """Delete a secret, with a recovery window; False where there is none."""
        try:
            arguments = {"SecretId": self._place.name(owner, name), "RecoveryWindowInDays": RECOVERY_DAYS}
            aws.call(self._client, "delete_secret", **arguments)
        except aws.AwsRefusedError as refusal:
            if refusal.code in {"ResourceNotFoundException", "InvalidRequestException"}:
                return False
            raise
        return True
