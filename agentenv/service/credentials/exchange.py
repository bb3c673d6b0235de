"""Exchange a sandbox's token for AWS credentials, or for one of its owner's secrets by name.

Each exchange is verified anew and written to the audit log, without what was exchanged. Credentials cannot be revoked:
so they are short-lived, tagged, usable only in their VPC, and none are issued once the claim has ended.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from agentenv.core.iam.identity_exchange import ExchangeError, SecretsPlace, request, seconds
from agentenv.service.aws import clients as aws
from agentenv.service.aws.remote import Remote
from agentenv.service.credentials.token_bearer import (
    RefusedExchangeError,
    Reviewer,
    VerifiedHolder,
    verify_holder,
    verify_token,
)
from agentenv.service.kube.client import KubeApi
from agentenv.service.telemetry.logs import audit

# A library that caches credentials requests them once an hour, and a few processes at once after a start.
BURST, SECONDS_A_TOKEN = 20, 30.0
_MAX_CALLERS = 20_000


@dataclass(frozen=True)
class Credentials:
    """The credentials of a sandbox."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(repr=False)
    expiration: datetime
    role: str
    session: str  # the ARN of the session
    session_id: str


@dataclass(frozen=True)
class ClassRole:
    """The role that sandboxes of a class may assume."""

    arn: str
    policies: tuple[str, ...] = ()


class Allowance:
    """A token bucket per caller. In memory, so it counts for one replica."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> bool:
        """Take a token; return whether there was one."""
        now = self._clock()
        left, since = self._left.pop(key, (float(BURST), now))
        left = min(BURST, left + (now - since) / SECONDS_A_TOKEN)
        allowed = left >= 1
        self._left[key] = (left - 1 if allowed else left, now)
        while len(self._left) > _MAX_CALLERS:
            self._left.popitem(last=False)
        return allowed


class Exchange:
    """Exchanges tokens of one cluster's sandboxes."""

    def __init__(
        self,
        cluster: KubeApi,
        reviewer: Reviewer,
        sts: Any,
        roles: Mapping[str, ClassRole],
        secrets: SecretsPlace | None = None,
        *,
        vault: Callable[[Credentials], Any] | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        allowance: Allowance | None = None,
    ) -> None:
        """`roles` has the classes whose identity is `exchange`. `vault` creates a Secrets Manager client from
        credentials: a secret is read in its owner's session, never by the service's own role."""
        self._cluster = cluster
        self._reviewer = reviewer
        self._sts = sts
        self._roles = roles
        self._secrets = secrets
        self._vault = vault
        self._clock = clock
        self._allowance = allowance or Allowance()
        self._sts_calls, self._vault_calls = Remote("STS"), Remote("Secrets Manager")

    async def credentials(self, token: str, source: str) -> Credentials:
        """Return credentials for a token that is presented from an address."""
        try:
            verified, credentials = await self._credentials("identity", token, source)
        except RefusedExchangeError as refusal:
            self._audit_refusal("identity", source, refusal)
            raise
        self._audit_success("identity", source, verified, credentials)
        return credentials

    async def secret(self, token: str, source: str, name: str) -> str:
        """Return one of the owner's secrets by name."""
        try:
            verified, credentials = await self._credentials("secret", token, source)
            value = await self._vault_calls.run(self._secret, verified, credentials, name)
        except RefusedExchangeError as refusal:
            self._audit_refusal("secret", source, refusal)
            raise
        self._audit_success("secret", source, verified, credentials, secret_name=name)
        return value

    async def _credentials(self, kind: str, token: str, source: str) -> tuple[VerifiedHolder, Credentials]:
        # First by address, because a token review costs the API server more than the request costs its sender. Counted
        # apart, so that a program that reads secrets does not keep SDKs from credentials.
        if not self._allowance.take(f"{kind} {source}"):
            raise RefusedExchangeError("too-many", "too many requests from this address")
        bearer = await verify_token(self._reviewer, token)
        verified = await verify_holder(self._cluster, bearer, source, self._clock())
        role = self._roles.get(verified.holder.sandbox_class)
        if role is None:
            raise RefusedExchangeError("class", "its class does not have identity `exchange`", **_facts(verified))
        now = self._clock()
        try:
            parameters = request(
                role.arn, verified.holder, role.policies, self._secrets, seconds(now, verified.deadline)
            )
        except ExchangeError as failure:
            raise RefusedExchangeError("request", str(failure), **_facts(verified)) from failure
        try:
            response = await self._sts_calls.run(aws.call, self._sts, "assume_role", **parameters)
        except aws.AwsRefusedError as refusal:
            raise RefusedExchangeError("sts", _message(refusal), **_facts(verified)) from refusal
        return verified, _credentials_of(response, role.arn)

    def _secret(self, verified: VerifiedHolder, credentials: Credentials, name: str) -> str:
        if self._secrets is None or self._vault is None:
            raise RefusedExchangeError("secrets", "the environment has no secrets", **_facts(verified))
        try:
            secret_name = self._secrets.name(verified.holder.owner, name)
            response = aws.call(self._vault(credentials), "get_secret_value", SecretId=secret_name)
        except (ExchangeError, aws.AwsRefusedError) as refusal:
            raise RefusedExchangeError("secret", _message(refusal), **_facts(verified)) from refusal
        return str(response["SecretString"])

    def _audit_success(
        self, kind: str, source: str, verified: VerifiedHolder, credentials: Credentials, **extra: str
    ) -> None:
        audit(
            f"{kind} given",
            source=source,
            claim=verified.claim,
            session=credentials.session,
            until=credentials.expiration.isoformat(),
            **_facts(verified),
            **extra,
        )

    @staticmethod
    def _audit_refusal(kind: str, source: str, refusal: RefusedExchangeError) -> None:
        audit(f"{kind} refused", **{"source": source, "why": refusal.why, "found": str(refusal), **refusal.facts})


def _facts(verified: VerifiedHolder) -> dict[str, str]:
    return {
        "namespace": verified.bearer.namespace,
        "pod": verified.bearer.pod,
        "owner": verified.holder.owner,
        "workspace": verified.holder.workspace,
    }


def _message(refusal: Exception) -> str:
    code = getattr(refusal, "code", "")
    if code == "PackedPolicyTooLarge":
        return "the session's policies and tags exceed the size limit; give the class fewer or shorter policies"
    return str(refusal)


def _credentials_of(response: Mapping[str, Any], role: str) -> Credentials:
    credentials: Mapping[str, Any] = response["Credentials"]
    user: Mapping[str, Any] = response["AssumedRoleUser"]
    return Credentials(
        str(credentials["AccessKeyId"]),
        str(credentials["SecretAccessKey"]),
        str(credentials["SessionToken"]),
        credentials["Expiration"],
        role,
        str(user["Arn"]),
        str(user["AssumedRoleId"]),
    )
