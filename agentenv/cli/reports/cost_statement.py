"""Create a cost statement from a bill and a ledger, from the sources that the command line names."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from agentenv.cli.main import CommandError
from agentenv.cli.reports.cost_view import ReportContext
from agentenv.cli.reports.sources import Line, athena_lines, bill_lines, ledger_rows, table_rows
from agentenv.config import Settings
from agentenv.core.attribution.attribute import attribute
from agentenv.core.attribution.bill import Bill, BillScope, moment, read_bill, text
from agentenv.core.attribution.statement import Statement
from agentenv.core.attribution.types import Charge
from agentenv.core.ledger.rows import Row, seconds_between
from agentenv.core.prices.book import price_book, regions


@dataclass(frozen=True)
class CostReport:
    """A statement, with the ledger rows and the context that it was created from."""

    statement: Statement
    rows: Sequence[Row]
    context: ReportContext
    region: str | None


def cost_report(arguments: argparse.Namespace, since: datetime, until: datetime) -> CostReport:
    """Read the bill and the ledger, limit both to the period, and attribute the costs."""
    settings = _settings(arguments) if arguments.stack or arguments.file else None
    region = settings.region if settings else None
    rows = rows_in_period(_rows(arguments, region, since, until), since, until)
    scope = _bill_scope(arguments, settings)
    lines = lines_in_period(_lines(arguments, region, since, until), since, until)
    bill = read_bill(lines, rows, _instance_sizes(), scope)
    charges = [part for charge in bill.charges if (part := charge_in_period(charge, since, until)) is not None]
    if not charges:
        raise CommandError(_empty_bill_message(bill, since, until))
    environment = settings.environment if settings else "the whole bill"
    context = ReportContext(
        environment, since, until,
        cap=settings.cost.per_user_cap if settings else None,
        budget=settings.cost.monthly_budget if settings else None,
        left_out=bill.left_out, remarks=_remarks(bill, rows),
    )  # fmt: skip
    return CostReport(attribute(charges, rows, bill.warm, bill.places), rows, context, region)


def _settings(arguments: argparse.Namespace) -> Settings:
    from agentenv.cli.stack_files import selected_settings

    return selected_settings(arguments.stack, arguments.file)


def _bill_scope(arguments: argparse.Namespace, settings: Settings | None) -> BillScope:
    """Return which lines of the bill belong to the environment: an account may have others, and other clusters."""
    if arguments.whole_account or settings is None:
        if arguments.cluster:
            raise CommandError(
                "--cluster selects the pods of one environment: give its --stack, without --whole-account"
            )
        return BillScope()
    return BillScope(settings.environment, arguments.cluster or settings.cluster_name)


def _lines(arguments: argparse.Namespace, region: str | None, since: datetime, until: datetime) -> Iterable[Line]:
    if arguments.bill:
        return bill_lines(arguments.bill)
    if arguments.database and arguments.workgroup:
        return athena_lines(_client("athena", region), arguments.database, arguments.workgroup, (since, until))
    raise CommandError("the bill is missing: give --bill PATH, or --database D --workgroup W for Athena")


def _rows(arguments: argparse.Namespace, region: str | None, since: datetime, until: datetime) -> list[Row]:
    if arguments.ledger:
        return ledger_rows(arguments.ledger)
    if arguments.table:
        return table_rows(_client("dynamodb", region), arguments.table, since, until)
    raise CommandError("the ledger is missing: give --ledger FILE, or --table T for its DynamoDB table")


def _client(service: str, region: str | None) -> object:
    from agentenv.service.aws.clients import client

    if region is None:
        raise CommandError(f"{service} needs a region: give the --stack, whose settings have it")
    return client(service, region)


def lines_in_period(lines: Iterable[Line], since: datetime, until: datetime) -> Iterator[Line]:
    """Yield the lines of a period. An invalid line is an error: without it the sum would not be the bill."""
    for number, line in enumerate(lines, 1):
        try:
            selected, valid = is_in_period(line, since, until), _has_cost(line)
        except (ValueError, ArithmeticError):
            selected, valid = True, False
        if not valid:
            raise CommandError(f"line {number} of the bill is invalid: {_line_text(line)}")
        if selected:
            yield line


def _has_cost(line: Line) -> bool:
    """Return whether a line has a cost. The line of a pod need not have one, because its instance has it."""
    if text(line, "split_line_item_parent_resource_id"):
        return True
    return Decimal(text(line, "line_item_unblended_cost")).is_finite()


def _line_text(line: Line) -> str:
    names = ("line_item_usage_start_date", "line_item_usage_end_date", "line_item_unblended_cost")
    return ", ".join(f"{name} is {line.get(name) or 'empty'}" for name in names)


def rows_in_period(rows: Iterable[Row], since: datetime, until: datetime) -> list[Row]:
    """Return the rows of a period. A row that extends beyond it is cut, with its amounts in proportion."""
    found: list[Row] = []
    for row in rows:
        began, ended = max(row.began, since), min(row.ended, until)
        if began >= ended:
            continue
        share = seconds_between(began, ended) / row.seconds
        found.append(
            row
            if share == 1
            else replace(
                row,
                began=began,
                ended=ended,
                cpu_seconds=row.cpu_seconds * share,
                memory_gib_hours=row.memory_gib_hours * share,
                network_bytes=row.network_bytes * share,
                storage_gib_hours=row.storage_gib_hours * share,
            )
        )
    return found


def is_in_period(line: Line, since: datetime, until: datetime) -> bool:
    """Return whether a line overlaps a period."""
    began, ended = moment(line, "line_item_usage_start_date"), moment(line, "line_item_usage_end_date")
    return began < until and max(ended, began + timedelta(hours=1)) > since


def charge_in_period(charge: Charge, since: datetime, until: datetime) -> Charge | None:
    """Return the share of a charge in a period: a week has a week's share of a monthly tax."""
    began, ended = max(charge.began, since), min(charge.ended, until)
    if began >= ended:
        return None
    if (began, ended) == (charge.began, charge.ended):
        return charge
    share = seconds_between(began, ended) / seconds_between(charge.began, charge.ended)
    return replace(
        charge, began=began, ended=ended, amount=(charge.amount * share).quantize(Decimal("1e-12")),
        capacity=charge.capacity * share,
    )  # fmt: skip


def _instance_sizes() -> dict[str, tuple[int, Decimal]]:
    """Return the cores and memory of instance types, which are the same in every region."""
    found: dict[str, tuple[int, Decimal]] = {}
    for region in regions():
        found |= {name: (instance.vcpu, instance.memory) for name, instance in price_book(region).instances.items()}
    return found


def _remarks(bill: Bill, rows: Sequence[Row]) -> tuple[str, ...]:
    found: list[str] = []
    if bill.unknown_types:
        found.append(f"the size of {', '.join(sorted(bill.unknown_types))} is unknown: these have no idle share")
    if not bill.places.nodes:
        found.append("the bill has no split cost data: all nodes count as one, and warm slots as idle")
    if not rows:
        found.append("the ledger has no rows in this period: no cost has an owner")
    if any(row.source.endswith("/requested") for row in rows):
        found.append("some homes have not been measured yet: their requested size counts")
    return tuple(found)


def _empty_bill_message(bill: Bill, since: datetime, until: datetime) -> str:
    others = f"; ${bill.left_out:,.2f} of that bill does not belong to this environment" if bill.left_out else ""
    return f"the bill has no lines from {since:%Y-%m-%d} to {until - timedelta(days=1):%Y-%m-%d}{others}"
