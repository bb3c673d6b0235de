"""Brings a bill and a ledger together: from where the command line says, as one statement."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from agentenv.cli.main import Refusal
from agentenv.cli.reports.cost_view import About
from agentenv.cli.reports.sources import Line, asked_lines, bill_lines, ledger_rows, table_rows
from agentenv.config import Settings
from agentenv.core.attribution.attribute import attribute
from agentenv.core.attribution.bill import Bill, BillScope, moment, read_bill, text
from agentenv.core.attribution.statement import Statement
from agentenv.core.attribution.types import Charge
from agentenv.core.ledger.rows import Row, seconds_between
from agentenv.core.prices.book import price_book, regions


@dataclass(frozen=True)
class Costed:
    """A statement, and what it was made of."""

    statement: Statement
    rows: Sequence[Row]
    about: About
    region: str | None


def cost(arguments: argparse.Namespace, since: datetime, until: datetime) -> Costed:
    """Read both, keep what is of the time, divide."""
    settings = _settings(arguments) if arguments.stack or arguments.file else None
    region = settings.region if settings else None
    rows = within(_rows(arguments, region, since, until), since, until)
    whose = _whose(arguments, settings)
    lines = of_time(_lines(arguments, region, since, until), since, until)
    bill = read_bill(lines, rows, _sizes(), whose)
    charges = [part for charge in bill.charges if (part := part_of(charge, since, until)) is not None]
    if not charges:
        raise Refusal(_nothing(bill, since, until))
    environment = settings.environment if settings else "the whole bill"
    about = About(
        environment, since, until,
        cap=settings.cost.per_user_cap if settings else None,
        budget=settings.cost.monthly_budget if settings else None,
        left_out=bill.left_out, remarks=_remarks(bill, rows),
    )  # fmt: skip
    return Costed(attribute(charges, rows, bill.warm, bill.places), rows, about, region)


def _settings(arguments: argparse.Namespace) -> Settings:
    from agentenv.cli.commands.preflight import settings_of

    return settings_of(arguments.stack, arguments.file)


def _whose(arguments: argparse.Namespace, settings: Settings | None) -> BillScope:
    """Which lines of the bill are meant: an account may have other environments, and other clusters."""
    if arguments.whole_account or settings is None:
        if arguments.cluster:
            raise Refusal("--cluster says which pods are an environment's: name its --stack, without --whole-account")
        return BillScope()
    return BillScope(settings.environment, arguments.cluster or settings.cluster_name)


def _lines(arguments: argparse.Namespace, region: str | None, since: datetime, until: datetime) -> Iterable[Line]:
    if arguments.bill:
        return bill_lines(arguments.bill)
    if arguments.database and arguments.workgroup:
        return asked_lines(_client("athena", region), arguments.database, arguments.workgroup, (since, until))
    raise Refusal("say where the bill is: --bill PATH, or --database D --workgroup W for Athena")


def _rows(arguments: argparse.Namespace, region: str | None, since: datetime, until: datetime) -> list[Row]:
    if arguments.ledger:
        return ledger_rows(arguments.ledger)
    if arguments.table:
        return table_rows(_client("dynamodb", region), arguments.table, since, until)
    raise Refusal("say where the ledger is: --ledger FILE, or --table T for its DynamoDB table")


def _client(service: str, region: str | None) -> object:
    from agentenv.service.aws.clients import client

    if region is None:
        raise Refusal(f"to ask {service}, name the --stack: its settings say in which region")
    return client(service, region)


def of_time(lines: Iterable[Line], since: datetime, until: datetime) -> Iterator[Line]:
    """The lines of a time; one that cannot be read is refused, for without it the sum would not be the bill."""
    for number, line in enumerate(lines, 1):
        try:
            meant, readable = is_within(line, since, until), _has_cost(line)
        except (ValueError, ArithmeticError):
            meant, readable = True, False
        if not readable:
            raise Refusal(f"line {number} of the bill cannot be read: {_told(line)}")
        if meant:
            yield line


def _has_cost(line: Line) -> bool:
    """Whether it says what it costs; a pod's line need not, for its instance's does."""
    if text(line, "split_line_item_parent_resource_id"):
        return True
    return Decimal(text(line, "line_item_unblended_cost")).is_finite()


def _told(line: Line) -> str:
    names = ("line_item_usage_start_date", "line_item_usage_end_date", "line_item_unblended_cost")
    return ", ".join(f"{name} is {line.get(name) or 'empty'}" for name in names)


def within(rows: Iterable[Row], since: datetime, until: datetime) -> list[Row]:
    """The rows of a time; what reaches over its edges is cut there, with its amounts."""
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


def is_within(line: Line, since: datetime, until: datetime) -> bool:
    """Whether a line is of a time, or reaches into it."""
    began, ended = moment(line, "line_item_usage_start_date"), moment(line, "line_item_usage_end_date")
    return began < until and max(ended, began + timedelta(hours=1)) > since


def part_of(charge: Charge, since: datetime, until: datetime) -> Charge | None:
    """The part of a charge that is in a time: a month's tax counts for a week with a week's share."""
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


def _sizes() -> dict[str, tuple[int, Decimal]]:
    """What types of instances hold, which is the same in every region."""
    found: dict[str, tuple[int, Decimal]] = {}
    for region in regions():
        found |= {name: (one.vcpu, one.memory) for name, one in price_book(region).instances.items()}
    return found


def _remarks(bill: Bill, rows: Sequence[Row]) -> tuple[str, ...]:
    found: list[str] = []
    if bill.unknown_types:
        found.append(
            f"it is not known what {', '.join(sorted(bill.unknown_types))} holds: nothing of those counts as idle"
        )
    if not bill.places.nodes:
        found.append("the bill has no split cost data: all nodes count as one, and warm slots as idle")
    if not rows:
        found.append("the ledger has no rows in this time: nothing is anybody's")
    if any(row.source.endswith("/requested") for row in rows):
        found.append("some homes were not measured yet: the size that was asked for counts")
    return tuple(found)


def _nothing(bill: Bill, since: datetime, until: datetime) -> str:
    reason = f"; ${bill.left_out:,.2f} on it are not this environment's" if bill.left_out else ""
    return f"the bill has no lines from {since:%Y-%m-%d} to {until - timedelta(days=1):%Y-%m-%d}{reason}"
