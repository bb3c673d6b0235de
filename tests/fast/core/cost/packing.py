"""A simulation of nodes with slots, claimed sandboxes and seats over weeks, for the average number of nodes.

Pods go to the node with most room, as EKS's scheduler has them; claims go to the node with most slots, as the
agent-sandbox controller has them; and Karpenter gives up a node when it is empty, or when others have room for the
slots on it and nothing on it is claimed. No pod is ever moved that somebody has claimed.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

from agentenv.config.sections.classes import Pool
from agentenv.core.cost.pool_week import DAY, size_at

WEEKS = 4
QUIET = 5  # minutes without change on a node before it may go
SESSION = 120.0  # minutes on average
MORNING, EVENING = 7 * 60 + 30, 17 * 60
Arrivals = Literal["in office hours", "at all hours"]


@dataclass(eq=False)
class Pod:
    """One of them, on its node; `claimed` once somebody has it."""

    node: int
    pool: str
    claimed: bool = False


@dataclass
class Nodes:
    """The nodes there are, and what is on them."""

    holds: int
    moving: bool
    pods: dict[int, list[Pod]] = field(default_factory=dict[int, list[Pod]])
    touched: dict[int, float] = field(default_factory=dict[int, float])
    numbers: count[int] = field(default_factory=count)

    def place(self, pool: str, now: float) -> Pod:
        """A pod on the node with most room, or on another one."""
        room = [(len(pods), node) for node, pods in self.pods.items() if len(pods) < self.holds]
        node = min(room)[1] if room else next(self.numbers)
        pod = Pod(node, pool)
        self.pods.setdefault(node, []).append(pod)
        self.touched[node] = now
        return pod

    def end(self, pod: Pod, now: float) -> None:
        """A pod's end."""
        self.pods[pod.node].remove(pod)
        self.touched[pod.node] = now

    def given_up(self, now: float) -> list[Pod] | None:
        """Return the pods of the first node that may be removed, and remove it; None if no node may be."""
        for node in sorted(self.pods, key=lambda node: len(self.pods[node])):
            there = self.pods[node]
            elsewhere = sum(self.holds - len(pods) for other, pods in self.pods.items() if other != node)
            free = not there or (self.moving and not any(pod.claimed for pod in there) and elsewhere >= len(there))
            if free and now - self.touched[node] >= QUIET:
                return self.pods.pop(node)
        return None


@dataclass(frozen=True)
class Month:
    """The result of a simulated month."""

    nodes: float  # on average
    launched: float  # a month


def month(
    pools: Mapping[str, Pool],
    seats: int,
    holds: int,
    users: int,
    *,
    hours: int = 40,
    arrivals: Arrivals = "in office hours",
    moving: bool = True,
    seed: int = 1,
) -> Month:
    """Users who are active for so many hours a month, all in the first of the pools."""
    chance, nodes, order = random.Random(seed), Nodes(holds, moving), count()  # noqa: S311 - no secret
    slots: dict[str, list[Pod]] = {name: [] for name in pools}
    first, whole = next(iter(pools)), WEEKS * 7 * DAY
    events: list[tuple[float, int, str, Pod | None]] = []

    def at(when: float, what: str, pod: Pod | None = None) -> None:
        heapq.heappush(events, (when, next(order), what, pod))

    def fill(name: str, now: float) -> None:
        target, there = size_at(pools[name], int(now) % (7 * DAY)), slots[name]
        while len(there) > target:
            nodes.end(there.pop(chance.randrange(len(there))), now)
        there += [nodes.place(name, now) for _ in range(target - len(there))]

    for _ in range(round(users * hours * 60 / SESSION * WEEKS * 7 * 12 / 365)):
        office = arrivals == "in office hours"
        day = chance.choice([day for day in range(WEEKS * 7) if not office or day % 7 < 5])
        at(day * DAY + (chance.uniform(MORNING, EVENING) if office else chance.uniform(0, DAY)), "claim")
    for _ in range(seats):
        nodes.place("", 0).claimed = True
    for minute in range(0, whole, QUIET):
        at(minute, "look")
    then, spent = 0.0, 0.0
    while events and events[0][0] < whole:
        now, _, what, pod = heapq.heappop(events)
        spent, then = spent + len(nodes.pods) * (now - then), now
        if what == "claim":
            pod = _taken(slots[first]) or nodes.place(first, now)
            pod.claimed = True
            at(now + chance.expovariate(1 / SESSION), "end", pod)
            fill(first, now)
        elif pod is not None:
            nodes.end(pod, now)
        else:
            for name in pools:
                fill(name, now)
            for moved in nodes.given_up(now) or ():
                slots[moved.pool].remove(moved)
                fill(moved.pool, now)
    return Month(spent / then, next(nodes.numbers) * 365 / 12 / (WEEKS * 7))


def _taken(slots: list[Pod]) -> Pod | None:
    """A slot of the node that has most of them, the oldest first."""
    if not slots:
        return None
    by_node = Counter(pod.node for pod in slots)
    found = max(slots, key=lambda pod: by_node[pod.node])
    slots.remove(found)
    return found
