"""Who works when: people whose one workspace sleeps and wakes, chats with a fresh one each, a swarm of agents."""

from __future__ import annotations

import random
from dataclasses import dataclass

DAY = 86_400
DAYS = 30
MONTH = DAYS * DAY
SUSPEND_AFTER = 20 * 60


@dataclass(frozen=True)
class Kind:
    """A class of sandboxes: what is set aside for one."""

    name: str
    cores: float
    gib: float
    slots: int


CLASSES = {
    one.name: one
    for one in (Kind("standard", 0.1, 0.5, 14), Kind("reviewer", 0.1, 0.25, 6), Kind("builder", 0.5, 2.0, 3))
}


@dataclass(frozen=True)
class Session:
    """Somebody wants a sandbox from then to then."""

    owner: str
    claim: str
    kind: str
    began: int
    ended: int
    mode: str
    fresh: bool  # claims a slot; else it wakes a workspace that sleeps
    task: str = ""


@dataclass(frozen=True)
class Person:
    """One owner."""

    name: str
    kind: str
    mode: str
    joined: int
    hours: float  # active in the month
    home_gib: float
    growth: float  # of the home, a day


def people(chance: random.Random, count: int) -> list[Person]:
    """So many owners: most work forty hours, some hardly, some all the time; a few come in the middle of the month."""
    found: list[Person] = []
    for number in range(count):
        kind = chance.choices(["standard", "builder"], [9, 1])[0]
        joined = chance.choices([0, chance.randrange(MONTH * 2 // 3)], [85, 15])[0]
        found.append(
            Person(
                name=f"u-{number:04d}",
                kind=kind,
                mode=chance.choices(["user", "session"], [55, 45])[0],
                joined=joined,
                hours=min(chance.lognormvariate(3.4, 0.7), 300.0),
                home_gib=min(chance.lognormvariate(0.4, 0.8), 20.0),
                growth=chance.uniform(0, 0.02),
            )
        )
    return found


def sessions(chance: random.Random, everybody: list[Person]) -> list[Session]:
    """All sessions of a month, and one swarm: sixty reviewers for one owner, for three hours of a working day."""
    found: list[Session] = []
    for person in everybody:
        # Asleep all month: their files cost, and nothing else.
        if chance.random() < 0.06:
            continue
        found += _of(chance, person)
    day = 9 * DAY + 10 * 3600
    end = day + 3 * 3600
    owner = everybody[len(everybody) // 2].name
    found += [
        Session(owner, f"c-swarm-{n:02d}", "reviewer", day + n // 4, end - chance.randrange(1800), "agent", True, "t-1")
        for n in range(60)
    ]
    return sorted(found, key=lambda one: (one.began, one.claim))


def _of(chance: random.Random, person: Person) -> list[Session]:
    length = 1.4 * 3600
    wanted = max(1, round(person.hours * 3600 / length * (1 - person.joined / MONTH)))
    starts = sorted(_start(chance, person) for _ in range(wanted))
    found: list[Session] = []
    free = 0
    for number, start in enumerate(starts):
        began = max(start, free)
        ended = began + round(min(max(chance.expovariate(1 / length), 240), 9 * 3600)) + SUSPEND_AFTER
        if ended >= MONTH:
            break
        own = person.mode == "session"
        claim = f"c-{person.name}-{number}" if own else f"c-{person.name}"
        found.append(Session(person.name, claim, person.kind, began, ended, person.mode, own or not found))
        free = ended + 60
    return found


def _start(chance: random.Random, person: Person) -> int:
    """A moment of a working day, mostly."""
    while True:
        moment = chance.randrange(person.joined, MONTH)
        hour, weekday = moment % DAY / 3600, moment // DAY % 7
        likely = (0.15 if weekday >= 5 else 1.0) * (1.0 if 8 <= hour < 18 else 0.12)
        if chance.random() < likely:
            return moment
