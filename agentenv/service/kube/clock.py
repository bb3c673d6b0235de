"""Keep time by the API server's clock, which is the same for all replicas."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

# For so many seconds after a response, the time is certain enough to destroy data. The leader renews more often.
FRESH = 30.0
# A response is older by its latency when it is read. If the server seems to be behind by more than this, its clock was
# set back.
LONGEST = timedelta(seconds=10)


class ServerClock:
    """The API server's clock: its last known time, and the time since then by the monotonic clock.

    Until the first response the local clock is used, and never after: it may be adjusted at any moment. The time goes
    back only if the server's clock does, and is never ahead of it. Each response is a lower bound, and the latest bound
    counts. So no timestamp lies in the future.
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
        """Return whether a recent response has confirmed the time."""
        return self._reference is not None and self.monotonic() - self._last_response < FRESH

    def now(self) -> datetime:
        """Return the current time."""
        return self._at(self.monotonic())

    def observe(self, server: datetime, at: float) -> None:
        """Record the server's time at a time of the monotonic clock, or shortly before.

        The server truncates to whole seconds: its time may have been up to a second later.
        """
        self._last_response = at
        if self._reference is None or not timedelta(0) <= self._at(at) - server < LONGEST:
            self._reference = (server, at)

    def observe_date(self, date: str | None) -> None:
        """Record the `Date` header of a response that was just received; ignore an invalid one."""
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
