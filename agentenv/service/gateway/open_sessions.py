"""The open sessions of all replicas in the table of access: each ends those of others, too, which may be gone.

A replica reads them all at its start, and then what was added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from agentenv.core.values.object_fields import section, text
from agentenv.core.values.timestamps import format_timestamp
from agentenv.service.gateway.access_table import AccessStore
from agentenv.service.gateway.admissions import Admission
from agentenv.service.gateway.entry_writer import EntryWriter
from agentenv.service.gateway.rights import Visitor
from agentenv.service.gateway.visitors import document_of
from agentenv.service.workspaces.backend_protocol import Endpoint

# In place of a workspace: no id of one begins like this.
OPEN = "open sessions"
KEEP_DAYS = 7
WRITE_SECONDS = 2.0
MOST_WAITING = 50_000
# Clocks of replicas differ, and a row is written some time after the time that it has.
OVERLAP = timedelta(seconds=60)


class OpenSessions(EntryWriter):
    """Writes the sessions that a replica admits, and reads those of all."""

    def __init__(self, store: AccessStore, now: Callable[[], datetime]) -> None:
        super().__init__("the table of open sessions", store, WRITE_SECONDS, MOST_WAITING)
        self._now = now
        self._read_until: datetime | None = None

    def note(self, admission: Admission) -> None:
        """Note a session that was admitted now."""
        now, endpoint = self._now(), admission.endpoint
        pod = {"pod_uid": endpoint.pod_uid, "claim_uid": endpoint.claim_uid, "address": endpoint.address}
        entry = {
            "workspace": OPEN,
            "at": format_timestamp(now),
            "id": admission.session,
            "entered": admission.workspace,
            "pod": {**pod, "port": endpoint.port},
            "port": admission.port,
            "right": admission.right,
            "scope": admission.scope,
            "visitor": document_of(admission.visitor),
            "expires": int((now + timedelta(days=KEEP_DAYS)).timestamp()),
        }
        self.add(entry)

    async def read(self, restored: Callable[[Mapping[str, Any]], Visitor | None]) -> list[Admission]:
        """Return the sessions that were added since the last call, at first those of the last days.

        `restored` returns the visitor of a document.
        """
        now = self._now()
        since = now - timedelta(days=KEEP_DAYS) if self._read_until is None else self._read_until - OVERLAP
        days = [(since + timedelta(days=age)).date() for age in range((now.date() - since.date()).days + 1)]
        after = format_timestamp(since)
        rows = [row for day in days for row in await self._calls.run(self._store.entries, OPEN, day.isoformat(), after)]
        self._read_until = now
        admissions = (_admission(row, restored) for row in rows)
        return [admission for admission in admissions if admission is not None]


def _admission(row: Mapping[str, Any], restored: Callable[[Mapping[str, Any]], Visitor | None]) -> Admission | None:
    pod, visitor = section(row, "pod"), restored(section(row, "visitor"))
    if visitor is None:
        # Its credential is not valid any more: the session is ended at the first sweep.
        visitor = Visitor("nobody", is_valid=lambda: False)
    if not text(row, "id") or not text(pod, "pod_uid"):
        return None
    endpoint = Endpoint(text(pod, "pod_uid"), text(pod, "claim_uid"), text(pod, "address"), int(pod.get("port", 0)))
    port = int(row.get("port", 0))
    return Admission(
        text(row, "entered"), endpoint, visitor, port, text(row, "right"), text(row, "scope"), session=text(row, "id")
    )
