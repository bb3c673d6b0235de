"""What time it is, as the API server says: one time for all replicas, whatever their machines' clocks say."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

# For how long what the server said is enough to destroy by. Who leads is told at each renewal.
FRESH = 30.0
# What is told by an answer is older when it is read, by as long as the answer took. A server that seems to be further
# behind than any takes was put back.
LONGEST = timedelta(seconds=10)


class ServerClock:
    """The API server's clock: what it said, and how long ago that was by a clock that nobody sets.

    This machine's own time is gone by until the server has said something, and never after: it may be put right, or
    wrong, at any moment. It goes back only with the server's own clock, and is never ahead of that: each answer says
    what time it was at least, and the latest of them counts. So nothing is dated in the future.
    """

    def __init__(
        self,
        local: Callable[[], datetime] = lambda: datetime.now(UTC),
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.local, self.monotonic = local, monotonic
        self._reference: tuple[datetime, float] | None = None
        self._last_response = 0.0

    @property
    def known(self) -> bool:
        """Whether the server has said lately what time it is."""
        return self._reference is not None and self.monotonic() - self._last_response < FRESH

    def now(self) -> datetime:
        """What time it is."""
        return self._at(self.monotonic())

    def observe(self, server: datetime, at: float) -> None:
        """It was this time by the server's clock, at that moment of the monotonic one or a little before.

        The server tells whole seconds, cut off: it may have been up to a second later.
        """
        self._last_response = at
        if self._reference is None or not timedelta(0) <= self._at(at) - server < LONGEST:
            self._reference = (server, at)

    def observe_date(self, date: str | None) -> None:
        """The server has just answered, at this date by its own clock; what is no date says nothing."""
        at = self.monotonic()
        try:
            server = parsedate_to_datetime(date or "")
        except ValueError:
            return
        self.observe(server if server.tzinfo else server.replace(tzinfo=UTC), at)

    def _at(self, moment: float) -> datetime:
        if self._reference is None:
            return self.local()
        server, at = self._reference
        return server + timedelta(seconds=moment - at)
