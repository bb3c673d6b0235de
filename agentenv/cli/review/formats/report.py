"""The content of a review, independent of its format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentenv.cli.review.changes import Change, operation_counts
from agentenv.cli.review.cost import Costs
from agentenv.cli.review.findings import STATES, ReviewFinding, severity_counts
from agentenv.cli.review.losses import Loss
from agentenv.cli.review.quotas import QuotaNeed
from agentenv.cli.review.reach_changes import ClassChange
from agentenv.cli.terminal_text import plural


@dataclass(frozen=True)
class Comparison:
    """The reviewed stack and commit, and the base that they are compared with."""

    stack: str
    base: str  # a revision, "the stack's state" or "nothing"
    offline: bool
    seconds: float = 0.0
    commit: str = ""  # the reviewed commit, if it is known


@dataclass
class Report:
    """The whole review."""

    comparison: Comparison
    changes: list[Change] = field(default_factory=list)
    values: Mapping[str, list[tuple[str, str, str]]] = field(default_factory=dict)  # by URN: property, before, after
    losses: list[Loss] = field(default_factory=list)
    unprotected: list[str] = field(default_factory=list)
    findings: list[ReviewFinding] = field(default_factory=list)
    capabilities: list[ClassChange] = field(default_factory=list)
    costs: Costs = field(default_factory=Costs)
    needs: list[QuotaNeed] = field(default_factory=list)
    drift: list[Change] | None = None  # None: not checked
    notes: list[str] = field(default_factory=list)
    failure: str = ""  # why the program could not be previewed
    # Errors beside the findings: of the engine, or of an invalid file
    refused: list[str] = field(default_factory=list)

    @property
    def blocking(self) -> list[str]:
        """Return why the change must not be merged; empty if it may."""
        reasons = ["the program cannot be previewed"] if self.failure else []
        lost = [loss for loss in self.losses if loss.blocks]
        if lost:
            reasons.append(f"{plural(len(lost), 'resource')} with data would be replaced or deleted")
        findings = [finding for finding in self.findings if finding.blocks]
        if findings:
            count = f"{plural(len(findings), 'finding')} that {'blocks' if len(findings) == 1 else 'block'}"
            reasons.append(f"{count}: {severity_counts(findings)}")
        if self.refused:
            reasons.append("the update is refused")
        return reasons

    def of_state(self, state: str) -> list[ReviewFinding]:
        """Return the findings that are new, existing, fixed or waived."""
        return [finding for finding in self.findings if finding.state == state]

    def as_json(self) -> dict[str, Any]:
        """Return the review as the command's JSON has it."""
        return {
            "stack": self.comparison.stack,
            "base": self.comparison.base,
            "commit": self.comparison.commit or None,
            "offline": self.comparison.offline,
            "seconds": round(self.comparison.seconds, 1),
            "blocking": self.blocking,
            "changes": operation_counts(self.changes),
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
            "unprotected": self.unprotected,
            "findings": [finding.as_json() for finding in self.findings],
            "summary": {state: len(self.of_state(state)) for state in STATES},
            "capabilities": [vars(change) for change in self.capabilities],
            "cost": self.costs.as_json(),
            "quotas": [need.as_json() for need in self.needs],
            "drift": None
            if self.drift is None
            else [{"operation": change.operation, "urn": change.urn} for change in self.drift],
            "notes": self.notes,
            "error": self.failure or None,
            "refused": self.refused,
        }
