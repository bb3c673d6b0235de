"""The exchange: a sandbox's token for credentials of AWS, and for its owner's secrets by their names.

Each exchange is looked at anew and written to the audit log, without what was exchanged. Credentials cannot be taken
back; so they are short, tagged, and of use in their VPC only, and none are given once the claim has ended.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from agentenv.core.iam.identity_exchange import ExchangeError, SecretsPlace, request, seconds
from agentenv.service.aws import clients as aws
from agentenv.service.credentials.token_bearer import (
    RefusedExchangeError,
    Reviewer,
    VerifiedHolder,
    verify_holder,
    verify_token,
)
from agentenv.service.kube.sync_client import KubeApi
from agentenv.service.telemetry.logs import audit

# A library that keeps credentials asks once an hour, and a few processes at once after a start. Whoever asks for more
# is looking for something.
BURST, SECONDS_A_TOKEN = 20, 30.0
_MOST_KNOWN = 20_000


@dataclass(frozen=True)
class Credentials:
    """What a sandbox is given."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(repr=False)
    expiration: datetime
    role: str
    session: str  # the ARN of the session
    session_id: str


@dataclass(frozen=True)
class ClassRole:
    """What sandboxes of a class may become."""

    arn: str
    policies: tuple[str, ...] = ()


class Allowance:
    """How often each may ask: a bucket that fills up slowly. In memory, and so of one replica."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, who: str) -> bool:
        """Whether one more may be had now."""
        with self._lock:
            now = self._clock()
            left, since = self._left.pop(who, (float(BURST), now))
            left = min(BURST, left + (now - since) / SECONDS_A_TOKEN)
            may = left >= 1
            self._left[who] = (left - 1 if may else left, now)
            while len(self._left) > _MOST_KNOWN:
                self._left.popitem(last=False)
            return may


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
        """`roles` has the classes whose identity is `exchange`. `vault` makes a Secrets Manager client of credentials:
        a secret is read as its owner's session, never as the service."""
        self._cluster = cluster
        self._reviewer = reviewer
        self._sts = sts
        self._roles = roles
        self._secrets = secrets
        self._vault = vault
        self._clock = clock
        self._allowance = allowance or Allowance()

    def credentials(self, token: str, source: str) -> Credentials:
        """Credentials for whoever brings a token from an address."""
        try:
            found, given = self._credentials(token, source)
        except RefusedExchangeError as refusal:
            self._refused("identity", source, refusal)
            raise
        self._given("identity", source, found, given)
        return given

    def secret(self, token: str, source: str, name: str) -> str:
        """One of the owner's secrets, by its name."""
        try:
            found, given = self._credentials(token, source)
            value = self._secret(found, given, name)
        except RefusedExchangeError as refusal:
            self._refused("secret", source, refusal)
            raise
        self._given("secret", source, found, given, secret_name=name)
        return value

    def _credentials(self, token: str, source: str) -> tuple[VerifiedHolder, Credentials]:
        # By address first: looking at a token costs the API server more than asking for it does.
        if not self._allowance.take(f"address {source}"):
            raise RefusedExchangeError("too-many", "it asks too often")
        bearer = verify_token(self._reviewer, token)
        found = verify_holder(self._cluster, bearer, source, self._clock())
        role = self._roles.get(found.holder.sandbox_class)
        if role is None:
            raise RefusedExchangeError("class", "its class has no identity of this kind", **_facts(found))
        now = self._clock()
        try:
            asked = request(role.arn, found.holder, role.policies, self._secrets, seconds(now, found.deadline))
        except ExchangeError as failure:
            raise RefusedExchangeError("request", str(failure), **_facts(found)) from failure
        try:
            answer = aws.call(self._sts, "assume_role", **asked)
        except aws.AwsRefusedError as refusal:
            raise RefusedExchangeError("sts", _words(refusal), **_facts(found)) from refusal
        return found, _read(answer, role.arn)

    def _secret(self, found: VerifiedHolder, given: Credentials, name: str) -> str:
        if self._secrets is None or self._vault is None:
            raise RefusedExchangeError("secrets", "there are no secrets here", **_facts(found))
        try:
            full = self._secrets.name(found.holder.owner, name)
            answer = aws.call(self._vault(given), "get_secret_value", SecretId=full)
        except (ExchangeError, aws.AwsRefusedError) as refusal:
            raise RefusedExchangeError("secret", _words(refusal), **_facts(found)) from refusal
        return str(answer["SecretString"])

    def _given(self, what: str, source: str, found: VerifiedHolder, given: Credentials, **more: str) -> None:
        audit(
            f"{what} given",
            source=source,
            claim=found.claim,
            session=given.session,
            until=given.expiration.isoformat(),
            **_facts(found),
            **more,
        )

    @staticmethod
    def _refused(what: str, source: str, refusal: RefusedExchangeError) -> None:
        audit(f"{what} refused", **{"source": source, "why": refusal.why, "found": str(refusal), **refusal.facts})


def _facts(found: VerifiedHolder) -> dict[str, str]:
    return {
        "namespace": found.bearer.namespace,
        "pod": found.bearer.pod,
        "owner": found.holder.owner,
        "workspace": found.holder.workspace,
    }


def _words(refusal: Exception) -> str:
    code = getattr(refusal, "code", "")
    if code == "PackedPolicyTooLarge":
        return "policies and tags of the session are too large together; give the class fewer or shorter policies"
    return str(refusal)


def _read(answer: Mapping[str, Any], role: str) -> Credentials:
    given: Mapping[str, Any] = answer["Credentials"]
    user: Mapping[str, Any] = answer["AssumedRoleUser"]
    return Credentials(
        str(given["AccessKeyId"]),
        str(given["SecretAccessKey"]),
        str(given["SessionToken"]),
        given["Expiration"],
        role,
        str(user["Arn"]),
        str(user["AssumedRoleId"]),
    )
