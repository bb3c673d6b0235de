"""Who runs the loops: one replica at a time, by a Lease, and whoever it is knows when it no longer is.

No two clocks are compared: a replica that waits looks for how long the lease has not changed, by its own clock; the one
that leads stops by itself before anybody else could begin. Should two lead for a moment in spite of it, their steps are
changes of what each has read, and one of them is told.

The time at which the API server saw the lease renewed is its clock, by which everything here is decided: nobody leads
before it was told what time it is.
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
    """For how long a lease is had, in seconds."""

    lasts: float = 15.0
    gives_up: float = 10.0  # leads no longer when it could not renew for so long
    renews: float = 3.0


TERMS = LeaseTimes()


class Leader:
    """One replica's part in the election."""

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
        self._last_renewal: tuple[datetime, float] | None = None  # our last renewal, and when it was done
        self._seen: tuple[str, float] | None = None

    def is_leader(self) -> bool:
        """Whether it may act now: it has the lease, and knows what time it is."""
        return self._holds_lease() and self.clock.known

    async def renew(self) -> bool:
        """Renew the lease, or take it if it is free; whether this replica leads then."""
        before = self._monotonic()
        try:
            held = await self._renew_or_take()
        except Exception as error:  # noqa: BLE001 - whoever cannot ask leads until it would have to have asked
            _LOG.warning("the lease of the loops cannot be had", extra={"facts": {"why": str(error)}})
            return self.is_leader()
        self._renewed = before if held else None
        if held and not self.clock.known:
            _LOG.warning("nothing is done: the API server does not say when it took the lease of the loops")
        return self.is_leader()

    async def resign(self) -> None:
        """Let others take it at once."""
        held_lease, self._renewed = self._holds_lease(), None
        if not held_lease:
            return
        try:
            lease = await self._api.find(LEASES, NAME, self._namespace)
            if lease is not None and _holder(lease) == self._replica:
                await self._api.patch(LEASES, lease, {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}})
        except Exception as error:  # noqa: BLE001 - it runs out by itself
            _LOG.info("the lease of the loops runs out by itself", extra={"facts": {"why": str(error)}})

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
            # It was just taken, and the next renewal is seconds away.
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
        """Whether nobody has renewed it for as long as it lasts, since we first saw it so."""
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
        """What time it was for the server when it took our last renewal; nothing where it has taken another since."""
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
