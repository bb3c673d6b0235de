"""The log of recent events: its order, its bounds, and what a follower gets."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from agentenv.core.workspaces.workspace import Event
from agentenv.service.workspaces import event_log
from agentenv.service.workspaces.event_log import EventLog

EVENT = Event(datetime(2026, 11, 19, tzinfo=UTC), "SandboxClaim/w-1", "Created", "")


def log_of(*numbers: int, loaded: bool = True) -> EventLog:
    log = EventLog()
    for number in numbers:
        log.add(number, "w-1", EVENT)
    if loaded:
        log.set_listing(False)
    return log


def numbers(log: EventLog, after: int) -> list[int]:
    return [row.number for row in log.since(after)[0]]


def test_events_are_in_the_order_of_their_numbers_each_once() -> None:
    log = log_of(5, 3, 9, 3, 5)
    assert (numbers(log, 0), numbers(log, 3), log.latest) == ([3, 5, 9], [5, 9], 9)
    assert log.since(3)[1]


def test_full_log_drops_the_oldest_and_reports_it() -> None:
    log = log_of(*range(1, event_log.MOST_EVENTS + 3))
    assert len(numbers(log, 0)) == event_log.MOST_EVENTS
    assert (log.since(1)[1], log.since(2)[1]) == (False, True)
    log.add(1, "w-1", EVENT)
    assert numbers(log, 0)[0] == 3


def test_a_cursor_of_another_log_is_a_gap_once_the_log_is_loaded() -> None:
    assert log_of(1, 2).since(500) == ([], False)
    assert log_of(loaded=False).since(500) == ([], True)


def test_a_follower_gets_what_comes_after_its_cursor() -> None:
    log = log_of(loaded=False)
    with log.following(4) as resumed, log.following(None) as fresh:
        for number in (3, 5):
            log.add(number, "w-1", EVENT)
        log.set_listing(False)
        log.add(6, "w-1", EVENT)
        log.note_change("w-1")
        log.note_change("w-1")
        assert ([row.number for row in resumed.take()[0]], [row.number for row in fresh.events]) == ([5, 6], [6])
        assert fresh.take()[1] == ["w-1"]
        assert fresh.take() == ([], [])


def test_a_follower_that_does_not_read_is_dropped_and_holds_nothing() -> None:
    async def act() -> None:
        log = log_of()
        with log.following(None) as slow, log.following(None) as quick:
            for number in range(1, event_log.MOST_BEHIND + 2):
                log.add(number, "w-1", EVENT)
                quick.take()
            assert (slow.dropped, quick.dropped) == (True, False)
            assert await slow.wait(0)
            assert slow.take() == ([], [])

    asyncio.run(act())
