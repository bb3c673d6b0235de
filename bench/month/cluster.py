"""Simulate a cluster: warm slots, claims that adopt them, and nodes that are added, emptied and interrupted.

Events are processed in the order of time, to the second. A node is added if no other has room, and removed some minutes
after it is empty. A Spot node can be interrupted with its sandboxes, whose sessions continue on other nodes.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from dataclasses import dataclass, field

from bench.month.people import CLASSES, MONTH, Session

REPLENISH = 30
WAKE = 4
RESTART = 90
EMPTY_FOR = 300
INTERRUPTIONS_AN_HOUR = 0.006
# Name, cores, GiB, dollars an hour on demand.
TYPES = (("m7g.large", 2, 8, 0.0816), ("m8g.xlarge", 4, 16, 0.17952), ("c7g.2xlarge", 8, 16, 0.29))
# The share of a node for pods, without the kubelet and daemons.
ALLOCATABLE = 0.84


@dataclass
class Node:
    """A node, from its start to its end."""

    name: str
    kind: str
    cores: float
    gib: float
    price: float  # dollars an hour, before Spot
    spot: bool
    born: int
    gone: int = MONTH
    free_cores: float = 0
    free_gib: float = 0
    pods: dict[str, Pod] = field(default_factory=dict)
    emptied: int = 0


@dataclass
class Pod:
    """A sandbox on a node: created, warm for a while, then adopted."""

    name: str
    kind: str
    node: str
    born: int
    adopted: int | None = None
    ended: int = MONTH
    session: Session | None = None


class Cluster:
    """A simulated month of a cluster."""

    def __init__(self, random_: random.Random) -> None:
        self.random_ = random_
        self.nodes: dict[str, Node] = {}
        self.pods: list[Pod] = []
        self.lost = self.cold = 0
        self._up: dict[str, Node] = {}
        self._ready: dict[str, deque[Pod]] = {name: deque() for name in CLASSES}
        self._events: list[tuple[int, int, str, object]] = []
        self._count = itertools.count()

    def run(self, sessions: list[Session]) -> Cluster:
        """Simulate the month."""
        for kind in CLASSES.values():
            for _ in range(kind.slots):
                self._at(0, "slot", kind.name)
        for session in sessions:
            self._at(session.began, "want", session)
        steps = {
            "slot": self._slot,
            "want": self._claim,
            "end": self._end,
            "check": self._check,
            "lose": self._interrupt,
        }
        while self._events:
            now, _, event_type, subject = heapq.heappop(self._events)
            if now >= MONTH:
                break
            steps[event_type](now, subject)
        return self

    def _at(self, time: int, event_type: str, subject: object) -> None:
        heapq.heappush(self._events, (time, next(self._count), event_type, subject))

    def _slot(self, now: int, kind: object) -> None:
        self._ready[str(kind)].append(self._start(now, str(kind)))

    def _claim(self, now: int, session: object) -> None:
        assert isinstance(session, Session)  # noqa: S101 - the type of this event's subject
        ready = self._ready[session.kind]
        if session.fresh and ready:
            pod = ready.popleft()
            self._at(now + REPLENISH, "slot", session.kind)
        else:
            self.cold += session.fresh
            pod = self._start(now + WAKE, session.kind)
        pod.adopted, pod.session = max(now, pod.born), session
        self._at(session.ended, "end", pod)

    def _start(self, now: int, kind: str) -> Pod:
        requests = CLASSES[kind]
        fitting = [n for n in self._up.values() if n.free_cores >= requests.cores and n.free_gib >= requests.gib]
        node = min(fitting, key=lambda session: (session.free_cores, session.name)) if fitting else self._add_node(now)
        pod = Pod(f"p-{len(self.pods):06d}", kind, node.name, now)
        self.pods.append(pod)
        node.pods[pod.name] = pod
        node.free_cores -= requests.cores
        node.free_gib -= requests.gib
        return pod

    def _add_node(self, now: int) -> Node:
        name, cores, gib, price = self.random_.choice(TYPES)
        spot = self.random_.random() < 0.85
        node = Node(f"i-{len(self.nodes):05d}", name, cores, gib, price, spot, now)
        node.free_cores, node.free_gib = cores * ALLOCATABLE, gib * ALLOCATABLE
        self.nodes[node.name] = self._up[node.name] = node
        if spot:
            self._at(now + 1 + round(self.random_.expovariate(INTERRUPTIONS_AN_HOUR) * 3600), "lose", node)
        return node

    def _end(self, now: int, pod: object) -> None:
        assert isinstance(pod, Pod)  # noqa: S101 - the type of this event's subject
        if pod.ended == MONTH and pod.session:
            self._remove(now, pod)

    def _remove(self, now: int, pod: Pod) -> None:
        pod.ended = now
        node = self.nodes[pod.node]
        del node.pods[pod.name]
        node.free_cores += CLASSES[pod.kind].cores
        node.free_gib += CLASSES[pod.kind].gib
        if not node.pods:
            node.emptied = now
            self._at(now + EMPTY_FOR, "check", node)

    def _check(self, now: int, node: object) -> None:
        assert isinstance(node, Node)  # noqa: S101 - the type of this event's subject
        if not node.pods and now - node.emptied >= EMPTY_FOR:
            self._remove_node(now, node)

    def _interrupt(self, now: int, node: object) -> None:
        assert isinstance(node, Node)  # noqa: S101 - the type of this event's subject
        if node.name not in self._up:
            return
        self.lost += 1
        self._remove_node(now, node)
        for pod in list(node.pods.values()):
            self._remove(now, pod)
            session = pod.session
            if session is None:
                self._ready[pod.kind].remove(pod)
                self._at(now + REPLENISH, "slot", pod.kind)
            elif session.ended > now + RESTART:
                rest = Session(**{**vars(session), "began": now + RESTART, "fresh": False})
                self._at(now + RESTART - WAKE, "want", rest)

    def _remove_node(self, now: int, node: Node) -> None:
        node.gone = now
        self._up.pop(node.name, None)
