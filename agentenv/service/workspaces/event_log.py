"""The recent events of all workspaces in the memory of a replica, and the callers that follow them.

Each event has a number. Numbers grow, and are the same at every replica, so a caller continues at any of them. What a
workspace is now has no number: it is read again after a pause. Memory is bounded, for the log and for each follower.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from agentenv.core.values.object_fields import required, section, text
from agentenv.core.workspaces.workspace import Event
from agentenv.service.kube.client import Document
from agentenv.service.kube.unreadable import Key
from agentenv.service.workspaces.events import event_of

MOST_EVENTS = 5_000
# A follower that is behind by more is dropped: it continues after the last event that it got.
MOST_BEHIND = 500


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event of a workspace, by its number."""

    number: int
    workspace: str
    event: Event


@dataclass(eq=False)
class Follower:
    """What one caller has not been sent yet; `after` is the number of the last event that it knows."""

    after: int | None
    events: deque[LoggedEvent] = field(default_factory=deque[LoggedEvent])
    changed: dict[str, None] = field(default_factory=dict[str, None])  # ids of workspaces, each once
    dropped: bool = False
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait(self, seconds: float) -> bool:
        """Wait until there is something to send; return False where nothing came in so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return False
        return True

    def take(self) -> tuple[list[LoggedEvent], list[str]]:
        """Return the events and the changed workspaces since the last call."""
        events, changed = list(self.events), list(self.changed)
        self.events.clear()
        self.changed.clear()
        self._wake.clear()
        return events, changed

    def add(self, logged: LoggedEvent) -> None:
        """Add an event to send, if it is not known."""
        if logged.number > (self.after or 0):
            self.events.append(logged)
            self._limit()

    def add_change(self, id_: str) -> None:
        """Add a changed workspace to send."""
        self.changed[id_] = None
        self._limit()

    def _limit(self) -> None:
        if len(self.events) + len(self.changed) > MOST_BEHIND:
            self.dropped = True
            self.events.clear()
            self.changed.clear()
        self._wake.set()


class EventLog:
    """The events of one replica, in the order of their numbers."""

    def __init__(self) -> None:
        self._rows: list[LoggedEvent] = []
        self._forgotten = 0  # the highest number that is not held any more
        self._followers: set[Follower] = set()
        self.loaded = False  # whether the events of before the start were read

    @property
    def latest(self) -> int:
        """Return the number of the latest event."""
        return self._rows[-1].number if self._rows else self._forgotten

    def add(self, number: int, workspace: str, event: Event) -> None:
        """Add an event; one that is known changes nothing."""
        place = bisect_right(self._rows, number, key=lambda row: row.number)
        if number <= self._forgotten or (place and self._rows[place - 1].number == number):
            return
        logged = LoggedEvent(number, workspace, event)
        self._rows.insert(place, logged)
        if len(self._rows) > MOST_EVENTS:
            self._forgotten = self._rows.pop(0).number
        for follower in self._followers:
            if self.loaded or follower.after is not None:
                follower.add(logged)

    def note_change(self, id_: str) -> None:
        """Record that a workspace changed, appeared or is gone."""
        for follower in self._followers:
            follower.add_change(id_)

    def since(self, number: int) -> tuple[list[LoggedEvent], bool]:
        """Return the events after a number, and whether they are all that there were.

        A number that no event has yet is one of another log.
        """
        rows = self._rows[bisect_right(self._rows, number, key=lambda row: row.number) :]
        return rows, self._forgotten <= number and (number <= self.latest or not self.loaded)

    @contextmanager
    def following(self, after: int | None) -> Generator[Follower]:
        """Follow what is added after an event, or from now on, while the context is open."""
        follower = Follower(after)
        self._followers.add(follower)
        try:
            yield follower
        finally:
            self._followers.discard(follower)

    # Updates by an informer of Kubernetes events.

    def set_listing(self, listing: bool) -> None:
        """Record that the events of before the start are being read, or were."""
        self.loaded = self.loaded or not listing

    def put(self, document: Document) -> None:
        """Add the event of a claim; its resource version, which etcd gives, is its number."""
        event = event_of(document)
        version = required(document, "metadata", "resourceVersion")
        if event is not None and version.isdigit():
            self.add(int(version), text(section(document, "involvedObject"), "name"), event)

    def drop(self, _: Key) -> None:
        """Keep an event that Kubernetes has deleted after its hour: only newer ones replace it."""
