"""Divide the bill among owners: `agentenv cost report`.

The bill is AWS's hourly usage export: its files, or a query in Athena. The ledger is the service's: its table, or a
file of its rows. Every cent of the bill is on a line. Shared costs are divided by rules that the report names.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentenv.cli.main import OK, CommandError

if TYPE_CHECKING:
    from agentenv.cli.reports.cost_statement import CostReport
    from agentenv.cli.reports.cost_view import View

PAGE = Path("cost-report.html")
SINCE = re.compile(r"(?P<days>[1-9][0-9]{0,2})d")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("what", choices=["report"], metavar="report", help="divide the bill among owners")
    period_options = parser.add_argument_group("period: whole days in UTC")
    period_options.add_argument("--since", default="30d", metavar="30d|DAY", help="days back, or a day (default: 30d)")
    period_options.add_argument("--until", metavar="DAY", help="to the end of this day (default: yesterday)")
    scope = parser.add_argument_group("scope")
    selection = scope.add_mutually_exclusive_group()
    selection.add_argument("--stack", metavar="S", help="the stack: its environment, region, cap and budget")
    selection.add_argument("--file", type=Path, metavar="F", help="the same, from a stack file: Pulumi.<stack>.yaml")
    scope.add_argument("--cluster", metavar="C", help="the environment's cluster, if not that of its settings")
    scope.add_argument("--whole-account", action="store_true", help="include every line, whatever its tags")
    bill = parser.add_argument_group("the bill")
    bill.add_argument("--bill", type=Path, metavar="PATH", help="a .csv or .parquet of the export, or a folder of them")
    bill.add_argument("--database", metavar="D", help="or query Athena: the export's database")
    bill.add_argument("--workgroup", metavar="W", help="and the Athena workgroup")
    ledger = parser.add_argument_group("the ledger")
    ledger.add_argument("--ledger", type=Path, metavar="FILE", help="its rows as JSON lines")
    ledger.add_argument("--table", metavar="T", help="or its DynamoDB table")
    out = parser.add_argument_group("output")
    out.add_argument("--html", type=Path, nargs="?", const=PAGE, metavar="FILE", help=f"an HTML page (default: {PAGE})")
    out.add_argument("--focus", type=Path, metavar="FILE", help="FOCUS 1.2, as .csv or .parquet")
    out.add_argument("--account", default="", metavar="ID", help="the billing account in FOCUS")
    out.add_argument("--json", action="store_true", help="print the figures as one JSON object on the last line")


def run(arguments: argparse.Namespace) -> int:
    """Create the report."""
    from agentenv.cli.reports.cost_page import page
    from agentenv.cli.reports.cost_statement import cost_report
    from agentenv.cli.reports.cost_view import cost_view
    from agentenv.cli.reports.plots import write_file

    since, until = period(arguments.since, arguments.until, datetime.now(UTC))
    report = cost_report(arguments, since, until)
    view = cost_view(report.statement, report.rows, report.context)
    sys.stdout.write(as_text(view))
    files: list[str] = []
    if arguments.html:
        write_file(arguments.html, page(view).encode())
        files.append(str(arguments.html))
    if arguments.focus:
        _write_focus(report, arguments)
        files.append(str(arguments.focus))
    sys.stdout.writelines(f"wrote {file}\n" for file in files)
    if arguments.json:
        sys.stdout.write(json.dumps(as_json(view, files)) + "\n")
    return OK


def period(since: str, until: str | None, now: datetime) -> tuple[datetime, datetime]:
    """Return the start of the first day and the end of the last."""
    match = SINCE.fullmatch(since)
    try:
        today = now.replace(hour=0, minute=0, second=0, microsecond=0)
        end = today if until is None else _day(until) + timedelta(days=1)
        begin = end - timedelta(days=int(match["days"])) if match else _day(since)
    except OverflowError:
        raise CommandError(f"the period {since} to {until} is outside the calendar") from None
    if begin >= end:
        raise CommandError(f"--since {since} is not before the end of {(end - timedelta(days=1)):%Y-%m-%d}")
    return begin, end


def _day(text: str) -> datetime:
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise CommandError(f"{text} is not a day; write 2026-10-31, or a number of days such as 30d") from None


def as_text(view: View) -> str:
    """Return the report for a terminal: the parts of the bill, and the owners with the highest costs."""
    context = view.context
    last = context.until - timedelta(days=1)
    lines = [f"{context.environment}: {context.since:%Y-%m-%d} to {last:%Y-%m-%d}, {len(view.owners)} owners", ""]
    for part in view.parts:
        kind = "metered" if part.metered else "shared"
        lines.append(f"  {part.title:<14} {kind:<8} {part.amount:>12,.2f} {part.share:>6} %")
    lines += [f"  {'the bill':<14} {'':<8} {view.bill:>12,.2f}", ""]
    for row in view.owners[:10]:
        over = "  above the cap" if row.over else ""
        lines.append(f"  {row.owner:<30.30} {row.total:>10,.2f}  {row.hours:>8} h  {row.gib:>8} GiB{over}")
    if len(view.owners) > 10:
        lines.append(f"  … and {len(view.owners) - 10} more; {view.median:,.2f} is the median")
    if context.left_out:
        lines += ["", f"  {context.left_out:,.2f} on the same bill does not belong to {context.environment}"]
    lines += [f"  note: {remark}" for remark in context.remarks]
    return "\n".join(lines) + "\n"


def as_json(view: View, files: list[str]) -> dict[str, Any]:
    """Return the figures of the report."""
    return {
        "environment": view.context.environment,
        "since": f"{view.context.since:%Y-%m-%d}",
        "until": f"{view.context.until - timedelta(days=1):%Y-%m-%d}",
        "bill": float(view.bill),
        "attributed": float(sum((row.total for row in view.owners), view.unowned)),
        "parts": {part.part: float(part.amount) for part in view.parts},
        "metered_percent": float(view.metered),
        "owners": [{"owner": row.owner, "dollars": float(row.total)} for row in view.owners],
        "above_cap": view.over,
        "left_out": float(view.context.left_out.quantize(Decimal("0.01"))),
        "written": files,
    }


def _write_focus(report: CostReport, arguments: argparse.Namespace) -> None:
    from agentenv.cli.reports.focus import write_focus
    from agentenv.core.focus.rows import FocusContext, focus_rows, metered_quantities

    environment = report.context.environment
    context = FocusContext(environment, arguments.account or environment, report.region)
    rows = list(focus_rows(report.statement, metered_quantities(report.rows), context))
    write_focus(rows, report.statement.bill, arguments.focus)
