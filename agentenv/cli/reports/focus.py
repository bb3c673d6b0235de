"""Validate FOCUS rows, and write them as CSV or Parquet by the extension of the file."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from agentenv.cli.main import CommandError
from agentenv.cli.reports.plots import write_file
from agentenv.core.focus.columns import BY_NAME
from agentenv.core.focus.rows import FocusRow, Value
from agentenv.core.focus.validation import breaches

ENDINGS = (".csv", ".parquet")


def write_focus(rows: Sequence[FocusRow], bill: Decimal, file: Path) -> None:
    """Write the rows atomically. Rows that are not valid FOCUS, or do not add up to the bill, are a `CommandError`."""
    ending = file.suffix.lower()
    if ending not in ENDINGS:
        raise CommandError(f"FOCUS is written as {' or '.join(ENDINGS)}; {file.name} ends in neither")
    if not rows:
        raise CommandError("there is nothing to export: the bill has no lines in this period")
    if found := breaches(rows, bill):
        raise CommandError("the rows are not valid FOCUS, and were not written:\n  " + "\n  ".join(found))
    write_file(file, _csv(rows) if ending == ".csv" else _parquet(rows))


def _csv(rows: Sequence[FocusRow]) -> bytes:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(rows[0])
    writer.writerows([_text(value) for value in row.values()] for row in rows)
    return stream.getvalue().encode()


def _text(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, Decimal):
        # Without an exponent and with a decimal point, so that readers infer a decimal column.
        text = f"{value:f}"
        return text if "." in text else f"{text}.0"
    return str(value).lower() if isinstance(value, bool) else value


def _parquet(rows: Sequence[FocusRow]) -> bytes:
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        raise CommandError("Parquet needs pyarrow: pip install 'agent-environment[reports]', or write a .csv") from None
    library: Any = arrow
    types = {
        "decimal": library.decimal128(38, 12),
        "moment": library.timestamp("ms", tz="UTC"),
        "string": library.string(),
        "pairs": library.string(),
    }
    fields = [
        library.field(
            name,
            types[BY_NAME[name].type] if name in BY_NAME else _custom_type(library, name),
            nullable=BY_NAME[name].nullable if name in BY_NAME else True,
        )
        for name in rows[0]
    ]
    table = library.Table.from_pylist(list(rows), schema=library.schema(fields))
    stream = io.BytesIO()
    writing: Any = parquet
    writing.write_table(table, stream, compression="zstd")
    return stream.getvalue()


def _custom_type(library: Any, name: str) -> Any:
    """Return the type of a custom column: boolean if its name begins with `x_Is`, otherwise string."""
    return library.bool_() if name.startswith("x_Is") else library.string()
