"""Draw the owners and their sessions: persistent workspaces, chats with a new workspace each, and a swarm of agents."""

from __future__ import annotations

import random
from dataclasses import dataclass

DAY = 86_400
DAYS = 30
MONTH = DAYS * DAY
SUSPEND_AFTER = 20 * 60


@dataclass(frozen=True)
class Kind:
    """A class of sandboxes, with the requests of one."""

    name: str
    cores: float
    gib: float
    slots: int


CLASSES = {
    kind.name: kind
    for kind in (Kind("standard", 0.1, 0.5, 14), Kind("reviewer", 0.1, 0.25, 6), Kind("builder", 0.5, 2.0, 3))
}


@dataclass(frozen=True)
class Session:
    """The use of a sandbox by an owner, from its start to its end."""

    owner: str
    claim: str
    kind: str
    began: int
    ended: int
    mode: str
    fresh: bool  # claims a slot; otherwise it resumes a suspended workspace
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


def people(random_: random.Random, count: int) -> list[Person]:
    """Draw owners: most are active for forty hours, some hardly, some always; a few join during the month."""
    found: list[Person] = []
    for number in range(count):
        kind = random_.choices(["standard", "builder"], [9, 1])[0]
        joined = random_.choices([0, random_.randrange(MONTH * 2 // 3)], [85, 15])[0]
        found.append(
            Person(
                name=f"u-{number:04d}",
                kind=kind,
                mode=random_.choices(["user", "session"], [55, 45])[0],
                joined=joined,
                hours=min(random_.lognormvariate(3.4, 0.7), 300.0),
                home_gib=min(random_.lognormvariate(0.4, 0.8), 20.0),
                growth=random_.uniform(0, 0.02),
            )
        )
    return found


def sessions(random_: random.Random, owners: list[Person]) -> list[Session]:
    """Draw all sessions of a month, and one swarm: sixty reviewers for one owner, for three hours of a working day."""
    found: list[Session] = []
    for person in owners:
        # Suspended all month: only their files have a cost.
        if random_.random() < 0.06:
            continue
        found += _of(random_, person)
    day = 9 * DAY + 10 * 3600
    end = day + 3 * 3600
    owner = owners[len(owners) // 2].name
    found += [
        Session(
            owner, f"c-swarm-{n:02d}", "reviewer", day + n // 4, end - random_.randrange(1800), "agent", True, "t-1"
        )
        for n in range(60)
    ]
    return sorted(found, key=lambda session: (session.began, session.claim))


def _of(random_: random.Random, person: Person) -> list[Session]:
    length = 1.4 * 3600
    count_ = max(1, round(person.hours * 3600 / length * (1 - person.joined / MONTH)))
    starts = sorted(_start(random_, person) for _ in range(count_))
    found: list[Session] = []
    free = 0
    for number, start in enumerate(starts):
        began = max(start, free)
        ended = began + round(min(max(random_.expovariate(1 / length), 240), 9 * 3600)) + SUSPEND_AFTER
        if ended >= MONTH:
            break
        own = person.mode == "session"
        claim = f"c-{person.name}-{number}" if own else f"c-{person.name}"
        found.append(Session(person.name, claim, person.kind, began, ended, person.mode, own or not found))
        free = ended + 60
    return found


def _start(random_: random.Random, person: Person) -> int:
    """Draw a start time, mostly in working hours."""
    while True:
        moment = random_.randrange(person.joined, MONTH)
        hour, weekday = moment % DAY / 3600, moment // DAY % 7
        probability = (0.15 if weekday >= 5 else 1.0) * (1.0 if 8 <= hour < 18 else 0.12)
        if random_.random() < probability:
            return moment
