"""Puts sandboxes on nodes: slots that wait, claims that take them, nodes that are bought, emptied and lost.

Everything happens second by second in the order of time. A node is bought where nothing fits, and given back some
minutes after it has emptied; a Spot node may be lost with all on it, and who worked there goes on elsewhere.
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
LOST_AN_HOUR = 0.006
# Name, cores, GiB, dollars an hour on demand.
TYPES = (("m7g.large", 2, 8, 0.0816), ("m8g.xlarge", 4, 16, 0.17952), ("c7g.2xlarge", 8, 16, 0.29))
# What of a node pods may have, after the kubelet and the daemons.
ALLOCATABLE = 0.84


@dataclass
class Node:
    """A machine, while there is one."""

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
    """A sandbox on a node: born, perhaps warm for a while, then somebody's."""

    name: str
    kind: str
    node: str
    born: int
    adopted: int | None = None
    ended: int = MONTH
    session: Session | None = None


class Cluster:
    """A month of a cluster, as it happened."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.nodes: dict[str, Node] = {}
        self.pods: list[Pod] = []
        self.lost = self.cold = 0
        self._up: dict[str, Node] = {}
        self._ready: dict[str, deque[Pod]] = {name: deque() for name in CLASSES}
        self._events: list[tuple[int, int, str, object]] = []
        self._count = itertools.count()

    def run(self, wanted: list[Session]) -> Cluster:
        """Let the month happen."""
        for kind in CLASSES.values():
            for _ in range(kind.slots):
                self._at(0, "slot", kind.name)
        for one in wanted:
            self._at(one.began, "want", one)
        steps = {"slot": self._slot, "want": self._want, "end": self._end, "check": self._check, "lose": self._lose}
        while self._events:
            now, _, what, about = heapq.heappop(self._events)
            if now >= MONTH:
                break
            steps[what](now, about)
        return self

    def _at(self, when: int, what: str, about: object) -> None:
        heapq.heappush(self._events, (when, next(self._count), what, about))

    def _slot(self, now: int, kind: object) -> None:
        self._ready[str(kind)].append(self._start(now, str(kind)))

    def _want(self, now: int, session: object) -> None:
        assert isinstance(session, Session)  # noqa: S101 - what the event is made with
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
        asked = CLASSES[kind]
        fitting = [n for n in self._up.values() if n.free_cores >= asked.cores and n.free_gib >= asked.gib]
        node = min(fitting, key=lambda one: (one.free_cores, one.name)) if fitting else self._buy(now)
        pod = Pod(f"p-{len(self.pods):06d}", kind, node.name, now)
        self.pods.append(pod)
        node.pods[pod.name] = pod
        node.free_cores -= asked.cores
        node.free_gib -= asked.gib
        return pod

    def _buy(self, now: int) -> Node:
        name, cores, gib, price = self.chance.choice(TYPES)
        spot = self.chance.random() < 0.85
        node = Node(f"i-{len(self.nodes):05d}", name, cores, gib, price, spot, now)
        node.free_cores, node.free_gib = cores * ALLOCATABLE, gib * ALLOCATABLE
        self.nodes[node.name] = self._up[node.name] = node
        if spot:
            self._at(now + 1 + round(self.chance.expovariate(LOST_AN_HOUR) * 3600), "lose", node)
        return node

    def _end(self, now: int, pod: object) -> None:
        assert isinstance(pod, Pod)  # noqa: S101 - what the event is made with
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
        assert isinstance(node, Node)  # noqa: S101 - what the event is made with
        if not node.pods and now - node.emptied >= EMPTY_FOR:
            self._give_back(now, node)

    def _lose(self, now: int, node: object) -> None:
        assert isinstance(node, Node)  # noqa: S101 - what the event is made with
        if node.name not in self._up:
            return
        self.lost += 1
        self._give_back(now, node)
        for pod in list(node.pods.values()):
            self._remove(now, pod)
            session = pod.session
            if session is None:
                self._ready[pod.kind].remove(pod)
                self._at(now + REPLENISH, "slot", pod.kind)
            elif session.ended > now + RESTART:
                rest = Session(**{**vars(session), "began": now + RESTART, "fresh": False})
                self._at(now + RESTART - WAKE, "want", rest)

    def _give_back(self, now: int, node: Node) -> None:
        node.gone = now
        self._up.pop(node.name, None)
