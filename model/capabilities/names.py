"""Destinations named by domain: exact names, and one wildcard label at the left.

`*.example.com` stands for every name with exactly one label more than `example.com`, as in a certificate: neither
`example.com` itself nor `a.b.example.com`. `*` alone stands for every name, which only an unrestricted pod has.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from model.capabilities.boxes import ALL_PORTS
from model.capabilities.intervals import Intervals

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
    if wide in {EVERY_NAME, narrow}:
        return True
    return (
        wide.startswith("*.")
        and narrow != EVERY_NAME
        and not narrow.startswith("*.")
        and narrow.partition(".")[2] == wide[2:]
    )


def meet(one: str, other: str) -> str | None:
    """The pattern of the names that are under both; of two that share a name, one covers the other."""
    if covers(one, other):
        return other
    return one if covers(other, one) else None


@dataclass(frozen=True)
class Name:
    """TCP ports of the hosts that have a name under the pattern."""

    pattern: str
    ports: Intervals

    def __lt__(self, other: Name) -> bool:
        return (self.pattern, self.ports.spans) < (other.pattern, other.ports.spans)


def named(text: str, ports: Intervals = ALL_PORTS) -> Name:
    """Those ports of that domain."""
    return Name(pattern(text), ports)


def names_left(mine: Iterable[Name], theirs: Iterable[Name]) -> tuple[Name, ...]:
    """What is open in `mine` and not in `theirs`.

    Patterns either contain one another or a wildcard has names that no finite number of exact ones exhausts, so that a
    pattern is covered, for one port, only if a single other pattern covers it.
    """
    others = tuple(theirs)
    left: list[Name] = []
    for name in mine:
        ports = name.ports
        for other in others:
            if covers(other.pattern, name.pattern):
                ports -= other.ports
        if ports:
            left.append(Name(name.pattern, ports))
    return tuple(sorted(left))


def example(name: Name) -> str:
    """A host of that name."""
    return name.pattern.replace("*", "any", 1) if name.pattern != EVERY_NAME else "any.example"


def names_shared(mine: Iterable[Name], theirs: Iterable[Name]) -> frozenset[Name]:
    """What is open in both."""
    others = tuple(theirs)
    return frozenset(
        Name(both, ports)
        for one in mine
        for other in others
        if (both := meet(one.pattern, other.pattern)) is not None and (ports := one.ports & other.ports)
    )
