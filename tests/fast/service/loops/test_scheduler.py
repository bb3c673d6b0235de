"""Loops run concurrently: one that fails, hangs or has more to do does not affect the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from agentenv.service.loops.scheduler import LONGEST_PAUSE, Loop, PassResult, Scheduler, ShouldContinue
from agentenv.service.telemetry.metrics import Metrics

if TYPE_CHECKING:
    import pytest


class Clock:
    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


def always() -> bool:
    return True


class Stage:
    def __init__(self, *loops: Loop, still: ShouldContinue = always) -> None:
        self.clock, self.metrics = Clock(), Metrics()
        self.scheduler = Scheduler(loops, still, self.metrics, clock=self.clock)

    def turn(self, seconds: float = 0.0) -> None:
        self.clock.time += seconds

        async def pass_() -> None:
            self.scheduler.turn()
            assert await self.scheduler.join(10)

        asyncio.run(pass_())

    def failures(self, loop: str) -> float | None:
        return self.metrics.registry.get_sample_value("agentenv_loop_failures_total", {"loop": loop})


def counting(name: str, run: Callable[[], PassResult], every: float = 10.0) -> tuple[Loop, list[str]]:
    passes: list[str] = []

    async def one_pass(_: ShouldContinue) -> PassResult:
        passes.append(name)
        return run()

    return Loop(name, every, one_pass), passes


def broken() -> PassResult:
    raise ValueError("it is broken")


def test_a_failing_loop_backs_off_alone() -> None:
    bad, tried = counting("bad", broken)
    good, passes = counting("good", PassResult)
    stage = Stage(bad, good)
    for _ in range(120):
        stage.turn(10.0)
    assert len(passes) == 120
    assert 5 <= len(tried) <= 12
    assert stage.failures("bad") == len(tried)
    assert stage.failures("good") is None
    # And never less than this.
    before = len(tried)
    stage.turn(LONGEST_PAUSE)
    assert len(tried) == before + 1


def test_a_recovered_loop_has_its_interval_again() -> None:
    state = {"broken": True}
    loop, passes = counting("loop", lambda: broken() if state["broken"] else PassResult())
    stage = Stage(loop)
    stage.turn()
    state["broken"] = False
    stage.turn(40.0)
    before = len(passes)
    for _ in range(5):
        stage.turn(10.0)
    assert len(passes) == before + 5


def test_a_hanging_loop_blocks_no_other_and_is_not_started_twice() -> None:
    async def play() -> None:
        free, entered = asyncio.Event(), asyncio.Event()

        async def hang(_: ShouldContinue) -> PassResult:
            entered.set()
            await free.wait()
            return PassResult()

        good, passes = counting("good", PassResult)
        stage = Stage(Loop("hung", 1.0, hang), good)
        stage.scheduler.turn()
        await entered.wait()
        entered.clear()
        for _ in range(3):
            stage.clock.time += 10.0
            stage.scheduler.turn()
            assert not await stage.scheduler.join(0.05)
        assert (len(passes), entered.is_set()) == (4, False)
        free.set()
        assert await stage.scheduler.join(10)

    asyncio.run(play())


def test_a_hanging_pass_is_cancelled_at_the_end() -> None:
    async def play() -> None:
        entered, ended = asyncio.Event(), asyncio.Event()

        async def hang(_: ShouldContinue) -> PassResult:
            entered.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return PassResult()

        stage = Stage(Loop("hung", 1.0, hang))
        stage.scheduler.turn()
        await entered.wait()
        await stage.scheduler.cancel()
        assert ended.is_set()

    asyncio.run(play())


def test_a_pass_with_more_left_is_followed_at_once() -> None:
    left = iter([PassResult(50, more=True), PassResult(50, more=True), PassResult(7)])
    loop, passes = counting("loop", lambda: next(left))
    stage = Stage(loop)
    for _ in range(3):
        stage.turn()
    assert len(passes) == 3
    stage.turn(9.0)
    assert len(passes) == 3


def test_a_pass_with_failed_objects_counts_as_failed() -> None:
    loop, passes = counting("loop", lambda: PassResult(3, failures=("w-1: it could not be",)))
    stage = Stage(loop)
    stage.turn()
    assert stage.failures("loop") == 1
    # And is made as often as before: one that is always refused keeps nobody else waiting.
    for _ in range(20):
        stage.turn(10.0)
    assert (len(passes), stage.failures("loop")) == (21, 21)


def test_log_names_the_objects_that_failed_and_counts_the_others(caplog: pytest.LogCaptureFixture) -> None:
    failures = tuple(f"w-{number}: it could not be" for number in range(7))
    loop, _ = counting("loop", lambda: PassResult(failures=failures))
    Stage(loop).turn()
    (record,) = (each for each in caplog.records if "objects failed" in each.getMessage())
    assert record.__dict__["facts"]["why"] == "; ".join(failures[:5]) + "; and 2 more"


def test_a_pass_with_more_left_is_followed_at_once_despite_failures() -> None:
    left = iter([PassResult(50, more=True, failures=("w-1: it could not be",)), PassResult(7)])
    loop, passes = counting("loop", lambda: next(left))
    stage = Stage(loop)
    stage.turn()
    stage.turn()
    assert len(passes) == 2


def test_no_pass_runs_while_another_replica_leads() -> None:
    leads = {"now": False}
    loop, passes = counting("loop", PassResult)
    stage = Stage(loop, still=lambda: leads["now"])
    stage.turn(10.0)
    assert passes == []
    leads["now"] = True
    stage.turn(10.0)
    assert passes == ["loop"]
