"""What a cost report shows: the figures of a statement as people look at them, all in cents that add up to the bill."""

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
class About:
    """What the figures are of."""

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
    share: Decimal  # of the bill, in per cent


@dataclass(frozen=True)
class OwnerView:
    """One owner."""

    owner: str
    total: Decimal
    parts: Mapping[Part, Decimal]
    classes: str
    hours: Decimal
    gib: Decimal  # kept on average
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
    an_hour: Decimal | None  # of the three together


@dataclass(frozen=True)
class View:
    """Everything that is shown."""

    about: About
    bill: Decimal
    parts: Sequence[PartView]
    owners: Sequence[OwnerView]
    days: Sequence[DayView]
    classes: Sequence[ClassView]
    metered: Decimal  # per cent
    median: Decimal
    asleep: int  # owners who had files and no sandbox
    over: int
    nobody: Decimal
    estimated: Decimal  # per cent of held hours of which only requests are known

    @property
    def month(self) -> Decimal:
        """What a month of thirty days costs at this rate."""
        seconds = Decimal((self.about.until - self.about.since).total_seconds())
        return cents(self.bill * 30 * 86_400 / seconds)


def view(statement: Statement, rows: Sequence[Row], about: About) -> View:
    """The figures."""
    lines, bill = statement.lines(), cents(statement.bill)
    owners = _owners(lines, rows, about)
    hours = sum((row.seconds for row in rows if row.pod != NO_POD), NOTHING)
    guessed = sum((row.seconds for row in rows if row.pod != NO_POD and row.source.startswith("requests")), NOTHING)
    totals = sorted(one.total for one in owners)
    return View(
        about=about,
        bill=bill,
        parts=_parts(statement.parts(), bill),
        owners=owners,
        days=_days(statement, bill),
        classes=_classes(statement, rows),
        metered=(statement.metered_share() * 100).quantize(Decimal("0.1")),
        median=totals[len(totals) // 2] if totals else NOTHING,
        asleep=sum(not one.hours for one in owners),
        over=sum(one.over for one in owners),
        nobody=sum((amount for (owner, _), amount in lines.items() if owner == NOBODY), NOTHING),
        estimated=(guessed / hours * 100).quantize(Decimal("0.1")) if hours else NOTHING,
    )


def _parts(amounts: Mapping[Part, Decimal], bill: Decimal) -> list[PartView]:
    """The parts: those that are metered, then those that are shared, each by size."""
    ordered: list[Part] = [
        *sorted(METERED, key=lambda one: -amounts[one]),
        *sorted(SHARED, key=lambda one: -amounts[one]),
    ]
    return [
        PartView(part, TITLES[part], MEANINGS[part], part in METERED, amounts[part], _percent(amounts[part], bill))
        for part in ordered
    ]


def _owners(lines: Mapping[tuple[str, Part], Decimal], rows: Sequence[Row], about: About) -> list[OwnerView]:
    parts: defaultdict[str, dict[Part, Decimal]] = defaultdict(dict)
    for (owner, part), amount in lines.items():
        if owner != NOBODY:
            parts[owner][part] = amount
    seconds: defaultdict[str, Decimal] = defaultdict(lambda: NOTHING)
    kept: defaultdict[str, Decimal] = defaultdict(lambda: NOTHING)
    classes: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        classes[row.owner].add(row.sandbox_class)
        kept[row.owner] += row.storage_gib_hours
        if row.pod != NO_POD:
            seconds[row.owner] += row.seconds
    long = Decimal((about.until - about.since).total_seconds()) / 3600
    found: list[OwnerView] = []
    for owner, of in parts.items():
        total = sum(of.values(), NOTHING)
        found.append(
            OwnerView(
                owner=owner,
                total=total,
                parts={part: of.get(part, NOTHING) for part in PARTS},
                classes=", ".join(sorted(classes[owner])),
                hours=(seconds[owner] / 3600).quantize(Decimal("0.1")),
                gib=(kept[owner] / long).quantize(Decimal("0.01")),
                over=about.cap is not None and total > about.cap,
            )
        )
    return sorted(found, key=lambda one: (-one.total, one.owner))


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
