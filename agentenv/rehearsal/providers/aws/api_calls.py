"""Calls to the endpoint: clients made once and shared, and the service's refusals in one form.

The stand-in only ever speaks to an endpoint it was told: with none set it refuses to work, so that a rehearsal can
never reach a real account by accident.
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

POOL: Final = 64  # connections a client may hold; the engine runs as many operations at once


class CloudError(Exception):
    """The service refused, or could not be reached."""

    def __init__(self, service: str, operation: str, code: str, message: str) -> None:
        super().__init__(f"{service} {operation}: {code}: {message}")
        self.service = service
        self.operation = operation
        self.code = code


@functools.cache
def session() -> Session:
    """One botocore session for models; it knows no credentials."""
    import botocore.session

    return botocore.session.Session()


_models = threading.Lock()


@functools.cache
def _service(service: str) -> ServiceModel:
    return session().get_service_model(service)


@functools.cache
def input_shape(service: str, operation: str) -> Any:
    """botocore's shape of what an operation takes; nothing if it takes nothing."""
    with _models:  # botocore fills its caches without a lock
        return _service(service).operation_model(operation).input_shape


def members(service: str, operation: str) -> Mapping[str, Any]:
    """The members of what an operation takes, by name."""
    shape = input_shape(service, operation)
    return shape.members if shape is not None else {}


@dataclass(frozen=True)
class Access:
    """Where the endpoint is and how to get in."""

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

    def own_tag(self, key: str) -> bool:
        """Whether a tag is ours to see: not AWS's own, not one the configuration says to ignore."""
        return (
            not key.lower().startswith("aws:")
            and key not in self.ignored_tags
            and not (self.ignored_prefixes and key.startswith(self.ignored_prefixes))
        )

    def at(self, service: str) -> str:
        return self.endpoints.get(service, self.endpoint)


class Cloud:
    """The endpoint as the rows see it."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self._clients: dict[tuple[str, str], BaseClient] = {}
        self._lock = threading.RLock()
        self._account = ""
        self._session: Any = None
        self._keys: dict[str, str | None] | None = None
        self.stopping = threading.Event()

    def client(self, service: str, region: str | None = None) -> Any:
        """The client of a service in a region, made at its first use."""
        key = (service, region or self.access.region)
        with self._lock:
            if key not in self._clients:
                self._clients[key] = self._make(*key)
            return self._clients[key]

    def _make(self, service: str, region: str) -> BaseClient:
        if self._keys is None:
            self._keys = {
                "aws_access_key_id": self.access.access_key,
                "aws_secret_access_key": self.access.secret_key,
                "aws_session_token": self.access.token,
            }
            for role in self.access.roles:
                self._keys = self._assumed(role, self._keys)
        return self._new(service, region, self._keys)

    def _new(self, service: str, region: str, keys: Mapping[str, str | None]) -> Any:
        import boto3
        from botocore.config import Config

        if self._session is None:
            self._session = boto3.Session(profile_name=self.access.profile)
        return self._session.client(
            service,
            region_name=region,
            endpoint_url=self.access.at(service),
            **keys,
            config=Config(
                max_pool_connections=POOL,
                connect_timeout=5,
                read_timeout=30,
                retries={"mode": "standard", "total_max_attempts": self.access.attempts},
                s3={"addressing_style": "path"},
                user_agent_extra="agentenv-rehearsal",
            ),
        )

    def _assumed(self, role: Mapping[str, Any], keys: Mapping[str, str | None]) -> dict[str, str | None]:
        from botocore.exceptions import BotoCoreError, ClientError

        asked: dict[str, Any] = {
            "RoleArn": role.get("roleArn"),
            "RoleSessionName": role.get("sessionName") or "agentenv-rehearsal",
        }
        if role.get("externalId"):
            asked["ExternalId"] = role["externalId"]
        try:
            answer = self._new("sts", self.access.region, keys).assume_role(**asked)["Credentials"]
        except (BotoCoreError, ClientError) as error:
            raise CloudError("sts", "AssumeRole", "AssumeRoleFailed", str(error)) from None
        return {
            "aws_access_key_id": answer["AccessKeyId"],
            "aws_secret_access_key": answer["SecretAccessKey"],
            "aws_session_token": answer["SessionToken"],
        }

    def call(self, service: str, operation: str, region: str | None = None, **parameters: Any) -> dict[str, Any]:
        """One operation. A refusal comes back as `CloudError` with the service's own words."""
        from botocore import xform_name
        from botocore.exceptions import BotoCoreError, ClientError

        if service != "sts" and (self.access.allowed or self.access.forbidden):
            self._admit()
        client = self.client(service, region)
        try:
            return getattr(client, xform_name(operation))(**parameters)
        except ClientError as error:
            told = error.response.get("Error", {})
            raise CloudError(service, operation, told.get("Code", "Unknown"), told.get("Message", str(error))) from None
        except BotoCoreError as error:
            raise CloudError(service, operation, type(error).__name__, str(error)) from None

    def _admit(self) -> None:
        """Refuse an account that the configuration does not allow, before anything is done in it."""
        account = self.account()
        if account in self.access.forbidden or (self.access.allowed and account not in self.access.allowed):
            allowed = ", ".join(sorted(self.access.allowed)) or f"any but {', '.join(sorted(self.access.forbidden))}"
            raise CloudError("sts", "GetCallerIdentity", "AccountNotAllowed", f"{account} is not allowed: {allowed}")

    def account(self) -> str:
        """The account the endpoint says we are in, asked once."""
        with self._lock:
            if not self._account:
                self._account = str(self.call("sts", "GetCallerIdentity")["Account"])
            return self._account


def partition(region: str) -> str:
    return next((p for prefix, p in (("cn-", "aws-cn"), ("us-gov-", "aws-us-gov")) if region.startswith(prefix)), "aws")
