"""What each tier promises, and what may be asked behind its wall: the rows that refusals and classes decide by.

The wall itself, with its runtime class and its nodes, is in `tiers`; here is what follows from it for a class. A class
on Fargate has a kernel of its own and counts as untrusted; what Fargate has not is a matter of Fargate's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from agentenv.core.nodes.tiers import WALLS, Wall

IdentityKind = Literal["none", "irsa", "pod-identity", "exchange"]
Role = Literal["user", "operator", "admin"]
_ANY_IDENTITY: tuple[IdentityKind, ...] = get_args(IdentityKind)
_ANY_ROLE: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True)
class TierRule:
    """One tier."""

    tier: str
    strength: int  # a child's is never less than its parent's
    identities: tuple[IdentityKind, ...]  # how a sandbox on a node may be somebody to AWS
    gpu: bool  # whether it gets at its node's graphics processors
    roles: tuple[Role, ...]  # whom a class may let claim one; token claims narrow it further

    @property
    def walls(self) -> tuple[Wall, ...]:
        """The walls it may have on nodes; its sandboxes run on nodes of that wall alone."""
        return tuple(wall for wall in WALLS if wall.tier == self.tier)

    @property
    def runtime_classes(self) -> tuple[str | None, ...]:
        """The runtime classes that stand for it."""
        return tuple(wall.runtime_class for wall in self.walls)


RULES = (
    # One kernel for all: for callers that were vetted, and never what a class has unless it says so.
    TierRule("verified", 0, _ANY_IDENTITY, gpu=True, roles=("operator", "admin")),
    # The agent of Pod Identity is at a link-local address of the node, which gVisor's own network does not lead to.
    TierRule("standard", 1, ("none", "irsa", "exchange"), gpu=False, roles=_ANY_ROLE),
    TierRule("untrusted", 2, _ANY_IDENTITY, gpu=False, roles=_ANY_ROLE),
)


def rule_of(tier: str) -> TierRule:
    """The row of a tier."""
    return next(rule for rule in RULES if rule.tier == tier)
