"""What something may reach, or be reached by: addresses, pods and names together, with what is not known about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain, combinations
from typing import TYPE_CHECKING

from agentenv.core.capabilities.sets.boxes import ALL_PORTS, NO_BOXES, BoxSet, everywhere, union
from agentenv.core.capabilities.sets.domains import EVERY_NAME, Name, names_left, names_shared
from agentenv.core.capabilities.sets.pods import ALL_DOORS, Door, remainder, shared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


@dataclass(frozen=True)
class Reach:
    """A set of destinations. Addresses, pods and names are kept apart: none of them tells which of the others it is."""

    boxes: BoxSet = NO_BOXES
    doors: frozenset[Door] = frozenset()
    names: frozenset[Name] = frozenset()

    def __or__(self, other: Reach) -> Reach:
        return Reach(self.boxes | other.boxes, self.doors | other.doors, self.names | other.names)

    def __and__(self, other: Reach) -> Reach:
        both = names_shared(self.names, other.names)
        return Reach(self.boxes & other.boxes, shared(self.doors, other.doors), both)

    def __sub__(self, other: Reach) -> Reach:
        return Reach(
            self.boxes - other.boxes,
            frozenset(remainder(self.doors, other.doors)),
            frozenset(names_left(self.names, other.names)),
        )

    def __bool__(self) -> bool:
        return bool(self.boxes or self.doors or self.names)

    def __le__(self, other: Reach) -> bool:
        return not self - other

    def same_as(self, other: Reach) -> bool:
        """Whether both are the same set; doors have no one form, so that equality is containment both ways."""
        return self <= other <= self


NOTHING = Reach()
EVERYTHING = Reach(everywhere(), ALL_DOORS, frozenset({Name(EVERY_NAME, ALL_PORTS)}))


def together(reaches: Iterable[Reach]) -> Reach:
    """The union of many."""
    every = list(reaches)
    return Reach(
        union([reach.boxes for reach in every]),
        frozenset(door for reach in every for door in reach.doors),
        frozenset(name for reach in every for name in reach.names),
    )


@dataclass(frozen=True)
class Bounds:
    """A reach that is known between two: at least the one, at most the other, and what would have to be known."""

    least: Reach
    most: Reach
    unknown: tuple[str, ...] = ()


World = frozenset[str]


@dataclass(frozen=True)
class Uncertain:
    """A reach that follows from facts of which some are not known yet, such as the address of the API server.

    Each unknown fact is a set of addresses, and whether a destination is in the reach depends on the fact only by
    whether the destination is in that set. It is therefore enough to know the reach in the worlds where each unknown
    set is nothing or all it could be: what holds for every destination in all of those holds whatever the facts turn
    out to be. Two reaches that follow from the same facts are compared world by world, so that a class stays within
    itself even before anything is known.
    """

    facts: frozenset[str] = frozenset()  # the unknown ones; a world names those that are all they could be in it
    worlds: Mapping[World, Bounds] = field(default_factory=dict[World, Bounds])

    @classmethod
    def known(cls, reach: Reach) -> Uncertain:
        """A reach about which nothing is unknown."""
        return cls(frozenset(), {frozenset(): Bounds(reach, reach)})

    @classmethod
    def between(cls, bounds: Bounds) -> Uncertain:
        """A reach with bounds that no shared fact explains."""
        return cls(frozenset(), {frozenset(): bounds})

    @classmethod
    def over(cls, facts: Iterable[str], reach: Callable[[World], Reach]) -> Uncertain:
        """A reach that is worked out in each world."""
        unknown = frozenset(facts)
        made = {world: reach(world) for world in worlds(unknown)}
        return cls(unknown, {world: Bounds(found, found) for world, found in made.items()})

    def at(self, world: World) -> Bounds:
        """The reach in one world."""
        return self.worlds[world & self.facts]


def worlds(facts: Iterable[str]) -> Iterator[World]:
    """Every way in which unknown sets can be nothing or all they could be."""
    ordered = sorted(facts)
    return map(frozenset, chain.from_iterable(combinations(ordered, size) for size in range(len(ordered) + 1)))
