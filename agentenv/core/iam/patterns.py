"""Patterns with `*` and `?`, as IAM has them: whether all texts of one are among the texts of several others together.

Patterns are run side by side over every text there is, one letter at a time, keeping for each pattern the places it may
be at. All letters that no pattern names behave alike, so that one of them stands for the rest, and the walk ends.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOST_STEPS = 200_000  # of one pattern over one letter: a second or so
_SPARE = "abcdefghijklmnopqrstuvwxyz0123456789-"

Places = frozenset[int]


class TooIntricateError(ValueError):
    """Patterns whose comparison would take longer than anybody waits."""


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
        """A star may also stand for nothing."""
        pattern, reached = self.patterns[index], set(places)
        for place in sorted(places):
            after = place
            while after < len(pattern) and pattern[after] == "*":
                after += 1
                reached.add(after)
        return frozenset(reached)


def coverings(pattern: str, others: Sequence[str]) -> Mapping[frozenset[int], str]:
    """Which of the others a text of the pattern is among: each combination that occurs, with a shortest such text."""
    walk = _Walk((pattern, *others))
    named = {letter for each in walk.patterns for letter in each if letter not in "*?"}
    letters = [*sorted(named), next((one for one in _SPARE if one not in named), chr(0x10FFFF))]
    found: dict[frozenset[int], str] = {}
    first = walk.start()
    seen, waiting = {first}, deque([(first, "")])
    while waiting:
        state, text = waiting.popleft()
        if walk.done(state, 0):
            found.setdefault(frozenset(index for index in range(len(others)) if walk.done(state, index + 1)), text)
        for letter in letters:
            after = walk.step(state, letter)
            if not after[0] or after in seen:
                continue
            if len(seen) * len(letters) * len(walk.patterns) > MOST_STEPS:
                raise TooIntricateError(f"{pattern} against {len(others)} patterns")
            seen.add(after)
            waiting.append((after, text + letter))
    return found


def uncovered(pattern: str, others: Sequence[str]) -> str | None:
    """A text of the pattern that is among none of the others, a shortest one; None where there is none."""
    return coverings(pattern, others).get(frozenset())
