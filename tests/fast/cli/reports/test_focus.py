"""The export: the same rows in CSV and Parquet, and no file for invalid rows."""

from __future__ import annotations

import csv
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from agentenv.cli.main import CommandError
from agentenv.cli.reports.focus import write_focus
from agentenv.core.attribution.attribute import attribute
from agentenv.core.focus.rows import FocusContext, FocusRow, focus_rows, metered_quantities
from bench.month.record import record
from bench.month.whole import month


@pytest.fixture(scope="module")
def exported() -> tuple[Decimal, list[FocusRow]]:
    known = record(month(5, 2), 2)
    athena_query = attribute(known.charges, known.rows, known.warm, known.places)
    return athena_query.bill, list(
        focus_rows(athena_query, metered_quantities(known.rows), FocusContext("dev", "111122223333"))
    )


def test_csv_has_every_row_with_exact_costs(exported: tuple[Decimal, list[FocusRow]], tmp_path: Path) -> None:
    bill, rows = exported
    write_focus(rows, bill, tmp_path / "cost.csv")
    with (tmp_path / "cost.csv").open(newline="") as stream:
        read = list(csv.DictReader(stream))
    assert len(read) == len(rows)
    assert [Decimal(row["BilledCost"]) for row in read] == [row["BilledCost"] for row in rows]
    assert read[0]["ChargePeriodStart"] == "2026-10-01T00:00:00Z"
    assert read[0]["InvoiceId"] == ""
    assert not any("E" in row["BilledCost"] for row in read)


def test_parquet_has_the_same_rows_with_types(exported: tuple[Decimal, list[FocusRow]], tmp_path: Path) -> None:
    bill, rows = exported
    write_focus(rows, bill, tmp_path / "cost.parquet")
    reading: Any = parquet
    table = reading.read_table(tmp_path / "cost.parquet")
    assert str(table.schema.field("BilledCost").type) == "decimal128(38, 12)"
    assert str(table.schema.field("ChargePeriodStart").type) == "timestamp[ms, tz=UTC]"
    assert not table.schema.field("BilledCost").nullable
    read = table.to_pylist()
    assert [row["BilledCost"] for row in read] == [row["BilledCost"] for row in rows]
    assert [row["Tags"] for row in read] == [row["Tags"] for row in rows]


def test_invalid_rows_are_not_written(exported: tuple[Decimal, list[FocusRow]], tmp_path: Path) -> None:
    bill, rows = exported
    with pytest.raises(CommandError, match="and the bill"):
        write_focus(rows, bill + 1, tmp_path / "cost.csv")
    with pytest.raises(CommandError, match="neither"):
        write_focus(rows, bill, tmp_path / "cost.json")
    with pytest.raises(CommandError, match="nothing to export"):
        write_focus([], bill, tmp_path / "cost.csv")
    assert list(tmp_path.iterdir()) == []
