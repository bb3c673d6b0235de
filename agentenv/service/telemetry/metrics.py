"""The service's metrics, with their names and labels.

No label holds an owner or a workspace: usage is in the ledger, and each value of a label is a time series. Callers use
the methods, so that every sample has the right labels.
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

# A warm claim takes tens of milliseconds, a cold one as long as a new node.
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
        self._workspaces = Gauge("agentenv_workspaces", "Existing workspaces", ["class", "state"], registry=own)
        self._suspends = Counter("agentenv_suspends", "Suspended workspaces", ["class", "because"], registry=own)
        self._restarts = Counter(
            "agentenv_restarts",
            "Workspaces whose processes ended and were started again",
            ["class", "why"],
            registry=own,
        )
        self._missed_pods = Counter(
            "agentenv_fargate_pods_replaced",
            "Pods that the webhook of their Fargate profile missed",
            ["namespace"],
            registry=own,
        )
        self._budgets = Counter("agentenv_budget_actions", "Actions of budgets", ["action"], registry=own)
        self._requests = Counter("agentenv_requests", "Requests answered", ["route", "method", "code"], registry=own)
        self._request_seconds = Histogram(
            "agentenv_request_seconds",
            "Duration of requests",
            ["route", "method"],
            buckets=REQUEST_SECONDS,
            registry=own,
        )
        self._rows = Counter("agentenv_ledger_rows", "Rows written to the ledger", registry=own)
        self._loops = Histogram("agentenv_loop_seconds", "Duration of passes of loops", ["loop"], registry=own)
        self._failures = Counter("agentenv_loop_failures", "Passes of a loop that failed", ["loop"], registry=own)
        self._findings = Gauge("agentenv_findings", "Defects that the loops found", ["loop", "kind"], registry=own)
        self._kinds: dict[str, set[str]] = {}
        self._volumes = Gauge(
            "agentenv_volume_bytes", "Last measured size of a home", ["persistentvolume"], registry=own
        )
        self._unreadable = Gauge(
            "agentenv_unreadable_objects", "Objects that cannot be read and are left out", ["kind"], registry=own
        )
        self._leader = Gauge("agentenv_leader", "Whether this replica runs the loops", registry=own)

    def claimed(self, sandbox_class: str, outcome: ClaimOutcome, seconds: float) -> None:
        """Record the end of a request for a workspace."""
        self._claims.labels(sandbox_class, outcome).observe(seconds)

    def pool_hit(self, sandbox_class: str) -> None:
        """Count a claim that took a warm sandbox."""
        self._hits.labels(sandbox_class).inc()

    def pool_miss(self, sandbox_class: str, why: str) -> None:
        """Count a claim that started cold; `why` is one of a few words, never a message."""
        self._misses.labels(sandbox_class, why).inc()

    def workspaces(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Set the number of workspaces by class and state; others are reset."""
        self._workspaces.clear()
        for (sandbox_class, state), count in counts.items():
            self._workspaces.labels(sandbox_class, state).set(count)

    def suspended(self, sandbox_class: str, because: str) -> None:
        """Count a suspended workspace."""
        self._suspends.labels(sandbox_class, because).inc()

    def restarted(self, sandbox_class: str, why: str) -> None:
        """Count a restart of a workspace's processes."""
        self._restarts.labels(sandbox_class, why).inc()

    def missed_pod(self, namespace: str) -> None:
        """Count a pod that the webhook of its Fargate profile missed."""
        self._missed_pods.labels(namespace).inc()

    def budget(self, action: BudgetAction) -> None:
        """Count an action of a budget."""
        self._budgets.labels(action).inc()

    def request(self, route: str, method: str, code: int, seconds: float) -> None:
        """Record a request; `route` is the path with the names of its parameters, not their values."""
        self._requests.labels(route, method, str(code)).inc()
        self._request_seconds.labels(route, method).observe(seconds)

    def ledger_rows(self, count: int = 1) -> None:
        """Count rows written to the ledger."""
        self._rows.inc(count)

    @contextmanager
    def loop(self, name: str) -> Generator[None]:
        """Record a pass of a loop; one that raises counts as failed."""
        began = time.monotonic()
        try:
            yield
        except BaseException:
            self._failures.labels(name).inc()
            raise
        finally:
            self._loops.labels(name).observe(time.monotonic() - began)

    def findings(self, loop: str, counts: Mapping[str, int]) -> None:
        """Set the number of a loop's findings by kind; other kinds of the loop are removed."""
        for kind in self._kinds.get(loop, set()) - counts.keys():
            self._findings.remove(loop, kind)
        for kind, count in counts.items():
            self._findings.labels(loop, kind).set(count)
        self._kinds[loop] = set(counts)

    def volumes(self, measured: Mapping[str, int]) -> None:
        """Set the sizes of homes by volume; other volumes are removed.

        The name of a volume does not reveal its owner.
        """
        self._volumes.clear()
        for volume, size in measured.items():
            self._volumes.labels(volume).set(size)

    def unreadable(self, counts: Mapping[str, int]) -> None:
        """Set the number of unreadable objects by kind."""
        for kind, count in counts.items():
            self._unreadable.labels(kind).set(count)

    def leader(self, *, leads: bool) -> None:
        """Set whether this replica runs the loops."""
        self._leader.set(leads)
