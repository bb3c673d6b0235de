"""One replica leads, by a lease whose times are never compared with another clock."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from agentenv.core.values.timestamps import format_timestamp
from agentenv.service.kube.client import CLAIMS, LEASES, MANAGER, Document, KubeApiError
from agentenv.service.kube.clock import ServerClock
from agentenv.service.loops.leader_election import NAME, TERMS, Leader
from agentenv.service.loops.runner import lead
from agentenv.service.loops.scheduler import Loop, Scheduler
from agentenv.service.loops.workspace_passes import end_expired, suspend_idle
from agentenv.service.telemetry.metrics import Metrics
from tests.fast.service.fake_api_server import Api, FakeApiServer, run
from tests.fast.service.loops.cluster import Cluster

START = datetime(2026, 11, 18, 12, tzinfo=UTC)


class Server(FakeApiServer):
    """Writes down when it took a lease, by a clock of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.time = START
        self.down = False
        self.sends_time = True
        self.loses_responses = False

    def put(self, kind: Any, document: Document) -> None:
        server_time = self.time.strftime("%Y-%m-%dT%H:%M:%SZ")
        document["metadata"]["managedFields"] = [{"manager": MANAGER, "time": server_time}] if self.sends_time else []
        super().put(kind, document)

    def patch(self, kind: Any, existing: Document, changes: Document) -> bool:
        done = super().patch(kind, existing, changes)
        if self.loses_responses:
            raise KubeApiError("its answer never came", 504)
        return done

    def find(self, kind: Any, name: str, namespace: str | None = None) -> Document | None:
        if self.down:
            raise KubeApiError("it is away", 503)
        return super().find(kind, name, namespace)


class Replica:
    """One, with a monotonic clock that starts anywhere and a wall clock that is off."""

    def __init__(self, server: Server, name: str, off: timedelta = timedelta(0)) -> None:
        self.server, self.ticks = server, 0.0
        self.off = off
        self.clock = ServerClock(lambda: server.time + self.off, monotonic=lambda: self.ticks)
        self.leader = Leader(Api(server), "default", name, clock=self.clock, monotonic=lambda: self.ticks)


def later(server: Server, seconds: float, *replicas: Replica) -> None:
    server.time += timedelta(seconds=seconds)
    for replica in replicas:
        replica.ticks += seconds


def test_another_replica_leads_when_the_leader_is_gone() -> None:
    server = Server()
    first, second = Replica(server, "a"), Replica(server, "b")
    assert (run(first.leader.renew), run(second.leader.renew)) == (True, False)
    for _ in range(10):
        later(server, 3, first, second)
        assert (run(first.leader.renew), run(second.leader.renew)) == (True, False)
    # Gone: the other one waits for as long as the lease lasts, since it last saw it change.
    later(server, TERMS.lasts, second)
    assert not run(second.leader.renew)
    later(server, 1, second)
    assert run(second.leader.renew)
    lease = server.find(LEASES, NAME, "default")
    assert lease is not None
    assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseTransitions"]) == ("b", 1)
    # Back again, it finds somebody else there.
    assert not run(first.leader.renew)


def test_clocks_that_are_hours_apart_make_no_difference() -> None:
    server = Server()
    first = Replica(server, "a", timedelta(hours=5))
    second = Replica(server, "b", -timedelta(hours=7))
    assert run(first.leader.renew)
    for _ in range(20):
        later(server, 3, first, second)
        assert (run(first.leader.renew), run(second.leader.renew)) == (True, False)


def test_a_leader_that_cannot_renew_stops_before_another_starts() -> None:
    server = Server()
    first, other = Replica(server, "a"), Replica(server, "b")
    run(first.leader.renew)
    run(other.leader.renew)
    server.down = True
    times: list[tuple[bool, bool]] = []
    for second in range(int(TERMS.lasts) + 5):
        later(server, 1, first, other)
        server.down = second < TERMS.gives_up + 2
        times.append((first.leader.is_leader(), run(other.leader.renew)))
        assert times[-1] != (True, True)
    assert times[-1][1]


def test_one_of_many_candidates_leads() -> None:
    server = Server()
    replicas = [Replica(server, f"r{number}") for number in range(5)]
    assert [run(replica.leader.renew) for replica in replicas] == [True, False, False, False, False]
    # All saw it run out at the same moment; the second to write is told.
    later(server, TERMS.lasts + 1, *replicas)
    waiting = replicas[1:]
    assert [run(replica.leader.renew) for replica in waiting].count(True) == 1


def test_a_resigned_leader_is_replaced_at_once() -> None:
    server = Server()
    first, second = Replica(server, "a"), Replica(server, "b")
    run(first.leader.renew)
    run(second.leader.renew)
    run(first.leader.resign)
    assert not first.leader.is_leader()
    assert run(second.leader.renew)
    # Not the leader: nothing of somebody else's is taken away.
    run(first.leader.resign)
    later(server, 3, first, second)
    assert run(second.leader.renew)


def test_the_leader_uses_the_servers_clock_from_the_start() -> None:
    server = Server()
    ahead = Replica(server, "a", timedelta(minutes=40))
    assert not ahead.clock.known
    assert run(ahead.leader.renew)
    assert ahead.clock.known
    for off in (40, -40, 0):
        # Whatever becomes of its own clock meanwhile.
        ahead.off = timedelta(minutes=off)
        assert abs(ahead.clock.now() - server.time) < timedelta(seconds=1)
        later(server, 3, ahead)
        assert abs(ahead.clock.now() - server.time) < timedelta(seconds=1)
        assert run(ahead.leader.renew)


def test_a_new_term_discards_the_clock_of_the_earlier_one() -> None:
    server = Server()
    first, second = Replica(server, "a", -timedelta(days=60)), Replica(server, "b")
    assert run(first.leader.renew)
    later(server, 3, first, second)
    assert run(first.leader.renew)
    run(second.leader.renew)
    # It cannot ask for a while, and its clock is put right meanwhile.
    later(server, TERMS.lasts + 1, first, second)
    assert run(second.leader.renew)
    first.off = timedelta(0)
    assert not run(first.leader.renew)
    later(server, TERMS.lasts + 1, first)
    assert not first.clock.known
    run(second.leader.resign)
    assert run(first.leader.renew)
    assert abs(first.clock.now() - server.time) < timedelta(seconds=1)


def test_a_replica_that_does_not_know_the_time_does_not_lead() -> None:
    server = Server()
    first = Replica(server, "a", timedelta(days=60))
    server.sends_time = False
    assert not run(first.leader.renew)
    assert not first.leader.is_leader()
    # The lease is its own all the same, and goes to the next one when it ends.
    later(server, 3, first)
    server.sends_time = True
    assert run(first.leader.renew)


def test_a_renewal_without_a_response_does_not_set_the_clock() -> None:
    """The server took it, and by then nobody knew when it was sent."""
    server = Server()
    first = Replica(server, "a")
    assert run(first.leader.renew)
    server.loses_responses = True
    later(server, 3, first)
    assert run(first.leader.renew)
    server.loses_responses = False
    # What is found now is of the renewal that was lost.
    later(server, 6, first)
    assert run(first.leader.renew)
    assert abs(first.clock.now() - server.time) < timedelta(seconds=1)


def test_a_local_clock_months_ahead_suspends_and_ends_no_workspace() -> None:
    server = Server()
    cluster = Cluster(server)
    server.time = cluster.now = datetime.now(UTC)
    cluster.limit(maxLifetime=str(10 * 86400))
    attached = [{"holder": "u-1/a", "mode": "rw", "until": format_timestamp(cluster.now + timedelta(minutes=10))}]
    cluster.workspace(**{"sandbox.users.io/leases": json.dumps(attached)})
    leader = Leader(Api(server), "default", "a", clock=ServerClock(lambda: datetime.now(UTC) + timedelta(days=60)))
    context, metrics, stop = cluster.context(clock=leader.clock), Metrics(), asyncio.Event()
    loops = [
        Loop("idle", 0.1, lambda still: suspend_idle(context, still)),
        Loop("ending", 0.1, lambda still: end_expired(context, still)),
    ]

    def passes_made() -> bool:
        rows = ({"loop": loop.name} for loop in loops)
        return all(metrics.registry.get_sample_value("agentenv_loop_seconds_count", row) for row in rows)

    async def leading() -> None:
        task = asyncio.create_task(lead(leader, Scheduler(loops, leader.is_leader, metrics), metrics, stop))
        async with asyncio.timeout(60):
            while not passes_made():
                assert not task.done()
                await asyncio.sleep(0.01)
            stop.set()
            await task

    asyncio.run(leading())
    assert (cluster.server.names(CLAIMS), cluster.mode(), cluster.metrics.slept) == (["w-1"], "Running", [])
