"""Tests of the simulated number of nodes against the estimate's assumption."""

from __future__ import annotations

import pytest

from agentenv.config.sections.classes import Pool, Schedule
from agentenv.core.cost.assumptions import Assumptions
from agentenv.core.cost.context import EstimateContext
from agentenv.core.cost.estimate import estimate
from agentenv.core.cost.node_kinds import kinds, pod_resources
from agentenv.core.prices.book import price_book
from agentenv.core.prices.units import HOURS_A_MONTH
from tests.fast.core.cost.packing import Arrivals, month
from tests.fast.core.cost.prod import prod

# Seven slots, twenty for two hours and a half of each working day, and four of another class.
PEAKED = {"first": Pool(size=7, schedules=(Schedule(start="07:30", end="10:00", size=20),)), "second": Pool(size=4)}


@pytest.mark.parametrize(("users", "nodes", "enough"), [(0, 2.7, 1.2), (100, 4.0, 2.2)])
def test_movable_slots_free_half_of_the_nodes(users: int, nodes: float, enough: float) -> None:
    moving, staying = (month(PEAKED, 1, 12, users, moving=moving) for moving in (True, False))
    assert abs(staying.nodes - nodes) < 0.1
    assert abs(moving.nodes - enough) < 0.1


def test_a_node_with_a_claimed_sandbox_stays() -> None:
    """One seat, and no slot that could hold the node with it."""
    assert month({"first": Pool(size=0)}, 1, 12, 0).nodes == 1
    assert month({"first": Pool(size=0)}, 0, 12, 0).nodes == 0


@pytest.mark.parametrize("arrivals", ["in office hours", "at all hours"])
@pytest.mark.parametrize(("users", "seeds"), [(100, (1, 2, 3)), (200, (1, 2)), (1000, (1,))])
def test_the_estimate_of_prod_covers_the_simulated_nodes(
    users: int, seeds: tuple[int, ...], arrivals: Arrivals
) -> None:
    settings = prod()
    (kind, *_), taken = kinds(EstimateContext(settings, price_book(settings.region), Assumptions())), Assumptions()
    room = pod_resources(kind.classes[0])
    # All of them take as much of a node, so that a node has places.
    assert len({pod_resources(class_) for class_ in kind.classes}) == 1
    bought = kind.machine.for_one(room)
    pools = {class_.name: class_.pool for class_ in kind.classes}
    holds, seats = kind.machine.holds(bought, room), len(settings.workspaces)
    months = [month(pools, seats, holds, users, arrivals=arrivals, seed=seed) for seed in seeds]
    nodes = sum(month.nodes for month in months) / len(months)
    lines = ("warm sandboxes", "declared seats", "sandboxes: standard")
    paid = sum(line.monthly for line in estimate(settings, users).lines if line.part.startswith(lines))
    estimated = float(paid / kind.machine.price(bought).all_month().value)
    assert abs(estimated / nodes - 1) < 0.1, (estimated, nodes)
    assert users != 100 or estimated / nodes > 0.98
    # Images are paid for as if nodes lived less long than they do.
    launched = sum(month.launched for month in months) / len(months)
    assert nodes * float(HOURS_A_MONTH) / launched > float(taken.node_life)
