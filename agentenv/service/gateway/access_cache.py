"""The records of access in the memory of a replica, polled every two seconds.

A request is never delayed by the table. If the table does not answer, what was read stays valid for 15 minutes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from agentenv.core.gateway.access_records import Alias, ApiKey, Approval, BreakGlass, Link, Record, row_of
from agentenv.service.aws.clients import AwsRefusedError, AwsUnavailableError
from agentenv.service.aws.remote import Remote
from agentenv.service.gateway.access_table import AccessStore
from agentenv.service.http.problems import Problem

_LOG = logging.getLogger(__name__)
POLL_SECONDS = 2.0
# Polls for what is unknown are so far apart, whatever is guessed, and are awaited for so long.
REFRESH_PAUSE_SECONDS = 0.25
REFRESH_SECONDS = 3.0
RELOAD_SECONDS = 600.0
VALID_SECONDS = 900.0
TOUCH_SECONDS = 60.0
# Writers' clocks differ, and a write is visible some time after it got its time.
OVERLAP = timedelta(seconds=60)

_Kind = TypeVar("_Kind", ApiKey, Link, Alias, BreakGlass, Approval)


class AccessCache:
    """The records of one replica."""

    def __init__(
        self,
        store: AccessStore,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store, self._now, self._monotonic = store, now, monotonic
        # Whatever requests do, the poll of revocations has threads of its own.
        self._polls, self._calls = Remote("the poll of the table of access"), Remote("the table of access")
        self._records: dict[str, Record] = {}
        self._read_at = self._loaded_at = self._touched_at = self._polled_at = float("-inf")
        self._since: datetime | None = None
        self._used: dict[str, datetime] = {}
        self.on_change: Callable[[Sequence[Record]], None] = lambda _: None
        self._polling = asyncio.Lock()
        self._next: asyncio.Task[None] | None = None  # the poll that begins after whoever waits for it

    async def run(self) -> None:
        """Poll the table until cancelled."""
        while True:
            await self.poll()
            await asyncio.sleep(POLL_SECONDS)

    async def poll(self) -> None:
        """Read what changed, and write when keys were used; failures are logged, and retried by the next poll."""
        async with self._polling:
            await self._poll()

    async def refresh(self) -> None:
        """Wait until what was written before now is read, or for some seconds; all who wait share a poll."""
        if self._next is None or self._next.done():
            self._next = asyncio.create_task(self._poll_next())
        await asyncio.wait([self._next], timeout=REFRESH_SECONDS)

    async def _poll_next(self) -> None:
        async with self._polling:
            await asyncio.sleep(max(0.0, self._polled_at + REFRESH_PAUSE_SECONDS - self._monotonic()))
            # Who comes from here on may ask for what this poll does not see.
            self._next = None
            await self._poll()

    async def _poll(self) -> None:
        began, at = self._monotonic(), self._now()
        self._polled_at, whole = began, began - self._loaded_at >= RELOAD_SECONDS
        try:
            records = await self._polls.run(self.store.changed_since, None if whole else self._since)
        except (AwsUnavailableError, AwsRefusedError) as failure:
            _LOG.warning("the table of access cannot be read", extra={"facts": {"why": str(failure)}})
            return
        changed = [record for record in records if self._records.get(row_of(record)) != record]
        if whole:
            self._records, self._loaded_at = {}, began
        self._records |= {row_of(record): record for record in records}
        self._read_at, self._since = began, at - OVERLAP
        if changed:
            self.on_change(changed)
        if self._used and began - self._touched_at >= TOUCH_SECONDS:
            await self._touch(began)

    async def _touch(self, began: float) -> None:
        used, self._used, self._touched_at = self._used, {}, began
        try:
            await self._polls.run(self.store.touch, used)
        except (AwsUnavailableError, AwsRefusedError) as failure:
            _LOG.warning("the last use of keys is not recorded", extra={"facts": {"why": str(failure)}})

    def key(self, id_: str) -> ApiKey | None:
        """Return a key that is valid."""
        return self._valid(f"key#{id_}", ApiKey)

    def has_key(self, id_: str) -> bool:
        """Return whether a key was read, valid or not."""
        return f"key#{id_}" in self._records

    def link(self, id_: str) -> Link | None:
        """Return a link that is valid."""
        return self._valid(f"link#{id_}", Link)

    def alias(self, name: str) -> Alias | None:
        """Return an alias that has an owner."""
        alias = self._valid(f"alias#{name}", Alias)
        return alias if alias is not None and alias.owner else None

    def alias_of(self, workspace: str) -> Alias | None:
        """Return the alias of a workspace."""
        aliases = self._select(Alias, lambda alias: alias.workspace == workspace and bool(alias.owner))
        return max(aliases, key=lambda alias: alias.created, default=None)

    def aliases_of(self, owner: str) -> set[str]:
        """Return the names of the aliases of an owner."""
        return {alias.id for alias in self._select(Alias, lambda alias: alias.owner == owner)}

    def freed_at(self, name: str) -> datetime | None:
        """Return when an admin freed an alias, while browsers may hold data of its former owner."""
        alias = self._valid(f"alias#{name}", Alias)
        until = alias.cleared_until() if alias is not None else None
        return alias.freed if alias is not None and until is not None and self._now() < until else None

    def rests_until(self, name: str) -> datetime | None:
        """Return when a freed alias without an owner may be taken."""
        alias = self._valid(f"alias#{name}", Alias)
        return alias.rests_until() if alias is not None else None

    def break_glass(self, workspace: str, operator: str) -> BreakGlass | None:
        """Return the right of an operator to enter a workspace now."""
        return self._valid(f"glass#{workspace}/{operator}", BreakGlass)

    def has_ended(self, session: str) -> bool:
        """Return whether a session ended."""
        self._require_fresh()
        return f"session#{session}" in self._records

    def keys_of(self, owner: str) -> list[ApiKey]:
        """Return the keys of an owner that are valid, the oldest first."""
        self._require_fresh()
        return sorted(self._select(ApiKey, lambda key: key.owner == owner), key=lambda key: (key.created, key.id))

    def links_of(self, workspace: str) -> list[Link]:
        """Return the links to a workspace that are valid, the oldest first."""
        self._require_fresh()
        links = self._select(Link, lambda link: link.workspace == workspace)
        return sorted(links, key=lambda link: (link.created, link.id))

    def approval(self, id_: str) -> Approval | None:
        """Return what was asked, with its answer."""
        return self._valid(f"approval#{id_}", Approval)

    def approvals(self) -> list[Approval]:
        """Return what was asked lately, and what is approved."""
        self._require_fresh()
        return self._select(Approval, lambda _: True)

    def note_use(self, key: ApiKey) -> None:
        """Note that a key is used now."""
        self._used[row_of(key)] = self._now()

    async def put(self, record: Record) -> None:
        """Store a record, which this replica knows at once and the others within seconds."""
        try:
            await self._calls.run(self.store.put, record, self._now())
        except (AwsUnavailableError, AwsRefusedError) as failure:
            _LOG.warning("the table of access cannot be written", extra={"facts": {"why": str(failure)}})
            raise _unavailable() from failure
        self._records[row_of(record)] = record
        self.on_change([record])

    async def take_alias(self, alias: Alias) -> bool:
        """Store an alias unless it is another owner's; return whether it is stored."""
        try:
            taken = await self._calls.run(self.store.take_alias, alias, self._now())
        except (AwsUnavailableError, AwsRefusedError) as failure:
            raise _unavailable() from failure
        if taken:
            self._records[row_of(alias)] = alias
        return taken

    async def use_once(self, code: str, until: datetime) -> bool:
        """Return whether a code is used for the first time."""
        try:
            return await self._calls.run(self.store.use_once, code, until)
        except (AwsUnavailableError, AwsRefusedError) as failure:
            raise _unavailable() from failure

    async def entries(self, workspace: str, day: str) -> list[dict[str, Any]]:
        """Return the audit trail of a workspace and a day."""
        try:
            return await self._calls.run(self.store.entries, workspace, day)
        except (AwsUnavailableError, AwsRefusedError) as failure:
            raise _unavailable() from failure

    def _select(self, kind: type[_Kind], matches: Callable[[_Kind], bool]) -> list[_Kind]:
        now = self._now()
        rows = (record for record in list(self._records.values()) if isinstance(record, kind))
        return [record for record in rows if not record.revoked and record.expires > now and matches(record)]

    def _valid(self, row: str, kind: type[_Kind]) -> _Kind | None:
        self._require_fresh()
        record = self._records.get(row)
        if not isinstance(record, kind) or record.revoked or record.expires <= self._now():
            return None
        return record

    def _require_fresh(self) -> None:
        if self._monotonic() - self._read_at > VALID_SECONDS:
            raise _unavailable()


def _unavailable() -> Problem:
    return Problem("unavailable", "the table of access does not answer", "retry in a few seconds", retry_after=5)
