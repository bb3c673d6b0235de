"""Keeps up with all objects of a kind: what there is, and then what happens to them.

It lists once and watches from there. Where a watch breaks it is taken up where it was; where that is too long ago
everything is listed again, and what is no longer there is told as gone. Nobody may take what it tells for the truth: it
is a moment old, and older while the API server is away.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Any

import httpx2

from service.backend.wire import Document, Gone, Kind, Refused, Wire
from service.problems import Problem

_LOG = logging.getLogger(__name__)
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0

Key = tuple[str, str]


class Informer:
    """All objects of a kind that have certain labels; `bare` for no more than their metadata."""

    def __init__(
        self,
        wire: Wire,
        kind: Kind,
        put: Callable[[Document], None],
        drop: Callable[[Key], None],
        *,
        labels: str = "",
        fields: str = "",
        bare: bool = False,
    ) -> None:
        self._wire, self._kind = wire, kind
        self._put, self._drop = put, drop
        self._chosen: dict[str, Any] = {"labels": labels, "fields": fields, "bare": bare}
        self._known: set[Key] = set()
        self._version = ""
        self.listed = asyncio.Event()
        self.watching = False  # whether the server tells it of changes just now

    async def run(self) -> None:
        """Keep up until cancelled."""
        pause = FIRST_PAUSE
        while True:
            try:
                if not self._version:
                    await self._list()
                    self.listed.set()
                async for what, document in self._wire.watch(
                    self._kind,
                    self._version,
                    seconds=random.randint(240, 360),  # noqa: S311 - so that not all replicas come back at once
                    begun=self._begun,
                    **self._chosen,
                ):
                    self._happened(what, document)
                    pause = FIRST_PAUSE
                self.watching = False
                continue
            except Gone:
                self._version = ""
            except (httpx2.HTTPError, Problem) as failure:
                _LOG.warning("%s cannot be watched: %r", self._kind.plural, failure)
            except Refused as refusal:
                _LOG.error("%s may not be watched: %s", self._kind.plural, refusal.message)
            self.watching = False
            await asyncio.sleep(pause * (0.5 + random.random()))  # noqa: S311 - no secret
            pause = min(pause * 2, LONGEST_PAUSE)

    def _begun(self) -> None:
        self.watching = True

    async def _list(self) -> None:
        seen: set[Key] = set()
        version = ""
        async for page, of in self._wire.list(self._kind, **self._chosen):
            version = of
            for document in page:
                seen.add(_key(document))
                self._put(document)
            # A page of hundreds takes milliseconds to read; whoever waits for an answer is let through between.
            await asyncio.sleep(0)
        for key in self._known - seen:
            self._drop(key)
        self._known, self._version = seen, version

    def _happened(self, what: str, document: Document) -> None:
        about: dict[str, Any] = document["metadata"]
        self._version = about["resourceVersion"]
        if what == "BOOKMARK":
            return
        key = _key(document)
        if what == "DELETED":
            self._known.discard(key)
            self._drop(key)
        else:
            self._known.add(key)
            self._put(document)


def _key(document: Document) -> Key:
    about = document["metadata"]
    return about.get("namespace", ""), about["name"]
