"""Being told of changes: kept in step, and listed anew whenever the telling ends."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

from service.cluster import CLAIMS, Document
from service.loops import watching
from service.loops.watching import ANEW, Row, Watched
from tests.fast.service.loops.house import SPACE, House

PATIENCE = 10.0


class Server:
    """Lists what a shelf has, and tells what it is told to."""

    def __init__(self) -> None:
        self.house = House()
        self.lists = 0
        self.tells: queue.Queue[tuple[str, Document] | None] = queue.Queue()
        self.taken = threading.Event()

    def claim(self, name: str, **notes: str) -> Document:
        self.house.workspace(name, **notes)
        return self.house.shelf.things[CLAIMS, SPACE, name]

    def listed(self, kind: Any, row: Callable[[Document], Row]) -> tuple[list[Row], str]:
        self.lists += 1
        return [row(one) for one in self.house.shelf.list(kind)], str(self.lists)

    def watched(self, kind: Any, version: str) -> Iterator[tuple[str, Document]]:
        assert kind is CLAIMS
        assert version
        while (told := self.tells.get()) is not None:
            yield told
            self.taken.set()
        raise ConnectionError("the server is gone")

    def tell(self, change: str, document: Document) -> None:
        self.taken.clear()
        self.tells.put((change, document))
        assert self.taken.wait(PATIENCE)


def names(watched: Watched) -> list[str]:
    return sorted(one.workspace.id for one in watched.all())


def test_changes_are_taken_up_without_asking_again() -> None:
    server = Server()
    server.claim("w-1")
    watched = Watched(server, lambda: 0.0)
    assert names(watched) == ["w-1"]
    second = server.claim("w-2")
    assert names(watched) == ["w-1"]
    server.tell("ADDED", second)
    assert names(watched) == ["w-1", "w-2"]
    server.tell("MODIFIED", {**second, "metadata": {**second["metadata"], "deletionTimestamp": "2026-11-18T12:00:00Z"}})
    assert [one.workspace.state for one in watched.all() if one.workspace.id == "w-2"] == ["deleting"]
    server.tell("DELETED", second)
    assert (names(watched), server.lists) == (["w-1"], 1)
    watched.end()
    server.tells.put(None)


def test_when_the_telling_ends_all_is_listed_anew(monkeypatch: Any) -> None:
    monkeypatch.setattr(watching, "PAUSE", 0.0)
    server = Server()
    watched = Watched(server, lambda: 0.0)
    assert names(watched) == []
    server.claim("w-1")
    server.tells.put(None)
    # What was missed is there as soon as it is known that something was.
    gone = threading.Event()
    for _ in range(200):
        if names(watched) == ["w-1"]:
            gone.set()
            break
        threading.Event().wait(0.05)
    assert gone.is_set()
    server.tell("ADDED", server.claim("w-2"))
    assert names(watched) == ["w-1", "w-2"]
    watched.end()
    server.tells.put(None)


def test_what_a_dead_watch_missed_is_found_after_a_while() -> None:
    server, time = Server(), [0.0]
    watched = Watched(server, lambda: time[0])
    assert names(watched) == []
    server.claim("w-1")
    time[0] = ANEW - 1
    assert names(watched) == []
    time[0] = ANEW + 1
    assert names(watched) == ["w-1"]
    watched.end()
    server.tells.put(None)
