"""Tests of attribution: every cent of a bill is attributed, and costs without owners have their own lines."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentenv.core.attribution.attribute import attribute
from agentenv.core.attribution.statement import Statement
from agentenv.core.attribution.types import HOUR, KINDS, NOBODY, Charge, Part, Places, Warm
from agentenv.core.ledger.rows import NO_POD, Row

START = datetime(2026, 10, 1, tzinfo=UTC)
DAY = timedelta(days=1)
MONTH = 30 * DAY
# 2 cores and 8 GiB for an hour.
NODE = Charge(
    kind="nodes", began=START, ended=START + HOUR, amount=Decimal("0.26"), supply="node-a", capacity=Decimal(26)
)


def row(owner: str, hours: float = 1, begin: float = 0, **changes: object) -> Row:
    """A row of a sandbox of 0.1 cores and 0.5 GiB."""
    began = START + timedelta(hours=begin)
    fields: dict[str, object] = {
        "owner": owner, "claim": f"claim-{owner}", "pod": f"pod-{owner}", "began": began,
        "ended": began + timedelta(hours=hours), "sandbox_class": "standard", "workspace": f"w-{owner}",
        "cpu_seconds": Decimal(360) * Decimal(hours), "memory_gib_hours": Decimal("0.5") * Decimal(hours),
    }  # fmt: skip
    return Row(**(fields | changes))  # pyright: ignore[reportArgumentType] - checked when it is made


def owed(statement: Statement, owner: str) -> dict[Part, Decimal]:
    totals = statement.total(lambda entry: (entry.owner, entry.part))
    return {part: amount for (row_owner, part), amount in totals.items() if row_owner == owner}


def test_held_resources_are_compute_and_the_rest_is_idle() -> None:
    statement = attribute([NODE], [row("u-1")], places=Places({"pod-u-1": "node-a"}))
    # 9 * 0.1 + 0.5 of 26 weight-hours at a cent each.
    assert owed(statement, "u-1") == {"compute": Decimal("0.014"), "idle": Decimal("0.246")}


def test_warm_time_belongs_to_the_pool() -> None:
    warm = Warm(
        pod="pod-u-1", sandbox_class="standard", began=START, ended=START + HOUR / 2,
        cpu_seconds=Decimal(180), memory_gib_hours=Decimal("0.25"),
    )  # fmt: skip
    statement = attribute([NODE], [row("u-1", 0.5, 0.5)], [warm], Places({"pod-u-1": "node-a"}))
    assert owed(statement, "u-1") == {"compute": Decimal("0.007"), "pool": Decimal("0.007"), "idle": Decimal("0.246")}


def test_pool_costs_are_shared_within_the_class() -> None:
    warm = Warm(
        pod="slot", sandbox_class="reviewer", began=START, ended=START + HOUR,
        cpu_seconds=Decimal(360), memory_gib_hours=Decimal("0.5"),
    )  # fmt: skip
    rows = [row("u-1"), row("u-2", sandbox_class="reviewer")]
    statement = attribute([NODE], rows, [warm])
    assert "pool" not in owed(statement, "u-1")
    assert owed(statement, "u-2")["pool"] == Decimal("0.014")


def test_each_owner_pays_for_their_own_node() -> None:
    dear = replace(NODE, supply="node-b", amount=Decimal("0.52"))
    places = Places({"pod-u-1": "node-a", "pod-u-2": "node-b"})
    statement = attribute([NODE, dear], [row("u-1"), row("u-2")], places=places)
    assert owed(statement, "u-2")["compute"] == 2 * owed(statement, "u-1")["compute"]
    # Where one's node is not known, all of its group is one node.
    blurred = attribute([NODE, dear], [row("u-1"), row("u-2")], places=Places({"pod-u-1": "node-a"}))
    assert owed(blurred, "u-2")["compute"] == owed(blurred, "u-1")["compute"] == Decimal("0.021")


def test_fargate_charges_have_no_idle_part() -> None:
    charge = replace(NODE, group="fargate", capacity=Decimal(0))
    statement = attribute([charge], [row("u-1", 0.5)], places=Places(groups={"standard": "fargate"}))
    assert owed(statement, "u-1") == {"compute": Decimal("0.26")}


def test_more_held_than_the_capacity_is_scaled_to_the_price() -> None:
    rows = [row(owner, cpu_seconds=Decimal(2 * 3600), memory_gib_hours=Decimal(8)) for owner in ("u-1", "u-2")]
    statement = attribute([NODE], rows)
    assert owed(statement, "u-1") == owed(statement, "u-2") == {"compute": Decimal("0.13")}


def test_files_of_suspended_workspaces_are_charged_to_their_owners() -> None:
    charge = Charge(kind="storage", began=START, ended=START + DAY, amount=Decimal("0.30"))
    asleep = row(
        "u-1", 24, pod=NO_POD, cpu_seconds=Decimal(0), memory_gib_hours=Decimal(0), storage_gib_hours=Decimal(48)
    )
    awake = row("u-2", 24, storage_gib_hours=Decimal(24))
    statement = attribute([charge], [asleep, awake])
    assert owed(statement, "u-1") == {"storage": Decimal("0.20")}
    assert owed(statement, "u-2") == {"storage": Decimal("0.10")}


def test_bytes_and_file_access_are_shared_by_their_own_measures() -> None:
    network = Charge(kind="network", began=START, ended=START + HOUR, amount=Decimal("0.30"))
    files = replace(network, kind="storage_io")
    rows = [row("u-1", 1, network_bytes=Decimal(2000)), row("u-2", 0.5, network_bytes=Decimal(1000))]
    statement = attribute([network, files], rows)
    assert owed(statement, "u-1") == {"network": Decimal("0.20"), "storage_io": Decimal("0.20")}


def test_fixed_costs_are_shared_by_days_present() -> None:
    charge = Charge(kind="fixed", began=START, ended=START + 2 * DAY, amount=Decimal("4.00"))
    statement = attribute([charge], [row("u-1", 24), row("u-1", 24, 24), row("u-2", 1, 24)])
    assert owed(statement, "u-1") == {"fixed": Decimal("3.00")}
    assert owed(statement, "u-2") == {"fixed": Decimal("1.00")}


def test_bill_without_owners_is_unattributed() -> None:
    statement = attribute([NODE, Charge(kind="storage", began=START, ended=START + DAY, amount=Decimal(1))], [])
    assert statement.owners() == []
    assert sum(owed(statement, NOBODY).values()) == statement.bill == Decimal("1.26")


def test_days_without_owners_are_shared_by_the_owners_of_the_month() -> None:
    empty = replace(NODE, began=START + DAY, ended=START + DAY + HOUR)
    fixed = Charge(kind="fixed", began=START + DAY, ended=START + 2 * DAY, amount=Decimal(1))
    statement = attribute([NODE, empty, fixed], [row("u-1")])
    assert owed(statement, NOBODY) == {}
    assert sum(owed(statement, "u-1").values()) == statement.bill


@pytest.mark.parametrize(
    "changes",
    [{"ended": START}, {"began": START + timedelta(minutes=1)}, {"capacity": Decimal(-1)}],
)
def test_invalid_charges_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"^(a charge must|the capacity of a charge must)"):
        replace(NODE, **changes)  # pyright: ignore[reportArgumentType]


def test_a_statement_that_differs_from_its_bill_is_refused() -> None:
    whole = attribute([NODE], [row("u-1")])
    with pytest.raises(ArithmeticError, match="was attributed of a bill"):
        Statement(whole.entries, whole.bill + Decimal("0.01"), whole.charges)


MOMENTS = st.integers(0, 71).map(lambda hour: START + timedelta(hours=hour))
AMOUNTS = st.decimals("0", "100000", places=6)
ROWS = st.builds(
    lambda owner, began, length, sandbox_class, amounts, asleep: Row(
        owner=owner, claim=f"c-{owner}", pod=NO_POD if asleep else f"p-{owner}-{length}", began=began,
        ended=began + timedelta(seconds=length), sandbox_class=sandbox_class, workspace=owner,
        cpu_seconds=amounts[0], memory_gib_hours=amounts[1], network_bytes=amounts[2], storage_gib_hours=amounts[3],
    ),
    st.sampled_from(["u-1", "u-2", "u-3", "u-4"]), MOMENTS, st.integers(1, 90_000),
    st.sampled_from(["standard", "reviewer"]), st.tuples(AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS), st.booleans(),
)  # fmt: skip
CHARGES = st.builds(
    lambda kind, began, hours, amount, supply, capacity: Charge(
        kind=kind, began=began, ended=began + timedelta(hours=hours), amount=amount, supply=supply, capacity=capacity
    ),
    st.sampled_from(KINDS), MOMENTS, st.integers(1, 50), st.decimals("-1", "500", places=12),
    st.sampled_from(["node-a", "node-b"]), st.decimals("0", "100", places=3),
)  # fmt: skip
WARM = st.builds(
    lambda began, length: Warm(
        pod=f"slot-{length}", sandbox_class="standard", began=began, ended=began + timedelta(seconds=length),
        cpu_seconds=Decimal(length), memory_gib_hours=Decimal(length) / 3600,
    ),
    MOMENTS, st.integers(1, 50_000),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(CHARGES, max_size=6), st.lists(ROWS, max_size=6), st.lists(WARM, max_size=2), st.randoms())
def test_lines_add_up_to_the_bill_to_the_cent(
    charges: list[Charge], rows: list[Row], warm: list[Warm], shuffle: object
) -> None:
    places = Places({row.pod: "node-a" for row in rows if "u-1" in row.pod})
    statement = attribute(charges, rows, warm, places)
    cent = Decimal("0.01")
    assert sum(statement.total(lambda entry: entry).values()) == statement.bill
    assert sum(statement.lines().values()) == sum(statement.parts().values()) == statement.bill.quantize(cent)
    parts = {str(part): amount for part, amount in statement.parts().items()}
    for part, amount in statement.total(lambda entry: str(entry.part)).items():
        assert abs(parts[part] - amount) < cent
    exact, owners = statement.total(lambda entry: entry.owner), {entry.owner for entry in statement.entries}
    for owner in owners:
        lines = sum(amount for (row_owner, _), amount in statement.lines().items() if row_owner == owner)
        assert abs(lines - exact[owner]) < cent
    if rows and charges:
        assert NOBODY not in statement.total(lambda entry: entry.owner)
    again = attribute(reversed(charges), sorted(rows, key=lambda row: row.claim), warm[::-1], places)
    assert again.lines() == statement.lines()


@settings(max_examples=30, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=5), st.decimals("0.01", "500", places=4))
def test_more_use_never_costs_less_and_does_not_raise_the_compute_of_others(rows: list[Row], amount: Decimal) -> None:
    charges = [Charge(kind="nodes", began=START, ended=START + 5 * DAY, amount=amount, capacity=Decimal(3120))]
    more = [replace(row, cpu_seconds=row.cpu_seconds * 2) if row.owner == "u-1" else row for row in rows]
    before, after = attribute(charges, rows), attribute(charges, more)
    grain = Decimal("1e-9")
    for owner in {row.owner for row in rows}:
        then, now = (owed(statement, owner).get("compute", Decimal(0)) for statement in (before, after))
        assert now >= then - grain if owner == "u-1" else now <= then + grain
