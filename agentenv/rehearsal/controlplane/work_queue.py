"""A controller's work queue: each key once, however often its object changed, with retries after failures."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    """Keys with the time from which each is due; safe to share between threads."""

    def __init__(self, first_delay: float = 0.5, longest_delay: float = 30.0) -> None:
        self._first_delay = first_delay
        self._longest_delay = longest_delay
        self._due: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        self._changed = threading.Condition()

    def add(self, key: K, after: float = 0.0) -> None:
        """Add a key, due after so many seconds or at its earlier due time."""
        with self._changed:
            due = time.monotonic() + after
            self._due[key] = min(due, self._due.get(key, due))
            self._changed.notify()

    def retry(self, key: K) -> None:
        """Add a key again after a failure, with a delay that doubles each time."""
        with self._changed:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
        self.add(key, min(self._longest_delay, self._first_delay * 2 ** (failures - 1)))

    def forget(self, key: K) -> None:
        """Reset the failures of a key."""
        with self._changed:
            self._failures.pop(key, None)

    def get(self, timeout: float) -> K | None:
        """Return the next due key; None if none is due within the timeout."""
        end = time.monotonic() + timeout
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
