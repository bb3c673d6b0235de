"""Say who owes what of the bill: `agentenv cost report`.

The bill is AWS's export by the hour: files of it, or asked of Athena. The ledger is the service's: its table, or a file
of its rows. Every cent of the bill ends up on a line; what is nobody's own is shared by rules that the report names.
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

from agentenv.cli.main import OK, Refusal

if TYPE_CHECKING:
    from agentenv.cli.reports.cost_statement import Costed
    from agentenv.cli.reports.cost_view import View

PAGE = Path("cost-report.html")
SINCE = re.compile(r"(?P<days>[1-9][0-9]{0,2})d")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("what", choices=["report"], help="divide the bill among owners")
    when = parser.add_argument_group("which time: whole days in UTC")
    when.add_argument("--since", default="30d", metavar="30d|DAY", help="so many days, or from a day (default: 30d)")
    when.add_argument("--until", metavar="DAY", help="to the end of this day (default: yesterday)")
    whose = parser.add_argument_group("what it is of")
    which = whose.add_mutually_exclusive_group()
    which.add_argument("--stack", metavar="S", help="the stack: its environment, region, cap and budget")
    which.add_argument("--file", type=Path, metavar="F", help="the same, from a stack file: Pulumi.<stack>.yaml")
    whose.add_argument("--cluster", metavar="C", help="whose pods are its own, if not the cluster of its settings")
    whose.add_argument("--whole-account", action="store_true", help="take every line, whatever its tags say")
    bill = parser.add_argument_group("the bill")
    bill.add_argument("--bill", type=Path, metavar="PATH", help="a .csv or .parquet of the export, or a folder of them")
    bill.add_argument("--database", metavar="D", help="else ask Athena: the export's database, and")
    bill.add_argument("--workgroup", metavar="W", help="the workgroup that may ask")
    ledger = parser.add_argument_group("the ledger")
    ledger.add_argument("--ledger", type=Path, metavar="FILE", help="its rows as JSON, one a line")
    ledger.add_argument("--table", metavar="T", help="else its DynamoDB table")
    out = parser.add_argument_group("what is written")
    out.add_argument("--html", type=Path, nargs="?", const=PAGE, metavar="FILE", help=f"a page ({PAGE} if not named)")
    out.add_argument("--focus", type=Path, metavar="FILE", help="FOCUS 1.2, as .csv or .parquet")
    out.add_argument("--account", default="", metavar="ID", help="the billing account that FOCUS names")
    out.add_argument("--json", action="store_true", help="print the figures as one JSON object on the last line")


def run(arguments: argparse.Namespace) -> int:
    """Make the report."""
    from agentenv.cli.reports.cost_page import page
    from agentenv.cli.reports.cost_statement import cost
    from agentenv.cli.reports.cost_view import view
    from agentenv.cli.reports.plots import put

    since, until = period(arguments.since, arguments.until, datetime.now(UTC))
    costed = cost(arguments, since, until)
    shown = view(costed.statement, costed.rows, costed.about)
    sys.stdout.write(told(shown))
    written: list[str] = []
    if arguments.html:
        put(arguments.html, page(shown).encode())
        written.append(str(arguments.html))
    if arguments.focus:
        _focus(costed, arguments)
        written.append(str(arguments.focus))
    sys.stdout.writelines(f"written: {file}\n" for file in written)
    if arguments.json:
        sys.stdout.write(json.dumps(as_json(shown, written)) + "\n")
    return OK


def period(since: str, until: str | None, now: datetime) -> tuple[datetime, datetime]:
    """The whole days that are meant, from the first's beginning to the last's end."""
    match = SINCE.fullmatch(since)
    try:
        today = now.replace(hour=0, minute=0, second=0, microsecond=0)
        end = today if until is None else _day(until) + timedelta(days=1)
        begin = end - timedelta(days=int(match["days"])) if match else _day(since)
    except OverflowError:
        raise Refusal(f"no bill is of {since} to {until}: calendars end there") from None
    if begin >= end:
        raise Refusal(f"--since {since} is not before the end of {(end - timedelta(days=1)):%Y-%m-%d}")
    return begin, end


def _day(text: str) -> datetime:
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise Refusal(f"{text} is no day; write 2026-10-31, or a number of days such as 30d") from None


def told(shown: View) -> str:
    """The report in a terminal: the parts of the bill, and who cost most."""
    about = shown.about
    last = about.until - timedelta(days=1)
    lines = [f"{about.environment}: {about.since:%Y-%m-%d} to {last:%Y-%m-%d}, {len(shown.owners)} owners", ""]
    for part in shown.parts:
        kind = "metered" if part.metered else "shared"
        lines.append(f"  {part.title:<14} {kind:<8} {part.amount:>12,.2f} {part.share:>6} %")
    lines += [f"  {'the bill':<14} {'':<8} {shown.bill:>12,.2f}", ""]
    for one in shown.owners[:10]:
        over = "  above the cap" if one.over else ""
        lines.append(f"  {one.owner:<30.30} {one.total:>10,.2f}  {one.hours:>8} h  {one.gib:>8} GiB{over}")
    if len(shown.owners) > 10:
        lines.append(f"  … and {len(shown.owners) - 10} more; {shown.median:,.2f} is the median")
    if about.left_out:
        lines += ["", f"  {about.left_out:,.2f} on the same bill is not {about.environment}'s"]
    lines += [f"  note: {remark}" for remark in about.remarks]
    return "\n".join(lines) + "\n"


def as_json(shown: View, written: list[str]) -> dict[str, Any]:
    """The figures of the report."""
    return {
        "environment": shown.about.environment,
        "since": f"{shown.about.since:%Y-%m-%d}",
        "until": f"{shown.about.until - timedelta(days=1):%Y-%m-%d}",
        "bill": float(shown.bill),
        "attributed": float(sum((one.total for one in shown.owners), shown.nobody)),
        "parts": {part.part: float(part.amount) for part in shown.parts},
        "metered_percent": float(shown.metered),
        "owners": [{"owner": one.owner, "dollars": float(one.total)} for one in shown.owners],
        "above_cap": shown.over,
        "left_out": float(shown.about.left_out.quantize(Decimal("0.01"))),
        "written": written,
    }


def _focus(costed: Costed, arguments: argparse.Namespace) -> None:
    from agentenv.cli.reports.focus import write_focus
    from agentenv.core.focus.rows import FocusContext, focus_rows, metered_quantities

    about = FocusContext(costed.about.environment, arguments.account or costed.about.environment, costed.region)
    rows = list(focus_rows(costed.statement, metered_quantities(costed.rows), about))
    write_focus(rows, costed.statement.bill, arguments.focus)
