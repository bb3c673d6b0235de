"""Read the bill and the ledger of a report, each from files or from AWS."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from agentenv.cli.main import CommandError
from agentenv.core.ledger.rows import Row, row_from_item
from agentenv.core.usage_export.columns import COLUMNS, PARTITION

Line = dict[str, Any]
# How long to wait for an Athena query, and how often to poll it.
TIMEOUT_SECONDS, POLL_SECONDS = 600, 1.0
# AWS has no earlier bills, and a calendar has no month before its first.
FIRST_BILL = datetime(2006, 3, 1, tzinfo=UTC)


def bill_lines(where: Path) -> Iterator[Line]:
    """Yield the lines of an export: a CSV or Parquet file, or a folder of them as in the export's bucket."""
    if where.is_dir():
        files = sorted(file for file in where.rglob("*") if file.suffix in {".csv", ".parquet"})
        if not files:
            raise CommandError(f"there is no bill in {where}: it has neither .csv nor .parquet files")
        for file in files:
            yield from bill_lines(file)
    elif where.suffix == ".csv":
        with where.open(newline="", encoding="utf-8") as stream:
            reader = csv.DictReader(stream)
            try:
                _has_columns(set(reader.fieldnames or ()), where)
                yield from reader
            except (UnicodeDecodeError, csv.Error) as error:
                raise CommandError(f"{where} is not CSV in UTF-8: {error}") from error
    elif where.suffix == ".parquet":
        yield from _parquet(where)
    else:
        raise CommandError(f"{where} is not a bill: give the export's .csv or .parquet, or a folder of them")


def _parquet(where: Path) -> Iterator[Line]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise CommandError("Parquet needs pyarrow: pip install 'agent-environment[reports]', or give a .csv") from None
    library: Any = parquet
    try:
        file = library.ParquetFile(where)
        _has_columns(set(file.schema_arrow.names), where)
        names = [column.name for column in COLUMNS if column.name in file.schema_arrow.names]
        for batch in file.iter_batches(columns=names):
            yield from batch.to_pylist()
    except ArrowException as error:
        raise CommandError(f"{where} is not Parquet, or is truncated: {error}") from error


_NEEDED = {
    "line_item_usage_start_date", "line_item_usage_end_date", "line_item_line_item_type", "line_item_usage_type",
    "line_item_product_code", "line_item_resource_id", "line_item_unblended_cost",
}  # fmt: skip


def _has_columns(names: set[str], where: Path) -> None:
    if missing := sorted(_NEEDED - names):
        raise CommandError(f"{where} is not a CUR 2.0 export: it has no {', '.join(missing)}")


def ledger_rows(where: Path) -> list[Row]:
    """Read rows of the ledger from a file with one item of its table in each line, as JSON."""
    found: list[Row] = []
    with where.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            try:
                item: dict[str, Any] = json.loads(line, parse_float=Decimal)
                found.append(row_from_item(item))
            except (ValueError, KeyError, TypeError, ArithmeticError) as error:
                raise CommandError(f"{where}:{number} is not a row of the ledger: {error!r}") from error
    return found


def table_rows(client: Any, table: str, since: datetime, until: datetime) -> list[Row]:
    """Read rows of the ledger from its DynamoDB table."""
    from agentenv.service.aws.clients import AwsRefusedError, AwsUnavailableError
    from agentenv.service.ledger.table import Ledger

    try:
        return list(Ledger(client, table).all_rows(since, until))
    except (AwsRefusedError, AwsUnavailableError) as failure:
        raise CommandError(f"the ledger {table} cannot be read: {failure}") from failure


def athena_lines(
    client: Any,
    database: str,
    workgroup: str,
    period: tuple[datetime, datetime],
    wait: Callable[[float], None] = time.sleep,
) -> Iterator[Line]:
    """Yield the lines of a period from Athena. The workgroup sets the result location and the scan limit."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield from _query(client, database, workgroup, period, wait)
    except (BotoCoreError, ClientError) as failure:
        raise CommandError(f"the request to Athena failed: {failure}") from failure


def _query(
    client: Any, database: str, workgroup: str, period: tuple[datetime, datetime], wait: Callable[[float], None]
) -> Iterator[Line]:
    execution = client.start_query_execution(
        QueryString=athena_query(*period), QueryExecutionContext={"Database": database}, WorkGroup=workgroup
    )
    id_ = execution["QueryExecutionId"]
    waited = 0.0
    while True:
        status = client.get_query_execution(QueryExecutionId=id_)["QueryExecution"]["Status"]
        if status["State"] == "SUCCEEDED":
            break
        if status["State"] in {"FAILED", "CANCELLED"} or waited >= TIMEOUT_SECONDS:
            reason = status.get("StateChangeReason", f"it is {status['State'].lower()} after {waited:.0f} s")
            raise CommandError(f"the Athena query {id_} failed: {reason}")
        wait(POLL_SECONDS)
        waited += POLL_SECONDS
    pages = client.get_paginator("get_query_results").paginate(QueryExecutionId=id_)
    yield from _result_lines(pages)


def athena_query(since: datetime, until: datetime) -> str:
    """Return the query for the lines that overlap a period, the same lines as from files.

    It reads the months of the period and the month before, because a monthly charge can begin on any day.
    """
    names = ", ".join(_selected(column.name) for column in COLUMNS)
    first = max(since, FIRST_BILL).replace(day=1) - timedelta(days=1)
    begin, end = (f"timestamp '{time_:%Y-%m-%d %H:%M:%S}'" for time_ in (since, until))
    return (
        f"SELECT {names} FROM usage "  # noqa: S608 - constant columns and formatted timestamps
        f"WHERE {PARTITION} BETWEEN '{first:%Y-%m}' AND '{until:%Y-%m}' "
        f"AND line_item_usage_start_date < {end} "
        f"AND (line_item_usage_start_date >= {begin} OR line_item_usage_end_date > {begin})"
    )


def _selected(name: str) -> str:
    return f"json_format(cast({name} AS json)) AS {name}" if name == "resource_tags" else name


def _result_lines(pages: Any) -> Iterator[Line]:
    names: list[str] = []
    for page in pages:
        for row in page["ResultSet"]["Rows"]:
            values = [cell.get("VarCharValue") for cell in row["Data"]]
            if names:
                yield dict(zip(names, values, strict=True))
            else:
                names = [str(value) for value in values]
