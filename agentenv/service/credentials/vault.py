"""Owners' secrets, by reference: the service puts them under their owner's name and can never read one back.

A sandbox reads them as its owner's session, by the exchange; none is ever in a variable, in a template or in a log.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agentenv.core.iam.identity_exchange import USER_TAG, SecretsPlace
from agentenv.service.aws import clients as aws

# A secret that was deleted by mistake comes back within this time, by being put again or by an operator.
RECOVERY_DAYS = 7
MAX_BYTES = 65_536


@dataclass(frozen=True)
class StoredSecret:
    """A secret, without what is in it."""

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

    def put(self, owner: str, name: str, value: str) -> StoredSecret:
        """Have a secret there with a value, whether or not it was there before."""
        full = self._place.name(owner, name)
        tags = [{"Key": key, "Value": said} for key, said in {**self._tags, USER_TAG: owner}.items()]
        try:
            made = aws.call(self._client, "create_secret", Name=full, SecretString=value, Tags=tags)
        except aws.AwsRefusedError as refusal:
            if refusal.code not in {"ResourceExistsException", "InvalidRequestException"}:
                raise
            # One that is about to go is restored: whoever puts it again wants it to stay. To one that stays it is no
            # change.
            aws.call(self._client, "restore_secret", SecretId=full)
            made = aws.call(self._client, "put_secret_value", SecretId=full, SecretString=value)
        return StoredSecret(name, full, str(made["ARN"]))

    def all(self, owner: str) -> list[StoredSecret]:
        """An owner's secrets by name."""
        folder = self._place.folder(owner)
        found: list[StoredSecret] = []
        more: dict[str, str] = {}
        while True:
            named = [{"Key": "name", "Values": [folder]}]
            answer = aws.call(self._client, "list_secrets", Filters=named, MaxResults=100, **more)
            found += [
                StoredSecret(
                    str(one["Name"])[len(folder) :], str(one["Name"]), str(one["ARN"]), one.get("LastChangedDate")
                )
                for one in answer["SecretList"]
                # The filter is by prefix and does not mind capitals everywhere.
                if str(one["Name"]).startswith(folder) and "DeletedDate" not in one
            ]
            if not answer.get("NextToken"):
                return sorted(found, key=lambda one: one.name)
            more = {"NextToken": answer["NextToken"]}

    def delete(self, owner: str, name: str) -> bool:
        """Let a secret go, after a time in which it can be had back; False where there is none."""
        try:
            asked = {"SecretId": self._place.name(owner, name), "RecoveryWindowInDays": RECOVERY_DAYS}
            aws.call(self._client, "delete_secret", **asked)
        except aws.AwsRefusedError as refusal:
            if refusal.code in {"ResourceNotFoundException", "InvalidRequestException"}:
                return False
            raise
        return True
