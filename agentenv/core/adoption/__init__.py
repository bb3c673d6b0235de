"""Checks of existing resources before they are adopted: VPCs, clusters and file systems.

The checks take plain data: the program reads it through the provider, preflight reads it from AWS.
"""

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
