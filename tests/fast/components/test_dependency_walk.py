"""The walk over dependencies gives the same results as the SDK's own, which it replaces."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pulumi.runtime import resource_cycle_breaker

from agentenv.components._lib import dependency_walk

SIZE = 8
PAIRS = st.lists(st.tuples(st.integers(0, SIZE - 1), st.integers(0, SIZE - 1)), max_size=30)
sdk: Any = resource_cycle_breaker
SDK_WALK = sdk._reachable


def declared(pairs: list[tuple[int, int]], walk: Any) -> tuple[list[bool], list[set[int]]]:
    """Return which dependencies are accepted, and those of each resource."""
    resources = [object.__new__(pulumi.Resource) for _ in range(SIZE)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sdk, "_reachable", walk)
        accepted = [sdk.declare_dependency(resources[a], resources[b]) for a, b in pairs]
    return accepted, [{resources.index(each) for each in sdk._deps(resource)} for resource in resources]


@given(PAIRS)
def test_the_same_dependencies_are_accepted_as_by_the_sdk(pairs: list[tuple[int, int]]) -> None:
    assert declared(pairs, dependency_walk.depends_on) == declared(pairs, SDK_WALK)


def test_a_sdk_without_that_function_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    other = {"_deps": sdk._deps}
    monkeypatch.setattr(dependency_walk, "_SDK", other)
    dependency_walk.use_flat_walk()
    assert other == {"_deps": sdk._deps}


def test_the_walk_of_the_installed_sdk_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sdk, "_reachable", SDK_WALK)
    dependency_walk.use_flat_walk()
    assert sdk._reachable is dependency_walk.depends_on
