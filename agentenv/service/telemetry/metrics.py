"""The service's metrics: the one place that names them, with their labels.

No label holds a user or a workspace: what somebody uses is in the ledger, and a label a user would be a time series a
user. Whoever counts calls a method; so a metric cannot be given labels that it does not have.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Literal

from prometheus_client import (
    GC_COLLECTOR,
    PLATFORM_COLLECTOR,
    PROCESS_COLLECTOR,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
)

ClaimOutcome = Literal["warm", "cold", "failed"]
BudgetAction = Literal["notice", "suspend", "refuse"]

# A warm claim takes tens of milliseconds, and a cold one as long as a node takes to come.
CLAIM_SECONDS = (0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
REQUEST_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)


class Metrics:
    """The metrics of one replica, in a registry of their own."""

    def __init__(self) -> None:
        own = self.registry = CollectorRegistry()
        for collector in (PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR):
            own.register(collector)
        self._claims = Histogram(
            "agentenv_claim_seconds",
            "From the request for a workspace until it is Ready",
            ["class", "outcome"],
            buckets=CLAIM_SECONDS,
            registry=own,
        )
        self._hits = Counter("agentenv_pool_hits", "Claims that found a warm sandbox", ["class"], registry=own)
        self._misses = Counter(
            "agentenv_pool_misses", "Claims that did not find a warm sandbox", ["class", "why"], registry=own
        )
        self._workspaces = Gauge("agentenv_workspaces", "Workspaces there are", ["class", "state"], registry=own)
        self._suspends = Counter("agentenv_suspends", "Workspaces put to sleep", ["class", "because"], registry=own)
        self._budgets = Counter("agentenv_budget_actions", "What was done about a budget", ["action"], registry=own)
        self._requests = Counter("agentenv_requests", "Requests answered", ["route", "method", "code"], registry=own)
        self._request_seconds = Histogram(
            "agentenv_request_seconds",
            "What a request took to answer",
            ["route", "method"],
            buckets=REQUEST_SECONDS,
            registry=own,
        )
        self._rows = Counter("agentenv_ledger_rows", "Rows written to the ledger", registry=own)
        self._loops = Histogram("agentenv_loop_seconds", "What a pass of a loop took", ["loop"], registry=own)
        self._failures = Counter("agentenv_loop_failures", "Passes of a loop that failed", ["loop"], registry=own)
        self._findings = Gauge("agentenv_findings", "What the loops found to be wrong", ["loop", "kind"], registry=own)
        self._found: dict[str, set[str]] = {}
        self._volumes = Gauge(
            "agentenv_volume_bytes", "What a home was last measured to hold", ["persistentvolume"], registry=own
        )
        self._unreadable = Gauge(
            "agentenv_unreadable_objects", "Objects that cannot be read and are left out", ["kind"], registry=own
        )
        self._leader = Gauge("agentenv_leader", "Whether this replica runs the loops", registry=own)

    def claimed(self, sandbox_class: str, outcome: ClaimOutcome, seconds: float) -> None:
        """A request for a workspace has come to an end."""
        self._claims.labels(sandbox_class, outcome).observe(seconds)

    def pool_hit(self, sandbox_class: str) -> None:
        """A claim took a warm sandbox."""
        self._hits.labels(sandbox_class).inc()

    def pool_miss(self, sandbox_class: str, why: str) -> None:
        """A claim had to start cold; `why` is one of a few words, never a message."""
        self._misses.labels(sandbox_class, why).inc()

    def workspaces(self, counts: Mapping[tuple[str, str], int]) -> None:
        """How many there are by class and state; what is not among them there is none of any more."""
        self._workspaces.clear()
        for (sandbox_class, state), count in counts.items():
            self._workspaces.labels(sandbox_class, state).set(count)

    def suspended(self, sandbox_class: str, because: str) -> None:
        """A workspace was put to sleep."""
        self._suspends.labels(sandbox_class, because).inc()

    def budget(self, action: BudgetAction) -> None:
        """Something was done about a budget."""
        self._budgets.labels(action).inc()

    def request(self, route: str, method: str, code: int, seconds: float) -> None:
        """A request was answered; `route` is the path with its parameters' names, not with their values."""
        self._requests.labels(route, method, str(code)).inc()
        self._request_seconds.labels(route, method).observe(seconds)

    def ledger_rows(self, count: int = 1) -> None:
        """Rows were written to the ledger."""
        self._rows.inc(count)

    @contextmanager
    def loop(self, name: str) -> Generator[None]:
        """A pass of a loop, from its beginning to its end; a pass that raises is counted as failed, and raises."""
        began = time.monotonic()
        try:
            yield
        except BaseException:
            self._failures.labels(name).inc()
            raise
        finally:
            self._loops.labels(name).observe(time.monotonic() - began)

    def findings(self, loop: str, counts: Mapping[str, int]) -> None:
        """What a loop found to be wrong, by kind; of what is not among them there is none any more."""
        for kind in self._found.get(loop, set()) - counts.keys():
            self._findings.remove(loop, kind)
        for kind, count in counts.items():
            self._findings.labels(loop, kind).set(count)
        self._found[loop] = set(counts)

    def volumes(self, measured: Mapping[str, int]) -> None:
        """What homes hold, by the names of their volumes; of a volume that is not among them nothing is told any more.

        A volume's name is nobody's: whose it is, its labels say to whoever may read those.
        """
        self._volumes.clear()
        for volume, size in measured.items():
            self._volumes.labels(volume).set(size)

    def unreadable(self, counts: Mapping[str, int]) -> None:
        """How many objects of each watched kind cannot be read."""
        for kind, count in counts.items():
            self._unreadable.labels(kind).set(count)

    def leader(self, *, leads: bool) -> None:
        """Whether this replica runs the loops."""
        self._leader.set(leads)
