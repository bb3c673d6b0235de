"""Record the destruction of data: its owner, the time of the deletion and the time of the destruction.

A record is written before the data is destroyed, and completed when its volume is gone. There is a ConfigMap per day in
the service's own namespace, and another one when a day's is full. Passes read only open ConfigMaps. One is open until
its day is over and all its records are complete.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

from agentenv.core.values.object_fields import parsed_object
from agentenv.core.values.timestamps import format_timestamp
from agentenv.service.kube.client import CONFIGURATIONS, Document, KubeApi, collect, section

LABEL, OPEN = "sandbox.users.io/record", "sandbox.users.io/record-open"
OF = "destroyed"
# A record has about four hundred bytes, and a ConfigMap may have a mebibyte.
MOST = 1500
# The number of days before the retention limit in which expired ConfigMaps are searched.
MISSED = 7


class Records:
    """The destruction records of one environment."""

    def __init__(self, api: KubeApi, namespace: str) -> None:
        self._api = api
        self._namespace = namespace

    async def write(self, name: str, facts: dict[str, str], now: datetime) -> bool:
        """Record that a volume will be destroyed; False if another replica wrote at the same time."""
        if any([name in section(page, "data") async for page in self._open()]):
            return True
        text = _text({**facts, "decided": format_timestamp(now)})
        async for page, existing in self._of_day(now):
            if existing is None:
                metadata = {"name": page, "namespace": self._namespace, "labels": {LABEL: OF, OPEN: "true"}}
                document: Document = {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": metadata,
                    "data": {name: text},
                }
                return await self._api.create(CONFIGURATIONS, document) is not None
            if len(section(existing, "data")) < MOST:
                addition: Document = {"metadata": {"labels": {OPEN: "true"}}, "data": {name: text}}
                return await self._api.patch(CONFIGURATIONS, existing, addition) is not None
        return False

    async def unfinished(self) -> AsyncIterator[tuple[str, dict[str, str]]]:
        """Yield the records of volumes that are not known to be gone."""
        async for page in self._open():
            for name, text in section(page, "data").items():
                facts = parsed_object(text)
                if facts is not None and "gone" not in facts:
                    yield name, facts

    async def finish(self, name: str, now: datetime) -> bool:
        """Record that a volume is gone."""
        return await self.add(name, {"gone": format_timestamp(now)})

    async def add(self, name: str, facts: dict[str, str]) -> bool:
        """Add facts to the record of a volume; False if there is none, or another replica wrote at the same time."""
        async for page in self._open():
            text = section(page, "data").get(name)
            if text is not None:
                completed = _text({**(parsed_object(text) or {}), **facts})
                return await self._api.patch(CONFIGURATIONS, page, {"data": {name: completed}}) is not None
        return False

    async def close(self, now: datetime) -> int:
        """Close the ConfigMaps of past days whose records are all complete."""
        closed = 0
        for page in await collect(self._open()):
            today = page["metadata"]["name"].startswith(_day(now))
            rows = [parsed_object(text) for text in section(page, "data").values()]
            # An unreadable record keeps its ConfigMap open: its volume may still exist.
            if not today and all(row is not None and "gone" in row for row in rows):
                changes = {"metadata": {"labels": {OPEN: None}}}
                closed += await self._api.patch(CONFIGURATIONS, page, changes) is not None
        return closed

    async def prune(self, before: datetime) -> int:
        """Delete closed ConfigMaps of a day, and of some days before it."""
        gone = 0
        for back in range(MISSED):
            async for _, page in self._of_day(before - timedelta(days=back)):
                if page is None:
                    break
                if OPEN not in section(page["metadata"], "labels"):
                    gone += await self._api.delete(CONFIGURATIONS, page)
        return gone

    def _open(self) -> AsyncIterator[Document]:
        return self._api.list(CONFIGURATIONS, self._namespace, {LABEL: OF, OPEN: "true"})

    async def _of_day(self, day: datetime) -> AsyncIterator[tuple[str, Document | None]]:
        """Yield the ConfigMaps of a day by name, and last the first name that is free."""
        for number in range(1, 1000):
            name = _day(day) if number == 1 else f"{_day(day)}-{number}"
            page = await self._api.find(CONFIGURATIONS, name, self._namespace)
            yield name, page
            if page is None:
                return


def _day(now: datetime) -> str:
    return f"{OF}-{now:%Y-%m-%d}"


def _text(facts: dict[str, str]) -> str:
    return json.dumps(facts, separators=(",", ":"), sort_keys=True)
