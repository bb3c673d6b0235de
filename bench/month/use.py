"""Draw the usage of sandboxes: mostly idle, with bursts of builds and tests of known length and size.

A sandbox's allocation at a time is its request or its usage, whichever is higher. Bursts are known exactly, so that the
total has no error. The metered amounts have the errors of real metrics.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from bench.month.cluster import Pod
from bench.month.people import CLASSES, SUSPEND_AFTER

MINUTE, HOUR = 60, 3600
LOST_SCRAPES = 0.01  # probability for each minute
OUTAGE = (17 * 86_400 + 9 * HOUR, 17 * 86_400 + 9 * HOUR + 40 * MINUTE)  # an outage of all metrics


@dataclass
class Amounts:
    """Core-seconds and GiB-seconds."""

    cores: float = 0.0
    gib: float = 0.0


@dataclass
class Use:
    """The usage of one pod: exact amounts by hour, and metered amounts, before and after it was claimed."""

    by_hour: dict[tuple[int, bool], Amounts] = field(
        default_factory=lambda: defaultdict(Amounts)
    )  # hour, whether claimed
    bytes_by_hour: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    metered: dict[int, Amounts] = field(default_factory=lambda: defaultdict(Amounts))  # by day, while claimed
    metered_warm: Amounts = field(default_factory=Amounts)
    metered_bytes: dict[int, float] = field(default_factory=lambda: defaultdict(float))


def use(random_: random.Random, pod: Pod) -> Use:
    """Draw the usage of a pod."""
    use_ = Use()
    kind = CLASSES[pod.kind]
    claimed = pod.ended if pod.adopted is None else pod.adopted
    for began, ended, claimed_ in ((pod.born, claimed, False), (claimed, pod.ended, True)):
        for hour, length in _by_step(began, ended, HOUR):
            amounts = use_.by_hour[hour, claimed_]
            amounts.cores += kind.cores * length
            amounts.gib += kind.gib * length
        for day, length in _by_step(began, ended, 24 * HOUR):
            amounts = use_.metered[day] if claimed_ else use_.metered_warm
            amounts.cores += kind.cores * length
            amounts.gib += kind.gib * length
    if pod.adopted is not None and pod.session is not None:
        # An active session is not suspended, so it ends with idle time.
        quiet = 0 if pod.session.mode == "agent" else SUSPEND_AFTER
        until = min(pod.ended, pod.session.ended - quiet)
        phase = random_.uniform(0, 30)
        for began, length, cores, gib, bytes_ in _bursts(random_, pod.adopted, until, kind.cores):
            _add(use_, began, length, max(cores - kind.cores, 0), max(gib - kind.gib, 0))
            use_.bytes_by_hour[began // HOUR] += bytes_
            _meter(random_, use_, (began, length, phase), (kind.cores, cores), (kind.gib, gib))
            # Bytes are counters: the next scrape has what a lost one missed, except after the last.
            metered = min(max((pod.ended - phase - began) / length, 0.0), 1.0)
            use_.metered_bytes[began // (24 * HOUR)] += bytes_ * metered
    return use_


def _bursts(
    random_: random.Random, began: int, ended: int, reserved: float
) -> Iterator[tuple[int, int, float, float, float]]:
    """Yield bursts in order: start, length, cores and GiB in use, and bytes."""
    now = began
    while True:
        now += 20 + round(random_.expovariate(1 / 420))
        length = min(10 + round(random_.expovariate(1 / 110)), 1200)
        if now + length > ended:
            return
        cores = reserved * random_.uniform(0.5, 12)
        yield now, length, min(cores, 2.0), random_.uniform(0.2, 1.6), random_.lognormvariate(15.5, 1.3)
        now += length


def _add(use_: Use, began: int, length: int, cores: float, gib: float) -> None:
    """Add the usage of a burst beyond the request."""
    for hour, seconds in _by_step(began, began + length, HOUR):
        amounts = use_.by_hour[hour, True]
        amounts.cores += cores * seconds
        amounts.gib += gib * seconds


def _meter(
    random_: random.Random,
    use_: Use,
    interval: tuple[int, int, float],
    cores: tuple[float, float],
    gib: tuple[float, float],
) -> None:
    """Add the metered amounts of a burst: the mean of each minute, if it was scraped."""
    began, length, phase = interval
    for minute, seconds in _by_step(began + phase, began + length + phase, MINUTE):
        if OUTAGE[0] <= minute * MINUTE < OUTAGE[1] or random_.random() < LOST_SCRAPES:
            continue
        share = seconds / MINUTE
        amounts = use_.metered[began // (24 * HOUR)]
        mean = cores[0] * 0.4 * (1 - share) + cores[1] * share
        amounts.cores += max(mean - cores[0], 0) * MINUTE
        # Memory is a gauge: the metric has its value at the scrape.
        amounts.gib += max(gib[1] - gib[0], 0) * MINUTE * (random_.random() < share)


def _by_step(began: float, ended: float, step: int) -> Iterator[tuple[int, float]]:
    """Yield each step of an interval, with its overlap."""
    while began < ended:
        number = int(began // step)
        end = min(ended, (number + 1) * step)
        yield number, end - began
        began = end
