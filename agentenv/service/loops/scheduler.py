"""Run loops concurrently: a failure of one does not stop the others, and no loop runs twice at once.

A pass is bounded: if it reports that more is left, the next pass starts at once. After a failure the pause grows with
each pass, so that a failing server gets fewer requests. A pass in which only single objects failed counts as failed,
but does not delay the next one.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from agentenv.core.values.errors import first_of
from agentenv.service.kube.unreadable import ODD
from agentenv.service.telemetry import traces
from agentenv.service.workspaces.backend_error import BackendError

LONGEST_PAUSE = 300.0
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class PassResult:
    """The number of steps of a pass, and whether more is left for the next one."""

    steps: int = 0
    more: bool = False
    failures: tuple[str, ...] = ()  # of single objects; the pass continued with the others


class ShouldContinue(Protocol):
    """A check whether a pass may continue."""

    def __call__(self) -> bool: ...


@dataclass(frozen=True)
class Loop:
    """A pass and its interval in seconds."""

    name: str
    every: float
    run: Callable[[ShouldContinue], Awaitable[PassResult]]
    turn: AbstractAsyncContextManager[object] | None = None  # a lock that is shared with other loops


class PassMetrics(Protocol):
    """Counts and times passes."""

    def loop(self, name: str) -> AbstractContextManager[None]:
        """Measure a pass of a loop; one that raises is counted as failed."""
        ...


class PartialFailureError(Exception):
    """A pass was completed, and single objects failed in it."""


@contextmanager
def isolated(failures: list[str], name: str) -> Generator[None]:
    """Add the failure of one object to failures, so that the pass continues; raise one that concerns all objects."""
    try:
        yield
    except BackendError as refusal:
        if refusal.transient:
            raise
        failures.append(f"{name}: {refusal}")
    except ODD as failure:
        failures.append(f"{name} cannot be read: {type(failure).__name__}")


@dataclass
class _State:
    due: float
    failed: int = 0
    task: asyncio.Task[None] | None = None
    done: PassResult = field(default_factory=PassResult)


class Scheduler:
    """Starts passes when they are due, while this replica leads."""

    def __init__(
        self,
        loops: Sequence[Loop],
        should_continue: ShouldContinue,
        metrics: PassMetrics,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._loops = loops
        self._should_continue = should_continue
        self._metrics = metrics
        self._clock = clock
        self._states = {loop.name: _State(clock()) for loop in loops}

    def turn(self) -> None:
        """Start the passes that are due and not running."""
        if not self._should_continue():
            return
        for loop in self._loops:
            state = self._states[loop.name]
            if self._clock() < state.due or (state.task is not None and not state.task.done()):
                continue
            state.task = asyncio.create_task(self._pass(loop, state), name=f"loop {loop.name}")

    async def join(self, seconds: float) -> bool:
        """Wait for running passes; return whether all of them ended."""
        running = self._running()
        _, pending = await asyncio.wait(running, timeout=seconds) if running else ((), ())
        return not pending

    async def cancel(self) -> None:
        """Cancel running passes: the next leader continues what they started."""
        running = self._running()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _running(self) -> list[asyncio.Task[None]]:
        return [state.task for state in self._states.values() if state.task is not None and not state.task.done()]

    async def _pass(self, loop: Loop, state: _State) -> None:
        try:
            async with loop.turn or nullcontext():
                if not self._should_continue():
                    return  # another replica leads by now
                await self._run(loop, state)
        except PartialFailureError as error:
            facts = {"loop": loop.name, "why": str(error), "failures": len(state.done.failures)}
            _LOG.warning("single objects failed in a pass", extra={"facts": facts})
        except Exception as error:  # noqa: BLE001 - any failure concerns this loop only
            state.failed += 1
            pause = min(loop.every * 2 ** min(state.failed, 8), max(LONGEST_PAUSE, loop.every))
            # Jitter, so that replicas and loops that failed together do not retry together.
            state.due = self._clock() + pause * random.uniform(0.75, 1.0)  # noqa: S311 - no secret
            facts = {"loop": loop.name, "why": f"{type(error).__name__}: {error}", "failures": state.failed}
            _LOG.warning("a pass failed", extra={"facts": facts})
            return
        state.failed = 0
        state.due = self._clock() + (0.0 if state.done.more else loop.every)
        if state.done.steps:
            _LOG.info("a pass made changes", extra={"facts": {"loop": loop.name, "steps": state.done.steps}})

    async def _run(self, loop: Loop, state: _State) -> None:
        with self._metrics.loop(loop.name), traces.span(f"loop {loop.name}") as span:
            state.done = await loop.run(self._should_continue)
            span.set_attribute("steps", state.done.steps)
            _raise_failures(state.done)


def _raise_failures(done: PassResult) -> None:
    if done.failures:
        raise PartialFailureError(first_of(done.failures))
