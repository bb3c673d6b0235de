"""What is worked out of a graph once, for all the rules that need it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from agentenv.policies.view.graph import Graph

Made = TypeVar("Made")

_MADE: WeakKeyDictionary[Graph, dict[Callable[..., Any], object]] = WeakKeyDictionary()


def once(make: Callable[[Graph], Made]) -> Callable[[Graph], Made]:
    """The function, that is called once a graph: two rules about the same pods shall not look for them twice."""

    @wraps(make)
    def kept(graph: Graph) -> Made:
        found = _MADE.setdefault(graph, {})
        if make not in found:
            found[make] = make(graph)
        return cast("Made", found[make])

    return kept
