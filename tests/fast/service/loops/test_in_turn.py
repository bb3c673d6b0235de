"""Passes that look at everybody hold much: they do so one at a time, and none begins once somebody else leads."""

from __future__ import annotations

import threading

from service.loops.catalogue import in_turn
from service.loops.scheduler import Done, Loop, Scheduler, Still
from service.telemetry.metrics import Metrics

NAMES = ("keeping", "slots", "audit")


def test_one_at_a_time() -> None:
    under_way: list[str] = []
    most: list[int] = []

    def passing(name: str) -> Loop:
        def run(_: Still) -> Done:
            under_way.append(name)
            most.append(len(under_way))
            under_way.remove(name)
            return Done()

        return Loop(name, 600, run)

    scheduler = Scheduler([*in_turn(passing(name) for name in NAMES)], lambda: True, Metrics())
    scheduler.turn()
    assert scheduler.join(20)
    assert most == [1, 1, 1]


def test_those_that_look_for_single_things_wait_for_nobody() -> None:
    begun, end = threading.Event(), threading.Event()

    def first(_: Still) -> Done:
        begun.set()
        end.wait(20)
        return Done()

    slots, waking = in_turn([Loop("slots", 600, first), Loop("waking", 15, lambda _: Done(1))])
    waiting = threading.Thread(target=slots.run, args=(lambda: True,))
    waiting.start()
    assert begun.wait(20)
    assert waking.run(lambda: True).steps == 1
    end.set()
    waiting.join(20)


def test_one_that_waited_asks_again_whether_it_may() -> None:
    leads, begun, end = threading.Event(), threading.Event(), threading.Event()
    leads.set()
    done: list[str] = []

    def first(_: Still) -> Done:
        begun.set()
        end.wait(20)
        done.append("first")
        return Done()

    def second(_: Still) -> Done:
        done.append("second")
        return Done()

    one, other = in_turn([Loop("slots", 600, first), Loop("ledger", 600, second)])
    waiting = [threading.Thread(target=loop.run, args=(leads.is_set,)) for loop in (one, other)]
    waiting[0].start()
    assert begun.wait(20)
    waiting[1].start()
    leads.clear()
    end.set()
    for thread in waiting:
        thread.join(20)
    assert done == ["first"]
