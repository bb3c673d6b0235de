"""Say what an environment costs a month, before it is there: from its stack file, a price book and named assumptions.

Nothing is asked of an account. Every line says what it was reckoned from, every assumption is printed and can be set
otherwise, and prices have a day. A region without prices is refused.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentenv.cli.main import OK, Refusal

if TYPE_CHECKING:
    from agentenv.cli.reports.estimate_view import Told
    from agentenv.config import Settings
    from agentenv.core.cost.estimate import Estimate, Model
    from agentenv.core.cost.sensitivity import Move

PLOTTED_HOURS = (Decimal(20), Decimal(40), Decimal(80), Decimal(160), Decimal(730))
MOST_USERS = 10_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--stack", "-s", metavar="S", help="which stack: stacks/Pulumi.<S>.yaml")
    which.add_argument("--file", "-f", metavar="F", type=Path, help="another stack file, Pulumi.<stack>.yaml")
    parser.add_argument(
        "--users", type=numbers, metavar="N[,N…]", help="for how many; what the stack expects if left out"
    )
    parser.add_argument("--active-hours", type=hours, metavar="H", help="hours a month that each of them is active")
    parser.add_argument(
        "--mix", type=pairs, metavar="C=S,…", help="in which classes, as shares: standard=0.9,batch=0.1"
    )
    parser.add_argument("--assume", type=pairs, default={}, metavar="A=V,…", help="assumptions to set otherwise")
    parser.add_argument("--compare", metavar="REV", help="with the stack file of another revision, such as origin/main")
    parser.add_argument("--sensitivity", action="store_true", help="what moves the cost of a user most")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw dollars a user; a .png, .svg or .html file")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")


def numbers(text: str) -> list[int]:
    """Numbers of users."""
    found = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() for word in found):
        raise argparse.ArgumentTypeError(f"'{text}' is no list of numbers of users, such as 10,100,1000")
    if beyond := [word for word in found if not 1 <= int(word) <= MOST_USERS]:
        raise argparse.ArgumentTypeError(f"{beyond[0]} users cannot be estimated; allowed is 1 to {MOST_USERS}")
    return [int(word) for word in found]


def hours(text: str) -> Decimal:
    """Hours of a month."""
    try:
        found = Decimal(text)
    except InvalidOperation:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of hours") from None
    if not found.is_finite():
        raise argparse.ArgumentTypeError(f"'{text}' is no number of hours")
    if not 0 <= found <= 730:
        raise argparse.ArgumentTypeError(f"a month has 730 hours, so '{text}' of them cannot be active")
    return found


def pairs(text: str) -> dict[str, str]:
    """Names with values."""
    found: dict[str, str] = {}
    for word in text.split(","):
        name, is_pair, value = word.partition("=")
        if not is_pair or not name.strip() or not value.strip():
            raise argparse.ArgumentTypeError(f"'{word}' is no pair such as home=5")
        found[name.strip()] = value.strip()
    return found


@dataclass(frozen=True)
class Asked:
    """What is to be estimated, whatever the revision."""

    users: list[int]
    active_hours: Decimal
    mix: dict[str, str] | None
    assume: dict[str, str]

    def model(self, settings: Settings, active_hours: Decimal | None = None) -> Model:
        """What follows from settings; refused with the way out where there are no prices or no sense."""
        from agentenv.core.cost.assumptions import Assumptions
        from agentenv.core.cost.estimate import model
        from agentenv.core.prices.book import MissingPricesError

        shares = None if self.mix is None else {name: share_of(name, text) for name, text in self.mix.items()}
        spent = self.active_hours if active_hours is None else active_hours
        try:
            return model(settings, spent, taken=Assumptions().but(self.assume), mix=shares)
        except (MissingPricesError, ValueError) as wrong:
            raise Refusal(str(wrong)) from wrong


def share_of(name: str, text: str) -> Decimal:
    """A class's share of a user's hours."""
    try:
        share = Decimal(text)
    except InvalidOperation:
        raise Refusal("the shares of --mix are numbers, such as standard=0.9,batch=0.1") from None
    if not share.is_finite() or not 0 <= share <= 1:
        raise Refusal(f"the share of {name} is {text}; allowed is 0 to 1")
    return share


def run(args: argparse.Namespace) -> int:
    """Estimate, draw, and print."""
    from agentenv.cli.project import root
    from agentenv.cli.reports.estimate_view import Told, write

    settings = here(args.stack, args.file)
    asked = Asked(
        args.users or [settings.cost.expected_users],
        Decimal(settings.cost.active_hours) if args.active_hours is None else args.active_hours,
        args.mix,
        args.assume,
    )
    reckoned = asked.model(settings)
    found = [reckoned.of(users) for users in asked.users]
    before = None
    if args.compare:
        if args.file:
            raise Refusal("--compare reads another revision of a stack of the checkout: name it with --stack")
        then = there(root(), args.stack, args.compare)
        before = None if then is None else asked.model(then).of(asked.users[0])
    moved = moving(asked, settings, found[0]) if args.sensitivity else []
    if args.plot:
        draw(asked, settings, args.plot)
    told = Told(tuple(found), args.compare, before, tuple(moved), datetime.now(UTC).date())
    if args.json:
        sys.stdout.write(json.dumps(as_json(told)) + "\n")
    else:
        write(told, sys.stdout)
    return OK


def here(stack: str | None, file: Path | None) -> Settings:
    """The settings of a stack file as it stands."""
    from agentenv.cli.commands.check import files
    from agentenv.cli.stack_files import settings_of_file

    ((path, name),) = files(stack, file)  # refuses a stack without a file
    settings = settings_of_file(path, name)
    if settings is None:
        where = f"--file {file}" if file else f"--stack {stack}"
        raise Refusal(f"{file or f'stacks/{path.name}'} has mistakes; `agentenv check {where}` lists them")
    return settings


def there(root: Path, stack: str, revision: str) -> Settings | None:
    """The settings at another revision, None where it has no such stack or we cannot read it."""
    from agentenv.cli.review.offline import settings_at

    return settings_at(root, stack, revision)


def moving(asked: Asked, settings: Settings, found: Estimate) -> list[Move]:
    """What moves the cost of a user most."""
    from agentenv.core.cost.sensitivity import moves

    return moves(
        found.per_user_month,
        found.assumptions,
        lambda changed: (
            Asked(asked.users, asked.active_hours, asked.mix, {**asked.assume, **changed})
            .model(settings)
            .of(found.users)
            .per_user_month
        ),
    )


def draw(asked: Asked, settings: Settings, file: Path) -> None:
    """Dollars a user over users, a line for each number of hours."""
    from agentenv.cli.reports.plots import plot_estimate

    over = sorted({*asked.users, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000})
    drawn: dict[Decimal, list[tuple[int, Decimal]]] = {}
    for spent in sorted({*PLOTTED_HOURS, asked.active_hours}):
        reckoned = asked.model(settings, spent)
        drawn[spent] = [(users, reckoned.of(users).per_user_month) for users in over]
    cap = settings.cost.per_user_cap or Decimal(3)
    plot_estimate(drawn, cap, f"Environment {settings.environment} in {settings.region}", file)


def as_json(told: Told) -> dict[str, Any]:
    """In the words of the command's contract, and more; lines in whole cents that sum to the whole."""
    from agentenv.core.prices.units import apportioned

    first, before = told.found[0], told.before
    shown = apportioned(line.monthly for line in first.lines)
    row: dict[str, Any] = {
        "region": first.region,
        "users": first.users,
        "active_hours": float(first.active_hours),
        "fixed_month": _cents(first.fixed_month),
        "variable_month_per_user": _cents(first.variable_month),
        "total_month": float(sum(shown, start=Decimal(0))),
        "per_user_month": _cents(first.per_user_month),
        "target": float(first.target),
        "break_even_users": first.break_even_users,
        "lines": [
            {
                "part": line.part,
                "monthly": float(cost),
                "basis": line.basis,
                "fixed": line.fixed,
                "class": line.sandbox_class,
            }
            for line, cost in zip(first.lines, shown, strict=True)
        ],
        "by_class": [
            {
                "name": one.name,
                "fixed_month": _cents(one.fixed_month),
                "hour": float(round(one.hour, 6)),
                "per_user_month": _cents(one.per_user_month),
                "basis": one.basis,
            }
            for one in first.by_class
        ],
        "assumptions": [
            {"name": one.name, "value": float(one.value), "unit": one.kind, "says": one.says}
            for one in first.assumptions
        ],
        "prices": {"date": first.prices_of.isoformat(), "age_days": (told.today - first.prices_of).days},
        "remarks": list(first.remarks),
    }
    if len(told.found) > 1:
        row["by_users"] = [{"users": one.users, "per_user_month": _cents(one.per_user_month)} for one in told.found]
    if told.moved:
        row["sensitivity"] = [{"what": one.what, "per_user_change": _cents(one.change)} for one in told.moved]
    if told.compared:
        row["compare"] = {
            "revision": told.compared,
            "total_month": None if before is None else _cents(before.total_month),
            "per_user_month": None if before is None else _cents(before.per_user_month),
        }
    return row


def _cents(amount: Decimal) -> float:
    """Whole cents, as JSON has numbers; nothing is reckoned with them any more."""
    return float(round(amount, 2))
