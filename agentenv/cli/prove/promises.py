"""A promise of the README, and the outcome of testing it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from agentenv.cli.prove.deployment import Deployment

Verdict = Literal["held", "broken", "not tried"]


class Broken(Exception):
    """A promise does not hold; the message is the evidence."""


class NotTried(Exception):
    """A promise cannot be tested here; the message is the reason."""


@dataclass(frozen=True)
class Promise:
    """A promise and its test, which returns evidence, or raises `Broken` or `NotTried`."""

    name: str
    statement: str
    test: Callable[[Deployment], str]


@dataclass(frozen=True)
class Outcome:
    """The outcome of testing a promise."""

    name: str
    statement: str
    verdict: Verdict
    evidence: str
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the row of the report."""
        return {
            "name": self.name,
            "statement": self.statement,
            "verdict": self.verdict,
            "evidence": self.evidence,
            "seconds": self.seconds,
        }
