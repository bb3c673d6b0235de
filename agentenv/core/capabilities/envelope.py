"""The envelope of a class: everything it may do, as one value that is compared with its parent's."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from posixpath import normpath
from typing import Literal

from agentenv.core.capabilities.sets.reach import NOTHING, Uncertain
from agentenv.core.capabilities.unknown_values import UNKNOWN, Unknown
from agentenv.core.nodes.tier_rules import RULES

Tier = Literal["verified", "standard", "untrusted"]
# The isolation strength of each tier; a child may be isolated more strongly than its parent and never less.
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
        """Return the parts of the normalized path."""
        return tuple(part for part in normpath(self.path).split("/") if part)

    def covers(self, other: PathRight) -> bool:
        """Return whether it allows everything that the other one does."""
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
    """AWS permissions: managed policies, compared by ARN, and statements, compared by their content."""

    policies: frozenset[str] = frozenset()
    statements: frozenset[Statement] = frozenset()


@dataclass(frozen=True)
class Envelope:
    """Network, tier, paths, identity, lifetime and budget of a class. The defaults allow nothing."""

    egress: Uncertain = field(default_factory=lambda: Uncertain.known(NOTHING))
    ingress: Uncertain = field(default_factory=lambda: Uncertain.known(NOTHING))
    tier: Tier | Unknown = UNKNOWN
    paths: frozenset[PathRight] | Unknown = frozenset()
    identity: Identity | Unknown = Identity()
    lifetime: int | Unknown | None = None  # seconds; None is for ever
    budget: Decimal | Unknown | None = None  # dollars a month; None is without bound
