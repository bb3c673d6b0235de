"""The journal of the endpoint: every call with its status, and the two lists of what is not simulated.

`stored_only` lists operations that only store what was sent; `unknown` lists operations that neither a handler nor
moto could answer. Both contain only operations that were called.
"""

from __future__ import annotations

import threading
import time
from typing import IO, TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from pathlib import Path


class Entry(TypedDict):
    """One call, as `/_cloud/calls` returns it."""

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
        """Record a call with its response status."""
        with self._lock:
            self._calls.append({"service": service, "operation": operation, "status": status})

    def record_stored_only(self, service: str, operation: str) -> None:
        """Record that this operation only stored its input."""
        with self._lock:
            self._stored_only[f"{service} {operation}"] = None

    def record_unknown(self, service: str, operation: str) -> None:
        """Note that nobody here can answer this operation."""
        with self._lock:
            self._unknown[f"{service} {operation}"] = None
        self.log(f"unknown operation: {service} {operation}")

    def log(self, text: str) -> None:
        """Append a line to the log file, if there is one."""
        with self._lock:
            if self._file is not None and not self._file.closed:
                self._file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {text}\n")

    def calls(self, since: int = 0) -> list[Entry]:
        """Return the calls from the given number on."""
        with self._lock:
            return self._calls[max(since, 0) :]

    @property
    def stored_only(self) -> list[str]:
        """Return the operations that only stored their input."""
        with self._lock:
            return sorted(self._stored_only)

    @property
    def unknown(self) -> list[str]:
        """Return the operations that were not known."""
        with self._lock:
            return sorted(self._unknown)

    def close(self) -> None:
        """Close the log file."""
        with self._lock:
            if self._file is not None:
                self._file.close()
