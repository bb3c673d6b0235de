"""Everything that a review says, before it is written in any form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentenv.cli.review.changes import Change, counted
from agentenv.cli.review.cost import Costs
from agentenv.cli.review.findings import STATES, Judged
from agentenv.cli.review.losses import Loss
from agentenv.cli.review.quotas import Need
from agentenv.cli.review.reach_changes import ClassChange


@dataclass(frozen=True)
class Compared:
    """What was compared with what."""

    stack: str
    base: str  # in words: a revision, the stack's state, nothing
    offline: bool
    seconds: float = 0.0
    commit: str = ""  # what was reviewed, where somebody said it


@dataclass
class Report:
    """The whole of it."""

    compared: Compared
    changes: list[Change] = field(default_factory=list)
    values: Mapping[str, list[tuple[str, str, str]]] = field(default_factory=dict)  # by URN: property, before, after
    losses: list[Loss] = field(default_factory=list)
    unguarded: list[str] = field(default_factory=list)
    findings: list[Judged] = field(default_factory=list)
    capabilities: list[ClassChange] = field(default_factory=list)
    costs: Costs = field(default_factory=Costs)
    needs: list[Need] = field(default_factory=list)
    drift: list[Change] | None = None  # None: nobody looked
    notes: list[str] = field(default_factory=list)
    failure: str = ""  # why the program could not be previewed at all
    refused: list[str] = field(
        default_factory=list
    )  # beside the findings: by the engine, or for what is written wrongly

    @property
    def blocking(self) -> list[str]:
        """Why it may not be merged, in words; empty where it may."""
        reasons = ["the program cannot be previewed"] if self.failure else []
        lost = [loss for loss in self.losses if loss.blocks]
        if lost:
            reasons.append(f"{counts(len(lost), 'resource')} with data would be replaced or deleted")
        found = [judged for judged in self.findings if judged.blocks]
        if found:
            worst = Counter(judged.finding.severity for judged in found)
            words = ", ".join(f"{count} {severity}" for severity, count in worst.items())
            reasons.append(f"{counts(len(found), 'finding')} that {'blocks' if len(found) == 1 else 'block'}: {words}")
        if self.refused:
            reasons.append("the update is refused")
        return reasons

    def of_state(self, state: str) -> list[Judged]:
        """The findings that are new, existing, fixed or waived."""
        return [judged for judged in self.findings if judged.state == state]

    def as_json(self) -> dict[str, Any]:
        """The object that the command's contract names, and more."""
        return {
            "stack": self.compared.stack,
            "base": self.compared.base,
            "commit": self.compared.commit or None,
            "offline": self.compared.offline,
            "seconds": round(self.compared.seconds, 1),
            "blocking": self.blocking,
            "changes": counted(self.changes),
            "resources": [
                {
                    "operation": change.operation,
                    "urn": change.urn,
                    "type": change.type,
                    "properties": [
                        {"path": path, "before": old, "after": new}
                        for path, old, new in self.values.get(change.urn, ())
                    ],
                    "sureness": change.sureness,
                }
                for change in self.changes
            ],
            "losses": [
                {
                    "operation": loss.change.operation,
                    "urn": loss.change.urn,
                    "lost": loss.lost,
                    "stays": loss.stays,
                    "allowed_until": loss.allowed.until.isoformat() if loss.allowed else None,
                }
                for loss in self.losses
            ],
            "unprotected": self.unguarded,
            "findings": [judged.as_json() for judged in self.findings],
            "summary": {state: len(self.of_state(state)) for state in STATES},
            "capabilities": [vars(change) for change in self.capabilities],
            "cost": self.costs.as_json(),
            "quotas": [need.as_json() for need in self.needs],
            "drift": None
            if self.drift is None
            else [{"operation": one.operation, "urn": one.urn} for one in self.drift],
            "notes": self.notes,
            "error": self.failure or None,
            "refused": self.refused,
        }


def counts(number: int, noun: str) -> str:
    """`1 resource`, `2 resources`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
