"""The open event streams of a replica: their number, in all and of an owner, is limited."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from agentenv.service.http.problems import Problem

MOST_STREAMS, MOST_STREAMS_OF_OWNER = 400, 20


@dataclass
class Streams:
    """The open streams."""

    _of: Counter[str] = field(default_factory=Counter[str])

    def check(self, owner: str) -> None:
        """Raise a `Problem` where an owner may not open another one."""
        if self._of[owner] >= MOST_STREAMS_OF_OWNER or self._of.total() >= MOST_STREAMS:
            detail = f"an owner has at most {MOST_STREAMS_OF_OWNER} streams, and a replica {MOST_STREAMS}"
            raise Problem("too-many-requests", detail, "close one, or retry in a minute", retry_after=60)

    @contextmanager
    def opened(self, owner: str) -> Generator[None]:
        """Count a stream while the context is open."""
        self._of[owner] += 1
        try:
            yield
        finally:
            self._of[owner] -= 1
            if not self._of[owner]:
                del self._of[owner]
