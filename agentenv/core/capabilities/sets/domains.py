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
    """Normalize a domain or wildcard: lower case, no dot at the end; raise `ValueError` for anything else."""
    spelled = text.lower().removesuffix(".")
    if not _NAME.fullmatch(spelled) or len(spelled) > 253:
        raise ValueError(f"{text!r} is no domain; allowed: names such as pypi.org, and *.pypi.org for those below it")
    return spelled


def covers(wide: str, narrow: str) -> bool:
    """Return whether every name of the narrow pattern matches the wide pattern."""
    return wide in {EVERY_NAME, narrow} or (wide.startswith("*.") and narrow.partition(".")[2] == wide[2:])


def meet(left: str, right: str) -> str | None:
    """Return the intersection of two patterns; of two that share a name, one covers the other."""
    if covers(left, right):
        return right
    return left if covers(right, left) else None


@dataclass(frozen=True)
class Name:
    """TCP ports of the hosts whose name matches the pattern and none of the exceptions."""

    pattern: str
    ports: Intervals
    less: frozenset[str] = frozenset()

    def __lt__(self, right: Name) -> bool:
        return self._place() < right._place()

    def __sub__(self, right: Name) -> tuple[Name, ...]:
        shared = self.ports & right.ports
        if not shared or (both := meet(self.pattern, right.pattern)) is None:
            return (self,)
        closed = _less(self.pattern, self.ports - right.ports, self.less)
        outside = _less(self.pattern, shared, {*self.less, both})
        # The exceptions of the other pattern remain in this one.
        remaining = [
            _less(inside, shared, self.less)
            for exception in right.less
            if (inside := meet(self.pattern, exception)) is not None
        ]
        return tuple(piece for piece in (closed, outside, *remaining) if piece is not None)

    def _place(self) -> tuple[str, tuple[tuple[int, int], ...], list[str]]:
        return self.pattern, self.ports.spans, sorted(self.less)


def named(text: str, ports: Intervals = ALL_PORTS) -> Name:
    """Return the ports of a domain."""
    return Name(pattern(text), ports)


def _less(domain: str, ports: Intervals, exceptions: Iterable[str]) -> Name | None:
    """Return a name without the exceptions that match it; None where nothing remains.

    No finite number of patterns below a wildcard exhausts it, so that only an exception that covers it leaves nothing.
    """
    inside = frozenset(both for exception in exceptions if (both := meet(domain, exception)) is not None)
    return Name(domain, ports, inside) if ports and domain not in inside else None


def names_left(mine: Iterable[Name], theirs: Iterable[Name]) -> tuple[Name, ...]:
    """Return what is open in `mine` and not in `theirs`."""
    left = [name for name in mine if name.ports]
    for right in theirs:
        left = [piece for name in left for piece in name - right]
    return tuple(sorted(left))


def names_shared(mine: Iterable[Name], theirs: Iterable[Name]) -> frozenset[Name]:
    """Return what is open in both."""
    others = tuple(theirs)
    shared = (
        _less(both, left.ports & right.ports, left.less | right.less)
        for left in mine
        for right in others
        if (both := meet(left.pattern, right.pattern)) is not None
    )
    return frozenset(name for name in shared if name is not None)


def example(name: Name) -> str:
    """Return an example host of that name."""
    for number in count():
        label = f"any-{number}" if number else "any"
        host = f"{label}.example" if name.pattern == EVERY_NAME else name.pattern.replace("*", label, 1)
        if not any(covers(exception, host) for exception in name.less):
            return host
    raise AssertionError("a finite number of exceptions leaves a name")
