"""The types of a constraint and of its findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentenv.config.mistakes import Place
    from agentenv.config.settings import Settings


@dataclass(frozen=True)
class Finding:
    """A place in the settings that violates a constraint.

    `also` lists the other settings that the finding depends on. When one of them is invalid itself, the finding is not
    reported.
    """

    place: Place
    found: str
    hint: str = ""  # a more specific fix than the constraint's own
    also: tuple[Place, ...] = ()


@dataclass(frozen=True)
class Constraint:
    """A combination of settings that is rejected: the reason, what is allowed instead, and the fix."""

    id: str
    reason: str
    allowed: str
    fix: str
    find: Callable[[Settings], Iterable[Finding]]
