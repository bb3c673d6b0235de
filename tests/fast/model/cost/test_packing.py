"""What nodes come to when time passes over them, beside what the estimate takes them to be."""

from __future__ import annotations

import pytest

from model.settings.classes import Pool, Schedule
from tests.fast.model.cost.packing import month

# Seven slots, twenty for two hours and a half of each working day, and four of another class.
PEAKED = {"first": Pool(size=7, schedules=(Schedule(start="07:30", end="10:00", size=20),)), "second": Pool(size=4)}


@pytest.mark.parametrize(("users", "kept", "enough"), [(0, 2.7, 1.2), (100, 4.0, 2.2)])
def test_slots_that_may_move_leave_half_the_nodes_and_those_that_may_not_keep_them(
    users: int, kept: float, enough: float
) -> None:
    moving, staying = (month(PEAKED, 1, 12, users, moving=moving) for moving in (True, False))
    assert abs(staying.nodes - kept) < 0.1
    assert abs(moving.nodes - enough) < 0.1


def test_a_node_with_something_claimed_on_it_stays() -> None:
    """One seat, and no slot that could hold the node with it."""
    assert month({"first": Pool(size=0)}, 1, 12, 0).nodes == 1
    assert month({"first": Pool(size=0)}, 0, 12, 0).nodes == 0
