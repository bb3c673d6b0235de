"""IAM patterns with `*` and `?`: whether one matches a text, and whether several match every text of another one.

For the latter, all patterns run in parallel as automata, one letter at a time, with the set of possible positions of
each. Letters that no pattern contains are equivalent, so one of them is enough and the search ends.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOST_STEPS = 200_000  # of one pattern over one letter: a second or so
_SPARE = "abcdefghijklmnopqrstuvwxyz0123456789-"

Places = frozenset[int]


class TooIntricateError(ValueError):
    """The comparison of these patterns would take too long."""


@lru_cache(maxsize=4096)
def matches(pattern: str, text: str) -> bool:
    """Return whether a pattern matches a text, with respect to case."""
    return fnmatchcase(text, pattern.replace("[", "[[]"))


@dataclass(frozen=True)
class _Walk:
    patterns: tuple[str, ...]

    def start(self) -> tuple[Places, ...]:
        return tuple(self._settled(index, {0}) for index in range(len(self.patterns)))

    def step(self, state: tuple[Places, ...], letter: str) -> tuple[Places, ...]:
        return tuple(self._next(index, places, letter) for index, places in enumerate(state))

    def done(self, state: tuple[Places, ...], index: int) -> bool:
        return len(self.patterns[index]) in state[index]

    def _next(self, index: int, places: Places, letter: str) -> Places:
        pattern = self.patterns[index]
        after: set[int] = set()
        for place in places:
            if place == len(pattern):
                continue
            if pattern[place] == "*":
                after.add(place)
            elif pattern[place] in {"?", letter}:
                after.add(place + 1)
        return self._settled(index, after)

    def _settled(self, index: int, places: set[int]) -> Places:
        """Return the positions with those after a star, which also matches an empty text."""
        pattern, reached = self.patterns[index], set(places)
        for place in sorted(places):
            after = place
            while after < len(pattern) and pattern[after] == "*":
                after += 1
                reached.add(after)
        return frozenset(reached)


def coverings(pattern: str, others: Sequence[str]) -> Mapping[frozenset[int], str]:
    """Return each combination of the other patterns that matches a text of the pattern, with a shortest such text."""
    walk = _Walk((pattern, *others))
    named = {letter for each in walk.patterns for letter in each if letter not in "*?"}
    letters = [*sorted(named), next((letter for letter in _SPARE if letter not in named), chr(0x10FFFF))]
    texts: dict[frozenset[int], str] = {}
    first = walk.start()
    seen, queue = {first}, deque([(first, "")])
    while queue:
        state, text = queue.popleft()
        if walk.done(state, 0):
            texts.setdefault(frozenset(index for index in range(len(others)) if walk.done(state, index + 1)), text)
        for letter in letters:
            after = walk.step(state, letter)
            if not after[0] or after in seen:
                continue
            if len(seen) * len(letters) * len(walk.patterns) > MOST_STEPS:
                raise TooIntricateError(f"{pattern} against {len(others)} patterns")
            seen.add(after)
            queue.append((after, text + letter))
    return texts


def uncovered(pattern: str, others: Sequence[str]) -> str | None:
    """Return a shortest text of the pattern that none of the others matches; None if they match all."""
    return coverings(pattern, others).get(frozenset())
