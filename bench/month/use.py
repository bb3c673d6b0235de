"""What runs in sandboxes: little most of the time, and bursts of builds and tests, of known length and size.

What of a node a sandbox holds at an instant is what is set aside for it or what it uses, whichever is more. Bursts are
known exactly, so that the whole is an integral without error; what a meter sees of it is what a meter would see.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from bench.month.cluster import Pod
from bench.month.people import CLASSES, SUSPEND_AFTER

MINUTE, HOUR = 60, 3600
LOST_SCRAPES = 0.01  # of minutes, each for itself
OUTAGE = (17 * 86_400 + 9 * HOUR, 17 * 86_400 + 9 * HOUR + 40 * MINUTE)  # when nothing at all was measured


@dataclass
class Held:
    """Core-seconds and GiB-seconds."""

    cores: float = 0.0
    gib: float = 0.0


@dataclass
class Use:
    """What one pod held and moved: by hour as it was, and in all as meters saw it, before and after it was claimed."""

    by_hour: dict[tuple[int, bool], Held] = field(default_factory=lambda: defaultdict(Held))  # hour, whether claimed
    bytes_by_hour: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    seen: dict[int, Held] = field(default_factory=lambda: defaultdict(Held))  # by day, while claimed
    seen_warm: Held = field(default_factory=Held)
    seen_bytes: dict[int, float] = field(default_factory=lambda: defaultdict(float))


def use(chance: random.Random, pod: Pod) -> Use:
    """Draw what happens in a pod."""
    found = Use()
    kind = CLASSES[pod.kind]
    claimed = pod.ended if pod.adopted is None else pod.adopted
    for began, ended, whose in ((pod.born, claimed, False), (claimed, pod.ended, True)):
        for hour, length in _by(began, ended, HOUR):
            held = found.by_hour[hour, whose]
            held.cores += kind.cores * length
            held.gib += kind.gib * length
        for day, length in _by(began, ended, 24 * HOUR):
            held = found.seen[day] if whose else found.seen_warm
            held.cores += kind.cores * length
            held.gib += kind.gib * length
    if pod.adopted is not None and pod.session is not None:
        # Whoever works is not put to sleep: what is before the end of a person's session is silence.
        quiet = 0 if pod.session.mode == "agent" else SUSPEND_AFTER
        until = min(pod.ended, pod.session.ended - quiet)
        phase = chance.uniform(0, 30)
        for began, length, cores, gib, moved in _bursts(chance, pod.adopted, until, kind.cores):
            _add(found, began, length, max(cores - kind.cores, 0), max(gib - kind.gib, 0))
            found.bytes_by_hour[began // HOUR] += moved
            _see(chance, found, (began, length, phase), (kind.cores, cores), (kind.gib, gib))
            # Bytes are counters: what a lost scrape did not see, the next one does; after the last there is no next.
            seen = min(max((pod.ended - phase - began) / length, 0.0), 1.0)
            found.seen_bytes[began // (24 * HOUR)] += moved * seen
    return found


def _bursts(
    chance: random.Random, began: int, ended: int, reserved: float
) -> Iterator[tuple[int, int, float, float, float]]:
    """When, how long, cores and GiB in use, bytes moved; one after the other."""
    now = began
    while True:
        now += 20 + round(chance.expovariate(1 / 420))
        length = min(10 + round(chance.expovariate(1 / 110)), 1200)
        if now + length > ended:
            return
        cores = reserved * chance.uniform(0.5, 12)
        yield now, length, min(cores, 2.0), chance.uniform(0.2, 1.6), chance.lognormvariate(15.5, 1.3)
        now += length


def _add(found: Use, began: int, length: int, cores: float, gib: float) -> None:
    """What a burst holds beyond what is set aside."""
    for hour, seconds in _by(began, began + length, HOUR):
        held = found.by_hour[hour, True]
        held.cores += cores * seconds
        held.gib += gib * seconds


def _see(
    chance: random.Random,
    found: Use,
    when: tuple[int, int, float],
    cores: tuple[float, float],
    gib: tuple[float, float],
) -> None:
    """What the rules of each minute make of a burst: the mean of the minute that was scraped, if it was."""
    began, length, phase = when
    for minute, seconds in _by(began + phase, began + length + phase, MINUTE):
        if OUTAGE[0] <= minute * MINUTE < OUTAGE[1] or chance.random() < LOST_SCRAPES:
            continue
        share = seconds / MINUTE
        held = found.seen[began // (24 * HOUR)]
        mean = cores[0] * 0.4 * (1 - share) + cores[1] * share
        held.cores += max(mean - cores[0], 0) * MINUTE
        # Memory is a gauge: the rule has it as it stood when it was scraped.
        held.gib += max(gib[1] - gib[0], 0) * MINUTE * (chance.random() < share)


def _by(began: float, ended: float, step: int) -> Iterator[tuple[int, float]]:
    """Each step of an interval, and how much of it is in there."""
    while began < ended:
        number = int(began // step)
        end = min(ended, (number + 1) * step)
        yield number, end - began
        began = end
