"""The caller of a request: an opaque owner id, roles, and the claims of the token.

An owner's id appears in labels, logs and bills, so it is a hash of issuer and subject: it reveals no address, and
nobody gets another's by choosing a name. An issuer with opaque ids of its own may provide them in a configured claim.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b32encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from agentenv.core.gateway.api_keys import Scope

Role = Literal["user", "operator", "admin"]
# Tokens of the issuer, service accounts, API keys, and sessions of people who signed in.
Source = Literal["token", "account", "key", "session"]
_OWNER_ID = re.compile(r"u-[a-z2-7]{26}")


@dataclass(frozen=True)
class Caller:
    """The caller of a request."""

    owner: str
    roles: frozenset[Role]
    source: Source
    claims: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    teams: frozenset[str] = frozenset()  # the groups of the token
    # Limits of an API key; None for callers without such limits
    scopes: frozenset[Scope] | None = None
    classes: frozenset[str] | None = None
    workspace: str = ""  # of a link to attach: the only workspace that it admits to
    session: str = ""  # what is revoked at once: an API key, or a person's session

    @property
    def is_operator(self) -> bool:
        """Return whether the caller may manage others' workspaces."""
        return bool(self.roles & {"operator", "admin"})

    @property
    def is_admin(self) -> bool:
        """Return whether the caller may do anything."""
        return "admin" in self.roles

    def has_scope(self, scope: Scope) -> bool:
        """Return whether the caller's credential includes a scope."""
        return self.scopes is None or scope in self.scopes

    def can_see(self, owner: str) -> bool:
        """Return whether the caller may see an owner's data."""
        return owner == self.owner or self.is_operator


def owner_id(issuer: str, subject: str) -> str:
    """Return the owner id for a subject of an issuer."""
    subject_bytes = f"{len(issuer)}:{issuer}:{subject}".encode("utf-8", "surrogatepass")
    return "u-" + b32encode(hashlib.sha256(subject_bytes).digest()).decode().lower()[:26]


def is_owner_id(text: str) -> bool:
    """Return whether a text has the form of `owner_id`."""
    return _OWNER_ID.fullmatch(text) is not None


def with_implied_roles(role: Role) -> frozenset[Role]:
    """Return a role and those that it includes."""
    rows: Mapping[Role, tuple[Role, ...]] = {
        "user": ("user",),
        "operator": ("user", "operator"),
        "admin": ("user", "operator", "admin"),
    }
    return frozenset(rows[role])


def has_claim(claims: Mapping[str, Any], name: str, value: str) -> bool:
    """Return whether a token's claim is or lists a value; dots in the name lead into nested claims."""
    claim: object = claims.get(name)
    first, dot, rest = name.partition(".")
    if claim is None and dot:
        nested: object = claims.get(first)
        return isinstance(nested, dict) and has_claim(cast("dict[str, Any]", nested), rest, value)
    return value in claim_values(claim)


def claim_values(claim: object) -> tuple[str, ...]:
    """Return the values of a claim as strings."""
    if isinstance(claim, str):
        return (claim,)
    if isinstance(claim, bool):
        return (str(claim).lower(),)
    if isinstance(claim, int):
        return (str(claim),)
    if isinstance(claim, list | tuple):
        return tuple(value for value in cast("list[Any]", claim) if isinstance(value, str))
    return ()
