"""Informers with broken watches, expired versions, missed deletions and unreadable objects."""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agentenv.service.kube import informer
from agentenv.service.kube.client import CLAIMS, WATCH_SILENCE, KubeApiError, WatchExpiredError
from agentenv.service.kube.informer import AT_ONCE, LONGEST_PAUSE, STALE_AFTER, Informer, Key
from agentenv.service.kube.unreadable import Reports


def thing(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"namespace": "here", "name": name, "resourceVersion": str(version)}}


class ScriptedClient:
    """A client with prepared lists and watches; after the last one a watch sends nothing."""

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
        for event in self.turns.pop(0):
            if isinstance(event, Exception):
                raise event
            yield event


class FailingPages(ScriptedClient):
    """A client whose first list fails after its first page."""

    async def pages(self, *arguments: Any, **more: Any) -> AsyncIterator[tuple[Any, str]]:
        async for page in super().pages(*arguments, **more):
            yield page
        if len(self.turns) == 2:
            raise KubeApiError("away", 503)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(informer, "FIRST_PAUSE", 0.0)
    monkeypatch.setattr(informer, "LONGEST_PAUSE", 0.0)


def names_known(client: ScriptedClient, until: Callable[[dict[str, str]], bool]) -> dict[str, str]:
    """Return the resource versions that an informer has cached, by name."""
    known: dict[str, str] = {}

    def put(document: Any) -> None:
        known[document["metadata"]["name"]] = document["metadata"]["resourceVersion"]

    def drop(key: Key) -> None:
        known.pop(key[1])

    async def play() -> None:
        kube: Any = client
        informer_ = Informer(kube, CLAIMS, put, drop)
        task = asyncio.create_task(informer_.run())
        async with asyncio.timeout(60):
            while client.turns or not until(known):
                await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    running: Awaitable[None] = play()
    asyncio.run(running)  # type: ignore[arg-type]
    return known


class FragileCache:
    """A cache of objects by name that raises for those with an `odd` field."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}

    def put(self, document: Any) -> None:
        if document.get("odd"):
            raise ValueError(document["odd"])
        self.known[document["metadata"]["name"]] = document["metadata"]["resourceVersion"]

    def drop(self, key: Key) -> None:
        self.known.pop(key[1], None)


def synced_informer(client: ScriptedClient, cache: FragileCache, until: Callable[[Informer], bool]) -> Informer:
    """Return an informer after the last prepared event, once the condition holds."""

    async def play() -> Informer:
        kube: Any = client
        informer_ = Informer(kube, CLAIMS, cache.put, cache.drop, reports=Reports())
        task = asyncio.create_task(informer_.run())
        async with asyncio.timeout(60):
            while (client.turns or not until(informer_)) and not task.done():
                await asyncio.sleep(0)
        assert not task.done(), task
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return informer_

    return asyncio.run(play())


def odd(name: str, version: int) -> dict[str, Any]:
    return {**thing(name, version), "odd": "content of the object"}


def test_a_broken_watch_continues_from_its_version() -> None:
    broken = httpx2.ReadError("cut")
    client = ScriptedClient([thing("a", 3)], [("ADDED", thing("b", 11)), broken], [("MODIFIED", thing("b", 12))])
    assert names_known(client, lambda known: known.get("b") == "12") == {"a": "3", "b": "12"}
    assert client.since[:3] == ["10", "11", "12"]


def test_bookmarks_only_advance_the_version() -> None:
    client = ScriptedClient([], [("BOOKMARK", thing("", 40))], [("ADDED", thing("a", 41))])
    assert names_known(client, lambda known: "a" in known) == {"a": "41"}
    assert client.since[1] == "40"


def test_objects_deleted_after_a_list_that_failed_are_dropped() -> None:
    client = FailingPages([thing("one", 1), thing("two", 2)], [thing("two", 2)], [])
    assert names_known(client, lambda known: known == {"two": "2"}) == {"two": "2"}


def test_objects_deleted_between_watches_are_dropped() -> None:
    client = ScriptedClient([thing("a", 3), thing("b", 4)], [WatchExpiredError("too old")], [thing("b", 9)])
    assert names_known(client, lambda known: "a" not in known) == {"b": "9"}


@pytest.mark.parametrize(
    "failure",
    [httpx2.ConnectError("away"), KubeApiError("away", 503), KubeApiError("no", 403, "Forbidden")],
)
def test_an_unavailable_server_is_retried(failure: Exception) -> None:
    client = ScriptedClient(failure, failure, failure, [thing("a", 3)])
    assert names_known(client, lambda known: "a" in known) == {"a": "3"}


def test_an_object_that_cannot_be_read_does_not_end_the_watch() -> None:
    cache = FragileCache()
    client = ScriptedClient([odd("a", 3), thing("b", 4)], [("MODIFIED", odd("a", 11)), ("ADDED", thing("c", 12))])
    informer_ = synced_informer(client, cache, lambda _: "c" in cache.known)
    assert cache.known == {"b": "4", "c": "12"}
    assert informer_.unreadable == {("here", "a")}
    assert client.since[-1] == "12"


def test_an_unreadable_update_drops_the_cached_object() -> None:
    cache = FragileCache()
    client = ScriptedClient([thing("a", 3)], [("MODIFIED", odd("a", 11))])
    informer_ = synced_informer(client, cache, lambda informer_: bool(informer_.unreadable))
    assert (cache.known, informer_.unreadable) == ({}, {("here", "a")})


@pytest.mark.parametrize(
    ("events", "known"),
    [
        ([("MODIFIED", thing("a", 11))], {"a": "11"}),
        ([("DELETED", odd("a", 11))], {}),
        ([WatchExpiredError("too old")], {}),
    ],
)
def test_an_object_is_not_unreadable_once_corrected_or_deleted(events: Any, known: dict[str, str]) -> None:
    cache = FragileCache()
    relisted = [[]] if isinstance(events[0], WatchExpiredError) else []
    informer_ = synced_informer(
        ScriptedClient([odd("a", 3)], events, *relisted), cache, lambda informer_: not informer_.unreadable
    )
    assert cache.known == known
    assert not informer_.unreadable


def test_the_log_names_an_unreadable_object_once_and_never_its_content(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    updates = [("MODIFIED", odd("a", version)) for version in range(11, 200)]
    cache = FragileCache()
    synced_informer(
        ScriptedClient([odd("a", 3)], [*updates, ("ADDED", thing("b", 200))]), cache, lambda _: "b" in cache.known
    )
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
    class Strict(FragileCache):
        def put(self, document: Any) -> None:
            self.known[document["metadata"]["name"]] = document["metadata"]["resourceVersion"]

    cache = Strict()
    client = ScriptedClient(
        [], [("ADDED", document), ("BOOKMARK", document), ("DELETED", document), ("ADDED", thing("b", 12))]
    )
    synced_informer(client, cache, lambda _: "b" in cache.known)
    assert client.since[-1] == "12"


def test_a_cache_is_stale_after_a_time_without_events() -> None:
    now = [0.0]

    async def play() -> None:
        client: Any = ScriptedClient([], [("BOOKMARK", thing("", 11))], [])
        cache = FragileCache()
        informer_ = Informer(client, CLAIMS, cache.put, cache.drop, clock=lambda: now[0])
        assert not informer_.fresh, "nothing has been listed"
        task = asyncio.create_task(informer_.run())
        async with asyncio.timeout(60):
            while client.turns:
                await asyncio.sleep(0)
        assert informer_.fresh
        now[0] += STALE_AFTER
        assert informer_.fresh
        now[0] += 1
        assert not informer_.fresh, "a server that says nothing for so long may have been cut off"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(play())


def test_bookmarks_and_new_watches_keep_a_quiet_cluster_fresh() -> None:
    now = [0.0]

    class Quiet(ScriptedClient):
        async def watch(self, _kind: Any, version: str, **chosen: Any) -> AsyncIterator[tuple[str, Any]]:
            await asyncio.sleep(0)
            now[0] += STALE_AFTER / 2
            chosen["on_open"]()
            now[0] += STALE_AFTER / 2
            yield "BOOKMARK", thing("", int(version) + 1)

    async def play() -> None:
        kube: Any = Quiet([])
        cache = FragileCache()
        informer_ = Informer(kube, CLAIMS, cache.put, cache.drop, clock=lambda: now[0])
        task = asyncio.create_task(informer_.run())
        async with asyncio.timeout(60):
            while now[0] < 10 * STALE_AFTER:
                assert informer_.fresh or not informer_.listed.is_set()
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


def test_other_requests_run_while_a_large_list_is_read() -> None:
    read: list[int] = []
    seen_by_others: list[int] = []

    async def play() -> None:
        kube: Any = ScriptedClient([thing(f"w-{number}", 1) for number in range(1_050)])
        informer_ = Informer(kube, CLAIMS, lambda _: read.append(1), lambda _: None)
        task = asyncio.create_task(informer_.run())
        while not informer_.listed.is_set():
            seen_by_others.append(len(read))
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    gc.unfreeze()
    asyncio.run(play())
    seen_by_others.append(len(read))
    steps = [after - before for before, after in itertools.pairwise(seen_by_others)]
    assert (max(steps), len(read)) == (AT_ONCE, 1_050)
    # A full collection, which pauses everything, does not visit the rows of a large cache.
    assert gc.get_freeze_count() > 0
