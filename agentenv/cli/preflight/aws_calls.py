"""Asks AWS, and tells in plain words why there was no answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

T = TypeVar("T")

# A machine without a way to AWS is told so soon, and not after botocore's usual five minutes.
PATIENCE = Config(connect_timeout=5, read_timeout=30, retries={"mode": "standard", "total_max_attempts": 3})


class Unanswered(Exception):
    """Why there is no answer; `code` is AWS's own word where AWS refused."""

    def __init__(self, why: str, code: str = "") -> None:
        super().__init__(why)
        self.code = code


class Account:
    """The account that a session of boto3 speaks to, in one region. It is only read."""

    def __init__(self, region: str, session: boto3.Session | None = None) -> None:
        self.region = region
        self._session = session
        self._clients: dict[str, Any] = {}
        self._kept: dict[str, Any] = {}
        self._making = threading.Lock()

    def client(self, service: str) -> Any:
        """The client of a service, made once."""
        with self._making:
            if service not in self._clients:
                session = self._session or boto3.Session()
                self._clients[service] = session.client(service, region_name=self.region, config=PATIENCE)  # pyright: ignore[reportCallIssue, reportArgumentType] - the service is a word
            return self._clients[service]

    def ask(self, service: str, operation: str, **arguments: Any) -> dict[str, Any]:
        """One answer, by the operation's name in boto3; `Unanswered` where there is none."""
        return self._answered(service, operation, lambda client: getattr(client, operation)(**arguments))

    def all(self, service: str, operation: str, key: str, **arguments: Any) -> list[Any]:
        """Every item of a list, whatever number of answers it comes in."""

        def gather(client: Any) -> list[Any]:
            if not client.can_paginate(operation):
                return list(getattr(client, operation)(**arguments)[key])
            pages = client.get_paginator(operation).paginate(**arguments)
            return [item for page in pages for item in page.get(key, [])]

        return self._answered(service, operation, gather)

    def once(self, word: str, find: Callable[[], T]) -> T:
        """What several questions want to know and is asked once; silence is remembered too."""
        if word not in self._kept:
            try:
                self._kept[word] = find()
            except Unanswered as silence:
                self._kept[word] = silence
        found = self._kept[word]
        if isinstance(found, Unanswered):
            raise Unanswered(str(found), found.code)
        return found

    @cached_property
    def identity(self) -> dict[str, str]:
        """Who asks: `Account` and `Arn`."""
        return self.ask("sts", "get_caller_identity")

    def _answered(self, service: str, operation: str, call: Callable[[Any], T]) -> T:
        asked = f"{service} {''.join(word.capitalize() for word in operation.split('_'))}"
        try:
            return call(self.client(service))
        except ClientError as refusal:
            error: dict[str, str] = refusal.response.get("Error") or {}
            code = str(error.get("Code", ""))
            raise Unanswered(f"{asked}: {code}: {_line(error.get('Message', ''))}", code) from None
        except (NoCredentialsError, PartialCredentialsError):
            raise Unanswered("no AWS credentials were found; sign in as for the AWS command line") from None
        except (BotoCoreError, ValueError) as failure:
            # Connections that fail, profiles that are not there, endpoints that are no addresses.
            raise Unanswered(f"{asked}: {_line(str(failure))}") from None


def cluster_called(account: Account, name: str) -> dict[str, Any] | None:
    """The cluster of that name as EKS describes it; None where there is none."""
    try:
        return account.ask("eks", "describe_cluster", name=name)["cluster"]
    except Unanswered as silence:
        if silence.code != "ResourceNotFoundException":
            raise
        return None


def _line(text: str) -> str:
    return " ".join(str(text).split()) or "no reason was given"
