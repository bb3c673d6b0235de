"""Runs loops, each on a thread of its own: one that fails stops no other, and none runs twice at once.

One that hangs stops those alone that take turns with it.

A pass is bounded: it says whether there is more to do, and is then asked again at once. One that failed is asked again
later each time, so that a server that is in trouble is not asked more often by whoever suffers from it. One in which
only single things failed is counted as failed, and asked again as ever: the others are not to wait for those.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from agentenv.service.telemetry import traces

LONGEST_PAUSE = 300.0
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class PassResult:
    """What a pass did: how many things, and whether it left some for the next one."""

    steps: int = 0
    more: bool = False
    failures: tuple[str, ...] = ()  # of single things; the pass went on to the others


class ShouldContinue(Protocol):
    """Asked within a pass: whether it may go on."""

    def __call__(self) -> bool: ...


@dataclass(frozen=True)
class Loop:
    """A pass, and how often it is made."""

    name: str
    every: float
    run: Callable[[ShouldContinue], PassResult]
    turn: AbstractContextManager[object] | None = None  # what others hold, too, of which one at a time makes a pass


class PassMetrics(Protocol):
    """Where passes are counted and timed."""

    def loop(self, name: str) -> AbstractContextManager[None]:
        """A pass of a loop; one that raises is counted as failed."""
        ...


class PartialFailureError(Exception):
    """A pass went to its end, and some things failed in it."""


@dataclass
class _State:
    due: float
    failed: int = 0
    thread: threading.Thread | None = None
    done: PassResult = field(default_factory=PassResult)


class Scheduler:
    """Starts passes when they are due, for as long as this replica leads."""

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
        """Start what is due and not under way."""
        if not self._should_continue():
            return
        for loop in self._loops:
            state = self._states[loop.name]
            if self._clock() < state.due or (state.thread is not None and state.thread.is_alive()):
                continue
            state.thread = threading.Thread(
                target=self._pass, args=(loop, state), name=f"loop {loop.name}", daemon=True
            )
            state.thread.start()

    def join(self, seconds: float) -> bool:
        """Wait for passes under way; whether all came to their end."""
        until = time.monotonic() + seconds
        for state in self._states.values():
            if state.thread is not None:
                state.thread.join(max(until - time.monotonic(), 0))
        return not any(state.thread is not None and state.thread.is_alive() for state in self._states.values())

    def _pass(self, loop: Loop, state: _State) -> None:
        try:
            with loop.turn or nullcontext():
                if not self._should_continue():
                    return  # somebody else leads by the time that it is its turn
                self._run(loop, state)
        except PartialFailureError as error:
            facts = {"loop": loop.name, "why": str(error), "failures": len(state.done.failures)}
            _LOG.warning("single things failed in a pass", extra={"facts": facts})
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this loop's alone
            state.failed += 1
            pause = min(loop.every * 2 ** min(state.failed, 8), max(LONGEST_PAUSE, loop.every))
            # Replicas and loops that failed together do not come back together.
            state.due = self._clock() + pause * random.uniform(0.75, 1.0)  # noqa: S311 - no secret
            facts = {"loop": loop.name, "why": f"{type(error).__name__}: {error}", "failures": state.failed}
            _LOG.warning("a pass failed", extra={"facts": facts})
            return
        state.failed = 0
        state.due = self._clock() + (0.0 if state.done.more else loop.every)
        if state.done.steps:
            _LOG.info("a pass did something", extra={"facts": {"loop": loop.name, "steps": state.done.steps}})

    def _run(self, loop: Loop, state: _State) -> None:
        with self._metrics.loop(loop.name), traces.span(f"loop {loop.name}") as span:
            state.done = loop.run(self._should_continue)
            span.set_attribute("steps", state.done.steps)
            _raise_failures(state.done)


def _raise_failures(done: PassResult) -> None:
    if done.failures:
        raise PartialFailureError("; ".join(done.failures[:3]))
