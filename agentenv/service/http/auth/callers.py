"""Who asks: an opaque id of an owner, roles, and what their token says of them; nothing that a token could be made of.

An owner's id stands in labels, logs and bills, so it is a hash of who they are to whom: nobody's address, and nobody
gets another's by choosing a name. An issuer that has opaque ids of its own may give them, in a claim that is named in
the settings.
"""

from __future__ import annotations

import hashlib
from base64 import b32encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

Role = Literal["user", "operator", "admin"]
Source = Literal["token", "account"]


@dataclass(frozen=True)
class Caller:
    """Whoever a request is from."""

    owner: str
    roles: frozenset[Role]
    source: Source
    claims: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)

    @property
    def operates(self) -> bool:
        """Whether they look after others' workspaces."""
        return bool(self.roles & {"operator", "admin"})

    @property
    def administers(self) -> bool:
        """Whether they may do anything."""
        return "admin" in self.roles

    def may_see(self, owner: str) -> bool:
        """Whether what is an owner's own is theirs to see."""
        return owner == self.owner or self.operates


def owner_id(issuer: str, subject: str) -> str:
    """The id of whoever an issuer calls by a name."""
    told = f"{len(issuer)}:{issuer}:{subject}".encode("utf-8", "surrogatepass")
    return "u-" + b32encode(hashlib.sha256(told).digest()).decode().lower()[:26]


def with_implied_roles(role: Role) -> frozenset[Role]:
    """A role and those that it contains."""
    rows: Mapping[Role, tuple[Role, ...]] = {
        "user": ("user",),
        "operator": ("user", "operator"),
        "admin": ("user", "operator", "admin"),
    }
    return frozenset(rows[role])


def has_claim(claims: Mapping[str, Any], name: str, value: str) -> bool:
    """Whether a token carries a claim that is a value or lists it; a name with dots leads into what it has inside."""
    found: object = claims.get(name)
    first, dot, rest = name.partition(".")
    if found is None and dot:
        inside: object = claims.get(first)
        return isinstance(inside, dict) and has_claim(cast("dict[str, Any]", inside), rest, value)
    return value in claim_values(found)


def claim_values(found: object) -> tuple[str, ...]:
    """What a claim holds, as texts: a list of them, or one."""
    if isinstance(found, str):
        return (found,)
    if isinstance(found, bool):
        return (str(found).lower(),)
    if isinstance(found, int):
        return (str(found),)
    if isinstance(found, list | tuple):
        return tuple(one for one in cast("list[Any]", found) if isinstance(one, str))
    return ()
