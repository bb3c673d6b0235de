"""Keep a cache of all objects of a kind up to date by a list and a watch.

A broken watch is continued from its resource version. If that has expired, everything is listed again, and objects that
are gone are dropped. The cache lags behind the API server, and more so while the server is not available: it is never
the source of truth.

An object whose update cannot be read is dropped, reported and counted. What was known of it is outdated, and the
updates of other objects must not wait for it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import time
from collections.abc import Callable
from typing import Any

import httpx2

from agentenv.core.values.object_fields import section, text
from agentenv.service.kube.client import WATCH_SILENCE, Document, Kind, KubeApiError, KubeClient, WatchExpiredError
from agentenv.service.kube.unreadable import REPORTS, Key, Reports, key_of

_LOG = logging.getLogger(__name__)
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0
# Objects of a list that are read without a pause for other requests.
AT_ONCE = 100
# The cache is stale after so many seconds without an event. In a quiet cluster bookmarks are events. A connection that
# broke without notice is detected and replaced within this time.
STALE_AFTER = WATCH_SILENCE + 3 * LONGEST_PAUSE


class Informer:
    """An informer of the objects of a kind, in all namespaces or in one; `metadata_only` omits spec and status.

    `on_list` is called with true before a list, whose objects are in no order, and with false after it.
    """

    def __init__(
        self,
        kube: KubeClient,
        kind: Kind,
        put: Callable[[Document], None],
        drop: Callable[[Key], None],
        *,
        on_list: Callable[[bool], None] = lambda _: None,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        metadata_only: bool = False,
        clock: Callable[[], float] = time.monotonic,
        reports: Reports = REPORTS,
    ) -> None:
        self._kube, self._kind = kube, kind
        self._clock, self._reports = clock, reports
        self._put, self._drop, self._on_list = put, drop, on_list
        self._selector: dict[str, Any] = {
            "namespace": namespace,
            "labels": labels,
            "fields": fields,
            "metadata_only": metadata_only,
        }
        self._known: set[Key] = set()
        self._version = ""
        self._last_event = -STALE_AFTER  # when the cache was last known to be complete
        self.listed = asyncio.Event()
        self.watching = False  # whether a watch is open
        self.unreadable: set[Key] = set()

    @property
    def kind(self) -> str:
        """Return the kind of the objects."""
        return self._kind.kind

    @property
    def fresh(self) -> bool:
        """Return whether everything was listed once, and the last event is no older than `STALE_AFTER`."""
        return self.listed.is_set() and self._clock() - self._last_event <= STALE_AFTER

    async def run(self) -> None:
        """List and watch until cancelled."""
        pause = FIRST_PAUSE
        while True:
            try:
                if not self._version:
                    await self._list()
                    self.listed.set()
                async for event_type, document in self._kube.watch(
                    self._kind,
                    self._version,
                    seconds=random.randint(240, 360),  # noqa: S311 - so that replicas do not reconnect together
                    on_open=self._on_open,
                    **self._selector,
                ):
                    self._handle_event(event_type, document)
                    pause = FIRST_PAUSE
                self.watching = False
                continue
            except WatchExpiredError:
                self._version = ""
            except KubeApiError as error:
                level = logging.WARNING if error.transient else logging.ERROR
                _LOG.log(level, "%s cannot be watched: %s", self._kind.plural, error.message)
            except httpx2.HTTPError as failure:
                _LOG.warning("%s cannot be watched: %r", self._kind.plural, failure)
            self.watching = False
            await asyncio.sleep(pause * (0.5 + random.random()))  # noqa: S311 - no secret
            pause = min(pause * 2, LONGEST_PAUSE)

    def _on_open(self) -> None:
        self.watching = True
        self._last_event = self._clock()

    async def _list(self) -> None:
        began = self._clock()
        self._on_list(True)
        seen: set[Key] = set()
        version = ""
        async for page, page_version in self._kube.pages(self._kind, **self._selector):
            version = page_version
            for number, document in enumerate(page, 1):
                key = key_of(document)
                seen.add(key)
                # Also where this list fails later: the next one may not have it any more.
                self._known.add(key)
                self._update(document)
                if number % AT_ONCE == 0:
                    # Reading a hundred takes some ten milliseconds; let other requests run in between.
                    await asyncio.sleep(0)
            # What was read is no garbage: a collection that visits all of a large cache takes half a second.
            gc.freeze()
            await asyncio.sleep(0)
        for key in self._known - seen:
            self._remove(key)
        self._known, self._version, self._last_event = seen, version, began
        self._on_list(False)

    def _handle_event(self, event_type: str, document: Document) -> None:
        self._last_event = self._clock()
        self._version = text(section(document, "metadata"), "resourceVersion") or self._version
        if event_type == "BOOKMARK":
            return
        key = key_of(document)
        if event_type == "DELETED":
            self._known.discard(key)
            self._remove(key)
        else:
            self._known.add(key)
            self._update(document)

    def _update(self, document: Document) -> None:
        key = key_of(document)
        try:
            self._put(document)
        except Exception as failure:  # noqa: BLE001 - one unreadable object does not stop the others
            self._remove(key)
            self.unreadable.add(key)
            self._reports.report(self.kind, key, failure)
        else:
            self.unreadable.discard(key)

    def _remove(self, key: Key) -> None:
        self.unreadable.discard(key)
        try:
            self._drop(key)
        except Exception as failure:  # noqa: BLE001 - nor does it end the watch
            self._reports.report(self.kind, key, failure)
