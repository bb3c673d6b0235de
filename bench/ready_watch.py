"""When objects become Ready: by a watch, which asks the API server nothing while a benchmark measures."""

from __future__ import annotations

import threading
import time

from agentenv.cli.main import CommandError
from agentenv.rehearsal.controlplane.client import Client, has_condition

_TIMEOUT_SECONDS = 60.0


class ReadyWatch:
    """The times at which the objects of one kind and namespace became Ready, from a watch."""

    def __init__(self, client: Client, path: str) -> None:
        self._path = path
        self._ready_times: dict[str, float] = {}
        self._changed = threading.Condition()
        self._ended = threading.Event()
        threading.Thread(target=self._follow, args=(client,), daemon=True).start()

    def ready(self, name: str) -> float:
        """Wait until an object is Ready, and return the time."""
        with self._changed:
            if not self._changed.wait_for(lambda: name in self._ready_times, _TIMEOUT_SECONDS):
                raise CommandError(f"{self._path}/{name} did not become Ready within {_TIMEOUT_SECONDS:.0f} s")
            return self._ready_times[name]

    def end(self) -> None:
        """Stop the watch at its next event."""
        self._ended.set()

    def _follow(self, client: Client) -> None:
        for _, manifest in client.watch(self._path, self._ended):
            if has_condition(manifest):
                with self._changed:
                    self._ready_times.setdefault(manifest["metadata"]["name"], time.monotonic())
                    self._changed.notify_all()
