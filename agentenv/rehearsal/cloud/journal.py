"""What the endpoint was asked: every call with its status, and the two lists that keep the simulation honest.

`kept` names operations that are answered by remembering what was sent and nothing more; `unknown` names those that
nobody here could answer. Both hold only what was really called.
"""

from __future__ import annotations

import threading
import time
from typing import IO, TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from pathlib import Path


class Entry(TypedDict):
    """One call, as `/_cloud/calls` shows it."""

    service: str
    operation: str
    status: int


class Journal:
    """The calls so far, in order; safe to use from many connections."""

    def __init__(self, log: Path | None = None) -> None:
        self._lock = threading.Lock()
        self._calls: list[Entry] = []
        self._stored_only: dict[str, None] = {}
        self._unknown: dict[str, None] = {}
        self._file: IO[str] | None = None
        if log is not None:
            log.parent.mkdir(parents=True, exist_ok=True)
            self._file = log.open("a", encoding="utf-8", buffering=1)

    def record_call(self, service: str, operation: str, status: int) -> None:
        """Write a call down once its answer is known."""
        with self._lock:
            self._calls.append({"service": service, "operation": operation, "status": status})

    def record_stored_only(self, service: str, operation: str) -> None:
        """Note that this operation was answered without being simulated."""
        with self._lock:
            self._stored_only[f"{service} {operation}"] = None

    def record_unknown(self, service: str, operation: str) -> None:
        """Note that nobody here can answer this operation."""
        with self._lock:
            self._unknown[f"{service} {operation}"] = None
        self.log(f"unknown operation: {service} {operation}")

    def log(self, text: str) -> None:
        """A line for the log file, where there is one."""
        with self._lock:
            if self._file is not None and not self._file.closed:
                self._file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {text}\n")

    def calls(self, since: int = 0) -> list[Entry]:
        """The calls from the given number on."""
        with self._lock:
            return self._calls[max(since, 0) :]

    @property
    def stored_only(self) -> list[str]:
        """What was answered by being remembered only."""
        with self._lock:
            return sorted(self._stored_only)

    @property
    def unknown(self) -> list[str]:
        """What nobody could answer."""
        with self._lock:
            return sorted(self._unknown)

    def close(self) -> None:
        """Let go of the log file."""
        with self._lock:
            if self._file is not None:
                self._file.close()
