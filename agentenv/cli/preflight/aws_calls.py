"""Call AWS, and explain why a call failed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

T = TypeVar("T")

# Without a route to AWS the call fails soon, not after the five minutes of botocore's defaults.
CLIENT_CONFIG = Config(connect_timeout=5, read_timeout=30, retries={"mode": "standard", "total_max_attempts": 3})


class AwsCallError(Exception):
    """A call failed. The message says why; `code` is the error code of AWS, if AWS responded."""

    def __init__(self, why: str, code: str = "") -> None:
        super().__init__(why)
        self.code = code


class Account:
    """The AWS account of a boto3 session, in one region. All calls only read."""

    def __init__(self, region: str, session: boto3.Session | None = None) -> None:
        self.region = region
        self._session = session
        self._clients: dict[str, Any] = {}
        self._cache: dict[str, Any] = {}
        self._lock = threading.Lock()

    def client(self, service: str) -> Any:
        """Return the client of a service; it is created once."""
        with self._lock:
            if service not in self._clients:
                # One session for all: each would find the credentials, and the list of services, again.
                self._session = self._session or boto3.Session()
                self._clients[service] = self._session.client(service, region_name=self.region, config=CLIENT_CONFIG)  # pyright: ignore[reportCallIssue, reportArgumentType] - the service is a word
            return self._clients[service]

    def call(self, service: str, operation: str, **arguments: Any) -> dict[str, Any]:
        """Return the response of an operation, by its name in boto3."""
        return self._call(service, operation, lambda client: getattr(client, operation)(**arguments))

    def list_all(self, service: str, operation: str, key: str, **arguments: Any) -> list[Any]:
        """Return every item of a list operation, from all its pages."""

        def gather(client: Any) -> list[Any]:
            if not client.can_paginate(operation):
                return list(getattr(client, operation)(**arguments)[key])
            pages = client.get_paginator(operation).paginate(**arguments)
            return [item for page in pages for item in page.get(key, [])]

        return self._call(service, operation, gather)

    def cached(self, key: str, find: Callable[[], T]) -> T:
        """Return a result that several questions need, and call for it once. An error is cached too."""
        if key not in self._cache:
            try:
                self._cache[key] = find()
            except AwsCallError as error:
                self._cache[key] = error
        result = self._cache[key]
        if isinstance(result, AwsCallError):
            raise AwsCallError(str(result), result.code)
        return result

    @cached_property
    def identity(self) -> dict[str, str]:
        """Return the caller's identity: `Account` and `Arn`."""
        return self.call("sts", "get_caller_identity")

    def _call(self, service: str, operation: str, call: Callable[[Any], T]) -> T:
        name = f"{service} {''.join(word.capitalize() for word in operation.split('_'))}"
        try:
            return call(self.client(service))
        except ClientError as error:
            details: dict[str, str] = error.response.get("Error") or {}
            code = str(details.get("Code", ""))
            raise AwsCallError(f"{name}: {code}: {_line(details.get('Message', ''))}", code) from None
        except (NoCredentialsError, PartialCredentialsError):
            raise AwsCallError("no AWS credentials were found; sign in as for the AWS command line") from None
        except (BotoCoreError, ValueError) as error:
            # Failed connections, missing profiles, invalid endpoints.
            raise AwsCallError(f"{name}: {_line(str(error))}") from None


def find_cluster(account: Account, name: str) -> dict[str, Any] | None:
    """Return the description of a cluster, None if it does not exist."""
    try:
        return account.call("eks", "describe_cluster", name=name)["cluster"]
    except AwsCallError as error:
        if error.code != "ResourceNotFoundException":
            raise
        return None


def _line(text: str) -> str:
    return " ".join(str(text).split()) or "no message"
