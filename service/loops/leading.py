"""Who runs the loops: one replica at a time, by a Lease, and whoever it is knows when it no longer is.

No two clocks are compared: a replica that waits looks for how long the lease has not changed, by its own clock; the one
that leads stops by itself before anybody else could begin. Should two lead for a moment in spite of it, their steps are
changes of what each has read, and one of them is told.

The time at which the API server saw the lease renewed is its clock, by which everything here is decided.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from model.moments import moment
from service.cluster import LEASES, MANAGER, Api, Document, section

NAME = "workspace-service-loops"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Terms:
    """For how long a lease is had, in seconds."""

    lasts: float = 15.0
    gives_up: float = 10.0  # leads no longer when it could not renew for so long
    renews: float = 3.0


TERMS = Terms()


@dataclass
class ServerClock:
    """The API server's clock, as far as it is known: this process's own, and how far that is off."""

    local: Callable[[], datetime]
    offset: timedelta = timedelta(0)
    known: bool = False

    def now(self) -> datetime:
        """What time it is."""
        return self.local() + self.offset

    def learn(self, server: datetime, written: datetime) -> None:
        """Something was written at this moment of ours, and at that one of the server's."""
        # The server tells whole seconds.
        off = server + timedelta(seconds=0.5) - written
        self.offset = off if abs(off) > timedelta(seconds=2) else timedelta(0)
        self.known = True


class Leader:
    """One replica's part in the election."""

    def __init__(
        self,
        api: Api,
        namespace: str,
        replica: str,
        *,
        clock: ServerClock | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        terms: Terms = TERMS,
    ) -> None:
        self.terms = terms
        self.clock = clock or ServerClock(lambda: datetime.now(UTC))
        self._api = api
        self._namespace = namespace
        self._replica = replica
        self._monotonic = monotonic
        self._renewed: float | None = None
        self._written: datetime | None = None  # by our own clock, and of which renewal
        self._seen: tuple[str, float] | None = None

    def leads(self) -> bool:
        """Whether it may act now."""
        return self._renewed is not None and self._monotonic() - self._renewed < self.terms.gives_up

    def stand(self) -> bool:
        """Renew the lease, or take it if it is free; whether this replica leads then."""
        before = self._monotonic()
        try:
            held = self._stand()
        except Exception as error:  # noqa: BLE001 - whoever cannot ask leads until it would have to have asked
            _LOG.warning("the lease of the loops cannot be had", extra={"facts": {"why": str(error)}})
            return self.leads()
        self._renewed = before if held else None
        return self.leads()

    def resign(self) -> None:
        """Let others take it at once."""
        was, self._renewed = self.leads(), None
        if not was:
            return
        try:
            found = self._api.find(LEASES, NAME, self._namespace)
            if found is not None and _holder(found) == self._replica:
                self._api.change(LEASES, found, {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}})
        except Exception as error:  # noqa: BLE001 - it runs out by itself
            _LOG.info("the lease of the loops runs out by itself", extra={"facts": {"why": str(error)}})

    def _stand(self) -> bool:
        found = self._api.find(LEASES, NAME, self._namespace)
        if found is None:
            about = {"name": NAME, "namespace": self._namespace}
            document: Document = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": about}
            return self._wrote(self._api.make(LEASES, {**document, "spec": self._spec(found)}))
        if _holder(found) == self._replica:
            self._learn(found)
        elif not self._free(found):
            return False
        return self._wrote(self._api.change(LEASES, found, {"spec": self._spec(found)}))

    def _free(self, found: Document) -> bool:
        """Whether nobody has renewed it for as long as it lasts, since we first saw it so."""
        version, at = found["metadata"]["resourceVersion"], self._monotonic()
        if self._seen is None or self._seen[0] != version:
            self._seen = (version, at)
        lasts = section(found, "spec").get("leaseDurationSeconds") or self.terms.lasts
        return not _holder(found) or at - self._seen[1] > lasts

    def _spec(self, found: Document | None) -> Document:
        now = self.clock.local().astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        spec: Document = {
            "holderIdentity": self._replica,
            "leaseDurationSeconds": max(int(self.terms.lasts), 1),
            "renewTime": now,
        }
        if found is None or _holder(found) != self._replica:
            before = section(found or {}, "spec").get("leaseTransitions") or 0
            spec |= {"acquireTime": now, "leaseTransitions": before + (found is not None)}
        return spec

    def _wrote(self, done: bool) -> bool:
        self._written = self.clock.local() if done else None
        return done

    def _learn(self, found: Document) -> None:
        """What time it was for the server when it took our last renewal."""
        rows: list[Any] = found["metadata"].get("managedFields") or []
        told = next((moment(row.get("time")) for row in rows if row.get("manager") == MANAGER), None)
        if told is not None and self._written is not None:
            self.clock.learn(told, self._written)


def _holder(lease: Document) -> str:
    return section(lease, "spec").get("holderIdentity") or ""
