"""Sets of integers as closed spans: the ports of a rule, the addresses of a range.

A set has one canonical form: spans in ascending order that neither overlap nor touch. Equal sets are equal values.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

Span = tuple[int, int]


@dataclass(frozen=True)
class Intervals:
    """A finite union of closed spans; create it with `Intervals.of`, which normalizes any spans."""

    spans: tuple[Span, ...] = ()

    def __post_init__(self) -> None:
        if any(low > high for low, high in self.spans) or any(
            later[0] <= earlier[1] + 1 for earlier, later in pairwise(self.spans)
        ):
            raise ValueError(f"spans {self.spans} are not in canonical form; make the set with Intervals.of")

    @classmethod
    def of(cls, spans: Iterable[Span]) -> Intervals:
        """Return the union of the spans; a span that ends before it starts is an error, not an empty span."""
        merged: list[Span] = []
        for low, high in sorted(spans):
            if low > high:
                raise ValueError(f"{low}-{high} ends before it starts")
            if merged and low <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
            else:
                merged.append((low, high))
        return cls(tuple(merged))

    @classmethod
    def single(cls, low: int, high: int | None = None) -> Intervals:
        """Return one number, or one span."""
        return cls(((low, low if high is None else high),))

    def __bool__(self) -> bool:
        return bool(self.spans)

    def __contains__(self, number: int) -> bool:
        return any(low <= number <= high for low, high in self.spans)

    def __or__(self, other: Intervals) -> Intervals:
        if not self or not other:
            return self or other
        return Intervals.of((*self.spans, *other.spans))

    def __and__(self, other: Intervals) -> Intervals:
        found: list[Span] = []
        mine, theirs = 0, 0
        while mine < len(self.spans) and theirs < len(other.spans):
            low = max(self.spans[mine][0], other.spans[theirs][0])
            high = min(self.spans[mine][1], other.spans[theirs][1])
            if low <= high:
                found.append((low, high))
            if self.spans[mine][1] < other.spans[theirs][1]:
                mine += 1
            else:
                theirs += 1
        return Intervals(tuple(found))

    def __sub__(self, other: Intervals) -> Intervals:
        left: list[Span] = []
        theirs = 0
        for low, high in self.spans:
            start = low
            while theirs < len(other.spans) and other.spans[theirs][1] < start:
                theirs += 1
            ahead = theirs
            while ahead < len(other.spans) and other.spans[ahead][0] <= high:
                if other.spans[ahead][0] > start:
                    left.append((start, other.spans[ahead][0] - 1))
                start = max(start, other.spans[ahead][1] + 1)
                ahead += 1
            if start <= high:
                left.append((start, high))
        return Intervals(tuple(left))

    def __le__(self, other: Intervals) -> bool:
        return not self - other

    @property
    def first(self) -> int:
        """Return the smallest number; an empty set has none."""
        if not self.spans:
            raise ValueError("an empty set has no first number")
        return self.spans[0][0]


EMPTY = Intervals()
