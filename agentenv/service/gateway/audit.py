"""The audit trail of entries: the visitor, the port, the workspace, the time, the address and the right.

A visitor who comes again within an hour is not recorded again. Entries are written in batches; those of the last
seconds are in the audit log alone if the replica is killed.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime, timedelta

from agentenv.core.values.timestamps import format_timestamp
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.gateway.access_table import AccessStore
from agentenv.service.gateway.entry_writer import EntryWriter
from agentenv.service.gateway.rights import Visitor
from agentenv.service.telemetry.logs import audit

WRITE_SECONDS = 5.0
AGAIN_SECONDS = 3600.0
MOST_WAITING, MOST_REMEMBERED = 10_000, 50_000


class AuditTrail(EntryWriter):
    """The entries of one replica."""

    def __init__(
        self,
        store: AccessStore,
        retention: timedelta,
        now: Callable[[], datetime],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__("the audit trail", store, WRITE_SECONDS, MOST_WAITING)
        self._retention, self._now, self._monotonic = retention, now, monotonic
        self._recent: OrderedDict[tuple[str, str, str], float] = OrderedDict()

    def note(self, workspace: Workspace, visitor: Visitor, opened: str, source: str) -> None:
        """Record that a visitor entered a port of a workspace, from an address."""
        key, at = (workspace.id, visitor.identity, opened), self._monotonic()
        if at - self._recent.get(key, float("-inf")) < AGAIN_SECONDS:
            return
        self._recent[key] = at
        self._recent.move_to_end(key)
        while len(self._recent) > MOST_REMEMBERED:
            self._recent.popitem(last=False)
        now = self._now()
        entry = {
            "workspace": workspace.id,
            "at": format_timestamp(now),
            "id": secrets.token_hex(4),
            "who": visitor.caller.owner if visitor.caller is not None else visitor.identity,
            "by": "break-glass" if visitor.break_glass else _right_of(visitor),
            "opened": opened,
            "source": source,
            "expires": int((now + self._retention).timestamp()),
        }
        audit("workspace entered", **{name: value for name, value in entry.items() if name not in {"at", "expires"}})
        self.add(entry)


def destination_name(path: str, port: int, *, api: bool) -> str:
    """Return what a request opens: a port, or a part of workspaced's own API."""
    if not api:
        return f"port {port}"
    for prefix, name in (("/process.", "processes"), ("/file", "files"), ("/ssh", "ssh")):
        if path.startswith(prefix):
            return name
    return "api"


def _right_of(visitor: Visitor) -> str:
    if visitor.caller is not None:
        return visitor.caller.source
    return {"none": "public", "read": "signed link", "write": "signed link"}.get(visitor.credential, visitor.credential)
