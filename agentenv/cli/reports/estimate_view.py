"""An estimate for a person: lines with what they were reckoned from, what a user costs, and all that was assumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, TextIO

from agentenv.cli.review.cost import changed
from agentenv.core.cost.lines import plain
from agentenv.core.prices.book import STALE_DAYS
from agentenv.core.prices.units import apportioned, cents

if TYPE_CHECKING:
    from agentenv.core.cost.estimate import Estimate
    from agentenv.core.cost.lines import Line
    from agentenv.core.cost.sensitivity import Move

_PART, _MONEY = 36, 10


@dataclass(frozen=True)
class Told:
    """What is told: the estimate for each number of users, and what it is compared with where it is."""

    found: tuple[Estimate, ...]
    compared: str | None  # the revision
    before: Estimate | None
    moved: tuple[Move, ...]
    today: date


def write(told: Told, out: TextIO) -> None:
    """All of it; of several numbers of users, the lines are for the first."""
    first = told.found[0]
    spent = plain(first.active_hours)
    print(
        f"{first.users} users with {spent} active hours a month, in {first.region}; dollars a month\n",
        file=out,
    )
    shown = dict(zip(map(id, first.lines), apportioned(line.monthly for line in first.lines), strict=True))
    for title, fixed in (("whoever comes", True), ("with the users", False)):
        rows = [line for line in first.lines if line.fixed is fixed]
        print(f"  {title}", file=out)
        for line in rows:
            print(_row(line, shown[id(line)]), file=out)
        print(f"    {'':{_PART}}{sum((shown[id(line)] for line in rows), start=Decimal(0)):>{_MONEY}.2f}\n", file=out)
    enough = first.break_even_users
    way = f"from {enough} users on" if enough else f"never: a user's own part alone is ${cents(first.variable_month)}"
    print(
        f"  in all ${sum(shown.values(), start=Decimal(0))} a month, ${cents(first.per_user_month)} a user;", file=out
    )
    print(f"  ${first.target:.2f} a user or less {way}\n", file=out)
    _others(told.found, out)
    _classes(first, out)
    if told.compared:
        _compared(first, told.before, told.compared, out)
    if told.moved:
        print("  what moves the cost of a user most, each a fifth larger", file=out)
        for one in told.moved:
            print(f"    {one.what:{_PART + _MONEY}}{one.change:>+8.2f}", file=out)
        print(file=out)
    _assumed(first, told.today, out)


def _row(line: Line, cost: Decimal) -> str:
    return f"    {line.part:{_PART}}{cost:>{_MONEY}.2f}  {line.basis}"


def _others(found: Sequence[Estimate], out: TextIO) -> None:
    if len(found) > 1:
        print("  by users", file=out)
        for one in found:
            print(
                f"    {one.users:>9}  ${cents(one.per_user_month)} a user, ${cents(one.total_month)} in all", file=out
            )
        print(file=out)


def _classes(first: Estimate, out: TextIO) -> None:
    if first.by_class:
        spent = plain(first.active_hours)
        print(f"  by class: what stands there, an hour, and a user with {spent} hours in it", file=out)
        for one in first.by_class:
            amounts = f"{cents(one.fixed_month):>10}{one.hour:>10.4f}{cents(one.per_user_month):>10}"
            print(f"    {one.name:20}{amounts}  {one.basis}", file=out)
        print(file=out)


def _compared(first: Estimate, before: Estimate | None, compared: str, out: TextIO) -> None:
    if before is None:
        print(f"  {compared} has no such stack, or one that is not understood here\n", file=out)
        return
    print(f"  against {compared}: before, after, difference", file=out)
    for part, then, now in changed(before, first):
        print(f"    {part:{_PART}}{cents(then):>10}{cents(now):>10}{cents(now - then):>+10}", file=out)
    whole = (before.total_month, first.total_month)
    print(
        f"    {'in all':{_PART}}{cents(whole[0]):>10}{cents(whole[1]):>10}{cents(whole[1] - whole[0]):>+10}", file=out
    )
    each = (before.per_user_month, first.per_user_month)
    print(f"    {'a user':{_PART}}{cents(each[0]):>10}{cents(each[1]):>10}{cents(each[1] - each[0]):>+10}\n", file=out)


def _assumed(first: Estimate, today: date, out: TextIO) -> None:
    print("  assumed", file=out)
    for one in first.assumptions:
        print(f"    {one.name:18}{one.value:>8f} {one.kind:13} {one.says}", file=out)
    print(file=out)
    for remark in first.remarks:
        print(f"  {remark}", file=out)
    age = (today - first.prices_of).days
    stale = f" `agentenv prices refresh --region {first.region}` looks them up anew." if age > STALE_DAYS else ""
    print(f"  The oldest of these prices was looked at on {first.prices_of}, {age} days ago.{stale}", file=out)
