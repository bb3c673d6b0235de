"""Informers with broken watches, expired versions, missed deletions and unreadable objects."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agentenv.service.kube import informer
from agentenv.service.kube.client import CLAIMS, WATCH_SILENCE, KubeApiError, WatchExpiredError
from agentenv.service.kube.informer import LONGEST_PAUSE, STALE_AFTER, Informer, Key
from agentenv.service.kube.unreadable import Reports


def thing(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"namespace": "here", "name": name, "resourceVersion": str(version)}}


class Told:
    """What an informer is told, a list or a watch at a time; then nothing more."""

    def __init__(self, *turns: Any) -> None:
        self.turns = list(turns)
        self.since: list[str] = []

    async def pages(self, *_: Any, **__: Any) -> AsyncIterator[tuple[Any, str]]:
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
        kube: Any = told
        one = Informer(kube, CLAIMS, put, drop)
        task = asyncio.create_task(one.run())
        async with asyncio.timeout(5):
            while told.turns or not until(known):
                await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    running: Awaitable[None] = play()
    asyncio.run(running)  # type: ignore[arg-type]
    return known


class Fragile:
    """Keeps objects by name, and raises for those whose `odd` field says so."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}

    def put(self, one: Any) -> None:
        if one.get("odd"):
            raise ValueError(one["odd"])
        self.known[one["metadata"]["name"]] = one["metadata"]["resourceVersion"]

    def drop(self, key: Key) -> None:
        self.known.pop(key[1], None)


def informed(told: Told, kept: Fragile, until: Callable[[Informer], bool]) -> Informer:
    """Return an informer that has been told everything, once it is as a test says."""

    async def play() -> Informer:
        kube: Any = told
        one = Informer(kube, CLAIMS, kept.put, kept.drop, reports=Reports())
        task = asyncio.create_task(one.run())
        async with asyncio.timeout(5):
            while (told.turns or not until(one)) and not task.done():
                await asyncio.sleep(0)
        assert not task.done(), task
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return one

    return asyncio.run(play())


def odd(name: str, version: int) -> dict[str, Any]:
    return {**thing(name, version), "odd": "content of the object"}


def test_a_broken_watch_continues_from_its_version() -> None:
    broken = httpx2.ReadError("cut")
    told = Told([thing("a", 3)], [("ADDED", thing("b", 11)), broken], [("MODIFIED", thing("b", 12))])
    assert followed(told, lambda known: known.get("b") == "12") == {"a": "3", "b": "12"}
    assert told.since[:3] == ["10", "11", "12"]


def test_bookmarks_only_advance_the_version() -> None:
    told = Told([], [("BOOKMARK", thing("", 40))], [("ADDED", thing("a", 41))])
    assert followed(told, lambda known: "a" in known) == {"a": "41"}
    assert told.since[1] == "40"


def test_objects_deleted_between_watches_are_dropped() -> None:
    told = Told([thing("a", 3), thing("b", 4)], [WatchExpiredError("too old")], [thing("b", 9)])
    assert followed(told, lambda known: "a" not in known) == {"b": "9"}


@pytest.mark.parametrize(
    "failure",
    [httpx2.ConnectError("away"), KubeApiError("away", 503), KubeApiError("no", 403, "Forbidden")],
)
def test_an_unavailable_server_is_retried(failure: Exception) -> None:
    told = Told(failure, failure, failure, [thing("a", 3)])
    assert followed(told, lambda known: "a" in known) == {"a": "3"}


def test_an_object_that_cannot_be_read_does_not_end_the_watch() -> None:
    kept = Fragile()
    told = Told([odd("a", 3), thing("b", 4)], [("MODIFIED", odd("a", 11)), ("ADDED", thing("c", 12))])
    one = informed(told, kept, lambda _: "c" in kept.known)
    assert kept.known == {"b": "4", "c": "12"}
    assert one.unreadable == {("here", "a")}
    assert told.since[-1] == "12"


def test_an_unreadable_update_drops_the_cached_object() -> None:
    kept = Fragile()
    told = Told([thing("a", 3)], [("MODIFIED", odd("a", 11))])
    one = informed(told, kept, lambda one: bool(one.unreadable))
    assert (kept.known, one.unreadable) == ({}, {("here", "a")})


@pytest.mark.parametrize(
    ("events", "known"),
    [
        ([("MODIFIED", thing("a", 11))], {"a": "11"}),
        ([("DELETED", odd("a", 11))], {}),
        ([WatchExpiredError("too old")], {}),
    ],
)
def test_an_object_is_not_unreadable_once_corrected_or_deleted(events: Any, known: dict[str, str]) -> None:
    kept = Fragile()
    relisted = [[]] if isinstance(events[0], WatchExpiredError) else []
    one = informed(Told([odd("a", 3)], events, *relisted), kept, lambda one: not one.unreadable)
    assert kept.known == known
    assert not one.unreadable


def test_the_log_names_an_unreadable_object_once_and_never_its_content(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    updates = [("MODIFIED", odd("a", version)) for version in range(11, 200)]
    kept = Fragile()
    informed(Told([odd("a", 3)], [*updates, ("ADDED", thing("b", 200))]), kept, lambda _: "b" in kept.known)
    (record,) = caplog.records
    facts = record.__dict__["facts"]
    assert record.levelno == logging.ERROR
    named = (facts["kind"], facts["namespace"], facts["name"], facts["failure"])
    assert named == ("SandboxClaim", "here", "a", "ValueError")
    assert "content" not in f"{record.getMessage()} {facts}"


@pytest.mark.parametrize(
    "document", [{}, {"metadata": None}, {"metadata": {"name": 5, "namespace": []}}, {"metadata": []}]
)
def test_an_event_without_a_name_or_version_does_not_end_the_watch(document: Any) -> None:
    class Strict(Fragile):
        def put(self, one: Any) -> None:
            self.known[one["metadata"]["name"]] = one["metadata"]["resourceVersion"]

    kept = Strict()
    told = Told([], [("ADDED", document), ("BOOKMARK", document), ("DELETED", document), ("ADDED", thing("b", 12))])
    informed(told, kept, lambda _: "b" in kept.known)
    assert told.since[-1] == "12"


def test_a_cache_is_stale_after_a_time_without_events() -> None:
    now = [0.0]

    async def play() -> None:
        told: Any = Told([], [("BOOKMARK", thing("", 11))], [])
        kept = Fragile()
        one = Informer(told, CLAIMS, kept.put, kept.drop, clock=lambda: now[0])
        assert not one.fresh, "nothing has been listed"
        task = asyncio.create_task(one.run())
        async with asyncio.timeout(5):
            while told.turns:
                await asyncio.sleep(0)
        assert one.fresh
        now[0] += STALE_AFTER
        assert one.fresh
        now[0] += 1
        assert not one.fresh, "a server that says nothing for so long may have been cut off"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(play())


def test_bookmarks_and_new_watches_keep_a_quiet_cluster_fresh() -> None:
    now = [0.0]

    class Quiet(Told):
        async def watch(self, _kind: Any, version: str, **chosen: Any) -> AsyncIterator[tuple[str, Any]]:
            await asyncio.sleep(0)
            now[0] += STALE_AFTER / 2
            chosen["on_open"]()
            now[0] += STALE_AFTER / 2
            yield "BOOKMARK", thing("", int(version) + 1)

    async def play() -> None:
        kube: Any = Quiet([])
        kept = Fragile()
        one = Informer(kube, CLAIMS, kept.put, kept.drop, clock=lambda: now[0])
        task = asyncio.create_task(one.run())
        async with asyncio.timeout(5):
            while now[0] < 10 * STALE_AFTER:
                assert one.fresh or not one.listed.is_set()
                await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(play())


def test_the_documentation_has_the_staleness_limit() -> None:
    page = " ".join((Path(__file__).parents[4] / "docs" / "service.md").read_text().split())
    assert f"no staler than {STALE_AFTER:.0f} seconds (`STALE_AFTER`" in page
    assert f"silent for {WATCH_SILENCE:.0f} seconds" in page
    # A watch that was cut is taken up again, after the longest pause that there is, before that.
    assert WATCH_SILENCE + 1.5 * LONGEST_PAUSE < STALE_AFTER
