"""Tests of measuring homes: which are due, and estimates that are unbiased at a bounded price."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentenv.core.workspaces.home_sizes import (
    ENTRIES_PER_HOME,
    ENTRIES_PER_HOME_AND_DAY,
    SCAN_INTERVAL,
    SUSPENDED_SCAN_INTERVAL,
    Folder,
    Home,
    due_homes,
    measure_home,
    scale_to_metered,
)

NOW = datetime(2026, 11, 20, 3, tzinfo=UTC)
Tree = dict[str, Folder[str]]


def home(name: str, age: timedelta | None, used: timedelta | None = None) -> Home:
    measured = None if age is None else NOW - age
    used_at = None if used is None else NOW - used
    return Home(name, f"fsap-{name}", None if age is None else 1, measured, used_at=used_at)


def test_new_homes_are_due_first_then_used_ones_then_suspended_ones() -> None:
    homes = [
        home("asleep-long", SUSPENDED_SCAN_INTERVAL),
        home("used", SCAN_INTERVAL, timedelta(hours=1)),
        home("new", None),
        home("used-long", 2 * SCAN_INTERVAL, timedelta(hours=1)), home("asleep", timedelta(days=2)),
        home("just-looked-at", timedelta(hours=1), timedelta(0)),
        home("slept-since", timedelta(days=3), timedelta(days=4)),
    ]  # fmt: skip
    assert [home.volume for home in due_homes(homes, NOW)] == ["new", "used-long", "used", "asleep-long"]


@pytest.mark.parametrize("entries", [0, 3_999, 30_000, 10**7])
def test_a_large_home_is_measured_less_often(entries: int) -> None:
    looked_at = [day for day in range(15) if due_homes([_large(entries, timedelta(days=day, hours=1))], NOW)]
    assert looked_at[0] == min(max(-(-entries // ENTRIES_PER_HOME_AND_DAY), 1), SUSPENDED_SCAN_INTERVAL.days)


def _large(entries: int, age: timedelta) -> Home:
    return Home("v", "p", 1, NOW - age, entries, NOW)


def grown(seed: int, folders: int) -> Tree:
    """A tree of folders: projects, with folders in them, and in these again."""
    chance = random.Random(seed)  # noqa: S311 - a sample
    inside: dict[str, list[str]] = {"": []}
    levels: list[list[str]] = [[""], [], [], [], []]
    for number in range(folders):
        level = chance.randrange(4) if all(levels[:4]) else min(number, 3)
        parent = chance.choice(levels[level])
        inside[f"f{number}"] = []
        inside[parent].append(f"f{number}")
        levels[level + 1].append(f"f{number}")
    return {name: Folder(round(chance.lognormvariate(9, 1)), 20, below) for name, below in inside.items()}


def counted(tree: Tree) -> tuple[Callable[[str], Folder[str]], list[str]]:
    looked: list[str] = []

    def look(name: str) -> Folder[str]:
        looked.append(name)
        return tree[name]

    return look, looked


@given(st.integers(0, 50), st.integers(0, 60))
def test_a_small_home_is_measured_exactly(seed: int, folders: int) -> None:
    tree = grown(seed, folders)
    look, looked = counted(tree)
    found = measure_home("", look, random.Random(seed))  # noqa: S311 - a sample
    assert found.whole
    assert found.bytes == sum(folder.own for folder in tree.values())
    assert sorted(looked) == sorted(tree)


def test_estimates_are_unbiased_and_bounded() -> None:
    tree = grown(3, 4000)
    truth = sum(folder.own for folder in tree.values())
    most = 20_000  # of 80,020 entries
    found: list[float] = []
    for seed in range(60):
        look, looked = counted(tree)
        size = measure_home("", look, random.Random(seed), most)  # noqa: S311 - a sample
        assert not size.whole
        assert most <= size.entries == 20 * len(looked) <= most + 20 * 4
        found.append(size.bytes / truth)
    assert mean(found) == pytest.approx(1, abs=0.1)


def test_the_entries_of_a_measurement_are_bounded() -> None:
    """One that somebody made to be without end: every folder has two more, nine hundred deep."""

    def look(place: int) -> Folder[int]:
        return Folder(1, 100, [place + 1, place + 2] if place < 900 else [])

    found = measure_home(0, look, random.Random(1))  # noqa: S311 - a sample
    assert not found.whole
    assert found.entries <= ENTRIES_PER_HOME + 100 * 901


@given(st.dictionaries(st.text(max_size=2), st.integers(0, 10**12), min_size=1), st.integers(0, 10**13))
def test_sizes_are_scaled_to_the_metered_size(sizes: dict[str, int], metered: int) -> None:
    found = scale_to_metered(sizes, metered)
    assert sum(found.values()) == (metered if any(sizes.values()) else 0)
    assert found.keys() == sizes.keys()
