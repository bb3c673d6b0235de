"""Where a report's figures come from: the bill and the ledger, each from a file or from AWS itself."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from agentenv.cli.main import Refusal
from agentenv.core.ledger.rows import Row, row_from_item
from agentenv.core.usage_export.columns import COLUMNS, PARTITION

Line = dict[str, Any]
# Athena is asked again after so many seconds, and for so long.
PATIENCE, PAUSE = 600, 1.0
# There is no bill of AWS from before it, and calendars have no month before their first.
FIRST_BILL = datetime(2006, 3, 1, tzinfo=UTC)


def bill_lines(where: Path) -> Iterator[Line]:
    """The lines of an export: one file of CSV or Parquet, or a folder of them, as the export's bucket has it."""
    if where.is_dir():
        files = sorted(one for one in where.rglob("*") if one.suffix in {".csv", ".parquet"})
        if not files:
            raise Refusal(f"there is no bill in {where}: it has neither .csv nor .parquet files")
        for file in files:
            yield from bill_lines(file)
    elif where.suffix == ".csv":
        with where.open(newline="", encoding="utf-8") as stream:
            reader = csv.DictReader(stream)
            try:
                _has_columns(set(reader.fieldnames or ()), where)
                yield from reader
            except (UnicodeDecodeError, csv.Error) as wrong:
                raise Refusal(f"{where} is no CSV in UTF-8: {wrong}") from wrong
    elif where.suffix == ".parquet":
        yield from _parquet(where)
    else:
        raise Refusal(f"{where} is no bill: give the export's .csv or .parquet, or a folder of them")


def _parquet(where: Path) -> Iterator[Line]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise Refusal("Parquet needs pyarrow: pip install 'agent-environment[reports]', or give a .csv") from None
    library: Any = parquet
    try:
        file = library.ParquetFile(where)
        _has_columns(set(file.schema_arrow.names), where)
        wanted = [column.name for column in COLUMNS if column.name in file.schema_arrow.names]
        for batch in file.iter_batches(columns=wanted):
            yield from batch.to_pylist()
    except ArrowException as wrong:
        raise Refusal(f"{where} is no Parquet, or is cut off: {wrong}") from wrong


_NEEDED = {
    "line_item_usage_start_date", "line_item_usage_end_date", "line_item_line_item_type", "line_item_usage_type",
    "line_item_product_code", "line_item_resource_id", "line_item_unblended_cost",
}  # fmt: skip


def _has_columns(names: set[str], where: Path) -> None:
    if missing := sorted(_NEEDED - names):
        raise Refusal(f"{where} is no CUR 2.0 export: it has no {', '.join(missing)}")


def ledger_rows(where: Path) -> list[Row]:
    """Rows of the ledger from a file: an item of its table a line, as JSON."""
    found: list[Row] = []
    with where.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            try:
                item: dict[str, Any] = json.loads(line, parse_float=Decimal)
                found.append(row_from_item(item))
            except (ValueError, KeyError, TypeError, ArithmeticError) as wrong:
                raise Refusal(f"{where}:{number} is no row of the ledger: {wrong!r}") from wrong
    return found


def table_rows(client: Any, table: str, since: datetime, until: datetime) -> list[Row]:
    """Rows of the ledger from its table."""
    from agentenv.service.aws.clients import AwsRefusedError, AwsUnavailableError
    from agentenv.service.ledger.table import Ledger

    try:
        return list(Ledger(client, table).all_rows(since, until))
    except (AwsRefusedError, AwsUnavailableError) as failure:
        raise Refusal(f"the ledger {table} cannot be read: {failure}") from failure


def asked_lines(
    client: Any,
    database: str,
    workgroup: str,
    when: tuple[datetime, datetime],
    wait: Callable[[float], None] = time.sleep,
) -> Iterator[Line]:
    """The lines of a time from Athena; the workgroup says where its answers lie and how much it may read."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield from _asked(client, database, workgroup, when, wait)
    except (BotoCoreError, ClientError) as failure:
        raise Refusal(f"Athena cannot be asked: {failure}") from failure


def _asked(
    client: Any, database: str, workgroup: str, when: tuple[datetime, datetime], wait: Callable[[float], None]
) -> Iterator[Line]:
    begun = client.start_query_execution(
        QueryString=statement(*when), QueryExecutionContext={"Database": database}, WorkGroup=workgroup
    )
    number = begun["QueryExecutionId"]
    waited = 0.0
    while True:
        told = client.get_query_execution(QueryExecutionId=number)["QueryExecution"]["Status"]
        if told["State"] == "SUCCEEDED":
            break
        if told["State"] in {"FAILED", "CANCELLED"} or waited >= PATIENCE:
            reason = told.get("StateChangeReason", f"it is {told['State'].lower()} after {waited:.0f} s")
            raise Refusal(f"Athena does not answer query {number}: {reason}")
        wait(PAUSE)
        waited += PAUSE
    pages = client.get_paginator("get_query_results").paginate(QueryExecutionId=number)
    yield from _answered(pages)


def statement(since: datetime, until: datetime) -> str:
    """What Athena is asked: the lines that are of a time or reach into it, as of files.

    Of the months that it is in, and of the one before: what is paid for a month may begin on any day of it.
    """
    names = ", ".join(_selected(column.name) for column in COLUMNS)
    first = max(since, FIRST_BILL).replace(day=1) - timedelta(days=1)
    begin, end = (f"timestamp '{when:%Y-%m-%d %H:%M:%S}'" for when in (since, until))
    return (
        f"SELECT {names} FROM usage "  # noqa: S608 - our own columns, and moments in one form
        f"WHERE {PARTITION} BETWEEN '{first:%Y-%m}' AND '{until:%Y-%m}' "
        f"AND line_item_usage_start_date < {end} "
        f"AND (line_item_usage_start_date >= {begin} OR line_item_usage_end_date > {begin})"
    )


def _selected(name: str) -> str:
    return f"json_format(cast({name} AS json)) AS {name}" if name == "resource_tags" else name


def _answered(pages: Any) -> Iterator[Line]:
    names: list[str] = []
    for page in pages:
        for row in page["ResultSet"]["Rows"]:
            values = [cell.get("VarCharValue") for cell in row["Data"]]
            if names:
                yield dict(zip(names, values, strict=True))
            else:
                names = [str(value) for value in values]
