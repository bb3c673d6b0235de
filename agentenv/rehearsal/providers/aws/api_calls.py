"""Calls to the AWS API: shared clients, and one error type for all services.

The stand-in calls only a configured endpoint. Without one it refuses to work, so that a rehearsal can never reach a
real account by accident.
"""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from botocore.client import BaseClient
    from botocore.model import ServiceModel
    from botocore.session import Session

MAX_CONNECTIONS: Final = 64  # of a client; the engine runs as many operations at once


class CloudError(Exception):
    """The service returned an error, or could not be reached."""

    def __init__(self, service: str, operation: str, code: str, message: str) -> None:
        super().__init__(f"{service} {operation}: {code}: {message}")
        self.service = service
        self.operation = operation
        self.code = code


@functools.cache
def session() -> Session:
    """Return the botocore session that reads the service models; it has no credentials."""
    import botocore.session

    return botocore.session.Session()


_models_lock = threading.Lock()


@functools.cache
def _service_model(service: str) -> ServiceModel:
    return session().get_service_model(service)


@functools.cache
def input_shape(service: str, operation: str) -> Any:
    """Return botocore's input shape of an operation, or None if it has no input."""
    with _models_lock:  # botocore fills its caches without a lock
        return _service_model(service).operation_model(operation).input_shape


def members(service: str, operation: str) -> Mapping[str, Any]:
    """Return the input members of an operation, by name."""
    shape = input_shape(service, operation)
    return shape.members if shape is not None else {}


@dataclass(frozen=True)
class Access:
    """The endpoint, the credentials, and the accounts and tags that the provider's configuration selects."""

    region: str
    endpoint: str
    endpoints: Mapping[str, str] = field(default_factory=dict)
    access_key: str | None = None
    secret_key: str | None = None
    token: str | None = None
    profile: str | None = None
    attempts: int = 3
    roles: tuple[Mapping[str, Any], ...] = ()
    allowed: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()
    ignored_tags: frozenset[str] = frozenset()
    ignored_prefixes: tuple[str, ...] = ()

    def manages_tag(self, key: str) -> bool:
        """Return whether the provider manages a tag: it is neither AWS's own nor ignored by the configuration."""
        return (
            not key.lower().startswith("aws:")
            and key not in self.ignored_tags
            and not (self.ignored_prefixes and key.startswith(self.ignored_prefixes))
        )

    def endpoint_of(self, service: str) -> str:
        """Return the endpoint of a service."""
        return self.endpoints.get(service, self.endpoint)


class Cloud:
    """The AWS API at the configured endpoint."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self._clients: dict[tuple[str, str], BaseClient] = {}
        self._lock = threading.RLock()
        self._account = ""
        self._session: Any = None
        self._credentials: dict[str, str | None] | None = None
        self.stopping = threading.Event()

    def client(self, service: str, region: str | None = None) -> Any:
        """Return the client of a service in a region, created at its first use."""
        key = (service, region or self.access.region)
        with self._lock:
            if key not in self._clients:
                self._clients[key] = self._create_client(*key)
            return self._clients[key]

    def _create_client(self, service: str, region: str) -> BaseClient:
        if self._credentials is None:
            self._credentials = {
                "aws_access_key_id": self.access.access_key,
                "aws_secret_access_key": self.access.secret_key,
                "aws_session_token": self.access.token,
            }
            for role in self.access.roles:
                self._credentials = self._assume_role(role, self._credentials)
        return self._new_client(service, region, self._credentials)

    def _new_client(self, service: str, region: str, keys: Mapping[str, str | None]) -> Any:
        import boto3
        from botocore.config import Config

        if self._session is None:
            self._session = boto3.Session(profile_name=self.access.profile)
        return self._session.client(
            service,
            region_name=region,
            endpoint_url=self.access.endpoint_of(service),
            **keys,
            config=Config(
                max_pool_connections=MAX_CONNECTIONS,
                connect_timeout=5,
                read_timeout=30,
                retries={"mode": "standard", "total_max_attempts": self.access.attempts},
                s3={"addressing_style": "path"},
                user_agent_extra="agentenv-rehearsal",
            ),
        )

    def _assume_role(self, role: Mapping[str, Any], keys: Mapping[str, str | None]) -> dict[str, str | None]:
        from botocore.exceptions import BotoCoreError, ClientError

        request: dict[str, Any] = {
            "RoleArn": role.get("roleArn"),
            "RoleSessionName": role.get("sessionName") or "agentenv-rehearsal",
        }
        if role.get("externalId"):
            request["ExternalId"] = role["externalId"]
        try:
            credentials = self._new_client("sts", self.access.region, keys).assume_role(**request)["Credentials"]
        except (BotoCoreError, ClientError) as error:
            raise CloudError("sts", "AssumeRole", "AssumeRoleFailed", str(error)) from None
        return {
            "aws_access_key_id": credentials["AccessKeyId"],
            "aws_secret_access_key": credentials["SecretAccessKey"],
            "aws_session_token": credentials["SessionToken"],
        }

    def call(self, service: str, operation: str, region: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Call one operation. An error of the service is raised as `CloudError`, with its code and message."""
        from botocore import xform_name
        from botocore.exceptions import BotoCoreError, ClientError

        if service != "sts" and (self.access.allowed or self.access.forbidden):
            self._check_account()
        client = self.client(service, region)
        try:
            return getattr(client, xform_name(operation))(**parameters)
        except ClientError as error:
            body = error.response.get("Error", {})
            raise CloudError(service, operation, body.get("Code", "Unknown"), body.get("Message", str(error))) from None
        except BotoCoreError as error:
            raise CloudError(service, operation, type(error).__name__, str(error)) from None

    def _check_account(self) -> None:
        """Refuse an account that the configuration does not allow, before the first call to it."""
        account = self.account()
        if account in self.access.forbidden or (self.access.allowed and account not in self.access.allowed):
            allowed = ", ".join(sorted(self.access.allowed)) or f"any but {', '.join(sorted(self.access.forbidden))}"
            raise CloudError("sts", "GetCallerIdentity", "AccountNotAllowed", f"{account} is not allowed: {allowed}")

    def account(self) -> str:
        """Return the account of the caller, read once."""
        with self._lock:
            if not self._account:
                self._account = str(self.call("sts", "GetCallerIdentity")["Account"])
            return self._account


def partition(region: str) -> str:
    """Return the AWS partition of a region."""
    return next((p for prefix, p in (("cn-", "aws-cn"), ("us-gov-", "aws-us-gov")) if region.startswith(prefix)), "aws")


def pick(expression: str, document: Any) -> Any:
    """Return the part of a document that an expression selects."""
    import jmespath

    return jmespath.search(expression, document)
