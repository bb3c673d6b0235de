"""The type of a problem that prevents the adoption of an existing resource."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AdoptionProblem:
    """A problem of an existing resource: its id, the problem, and the fix."""

    resource: str
    problem: str
    fix: str

    def __str__(self) -> str:
        return f"{self.resource} {self.problem}; {self.fix}"
