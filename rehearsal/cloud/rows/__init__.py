"""The table of what we answer ourselves: a module a service, a row an operation."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rehearsal.cloud.desk import Row

TABLES: tuple[tuple[Row, ...], ...] = ()

ROWS: dict[tuple[str, str], Row] = {(row.service, row.operation): row for table in TABLES for row in table}
