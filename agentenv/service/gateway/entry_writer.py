"""Entries of the table of access, written in batches: those of the last seconds are lost if the replica is killed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from agentenv.service.aws.clients import AwsRefusedError, AwsUnavailableError
from agentenv.service.aws.remote import Remote
from agentenv.service.gateway.access_table import AccessStore

_LOG = logging.getLogger(__name__)


class EntryWriter:
    """Writes the entries of one kind that a replica adds."""

    def __init__(self, name: str, store: AccessStore, every: float, most: int) -> None:
        """`every` is the seconds between two batches; more entries than `most` do not wait."""
        self._name, self._store, self._every, self._most = name, store, every, most
        self._calls = Remote(name)
        self._waiting: list[Mapping[str, Any]] = []

    def add(self, entry: Mapping[str, Any]) -> None:
        """Add an entry to the next batch."""
        if len(self._waiting) < self._most:
            self._waiting.append(entry)

    async def run(self) -> None:
        """Write every few seconds until cancelled."""
        while True:
            await asyncio.sleep(self._every)
            await self.write()

    async def write(self) -> None:
        """Write what was added; what cannot be written is tried again."""
        entries, self._waiting = self._waiting, []
        if not entries:
            return
        try:
            await self._calls.run(self._store.add_entries, entries)
        except (AwsUnavailableError, AwsRefusedError) as failure:
            _LOG.warning("%s cannot be written", self._name, extra={"facts": {"why": str(failure)}})
            self._waiting = [*entries, *self._waiting][: self._most]
