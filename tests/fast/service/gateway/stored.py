"""A store of access in memory, for tests of what uses it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from agentenv.core.gateway.access_records import Alias, ApiKey, Record, row_of
from agentenv.service.aws.clients import AwsUnavailableError
from agentenv.service.gateway.access_table import AccessStore


class MemoryStore(AccessStore):
    """Rows by name, shared by the replicas of a test; it fails while it is `away`."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[datetime, Record]] = {}
        self.used: set[str] = set()
        self.trail: list[Mapping[str, Any]] = []
        self.away = False

    def put(self, record: Record, now: datetime) -> None:
        self._answer()
        self.rows[row_of(record)] = now, record

    def take_alias(self, alias: Alias, now: datetime) -> bool:
        self._answer()
        existing = self.rows[row_of(alias)][1] if row_of(alias) in self.rows else None
        if isinstance(existing, Alias) and existing.owner != alias.owner:
            rests_until = existing.rests_until()
            if rests_until is None or now < rests_until:
                return False
        self.rows[row_of(alias)] = now, alias
        return True

    def changed_since(self, since: datetime | None) -> list[Record]:
        self._answer()
        return [record for at, record in self.rows.values() if since is None or at >= since]

    def touch(self, rows: Mapping[str, datetime]) -> None:
        self._answer()
        for row, at in rows.items():
            changed, record = self.rows[row]
            assert isinstance(record, ApiKey)
            self.rows[row] = changed, replace(record, last_used=at)

    def use_once(self, code: str, until: datetime) -> bool:  # noqa: ARG002 - it is emptied with the test
        self._answer()
        first = code not in self.used
        self.used.add(code)
        return first

    def add_entries(self, entries: Sequence[Mapping[str, Any]]) -> None:
        self._answer()
        self.trail += entries

    def entries(self, workspace: str, day: str, since: str = "") -> list[dict[str, Any]]:
        self._answer()
        entries = (entry for entry in self.trail if entry["workspace"] == workspace and entry["at"][:10] == day)
        return [dict(entry) for entry in entries if entry["at"] >= since]

    def _answer(self) -> None:
        if self.away:
            raise AwsUnavailableError("the table hangs")


class Clock:
    """A clock that a test sets."""

    def __init__(self, now: datetime) -> None:
        self.start, self.seconds = now, 0.0

    def now(self) -> datetime:
        return self.start + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds
