"""The rules of each tier for classes: AWS identities, GPUs and roles of callers.

Runtime classes and node labels of a tier are in `tiers`. A class on Fargate has its own kernel and counts as untrusted.
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
    """The rules of a tier."""

    tier: str
    strength: int  # a child's is never less than its parent's
    identities: tuple[IdentityKind, ...]  # how a sandbox on a node may be somebody to AWS
    gpu: bool  # whether it gets at its node's graphics processors
    roles: tuple[Role, ...]  # whom a class may let claim one; token claims narrow it further

    @property
    def walls(self) -> tuple[Wall, ...]:
        """Return the walls (runtimes) of the tier; its sandboxes run on nodes of that wall only."""
        return tuple(wall for wall in WALLS if wall.tier == self.tier)

    @property
    def runtime_classes(self) -> tuple[str | None, ...]:
        """Return the runtime classes of the tier."""
        return tuple(wall.runtime_class for wall in self.walls)


RULES = (
    # One kernel for all: for callers that were vetted, and never what a class has unless it says so.
    TierRule("verified", 0, _ANY_IDENTITY, gpu=True, roles=("operator", "admin")),
    # The agent of Pod Identity is at a link-local address of the node, which gVisor's own network does not lead to.
    TierRule("standard", 1, ("none", "irsa", "exchange"), gpu=False, roles=_ANY_ROLE),
    TierRule("untrusted", 2, _ANY_IDENTITY, gpu=False, roles=_ANY_ROLE),
)


def rule_of(tier: str) -> TierRule:
    """Return the rule of a tier."""
    return next(rule for rule in RULES if rule.tier == tier)
