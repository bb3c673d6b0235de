"""Print an estimate: its lines with their basis, the cost of a user, and the assumptions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, TextIO

from agentenv.cli.review.cost import changed_parts
from agentenv.core.cost.lines import plain
from agentenv.core.prices.book import STALE_DAYS
from agentenv.core.prices.units import apportioned, cents

if TYPE_CHECKING:
    from agentenv.core.cost.estimate import Estimate
    from agentenv.core.cost.lines import Line
    from agentenv.core.cost.sensitivity import Move

_PART, _MONEY = 38, 10


@dataclass(frozen=True)
class EstimateReport:
    """The estimates for each number of users, with the optional comparison and sensitivity."""

    estimates: tuple[Estimate, ...]
    revision: str | None  # that it is compared with
    before: Estimate | None
    moves: tuple[Move, ...]
    today: date


def write(report: EstimateReport, out: TextIO) -> None:
    """Print the report. The lines are for the first number of users."""
    first = report.estimates[0]
    hours = plain(first.active_hours)
    print(
        f"{first.users} users with {hours} active hours a month, in {first.region}; dollars a month\n",
        file=out,
    )
    shown = dict(zip(map(id, first.lines), apportioned(line.monthly for line in first.lines), strict=True))
    for title, fixed in (("fixed", True), ("by users", False)):
        rows = [line for line in first.lines if line.fixed is fixed]
        if not rows:
            continue
        print(f"  {title}", file=out)
        for line in rows:
            print(_row(line, shown[id(line)]), file=out)
        print(f"    {'':{_PART}}{sum((shown[id(line)] for line in rows), start=Decimal(0)):>{_MONEY}.2f}\n", file=out)
    users = first.break_even_users
    variable = cents(first.variable_month)
    when = f"from {users} users on" if users else f"is never reached: the variable cost of a user is ${variable}"
    total = sum(shown.values(), start=Decimal(0))
    print(f"  total ${total} a month, ${cents(first.per_user_month)} a user;", file=out)
    print(f"  ${first.target:.2f} a user or less {when}\n", file=out)
    _print_user_counts(report.estimates, out)
    _print_classes(first, out)
    if report.revision:
        _print_comparison(first, report.before, report.revision, out)
    if report.moves:
        print("  sensitivity: change of the cost of a user if a value is 20 % higher", file=out)
        for move in report.moves:
            print(f"    {move.what:{_PART + _MONEY}}{move.change:>+8.2f}", file=out)
        print(file=out)
    _print_assumptions(first, report.today, out)


def _row(line: Line, cost: Decimal) -> str:
    return f"    {line.part:{_PART}}{cost:>{_MONEY}.2f}  {line.basis}"


def _print_user_counts(estimates: Sequence[Estimate], out: TextIO) -> None:
    if len(estimates) > 1:
        print("  by number of users", file=out)
        for row in estimates:
            total = cents(row.total_month)
            print(f"    {row.users:>9}  ${cents(row.per_user_month)} a user, ${total} in total", file=out)
        print(file=out)


def _print_classes(first: Estimate, out: TextIO) -> None:
    if first.by_class:
        hours = plain(first.active_hours)
        print(f"  by class: fixed cost, cost of an hour, and of a user with {hours} hours", file=out)
        for row in first.by_class:
            amounts = f"{cents(row.fixed_month):>10}{row.hour:>10.4f}{cents(row.per_user_month):>10}"
            print(f"    {row.name:20}{amounts}  {row.basis}", file=out)
        print(file=out)


def _print_comparison(first: Estimate, before: Estimate | None, revision: str, out: TextIO) -> None:
    if before is None:
        print(f"  {revision} does not have this stack, or this version cannot read its settings\n", file=out)
        return
    print(f"  compared with {revision}: before, after, difference", file=out)
    for part, then, now in changed_parts(before, first):
        print(f"    {part:{_PART}}{cents(then):>10}{cents(now):>10}{cents(now - then):>+10}", file=out)
    whole = (before.total_month, first.total_month)
    print(f"    {'total':{_PART}}{cents(whole[0]):>10}{cents(whole[1]):>10}{cents(whole[1] - whole[0]):>+10}", file=out)
    each = (before.per_user_month, first.per_user_month)
    print(f"    {'a user':{_PART}}{cents(each[0]):>10}{cents(each[1]):>10}{cents(each[1] - each[0]):>+10}\n", file=out)


def _print_assumptions(first: Estimate, today: date, out: TextIO) -> None:
    print("  assumptions", file=out)
    for row in first.assumptions:
        print(f"    {row.name:18}{row.value:>8f} {row.kind:13} {row.meaning}", file=out)
    print(file=out)
    for remark in first.remarks:
        print(f"  {remark}", file=out)
    age = (today - first.prices_of).days
    stale = f" Refresh them with `agentenv prices refresh --region {first.region}`." if age > STALE_DAYS else ""
    print(f"  The oldest of these prices is from {first.prices_of}, {age} days ago.{stale}", file=out)
