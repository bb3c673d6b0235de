"""Compute the geometry of the charts in a report, for the SVG of its template."""

from __future__ import annotations

import math
from calendar import month_abbr
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from agentenv.cli.reports.cost_view import DayView, OwnerView
from agentenv.core.attribution.types import PARTS


@dataclass(frozen=True)
class Box:
    """A rectangle with a colour and a tooltip."""

    x: float
    y: float
    width: float
    height: float
    colour: str
    tooltip: str


@dataclass(frozen=True)
class Tick:
    """A mark on an axis."""

    at: float
    label: str


@dataclass(frozen=True)
class Chart:
    """A chart: its size, plot area, bars and axis ticks."""

    width: float
    height: float
    left: float
    bottom: float
    boxes: Sequence[Box]
    across: Sequence[Tick]
    up: Sequence[Tick]
    mark: Tick | None = None  # a vertical line


WIDTH, LEFT, RIGHT, TOP, BOTTOM = 960.0, 44.0, 18.0, 10.0, 26.0
BINS = 40


def days_chart(days: Sequence[DayView], height: float = 250) -> Chart:
    """Return a stacked bar chart of dollars a day, by parts of the bill."""
    most = max((day.total for day in days), default=Decimal(1))
    steps, top = scale(float(most))
    floor, room = height - BOTTOM, height - BOTTOM - TOP
    step = (WIDTH - LEFT - RIGHT) / max(len(days), 1)
    boxes: list[Box] = []
    for number, day in enumerate(days):
        base = floor
        for part in PARTS:
            amount = float(max(day.parts[part], Decimal(0)))
            if amount <= 0:
                continue
            size = amount / top * room
            base -= size
            tooltip = f"{day.day}: {_dollars(day.parts[part])} of {_dollars(day.total)}"
            boxes.append(Box(LEFT + step * (number + 0.1), base, step * 0.8, size, part, tooltip))
    every = max(math.ceil(len(days) / 10), 1)
    across = [
        Tick(LEFT + step * (number + 0.5), f"{int(day.day[8:])} {month_abbr[int(day.day[5:7])]}")
        for number, day in enumerate(days)
        if number % every == 0
    ]
    up = [Tick(floor - value / top * room, f"${value:g}") for value in steps]
    return Chart(WIDTH, height, LEFT, floor, boxes, across, up)


def owners_chart(owners: Sequence[OwnerView], cap: Decimal | None, height: float = 210) -> Chart:
    """Return a histogram of owners by cost, with a line at the cap."""
    totals = [float(row.total) for row in owners]
    steps, top = scale(max([*totals, float(cap or 0)], default=1.0), about=10)
    # A bin ends at the cap, so that no bin has owners on both sides of it.
    wide = float(cap) / max(round(float(cap) / (top / BINS)), 1) if cap else top / BINS
    counts = [0] * math.ceil(top / wide)
    for total in totals:
        counts[min(max(math.ceil(total / wide - 1e-9) - 1, 0), len(counts) - 1)] += 1
    marks, most = scale(max([*counts, 1]))
    floor, room, across = height - BOTTOM, height - BOTTOM - TOP, WIDTH - LEFT - RIGHT
    step = wide / top * across
    boxes: list[Box] = []
    for number, count in enumerate(counts):
        if count:
            low, high = number * wide, (number + 1) * wide
            over = cap is not None and low >= float(cap) - 1e-9
            size = count / most * room
            tooltip = f"{count} owe ${low:.2f} to ${high:.2f}"
            boxes.append(
                Box(LEFT + step * number + 1, floor - size, step - 2, size, "over" if over else "within", tooltip)
            )
    return Chart(
        WIDTH, height, LEFT, floor, boxes,
        [Tick(LEFT + value / top * across, f"${value:g}") for value in steps],
        [Tick(floor - value / most * room, f"{value:g}") for value in marks if value == int(value)],
        None if cap is None else Tick(LEFT + float(cap) / top * across, f"cap {_dollars(cap)}"),
    )  # fmt: skip


def scale(most: float, about: int = 4) -> tuple[list[float], float]:
    """Return round axis ticks from zero, and the end of the axis: the first tick that is not below the maximum."""
    if most <= 0:
        return [0.0, 1.0], 1.0
    rough = most / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999999)
    count = math.ceil(most / step - 1e-9)
    return [round(step * number, 10) for number in range(count + 1)], step * count


def _dollars(amount: Decimal) -> str:
    return f"${amount:,.2f}"
