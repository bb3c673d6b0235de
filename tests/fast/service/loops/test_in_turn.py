"""Passes that look at everybody hold much: they do so one at a time, and none begins once somebody else leads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from agentenv.service.loops.catalog import serialized
from agentenv.service.loops.scheduler import Loop, PassResult, Scheduler, ShouldContinue
from agentenv.service.telemetry.metrics import Metrics

NAMES = ("keeping", "slots", "audit")


class Turns:
    """Loops that take turns. Whoever's turn it is first stays until all have asked for theirs, or has waited long."""

    def __init__(self, still: ShouldContinue = lambda: True, then: Callable[[], object] = lambda: None) -> None:
        self._then = then  # is done once all have asked
        self.all_asked = threading.Event()
        self.done: list[str] = []
        self.most_measured = self.most_made = 0
        self._asked = self._measured = self._made = 0
        self._count = threading.Lock()
        loops = [*serialized(Loop(name, 600, lambda still, name=name: self._pass(name, still)) for name in NAMES)]
        assert len({id(one.turn) for one in loops}) == 1
        self.scheduler = Scheduler([replace(one, turn=self._turn(one.turn)) for one in loops], still, self)

    def _turn(self, turn: AbstractContextManager[object] | None) -> AbstractContextManager[object]:
        @contextmanager
        def asking() -> Generator[None]:
            with self._count:
                self._asked += 1
                if self._asked == len(NAMES):
                    self._then()
                    self.all_asked.set()
            assert turn is not None
            with turn:
                yield

        return asking()

    @contextmanager
    def loop(self, name: str) -> Generator[None]:
        """As where passes are timed."""
        assert name in NAMES
        with self._count:
            self._measured += 1
            self.most_measured = max(self.most_measured, self._measured)
        yield
        with self._count:
            self._measured -= 1

    def _pass(self, name: str, _: ShouldContinue) -> PassResult:
        with self._count:
            self._made += 1
            self.most_made = max(self.most_made, self._made)
        if self.all_asked.wait(20):
            self.done.append(name)
        with self._count:
            self._made -= 1
        return PassResult()


def test_one_at_a_time() -> None:
    turns = Turns()
    turns.scheduler.turn()
    assert turns.scheduler.join(60)
    assert sorted(turns.done) == sorted(NAMES)
    assert turns.most_made == 1


def test_what_one_waited_for_its_turn_is_not_what_its_pass_took() -> None:
    turns = Turns()
    turns.scheduler.turn()
    assert turns.scheduler.join(60)
    assert (len(turns.done), turns.most_measured) == (len(NAMES), 1)


def test_those_that_look_for_single_things_wait_for_nobody() -> None:
    end, woken = threading.Event(), threading.Event()

    def slots(_: ShouldContinue) -> PassResult:
        end.wait(20)
        return PassResult()

    def waking(_: ShouldContinue) -> PassResult:
        woken.set()
        return PassResult(1)

    scheduler = Scheduler(
        [*serialized([Loop("slots", 600, slots), Loop("waking", 15, waking)])], lambda: True, Metrics()
    )
    scheduler.turn()
    assert woken.wait(20)
    end.set()
    assert scheduler.join(20)


def test_one_that_waited_asks_again_whether_it_may() -> None:
    leads = threading.Event()
    leads.set()
    turns = Turns(leads.is_set, then=leads.clear)
    turns.scheduler.turn()
    assert turns.scheduler.join(60)
    assert len(turns.done) == 1
