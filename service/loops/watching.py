"""All workspaces as the API server tells of their changes, so that ten thousand that idle cost nothing to look at.

Listed once and watched from there, and listed anew every ten minutes: a watch that has silently died is an old one. It
is only ever where loops look for work; whatever they then do is decided about a claim that was read anew.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from service.cluster import CLAIMS, Document, Kind
from service.loops.context import Attended, attended

ANEW = 600.0
PAUSE = 5.0
Row = TypeVar("Row")
_LOG = logging.getLogger(__name__)


class Watching(Protocol):
    """An API server that tells of changes."""

    def listed(self, kind: Kind, row: Callable[[Document], Row]) -> tuple[list[Row], str]:
        """A row of each of a kind, and as of which version that is."""
        ...

    def watched(self, kind: Kind, version: str) -> Iterator[tuple[str, Document]]:
        """What changes from that version on: ADDED, MODIFIED or DELETED, and what it is now."""
        ...


class Watched:
    """Workspaces, kept in step by a thread of its own from the first time that they are asked for."""

    def __init__(self, cluster: Watching, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._cluster, self._monotonic = cluster, monotonic
        self._lock = threading.Lock()
        self._found: dict[str, Attended] = {}
        self._listed: float | None = None
        self._version = ""
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    def all(self) -> Sequence[Attended]:
        """As they are, as far as one was told."""
        with self._lock:
            if self._listed is None or self._monotonic() - self._listed > ANEW:
                rows, self._version = self._cluster.listed(CLAIMS, lambda one: (one["metadata"]["uid"], attended(one)))
                self._found = {uid: read for uid, read in rows if read is not None}
                self._listed = self._monotonic()
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep_up, name="claims", daemon=True)
                self._thread.start()
            return [*self._found.values()]

    def end(self) -> None:
        """Be told no longer."""
        self._ended.set()

    def _keep_up(self) -> None:
        while not self._ended.is_set():
            try:
                for change, document in self._cluster.watched(CLAIMS, self._version):
                    if self._ended.is_set():
                        return
                    self._take(change, document)
            except Exception as error:  # noqa: BLE001 - it is listed anew, whatever it was
                _LOG.info("claims are listed anew", extra={"facts": {"why": f"{type(error).__name__}: {error}"}})
            with self._lock:
                self._listed = None
            self._ended.wait(PAUSE)
            while not self._ended.wait(0.2):
                with self._lock:
                    if self._listed is not None:
                        break

    def _take(self, change: str, document: Document) -> None:
        uid = document["metadata"]["uid"]
        read = attended(document) if change != "DELETED" else None
        with self._lock:
            if read is None:
                self._found.pop(uid, None)
            else:
                self._found[uid] = read
