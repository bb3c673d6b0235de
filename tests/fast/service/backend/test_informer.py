"""Keeping up with what there is: over broken watches, versions that are too old, and what went while nobody looked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx2
import pytest

from service.backend import informer
from service.backend.informer import Informer, Key
from service.backend.wire import CLAIMS, Gone, Refused
from service.problems import Problem


def thing(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"namespace": "here", "name": name, "resourceVersion": str(version)}}


class Told:
    """What an informer is told, a list or a watch at a time; then nothing more."""

    def __init__(self, *turns: Any) -> None:
        self.turns = list(turns)
        self.since: list[str] = []

    async def list(self, *_: Any, **__: Any) -> AsyncIterator[tuple[Any, str]]:
        found = self.turns.pop(0)
        if isinstance(found, Exception):
            raise found
        yield found, "10"

    async def watch(self, _kind: Any, version: str, **_: Any) -> AsyncIterator[tuple[str, Any]]:
        self.since.append(version)
        if not self.turns:
            await asyncio.Event().wait()
        for one in self.turns.pop(0):
            if isinstance(one, Exception):
                raise one
            yield one


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(informer, "FIRST_PAUSE", 0.0)
    monkeypatch.setattr(informer, "LONGEST_PAUSE", 0.0)


def followed(told: Told, until: Callable[[dict[str, str]], bool]) -> dict[str, str]:
    """What an informer knows in the end."""
    known: dict[str, str] = {}

    def put(one: Any) -> None:
        known[one["metadata"]["name"]] = one["metadata"]["resourceVersion"]

    def drop(key: Key) -> None:
        known.pop(key[1])

    async def play() -> None:
        wire: Any = told
        one = Informer(wire, CLAIMS, put, drop)
        task = asyncio.create_task(one.run())
        async with asyncio.timeout(5):
            while told.turns or not until(known):
                await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    running: Awaitable[None] = play()
    asyncio.run(running)  # type: ignore[arg-type]
    return known


def test_a_broken_watch_is_taken_up_where_it_was() -> None:
    broken = httpx2.ReadError("cut")
    told = Told([thing("a", 3)], [("ADDED", thing("b", 11)), broken], [("MODIFIED", thing("b", 12))])
    assert followed(told, lambda known: known.get("b") == "12") == {"a": "3", "b": "12"}
    assert told.since[:3] == ["10", "11", "12"]


def test_bookmarks_move_on_what_is_asked_from_and_nothing_else() -> None:
    told = Told([], [("BOOKMARK", thing("", 40))], [("ADDED", thing("a", 41))])
    assert followed(told, lambda known: "a" in known) == {"a": "41"}
    assert told.since[1] == "40"


def test_what_went_while_nobody_looked_is_told_as_gone() -> None:
    told = Told([thing("a", 3), thing("b", 4)], [Gone("too old")], [thing("b", 9)])
    assert followed(told, lambda known: "a" not in known) == {"b": "9"}


@pytest.mark.parametrize(
    "failure", [httpx2.ConnectError("away"), Problem("unavailable", "away", "wait"), Refused(403, "Forbidden", "no")]
)
def test_a_server_that_is_away_is_asked_until_it_is_back(failure: Exception) -> None:
    told = Told(failure, failure, failure, [thing("a", 3)])
    assert followed(told, lambda known: "a" in known) == {"a": "3"}
