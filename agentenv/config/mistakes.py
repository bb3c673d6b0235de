"""The mistakes in a stack file, as messages for its author."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

NAMESPACE = "agent-environment"
MAX_SHOWN = 80

Place = tuple[str | int, ...]

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Mistake:
    """A mistake: its path in the stack file, what was found, what is allowed, and a hint."""

    path: str
    found: str
    allowed: str
    hint: str
    place: Place = field(default=(), compare=False, repr=False)
    unknown_key: Place = field(default=(), compare=False, repr=False)  # the place of a key that is no setting

    def __str__(self) -> str:
        hint = f"; {self.hint}" if self.hint else ""
        return f"{self.path}: found {self.found}, allowed {self.allowed}{hint}"


class Mistakes(Exception):
    """All mistakes in a stack file."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = list(mistakes)
        super().__init__("\n".join(str(mistake) for mistake in self.mistakes))


# A secret of a stack file, as text
_SECURE = re.compile(r"""\bsecure["']?\s*:""")


def mistake_at(place: Place, found: str, allowed: str, hint: str = "") -> Mistake:
    """Return a mistake at a place, with its path as in `pulumi config set --path`."""
    return Mistake(path_of(place), found, allowed, hint, place)


def path_of(place: Place) -> str:
    """Return the path of a place: `("network", "endpoints", 1)` is `agent-environment:network.endpoints[1]`."""
    if not place:
        return "config"
    first, *rest = place
    path = {"region": "aws:region", "environment": "stack name"}.get(str(first), f"{NAMESPACE}:{first}")
    for token in rest:
        if isinstance(token, int):
            path += f"[{token}]"
        elif _PLAIN_KEY.fullmatch(token):
            path += f".{token}"
        else:
            path += f"[{shown(token)}]"
    return path


def shown(value: object) -> str:  # noqa: PLR0911 - one return for each type
    """Return a value as text for a message: short, on one line, and never a secret."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if value.bit_length() < 256 else f"a number of {value.bit_length()} bits"
    if isinstance(value, float | Decimal):
        return str(value)
    if isinstance(value, str):
        return _short(value)
    if isinstance(value, Mapping):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    return f"a {type(value).__name__}"


def _short(text: str) -> str:
    if _SECURE.search(text):
        return "a secret"
    clipped = text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"
    return "'" + "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in clipped) + "'"


def nearest(word: str, words: Iterable[str]) -> str:
    """Return a hint with the most similar valid word, or with two that are as similar; an empty string without one."""
    by_lower = {known.lower().replace("-", "").replace("_", ""): known for known in words}
    normalized = word[:MAX_SHOWN].lower().replace("-", "").replace("_", "")
    near = difflib.get_close_matches(normalized, by_lower, n=2, cutoff=0.6)
    if len(near) == 2 and len({difflib.SequenceMatcher(None, other, normalized).ratio() for other in near}) == 2:
        near = near[:1]
    meant = " or ".join(f"'{by_lower[other]}'" for other in sorted(near))
    return f"did you mean {meant}?" if meant else ""
