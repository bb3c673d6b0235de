"""The election: one leads, by a lease whose times nobody compares with their own clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from service.cluster import LEASES, Document, RefusedError
from service.loops.leading import NAME, TERMS, Leader, ServerClock
from tests.fast.service.shelf import Shelf

START = datetime(2026, 11, 18, 12, tzinfo=UTC)


class Server(Shelf):
    """Writes down when it took a lease, by a clock of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.time = START
        self.down = False

    def put(self, kind: Any, document: Document) -> None:
        told = self.time.strftime("%Y-%m-%dT%H:%M:%SZ")
        document["metadata"]["managedFields"] = [{"manager": "agentenv", "time": told}]
        super().put(kind, document)

    def find(self, kind: Any, name: str, namespace: str | None = None) -> Document | None:
        if self.down:
            raise RefusedError("it is away", 503)
        return super().find(kind, name, namespace)


class Replica:
    """One, with a monotonic clock that starts anywhere and a wall clock that is off."""

    def __init__(self, server: Server, name: str, off: timedelta = timedelta(0)) -> None:
        self.server, self.ticks = server, 0.0
        self.clock = ServerClock(lambda: server.time + off)
        self.leader = Leader(server, "default", name, clock=self.clock, monotonic=lambda: self.ticks)


def later(server: Server, seconds: float, *replicas: Replica) -> None:
    server.time += timedelta(seconds=seconds)
    for one in replicas:
        one.ticks += seconds


def test_one_leads_and_the_other_does_when_it_is_gone() -> None:
    server = Server()
    one, other = Replica(server, "a"), Replica(server, "b")
    assert (one.leader.stand(), other.leader.stand()) == (True, False)
    for _ in range(10):
        later(server, 3, one, other)
        assert (one.leader.stand(), other.leader.stand()) == (True, False)
    # Gone: the other one waits for as long as the lease lasts, since it last saw it change.
    later(server, TERMS.lasts, other)
    assert not other.leader.stand()
    later(server, 1, other)
    assert other.leader.stand()
    lease = server.find(LEASES, NAME, "default")
    assert lease is not None
    assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseTransitions"]) == ("b", 1)
    # Back again, it finds somebody else there.
    assert not one.leader.stand()


def test_clocks_that_are_hours_apart_make_no_difference() -> None:
    server = Server()
    one = Replica(server, "a", timedelta(hours=5))
    other = Replica(server, "b", -timedelta(hours=7))
    assert one.leader.stand()
    for _ in range(20):
        later(server, 3, one, other)
        assert (one.leader.stand(), other.leader.stand()) == (True, False)


def test_whoever_cannot_renew_stops_before_anybody_else_begins() -> None:
    server = Server()
    one, other = Replica(server, "a"), Replica(server, "b")
    one.leader.stand()
    other.leader.stand()
    server.down = True
    times: list[tuple[bool, bool]] = []
    for second in range(int(TERMS.lasts) + 5):
        later(server, 1, one, other)
        server.down = second < TERMS.gives_up + 2
        times.append((one.leader.leads(), other.leader.stand()))
        assert times[-1] != (True, True)
    assert times[-1][1]


def test_of_many_that_want_it_at_once_one_has_it() -> None:
    server = Server()
    replicas = [Replica(server, f"r{number}") for number in range(5)]
    assert [one.leader.stand() for one in replicas] == [True, False, False, False, False]
    # All saw it run out at the same moment; the second to write is told.
    later(server, TERMS.lasts + 1, *replicas)
    waiting = replicas[1:]
    assert [one.leader.stand() for one in waiting].count(True) == 1


def test_one_that_resigns_is_followed_at_once() -> None:
    server = Server()
    one, other = Replica(server, "a"), Replica(server, "b")
    one.leader.stand()
    other.leader.stand()
    one.leader.resign()
    assert not one.leader.leads()
    assert other.leader.stand()
    # Not the leader: nothing of somebody else's is taken away.
    one.leader.resign()
    later(server, 3, one, other)
    assert other.leader.stand()


def test_the_servers_clock_is_what_is_decided_by() -> None:
    server = Server()
    ahead = Replica(server, "a", timedelta(minutes=40))
    ahead.leader.stand()
    assert not ahead.clock.known
    later(server, 3, ahead)
    ahead.leader.stand()
    assert ahead.clock.known
    assert abs(ahead.clock.now() - server.time) < timedelta(seconds=1)
    # A second is no difference: the server tells no more.
    near = Replica(server, "a", timedelta(seconds=1))
    near.leader.stand()
    later(server, 3, near)
    near.leader.stand()
    assert near.clock.offset == timedelta(0)
