"""Destinations named by domain: exact names, and one wildcard label at the left.

`*.example.com` stands for every name with exactly one label more than `example.com`, as in a certificate: neither
`example.com` itself nor `a.b.example.com`. `*` alone stands for every name, which only an unrestricted pod has.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from agentenv.core.capabilities.sets.boxes import ALL_PORTS
from agentenv.core.capabilities.sets.intervals import Intervals

if TYPE_CHECKING:
    from collections.abc import Iterable

EVERY_NAME = "*"
_NAME = re.compile(r"(\*\.)?([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def pattern(text: str) -> str:
    """A domain or wildcard in its one spelling: lower case, no dot at the end; `ValueError` for what is neither."""
    spelled = text.lower().removesuffix(".")
    if not _NAME.fullmatch(spelled) or len(spelled) > 253:
        raise ValueError(f"{text!r} is no domain; allowed: names such as pypi.org, and *.pypi.org for those below it")
    return spelled


def covers(wide: str, narrow: str) -> bool:
    """Whether every name of the narrow pattern is one of the wide pattern's."""
    return wide in {EVERY_NAME, narrow} or (wide.startswith("*.") and narrow.partition(".")[2] == wide[2:])


def meet(one: str, other: str) -> str | None:
    """The pattern of the names that are under both; of two that share a name, one covers the other."""
    if covers(one, other):
        return other
    return one if covers(other, one) else None


@dataclass(frozen=True)
class Name:
    """TCP ports of the hosts that have a name under the pattern and under none of the exceptions."""

    pattern: str
    ports: Intervals
    less: frozenset[str] = frozenset()

    def __lt__(self, other: Name) -> bool:
        return self._place() < other._place()

    def __sub__(self, other: Name) -> tuple[Name, ...]:
        shared = self.ports & other.ports
        if not shared or (both := meet(self.pattern, other.pattern)) is None:
            return (self,)
        closed = _less(self.pattern, self.ports - other.ports, self.less)
        outside = _less(self.pattern, shared, {*self.less, both})
        # What the other one leaves out is left of this one.
        kept = [
            _less(inside, shared, self.less)
            for exception in other.less
            if (inside := meet(self.pattern, exception)) is not None
        ]
        return tuple(piece for piece in (closed, outside, *kept) if piece is not None)

    def _place(self) -> tuple[str, tuple[tuple[int, int], ...], list[str]]:
        return self.pattern, self.ports.spans, sorted(self.less)


def named(text: str, ports: Intervals = ALL_PORTS) -> Name:
    """Those ports of that domain."""
    return Name(pattern(text), ports)


def _less(one: str, ports: Intervals, exceptions: Iterable[str]) -> Name | None:
    """A name less what of the exceptions is under it; None where nothing is left.

    No finite number of patterns below a wildcard exhausts it, so that only an exception that covers it leaves nothing.
    """
    inside = frozenset(both for exception in exceptions if (both := meet(one, exception)) is not None)
    return Name(one, ports, inside) if ports and one not in inside else None


def names_left(mine: Iterable[Name], theirs: Iterable[Name]) -> tuple[Name, ...]:
    """What is open in `mine` and not in `theirs`."""
    left = [name for name in mine if name.ports]
    for other in theirs:
        left = [piece for name in left for piece in name - other]
    return tuple(sorted(left))


def names_shared(mine: Iterable[Name], theirs: Iterable[Name]) -> frozenset[Name]:
    """What is open in both."""
    others = tuple(theirs)
    found = (
        _less(both, one.ports & other.ports, one.less | other.less)
        for one in mine
        for other in others
        if (both := meet(one.pattern, other.pattern)) is not None
    )
    return frozenset(name for name in found if name is not None)


def example(name: Name) -> str:
    """A host of that name."""
    for number in count():
        label = f"any-{number}" if number else "any"
        host = f"{label}.example" if name.pattern == EVERY_NAME else name.pattern.replace("*", label, 1)
        if not any(covers(exception, host) for exception in name.less):
            return host
    raise AssertionError("a finite number of exceptions leaves a name")
