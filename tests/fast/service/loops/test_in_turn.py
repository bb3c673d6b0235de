"""Loops that read everything hold much memory: one runs at a time, and none starts once another replica leads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import replace

from agentenv.service.loops.catalog import serialized
from agentenv.service.loops.scheduler import Loop, PassResult, Scheduler, ShouldContinue
from agentenv.service.telemetry.metrics import Metrics

NAMES = ("keeping", "slots", "audit")


class Turns:
    """Loops that share a lock. The first pass does not end before all of them have requested it."""

    def __init__(self, still: ShouldContinue = lambda: True, then: Callable[[], object] = lambda: None) -> None:
        self._then = then  # called once all of them have requested the lock
        self.all_requested = asyncio.Event()
        self.done: list[str] = []
        self.most_measured = self.most_running = 0
        self._requests = self._measured = self._running = 0
        loops = [*serialized(Loop(name, 600, lambda still, name=name: self._pass(name, still)) for name in NAMES)]
        assert len({id(loop.turn) for loop in loops}) == 1
        self.scheduler = Scheduler([replace(loop, turn=self._turn(loop.turn)) for loop in loops], still, self)

    def _turn(self, turn: AbstractAsyncContextManager[object] | None) -> AbstractAsyncContextManager[object]:
        @asynccontextmanager
        async def requesting() -> AsyncGenerator[None]:
            self._requests += 1
            if self._requests == len(NAMES):
                self._then()
                self.all_requested.set()
            assert turn is not None
            async with turn:
                yield

        return requesting()

    @contextmanager
    def loop(self, name: str) -> Generator[None]:
        """Count the passes that are measured at once."""
        assert name in NAMES
        self._measured += 1
        self.most_measured = max(self.most_measured, self._measured)
        yield
        self._measured -= 1

    async def _pass(self, name: str, _: ShouldContinue) -> PassResult:
        self._running += 1
        self.most_running = max(self.most_running, self._running)
        await self.all_requested.wait()
        self.done.append(name)
        self._running -= 1
        return PassResult()

    async def play(self) -> None:
        self.scheduler.turn()
        assert await self.scheduler.join(60)


def test_loops_with_the_lock_run_one_at_a_time() -> None:
    async def play() -> None:
        turns = Turns()
        await turns.play()
        assert sorted(turns.done) == sorted(NAMES)
        assert turns.most_running == 1

    asyncio.run(play())


def test_the_wait_for_the_lock_is_not_part_of_the_measured_pass() -> None:
    async def play() -> None:
        turns = Turns()
        await turns.play()
        assert (len(turns.done), turns.most_measured) == (len(NAMES), 1)

    asyncio.run(play())


def test_loops_that_read_single_objects_do_not_wait_for_the_lock() -> None:
    async def play() -> None:
        end, woken = asyncio.Event(), asyncio.Event()

        async def slots(_: ShouldContinue) -> PassResult:
            await end.wait()
            return PassResult()

        async def waking(_: ShouldContinue) -> PassResult:
            woken.set()
            return PassResult(1)

        scheduler = Scheduler(
            [*serialized([Loop("slots", 600, slots), Loop("waking", 15, waking)])], lambda: True, Metrics()
        )
        scheduler.turn()
        async with asyncio.timeout(20):
            await woken.wait()
        end.set()
        assert await scheduler.join(20)

    asyncio.run(play())


def test_a_pass_that_waited_for_the_lock_checks_again_that_it_leads() -> None:
    async def play() -> None:
        leads = [True]
        turns = Turns(lambda: leads[0], then=lambda: leads.__setitem__(0, False))
        await turns.play()
        assert len(turns.done) == 1

    asyncio.run(play())
