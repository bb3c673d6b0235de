"""API keys work on every replica at once or after a poll, without the table for ten minutes, and until revoked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from agentenv.config.sections.service import Service
from agentenv.core.gateway.access_records import Record
from agentenv.core.gateway.api_keys import Scope
from agentenv.service.aws.remote import THREADS
from agentenv.service.gateway.access_cache import (
    POLL_SECONDS,
    REFRESH_SECONDS,
    TOUCH_SECONDS,
    VALID_SECONDS,
    AccessCache,
)
from agentenv.service.gateway.keys import MOST_KEYS, ApiKeys
from agentenv.service.http.auth.authenticate import UNAUTHENTICATED_PER_MINUTE, Authenticator
from agentenv.service.http.auth.callers import Caller, with_implied_roles
from agentenv.service.http.auth.token_reviews import TokenReviewer
from agentenv.service.http.problems import Problem, UnauthenticatedError
from tests.fast.service.gateway.stored import Clock, MemoryStore

START = datetime(2026, 11, 19, 12, tzinfo=UTC)
DAY = timedelta(days=1)
PERSON = Caller("u-1", with_implied_roles("user"), "token", teams=frozenset({"research"}))
READ: tuple[Scope, ...] = ("read",)


class Replica:
    """A replica's cache and keys, on a store that others share."""

    def __init__(self, store: MemoryStore, clock: Clock) -> None:
        self.cache = AccessCache(store, now=clock.now, monotonic=clock.monotonic)
        self.keys = ApiKeys(self.cache, clock.now)
        asyncio.run(self.cache.poll())

    def new(self, caller: Caller = PERSON, lifetime: timedelta = DAY) -> str:
        return asyncio.run(self.keys.create(caller, "laptop", READ, lifetime, ["standard"]))[1]

    def poll(self) -> None:
        asyncio.run(self.cache.poll())


def authenticator(replica: Replica) -> Authenticator:
    """Return what identifies the callers of a replica."""
    return Authenticator(Service(), None, cast("TokenReviewer", None), keys=replica.keys)


def replicas() -> tuple[MemoryStore, Clock, Replica, Replica]:
    store, clock = MemoryStore(), Clock(START)
    return store, clock, Replica(store, clock), Replica(store, clock)


def refused(act: Callable[[], Any], kind: type[Problem] = Problem) -> Problem:
    with pytest.raises(kind) as caught:
        act()
    return caught.value


def test_a_key_is_its_owner_with_its_scopes_and_is_known_to_others_after_a_poll() -> None:
    store, _, here, there = replicas()
    key = here.new()
    caller = here.keys.caller(key)
    assert (caller.owner, caller.source, caller.scopes, caller.classes) == ("u-1", "key", {"read"}, {"standard"})
    assert caller.teams == {"research"}
    assert not caller.is_operator
    refused(lambda: there.keys.caller(key), UnauthenticatedError)
    there.poll()
    assert there.keys.caller(key) == caller
    assert key not in repr(store.rows)
    assert key[16:] not in repr(store.rows)


def test_new_key_is_accepted_by_every_replica_at_once() -> None:
    _, _, here, there = replicas()
    key = here.new()
    caller = asyncio.run(authenticator(there).caller(f"Bearer {key}", "192.0.2.1"))
    assert caller == here.keys.caller(key)


def test_key_created_during_a_poll_is_read_by_the_next_one() -> None:
    """Whoever asks while a poll runs waits for another: that one may have missed the key."""
    begun, released = threading.Event(), threading.Event()

    class SlowStore(MemoryStore):
        def changed_since(self, since: datetime | None) -> list[Record]:
            records = super().changed_since(since)
            begun.set()
            released.wait(60)
            return records

    async def act() -> None:
        there = AccessCache(store, now=clock.now, monotonic=clock.monotonic)
        polling = asyncio.create_task(there.poll())
        await asyncio.to_thread(begun.wait, 60)
        _, key = await ApiKeys(here, clock.now).create(PERSON, "k", ["use"], timedelta(hours=1), [])
        refreshing = asyncio.create_task(there.refresh())
        await asyncio.sleep(0)
        released.set()
        await asyncio.gather(polling, refreshing)
        assert there.key(key[4:16]) is not None

    store, clock = SlowStore(), Clock(START)
    released.set()
    here = AccessCache(store, now=clock.now, monotonic=clock.monotonic)
    asyncio.run(here.poll())
    released.clear()
    begun.clear()
    asyncio.run(act())


def test_guessed_keys_share_a_read_and_are_limited_by_address() -> None:
    class CountingStore(MemoryStore):
        reads = 0

        def changed_since(self, since: datetime | None) -> list[Record]:
            self.reads += 1
            return super().changed_since(since)

    async def act() -> list[str]:
        subject = authenticator(here)
        guesses = [f"e2b_{number:052x}" for number in range(200)]
        results = await asyncio.gather(
            *(subject.caller(f"Bearer {guess}", "192.0.2.1") for guess in guesses), return_exceptions=True
        )
        reads = store.reads
        with pytest.raises(Problem):
            await subject.caller(f"Bearer {guesses[0]}", "192.0.2.1")
        assert store.reads == reads, "who guessed too often is refused from memory"
        assert await subject.caller(f"Bearer {key}", "192.0.2.1"), "a known key is admitted beside those who guess"
        return [result.kind for result in results if isinstance(result, Problem)]

    store, clock = CountingStore(), Clock(START)
    here = Replica(store, clock)
    key = here.new()
    before = store.reads
    kinds = asyncio.run(act())
    assert len(kinds) == 200
    assert kinds.count("not-signed-in") == UNAUTHENTICATED_PER_MINUTE
    assert store.reads == before + 1


def test_new_key_is_refused_while_the_table_hangs() -> None:
    store, _, here, there = replicas()
    key = here.new()
    store.away = True
    with pytest.raises(UnauthenticatedError):
        asyncio.run(authenticator(there).caller(f"Bearer {key}", "192.0.2.1"))


def test_a_revoked_key_is_refused_here_at_once_and_there_after_a_poll() -> None:
    _, _, here, there = replicas()
    key = here.new()
    there.poll()
    asyncio.run(there.keys.revoke(PERSON, key[4:16]))
    refused(lambda: there.keys.caller(key), UnauthenticatedError)
    here.poll()
    refused(lambda: here.keys.caller(key), UnauthenticatedError)


def test_the_id_of_a_key_is_not_enough() -> None:
    _, _, here, _ = replicas()
    key, other = here.new(), here.new()
    for forged in (key[:16] + other[16:], key[:-1] + ("0" if key[-1] != "0" else "1"), f"e2b_{'0' * 52}", ""):
        refused(lambda forged=forged: here.keys.caller(forged), UnauthenticatedError)


def test_a_key_expires() -> None:
    _, clock, here, _ = replicas()
    key = here.new(lifetime=timedelta(seconds=90))
    clock.seconds = 89
    assert here.keys.caller(key)
    clock.seconds = 90
    refused(lambda: here.keys.caller(key), UnauthenticatedError)


def test_keys_stay_valid_while_the_table_hangs_for_ten_minutes() -> None:
    store, clock, here, _ = replicas()
    key = here.new()
    store.away = True
    # The last read ended before the table hung, and the next one begins after it.
    clock.seconds = 600 + 2 * POLL_SECONDS + REFRESH_SECONDS
    here.poll()
    assert here.keys.caller(key)


def test_keys_are_refused_once_the_table_hung_for_too_long() -> None:
    store, clock, here, _ = replicas()
    key = here.new()
    store.away = True
    clock.seconds = VALID_SECONDS
    here.poll()
    assert here.keys.caller(key)
    clock.seconds = VALID_SECONDS + 1
    here.poll()
    assert refused(lambda: here.keys.caller(key)).kind == "unavailable"
    store.away = False
    here.poll()
    assert here.keys.caller(key)


def test_revocations_are_read_while_other_calls_hang() -> None:
    class HangingStore(MemoryStore):
        def use_once(self, code: str, until: datetime) -> bool:
            released.wait(20)
            return super().use_once(code, until)

    async def act() -> None:
        here, there = (AccessCache(store, now=clock.now, monotonic=clock.monotonic) for _ in range(2))
        await there.poll()
        _, key = await ApiKeys(there, clock.now).create(PERSON, "k", ["use"], timedelta(hours=1), [])
        hanging = [asyncio.create_task(here.use_once(f"code/{number}", clock.now())) for number in range(THREADS)]
        await here.poll()
        assert here.key(key[4:16]) is not None
        await ApiKeys(there, clock.now).revoke(PERSON, key[4:16])
        await here.poll()
        assert here.key(key[4:16]) is None
        assert not any(call.done() for call in hanging)
        released.set()
        assert all(await asyncio.gather(*hanging))

    store, clock, released = HangingStore(), Clock(START), threading.Event()
    asyncio.run(act())


def test_a_key_that_another_replica_wrote_late_is_read() -> None:
    """The writer's clock is behind, or its write took long: the next polls look back."""
    store, clock, here, there = replicas()
    clock.seconds = 40
    here.poll()
    clock.seconds = 10
    key = there.new()
    clock.seconds = 42
    here.poll()
    assert here.keys.caller(key)
    assert store.rows


def test_the_last_use_is_written_once_a_minute() -> None:
    _, clock, here, there = replicas()
    key = here.new()
    here.poll()
    here.keys.caller(key)
    here.poll()
    clock.seconds = TOUCH_SECONDS + 5
    here.keys.caller(key)
    here.poll()
    clock.seconds += 600
    there.poll()
    (record,) = there.keys.list("u-1")
    assert record.last_used == START + timedelta(seconds=TOUCH_SECONDS + 5)


def test_an_owner_has_a_limited_number_of_keys_and_a_key_creates_none() -> None:
    _, _, here, _ = replicas()
    keys = [here.new() for _ in range(MOST_KEYS)]
    assert refused(here.new).kind == "refused"
    asyncio.run(here.keys.revoke(PERSON, keys[0][4:16]))
    key = here.new()
    assert refused(lambda: here.new(here.keys.caller(key))).kind == "not-allowed"


def test_others_keys_do_not_exist_for_a_caller_except_for_operators() -> None:
    _, _, here, _ = replicas()
    key = here.new()
    stranger = Caller("u-2", with_implied_roles("user"), "token")
    missing = refused(lambda: asyncio.run(here.keys.revoke(stranger, "0" * 12)))
    assert refused(lambda: asyncio.run(here.keys.revoke(stranger, key[4:16]))).document() == missing.document()
    assert here.keys.list("u-2") == []
    asyncio.run(here.keys.revoke(Caller("u-3", with_implied_roles("operator"), "token"), key[4:16]))
    refused(lambda: here.keys.caller(key), UnauthenticatedError)
