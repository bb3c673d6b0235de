"""Compute the figures of a cost report from a statement, all in cents that add up to the bill."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from agentenv.core.attribution.apportion import cents
from agentenv.core.attribution.statement import Statement, in_cents
from agentenv.core.attribution.types import MEANINGS, METERED, NOBODY, PARTS, SHARED, TITLES, Part
from agentenv.core.ledger.rows import NO_POD, Row

NOTHING = Decimal(0)


@dataclass(frozen=True)
class ReportContext:
    """The environment, period and limits of a report."""

    environment: str
    since: datetime
    until: datetime
    cap: Decimal | None = None  # dollars an owner and month
    budget: Decimal | None = None  # dollars a month
    left_out: Decimal = NOTHING
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class PartView:
    """One part of the bill."""

    part: Part
    title: str
    meaning: str
    metered: bool
    amount: Decimal
    share: Decimal  # percent of the bill


@dataclass(frozen=True)
class OwnerView:
    """One owner."""

    owner: str
    total: Decimal
    parts: Mapping[Part, Decimal]
    classes: str
    hours: Decimal
    gib: Decimal  # stored on average
    over: bool


@dataclass(frozen=True)
class DayView:
    """One day."""

    day: str
    total: Decimal
    parts: Mapping[Part, Decimal]


@dataclass(frozen=True)
class ClassView:
    """One class of sandboxes."""

    name: str
    owners: int
    hours: Decimal
    compute: Decimal
    idle: Decimal
    pool: Decimal
    an_hour: Decimal | None  # of the three amounts together


@dataclass(frozen=True)
class View:
    """All figures of the report."""

    context: ReportContext
    bill: Decimal
    parts: Sequence[PartView]
    owners: Sequence[OwnerView]
    days: Sequence[DayView]
    classes: Sequence[ClassView]
    metered: Decimal  # percent
    median: Decimal
    asleep: int  # owners with files and without a running sandbox
    over: int
    unowned: Decimal
    estimated: Decimal  # percent of the hours with requests instead of usage

    @property
    def month(self) -> Decimal:
        """Return the cost of thirty days at this rate."""
        seconds = Decimal((self.context.until - self.context.since).total_seconds())
        return cents(self.bill * 30 * 86_400 / seconds)


def cost_view(statement: Statement, rows: Sequence[Row], context: ReportContext) -> View:
    """Compute the figures of a report."""
    lines, bill = statement.lines(), cents(statement.bill)
    owners = _owners(lines, rows, context)
    hours = sum((row.seconds for row in rows if row.pod != NO_POD), NOTHING)
    requested = sum((row.seconds for row in rows if row.pod != NO_POD and row.source.startswith("requests")), NOTHING)
    totals = sorted(row.total for row in owners)
    return View(
        context=context,
        bill=bill,
        parts=_parts(statement.parts(), bill),
        owners=owners,
        days=_days(statement, bill),
        classes=_classes(statement, rows),
        metered=(statement.metered_share() * 100).quantize(Decimal("0.1")),
        median=totals[len(totals) // 2] if totals else NOTHING,
        asleep=sum(not row.hours for row in owners),
        over=sum(row.over for row in owners),
        unowned=sum((amount for (owner, _), amount in lines.items() if owner == NOBODY), NOTHING),
        estimated=(requested / hours * 100).quantize(Decimal("0.1")) if hours else NOTHING,
    )


def _parts(amounts: Mapping[Part, Decimal], bill: Decimal) -> list[PartView]:
    """Return the metered parts, then the shared parts, each in descending order."""
    ordered: list[Part] = [
        *sorted(METERED, key=lambda part: -amounts[part]),
        *sorted(SHARED, key=lambda part: -amounts[part]),
    ]
    return [
        PartView(part, TITLES[part], MEANINGS[part], part in METERED, amounts[part], _percent(amounts[part], bill))
        for part in ordered
    ]


def _owners(lines: Mapping[tuple[str, Part], Decimal], rows: Sequence[Row], context: ReportContext) -> list[OwnerView]:
    parts: defaultdict[str, dict[Part, Decimal]] = defaultdict(dict)
    for (owner, part), amount in lines.items():
        if owner != NOBODY:
            parts[owner][part] = amount
    seconds: defaultdict[str, Decimal] = defaultdict(lambda: NOTHING)
    stored: defaultdict[str, Decimal] = defaultdict(lambda: NOTHING)
    classes: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        classes[row.owner].add(row.sandbox_class)
        stored[row.owner] += row.storage_gib_hours
        if row.pod != NO_POD:
            seconds[row.owner] += row.seconds
    period_hours = Decimal((context.until - context.since).total_seconds()) / 3600
    found: list[OwnerView] = []
    for owner, amounts in parts.items():
        total = sum(amounts.values(), NOTHING)
        found.append(
            OwnerView(
                owner=owner,
                total=total,
                parts={part: amounts.get(part, NOTHING) for part in PARTS},
                classes=", ".join(sorted(classes[owner])),
                hours=(seconds[owner] / 3600).quantize(Decimal("0.1")),
                gib=(stored[owner] / period_hours).quantize(Decimal("0.01")),
                over=context.cap is not None and total > context.cap,
            )
        )
    return sorted(found, key=lambda row: (-row.total, row.owner))


def _days(statement: Statement, bill: Decimal) -> list[DayView]:
    exact = statement.total(lambda entry: (entry.day, entry.part))
    amounts = in_cents(exact, bill)
    found: list[DayView] = []
    for day in statement.days():
        parts: dict[Part, Decimal] = {part: amounts.get((day, part), NOTHING) for part in PARTS}
        found.append(DayView(day, sum(parts.values(), NOTHING), parts))
    return found


def _classes(statement: Statement, rows: Sequence[Row]) -> list[ClassView]:
    amounts = statement.total(lambda entry: (entry.sandbox_class, entry.part))
    seconds: defaultdict[str, Decimal] = defaultdict(lambda: NOTHING)
    owners: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row.pod != NO_POD:
            seconds[row.sandbox_class] += row.seconds
            owners[row.sandbox_class].add(row.owner)
    found: list[ClassView] = []
    for name in sorted(seconds):
        compute, idle, pool = (amounts.get((name, part), NOTHING) for part in ("compute", "idle", "pool"))
        hours = seconds[name] / 3600
        an_hour = ((compute + idle + pool) / hours).quantize(Decimal("0.0001")) if hours else None
        shown = hours.quantize(Decimal("0.1"))
        found.append(ClassView(name, len(owners[name]), shown, cents(compute), cents(idle), cents(pool), an_hour))
    return found


def _percent(amount: Decimal, whole: Decimal) -> Decimal:
    return (amount / whole * 100).quantize(Decimal("0.1")) if whole else NOTHING
