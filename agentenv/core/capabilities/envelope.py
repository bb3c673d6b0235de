"""Everything a class may do, as one value in a product of orders: what a child is compared with its parent by."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from posixpath import normpath
from typing import Literal

from agentenv.core.capabilities.sets.reach import NOTHING, Uncertain
from agentenv.core.capabilities.unknown_values import UNKNOWN, Unknown
from agentenv.core.nodes.tier_rules import RULES

Tier = Literal["verified", "standard", "untrusted"]
# How strongly a tier walls off; a child may be walled off more strongly than its parent and never less.
STRENGTH = {rule.tier: rule.strength for rule in RULES}


@dataclass(frozen=True, order=True)
class PathRight:
    """A directory of a volume with all that is in it."""

    volume: str
    path: str
    write: bool = True

    def __post_init__(self) -> None:
        if not self.path.startswith("/"):
            raise ValueError(f"{self.path!r} is no absolute path; write it from the root of the volume")

    @property
    def segments(self) -> tuple[str, ...]:
        """The path, part by part, once `..` and the like are followed."""
        return tuple(part for part in normpath(self.path).split("/") if part)

    def covers(self, other: PathRight) -> bool:
        """Whether it allows all that the other one does."""
        return (
            self.volume == other.volume
            and (self.write or not other.write)
            and other.segments[: len(self.segments)] == self.segments
        )


@dataclass(frozen=True, order=True)
class Statement:
    """An action allowed on a resource, both as patterns with `*` and `?`; under a condition, perhaps never."""

    action: str
    resource: str
    conditional: bool = False


@dataclass(frozen=True)
class Identity:
    """What it may do in AWS: policies by their ARN, compared as they are, and statements, compared by what they say."""

    policies: frozenset[str] = frozenset()
    statements: frozenset[Statement] = frozenset()


@dataclass(frozen=True)
class Envelope:
    """The product: network, tier, paths, identity, lifetime and budget. What is not said is nothing."""

    egress: Uncertain = field(default_factory=lambda: Uncertain.known(NOTHING))
    ingress: Uncertain = field(default_factory=lambda: Uncertain.known(NOTHING))
    tier: Tier | Unknown = UNKNOWN
    paths: frozenset[PathRight] | Unknown = frozenset()
    identity: Identity | Unknown = Identity()
    lifetime: int | Unknown | None = None  # seconds; None is for ever
    budget: Decimal | Unknown | None = None  # dollars a month; None is without bound
