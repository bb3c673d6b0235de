"""A controller's work: each thing once, again later where it failed."""

from __future__ import annotations

import threading

import pytest

from agentenv.rehearsal.controlplane import work_queue
from agentenv.rehearsal.controlplane.work_queue import WorkQueue


class Clock:
    """Time that passes only while somebody waits."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()

    def wait(_: threading.Condition, seconds: float) -> None:
        clock.now += seconds

    monkeypatch.setattr(work_queue, "time", clock)
    monkeypatch.setattr(threading.Condition, "wait", wait)
    return clock


@pytest.mark.usefixtures("clock")
def test_item_changed_twice_is_processed_once() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in ("a", "b", "a"):
        queue.add(key)
    assert {queue.get(1.0), queue.get(1.0)} == {"a", "b"}
    assert queue.get(1.0) is None


def test_delayed_item_waits_unless_it_changes(clock: Clock) -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a", 5.0)
    assert queue.get(2.0) is None
    assert clock.now == 102.0
    assert queue.get(10.0) == "a"
    assert clock.now == 105.0
    queue.add("b", 5.0)
    queue.add("b")
    queue.add("b", 9.0)
    assert queue.get(0.0) == "b"
    assert queue.get(20.0) is None


def test_failures_are_retried_with_backoff(clock: Clock) -> None:
    queue: WorkQueue[str] = WorkQueue(first_delay=1.0, longest_delay=5.0)
    waited: list[float] = []
    for _ in range(5):
        queue.retry("a")
        began = clock.now
        assert queue.get(60.0) == "a"
        waited.append(clock.now - began)
    assert waited == [1.0, 2.0, 4.0, 5.0, 5.0]
    queue.forget("a")
    queue.retry("a")
    began = clock.now
    assert queue.get(60.0) == "a"
    assert clock.now - began == 1.0
