"""What a controller has to look at: each thing once however often it changed, later again where that failed."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Work(Generic[K]):
    """Keys of things, each with the moment from which on it is to be looked at; safe to share between threads."""

    def __init__(self, first: float = 0.5, longest: float = 30.0) -> None:
        self._first = first
        self._longest = longest
        self._due: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        self._changed = threading.Condition()

    def put(self, key: K, after: float = 0.0) -> None:
        """Look at it after so many seconds, or sooner if that was said before."""
        with self._changed:
            due = time.monotonic() + after
            self._due[key] = min(due, self._due.get(key, due))
            self._changed.notify()

    def again(self, key: K) -> None:
        """Looking at it failed: once more, after a while that doubles each time."""
        with self._changed:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
        self.put(key, min(self._longest, self._first * 2 ** (failures - 1)))

    def done(self, key: K) -> None:
        """Looking at it went well."""
        with self._changed:
            self._failures.pop(key, None)

    def take(self, patience: float) -> K | None:
        """The next thing that is due; None if none is within so many seconds."""
        end = time.monotonic() + patience
        with self._changed:
            while True:
                now = time.monotonic()
                if self._due:
                    key, due = min(self._due.items(), key=lambda row: row[1])
                    if due <= now:
                        del self._due[key]
                        return key
                    wait = min(due, end) - now
                else:
                    wait = end - now
                if now >= end:
                    return None
                self._changed.wait(wait)
