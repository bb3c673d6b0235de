"""What a refusal is: a row with its reason and its way out, and what it finds in settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentenv.config.mistakes import Place
    from agentenv.config.settings import Settings


@dataclass(frozen=True)
class Finding:
    """One place where settings do not go together.

    `also` are the other settings the finding rests on: when one of those is mistyped, nothing is said.
    """

    place: Place
    found: str
    hint: str = ""  # instead of the row's way out, where it can be told more exactly
    also: tuple[Place, ...] = ()


@dataclass(frozen=True)
class Row:
    """A combination that cannot be, or would hurt: why, what may stand there instead, and the way out."""

    id: str
    reason: str
    allowed: str
    way_out: str
    find: Callable[[Settings], Iterable[Finding]]
