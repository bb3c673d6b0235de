"""Elect the replica that runs the loops by a Lease; a leader knows when its lease has expired.

Clocks of replicas are not compared. A waiting replica measures by its own clock how long the lease has not changed. The
leader stops by its own clock before another can take over. If two lead for a moment in spite of that, their writes
require the version that was read, so one of them fails.

The leader sets its clock by the time at which the API server recorded its renewal. All decisions use that clock: a
replica acts as leader only once it knows the server's time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from agentenv.core.values.timestamps import parse_timestamp
from agentenv.service.kube.client import LEASES, MANAGER, Document, KubeApi, section
from agentenv.service.kube.clock import ServerClock

NAME = "workspace-service-loops"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class LeaseTimes:
    """The durations of the lease, in seconds."""

    lasts: float = 15.0
    gives_up: float = 10.0  # a leader stops if it has not renewed for so long
    renews: float = 3.0


TERMS = LeaseTimes()


class Leader:
    """The part of one replica in the election."""

    def __init__(
        self,
        api: KubeApi,
        namespace: str,
        replica: str,
        *,
        clock: ServerClock | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        terms: LeaseTimes = TERMS,
    ) -> None:
        self.terms = terms
        self.clock = clock or ServerClock(monotonic=monotonic)
        self._api = api
        self._namespace = namespace
        self._replica = replica
        self._monotonic = monotonic
        self._renewed: float | None = None
        self._last_renewal: tuple[datetime, float] | None = None  # and its time by the monotonic clock
        self._seen: tuple[str, float] | None = None

    def is_leader(self) -> bool:
        """Return whether this replica may act as leader: it holds the lease, and knows the server's time."""
        return self._holds_lease() and self.clock.known

    async def renew(self) -> bool:
        """Renew the lease, or acquire it if it is free; return whether this replica leads."""
        before = self._monotonic()
        try:
            held = await self._renew_or_take()
        except Exception as error:  # noqa: BLE001 - after any failure it leads until its own deadline
            _LOG.warning("the lease of the loops cannot be renewed or acquired", extra={"facts": {"why": str(error)}})
            return self.is_leader()
        self._renewed = before if held else None
        if held and not self.clock.known:
            _LOG.warning("the loops do not run: the API server has not recorded when it renewed their lease")
        return self.is_leader()

    async def resign(self) -> None:
        """Release the lease, so that another replica can acquire it at once."""
        held_lease, self._renewed = self._holds_lease(), None
        if not held_lease:
            return
        try:
            lease = await self._api.find(LEASES, NAME, self._namespace)
            if lease is not None and _holder(lease) == self._replica:
                await self._api.patch(LEASES, lease, {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}})
        except Exception as error:  # noqa: BLE001 - the lease expires without this
            _LOG.info("the lease of the loops was not released, and expires", extra={"facts": {"why": str(error)}})

    def _holds_lease(self) -> bool:
        return self._renewed is not None and self._monotonic() - self._renewed < self.terms.gives_up

    async def _renew_or_take(self) -> bool:
        lease = await self._api.find(LEASES, NAME, self._namespace)
        if lease is not None and _holder(lease) == self._replica:
            self._learn_time(lease)
        elif lease is not None and not self._free(lease):
            return False
        if not await self._renew(lease):
            return False
        if not self.clock.known:
            # The lease was just acquired, and the next renewal is seconds away.
            self._learn_time(await self._api.find(LEASES, NAME, self._namespace))
        return True

    async def _renew(self, lease: Document | None) -> bool:
        now = self.clock.local().astimezone(UTC)
        spec = self._spec(lease, now.isoformat(timespec="microseconds").replace("+00:00", "Z"))
        self._last_renewal = None
        if lease is None:
            metadata = {"name": NAME, "namespace": self._namespace}
            document: Document = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
            done = await self._api.create(LEASES, {**document, "spec": spec}) is not None
        else:
            done = await self._api.patch(LEASES, lease, {"spec": spec}) is not None
        if done:
            self._last_renewal = (now, self.clock.monotonic())
        return done

    def _free(self, lease: Document) -> bool:
        """Return whether the lease has expired: no holder, or unchanged for its duration while we watched."""
        version, at = lease["metadata"]["resourceVersion"], self._monotonic()
        if self._seen is None or self._seen[0] != version:
            self._seen = (version, at)
        lasts = section(lease, "spec").get("leaseDurationSeconds") or self.terms.lasts
        return not _holder(lease) or at - self._seen[1] > lasts

    def _spec(self, lease: Document | None, now: str) -> Document:
        spec: Document = {
            "holderIdentity": self._replica,
            "leaseDurationSeconds": max(int(self.terms.lasts), 1),
            "renewTime": now,
        }
        if lease is None or _holder(lease) != self._replica:
            before = section(lease or {}, "spec").get("leaseTransitions") or 0
            spec |= {"acquireTime": now, "leaseTransitions": before + (lease is not None)}
        return spec

    def _learn_time(self, lease: Document | None) -> None:
        """Set the clock by the server's time of our last renewal; do nothing if another renewal followed it."""
        if lease is None or self._last_renewal is None or _holder(lease) != self._replica:
            return
        renewal, at = self._last_renewal
        if parse_timestamp(section(lease, "spec").get("renewTime")) != renewal:
            return
        rows: list[Any] = lease["metadata"].get("managedFields") or []
        recorded = next((parse_timestamp(row.get("time")) for row in rows if row.get("manager") == MANAGER), None)
        if recorded is not None:
            self.clock.observe(recorded, at)


def _holder(lease: Document) -> str:
    return section(lease, "spec").get("holderIdentity") or ""
