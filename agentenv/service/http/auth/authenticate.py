"""Authenticate a request: which way its token is verified, and which roles its bearer has.

Tokens of the configured issuer are verified here; the API server reviews all others. Service accounts of sandboxes are
never callers, whatever the audience of their token.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Any

import jwt

from agentenv.config.values import OWNER_ID
from agentenv.core.classes.names import namespace
from agentenv.core.gateway.api_keys import key_id
from agentenv.service.http.auth.callers import Caller, Role, claim_values, has_claim, owner_id, with_implied_roles
from agentenv.service.http.auth.issuer import Issuer, TokenVerifier, UnknownKeyError
from agentenv.service.http.auth.rate_limits import RateLimiter
from agentenv.service.http.auth.token_reviews import Account, TokenReviewer
from agentenv.service.http.problems import Problem, UnauthenticatedError

if TYPE_CHECKING:
    from agentenv.config.sections.service import Service
    from agentenv.service.gateway.keys import ApiKeys

CLASS_NAMESPACE_PREFIX = namespace("")
UNAUTHENTICATED_PER_MINUTE = 60
KUBERNETES = "kubernetes"
_OWNER = re.compile(OWNER_ID)
_ACCOUNT = re.compile(r"[a-z0-9-]+/[a-z0-9.-]+")
_BEARER = re.compile(r"[Bb]earer +([A-Za-z0-9._~+/=-]+)")


class Authenticator:
    """Identifies callers by their tokens."""

    def __init__(
        self,
        settings: Service,
        issuer: Issuer | None,
        reviews: TokenReviewer,
        *,
        cluster: TokenVerifier | None = None,
        keys: ApiKeys | None = None,
        owner_claim: str | None = None,
        unauthenticated_limiter: RateLimiter | None = None,
    ) -> None:
        self._issuer, self._reviews, self._cluster, self._owner_claim = issuer, reviews, cluster, owner_claim
        self._keys = keys
        self._unauthenticated_limiter = unauthenticated_limiter or RateLimiter(UNAUTHENTICATED_PER_MINUTE)
        self._roles_claim = settings.roles_claim
        self._roles: tuple[tuple[Role, frozenset[str]], ...] = (
            ("admin", frozenset(settings.admins)),
            ("operator", frozenset(settings.operators)),
        )

    async def caller(self, authorization: str | None, source: str = "", *, api_key: str | None = None) -> Caller:
        """Return the caller of a header; raise `UnauthenticatedError` where it is invalid.

        An API key may be in a header of its own.
        Tokens of the issuer, and tokens that the cluster has not signed, cost the API server nothing. Others are
        reviewed, but after too many invalid ones no more for a while: of the same service account, or from the same
        address `source` where the signature cannot be verified here.
        """
        match = _BEARER.fullmatch(authorization or "")
        key = api_key if api_key and not authorization else match[1] if match else ""
        if (known := await self.bearer(key, source)) is not None:
            return known
        if match is None:
            raise UnauthenticatedError(
                "the request has no token" if not authorization else "the Authorization header has no bearer token"
            )
        token = match[1]
        if self._reviews.is_cached(token):
            return self._of_account(await self._reviews.review_token(token))
        sender = await self._sender(token, source)
        self._unauthenticated_limiter.check(sender)
        try:
            account = await self._reviews.review_token(token)
        except UnauthenticatedError:
            self._unauthenticated_limiter.take(sender)
            raise
        return self._of_account(account)

    async def bearer(self, token: str, source: str) -> Caller | None:
        """Return the caller of an API key or of a token of the issuer; None for a text that is neither.

        The API server is not called, so tokens of service accounts are none.
        """
        if self._keys is not None and key_id(token) is not None:
            return await self._of_key(self._keys, token, source)
        if self._issuer is not None and _issuer_of(token) == self._issuer.url:
            return self._of_token(self._issuer.url, await self._issuer.verify(token))
        return None

    async def _of_key(self, keys: ApiKeys, key: str, source: str) -> Caller:
        if not keys.is_known(key):
            # Another replica may have created it just now. Who guesses has the limit of invalid ones.
            self._unauthenticated_limiter.check(source)
            await keys.look_up()
        try:
            return keys.caller(key)
        except UnauthenticatedError:
            self._unauthenticated_limiter.take(source)
            raise

    async def _sender(self, token: str, source: str) -> str:
        """Return whom an invalid token counts against; raise a `Problem` for one that the cluster did not sign."""
        if self._cluster is None:
            return source
        try:
            claims = await self._cluster.verify(token)
        except UnknownKeyError:
            return source
        except UnauthenticatedError:
            raise
        except Problem:
            # The cluster's keys cannot be fetched.
            return source
        return f"account {claims['sub']}"

    def person(self, claims: Mapping[str, Any]) -> Caller:
        """Return the caller of the verified claims of an ID token."""
        if self._issuer is None:
            raise UnauthenticatedError("there is no issuer")
        return self._of_token(self._issuer.url, claims)

    def _of_token(self, issuer: str, claims: Mapping[str, Any]) -> Caller:
        subject = claims["sub"]
        if not isinstance(subject, str) or not subject:
            raise UnauthenticatedError("the token has no subject")
        if "cnf" in claims:
            # Its sender must prove a key; accepted as a bearer token, it could be replayed.
            raise UnauthenticatedError("the token is bound to a key, and the service accepts bearer tokens only")
        owner = owner_id(issuer, subject)
        if self._owner_claim:
            claimed_owner = claims.get(self._owner_claim)
            if not isinstance(claimed_owner, str) or not _OWNER.fullmatch(claimed_owner):
                raise UnauthenticatedError(f"the token's claim {self._owner_claim!r} is not an owner id")
            owner = claimed_owner
        groups = frozenset(claim_values(claims.get(self._roles_claim)))
        if not groups and "." in self._roles_claim:
            groups = frozenset(
                name for _, names in self._roles for name in names if has_claim(claims, self._roles_claim, name)
            )
        # A group named like a service account does not get that account's role.
        teams = frozenset(name for name in groups if not _ACCOUNT.fullmatch(name))
        return Caller(owner, self._role(teams), "token", claims, teams)

    def _of_account(self, account: Account) -> Caller:
        if account.namespace.startswith(CLASS_NAMESPACE_PREFIX):
            raise Problem(
                "not-allowed",
                "service accounts of sandboxes may not call this API",
                "send the token of the user whom the agent works for",
            )
        claims = {"kubernetes.io": {"namespace": account.namespace, "serviceaccount": {"name": account.name}}}
        role = self._role({f"{account.namespace}/{account.name}"})
        return Caller(owner_id(KUBERNETES, account.user), role, "account", {"sub": account.user, **claims})

    def _role(self, names: Set[str]) -> frozenset[Role]:
        for role, members in self._roles:
            if names & members:
                return with_implied_roles(role)
        return with_implied_roles("user")


def _issuer_of(token: str) -> str | None:
    """Return the unverified issuer of a token, only to choose how to verify it."""
    try:
        issuer: object = jwt.decode(token, options={"verify_signature": False}).get("iss")
    except (jwt.InvalidTokenError, RecursionError):
        return None
    return issuer if isinstance(issuer, str) else None
