"""Estimate the monthly cost of an environment from its stack file, a price book and named assumptions.

No AWS account is used. Every line has its basis, every assumption is printed and can be changed, and prices have a
date. A region without prices is an error.
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

from agentenv.cli.arguments import add_stack_options
from agentenv.cli.main import OK, CommandError

if TYPE_CHECKING:
    from agentenv.cli.reports.estimate_view import EstimateReport
    from agentenv.config import Settings
    from agentenv.core.cost.estimate import Estimate, Model
    from agentenv.core.cost.sensitivity import Move

PLOTTED_HOURS = (Decimal(20), Decimal(40), Decimal(80), Decimal(160), Decimal(730))
MAX_USERS = 10_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_stack_options(parser)
    parser.add_argument(
        "--users", type=parse_user_counts, metavar="N[,N…]", help="numbers of users (default: as the stack expects)"
    )
    parser.add_argument("--active-hours", type=parse_hours, metavar="H", help="active hours a user and month")
    parser.add_argument(
        "--mix", type=parse_pairs, metavar="C=S,…", help="share of hours by class: standard=0.9,batch=0.1"
    )
    parser.add_argument("--assume", type=parse_pairs, default={}, metavar="A=V,…", help="values for assumptions")
    parser.add_argument("--compare", metavar="REV", help="compare with another revision, such as origin/main")
    parser.add_argument("--sensitivity", action="store_true", help="show what changes the cost of a user most")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="plot dollars a user, as .png, .svg or .html")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")


def parse_user_counts(text: str) -> list[int]:
    """Parse numbers of users."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() for word in words):
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of numbers of users, such as 10,100,1000")
    if invalid := [word for word in words if not 1 <= int(word) <= MAX_USERS]:
        raise argparse.ArgumentTypeError(f"{invalid[0]} users cannot be estimated; allowed is 1 to {MAX_USERS}")
    return [int(word) for word in words]


def parse_hours(text: str) -> Decimal:
    """Parse the hours of a month."""
    try:
        hours = Decimal(text)
    except InvalidOperation:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of hours") from None
    if not hours.is_finite():
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of hours")
    if not 0 <= hours <= 730:
        raise argparse.ArgumentTypeError(f"a month has 730 hours; {text} is outside 0 to 730")
    return hours


def parse_pairs(text: str) -> dict[str, str]:
    """Parse a list of NAME=VALUE."""
    values: dict[str, str] = {}
    for word in text.split(","):
        name, is_pair, value = word.partition("=")
        if not is_pair or not name.strip() or not value.strip():
            raise argparse.ArgumentTypeError(f"'{word}' is not NAME=VALUE, such as home=5")
        values[name.strip()] = value.strip()
    return values


@dataclass(frozen=True)
class EstimateRequest:
    """The options of an estimate, independent of the revision."""

    users: list[int]
    active_hours: Decimal
    mix: dict[str, str] | None
    assume: dict[str, str]

    def model(self, settings: Settings, active_hours: Decimal | None = None) -> Model:
        """Return the cost model of settings. Missing prices and invalid values are a `CommandError`."""
        from agentenv.core.cost.assumptions import Assumptions
        from agentenv.core.cost.estimate import model
        from agentenv.core.prices.book import MissingPricesError

        shares = None if self.mix is None else {name: class_share(name, text) for name, text in self.mix.items()}
        hours = self.active_hours if active_hours is None else active_hours
        try:
            return model(settings, hours, taken=Assumptions().but(self.assume), mix=shares)
        except (MissingPricesError, ValueError) as error:
            raise CommandError(str(error)) from error


def class_share(name: str, text: str) -> Decimal:
    """Parse the share of a user's hours in a class."""
    try:
        share = Decimal(text)
    except InvalidOperation:
        raise CommandError("the shares of --mix are numbers, such as standard=0.9,batch=0.1") from None
    if not share.is_finite() or not 0 <= share <= 1:
        raise CommandError(f"the share of {name} is {text}; allowed is 0 to 1")
    return share


def run(args: argparse.Namespace) -> int:
    """Estimate, plot and print."""
    from agentenv.cli.reports.estimate_view import EstimateReport, write
    from agentenv.cli.stack_files import selected_settings

    settings = selected_settings(args.stack, args.file)
    request = EstimateRequest(
        args.users or [settings.cost.expected_users],
        Decimal(settings.cost.active_hours) if args.active_hours is None else args.active_hours,
        args.mix,
        args.assume,
    )
    model = request.model(settings)
    estimates = [model.of(users) for users in request.users]
    before = None
    if args.compare:
        if args.file:
            raise CommandError("--compare reads another revision of a stack of the checkout: name it with --stack")
        from agentenv.cli.project import project
        from agentenv.cli.review.offline import settings_at  # the only part that needs the extra `rehearsal`

        earlier = settings_at(project().folder, args.stack, args.compare)
        before = None if earlier is None else request.model(earlier).of(request.users[0])
    moves = sensitivity(request, settings, estimates[0]) if args.sensitivity else []
    if args.plot:
        draw_plot(request, settings, args.plot)
    report = EstimateReport(tuple(estimates), args.compare, before, tuple(moves), datetime.now(UTC).date())
    if args.json:
        sys.stdout.write(json.dumps(as_json(report)) + "\n")
    else:
        write(report, sys.stdout)
    return OK


def sensitivity(request: EstimateRequest, settings: Settings, estimate: Estimate) -> list[Move]:
    """Return the assumptions that change the cost of a user most."""
    from agentenv.core.cost.sensitivity import moves

    return moves(
        estimate.per_user_month,
        estimate.assumptions,
        lambda changed: (
            EstimateRequest(request.users, request.active_hours, request.mix, {**request.assume, **changed})
            .model(settings)
            .of(estimate.users)
            .per_user_month
        ),
    )


def draw_plot(request: EstimateRequest, settings: Settings, file: Path) -> None:
    """Plot dollars a user over the number of users, with a line for each number of active hours."""
    from agentenv.cli.reports.plots import plot_estimate

    counts = sorted({*request.users, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000})
    lines: dict[Decimal, list[tuple[int, Decimal]]] = {}
    for hours in sorted({*PLOTTED_HOURS, request.active_hours}):
        model = request.model(settings, hours)
        lines[hours] = [(users, model.of(users).per_user_month) for users in counts]
    cap = settings.cost.per_user_cap or Decimal(3)
    plot_estimate(lines, cap, f"Environment {settings.environment} in {settings.region}", file)


def as_json(report: EstimateReport) -> dict[str, Any]:
    """Return the report as the command's JSON has it. The lines are in whole cents that sum to the total."""
    from agentenv.core.prices.units import apportioned

    first, before = report.estimates[0], report.before
    cents_of_lines = apportioned(line.monthly for line in first.lines)
    document: dict[str, Any] = {
        "region": first.region,
        "users": first.users,
        "active_hours": float(first.active_hours),
        "fixed_month": _cents(first.fixed_month),
        "variable_month_per_user": _cents(first.variable_month),
        "total_month": float(sum(cents_of_lines, start=Decimal(0))),
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
            for line, cost in zip(first.lines, cents_of_lines, strict=True)
        ],
        "by_class": [
            {
                "name": row.name,
                "fixed_month": _cents(row.fixed_month),
                "hour": float(round(row.hour, 6)),
                "per_user_month": _cents(row.per_user_month),
                "basis": row.basis,
            }
            for row in first.by_class
        ],
        "assumptions": [
            {"name": row.name, "value": float(row.value), "unit": row.kind, "says": row.meaning}
            for row in first.assumptions
        ],
        "prices": {"date": first.prices_of.isoformat(), "age_days": (report.today - first.prices_of).days},
        "remarks": list(first.remarks),
    }
    if len(report.estimates) > 1:
        document["by_users"] = [
            {"users": estimate.users, "per_user_month": _cents(estimate.per_user_month)}
            for estimate in report.estimates
        ]
    if report.moves:
        document["sensitivity"] = [{"what": move.what, "per_user_change": _cents(move.change)} for move in report.moves]
    if report.revision:
        document["compare"] = {
            "revision": report.revision,
            "total_month": None if before is None else _cents(before.total_month),
            "per_user_month": None if before is None else _cents(before.per_user_month),
        }
    return document


def _cents(amount: Decimal) -> float:
    """Return an amount in whole cents as a JSON number, for output alone."""
    return float(round(amount, 2))
