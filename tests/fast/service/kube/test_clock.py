"""The clock follows the API server's time and never jumps forward."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentenv.service.kube.clock import FRESH, LONGEST, ServerClock

START = datetime(2026, 11, 18, 12, tzinfo=UTC)
SECOND, OFF = timedelta(seconds=1), timedelta(days=60)


class Machine:
    """One whose clock is two months behind, and whatever is told to it."""

    def __init__(self) -> None:
        self.ticks = 0.0
        self.put = timedelta(0)  # by so much its server's clock was put right
        self.clock = ServerClock(lambda: START - OFF, monotonic=lambda: self.ticks)

    @property
    def server(self) -> datetime:
        """Return the server's time, rounded to a microsecond once, and not at each step."""
        return START + self.put + timedelta(seconds=self.ticks)

    def later(self, seconds: float) -> None:
        self.ticks += seconds

    def answered(self, after: float = 0.0) -> None:
        """The server writes its date, and after so many seconds that is read."""
        date = format_datetime(self.server.replace(microsecond=0), usegmt=True)
        self.later(after)
        self.clock.observe_date(date)


def test_the_local_clock_counts_until_the_first_response() -> None:
    machine = Machine()
    assert (machine.clock.now(), machine.clock.known) == (START - OFF, False)
    machine.answered()
    assert abs(machine.clock.now() - START) < SECOND
    machine.later(86400)
    assert abs(machine.clock.now() - machine.server) < SECOND
    # What it was told long ago is not enough to destroy by.
    assert not machine.clock.known
    machine.answered()
    machine.later(FRESH - 1)
    assert machine.clock.known


@pytest.mark.parametrize("date", [None, "", "yesterday", "Wed, 32 Nov 2026 12:00:00 GMT"])
def test_an_invalid_date_is_ignored(date: str | None) -> None:
    machine = Machine()
    machine.answered()
    machine.clock.observe_date(date)
    assert abs(machine.clock.now() - START) < SECOND


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 5)), max_size=30))
def test_a_slow_response_does_not_set_the_clock_back(answers: list[tuple[float, float]]) -> None:
    machine = Machine()
    machine.answered()
    last = machine.clock.now()
    for pause, took in answers:
        machine.later(pause)
        machine.answered(took)
        assert last <= machine.clock.now()
        assert abs(machine.clock.now() - machine.server) < SECOND
        last = machine.clock.now()


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 5)), min_size=1, max_size=30))
@example([(0.0, 1.9302444301518014)] * 30)
@example([(0.0, 0.0), (0.0, 1.9302444301518014), (0.0, 1.9302444301518014), (1.9302444301518014, 1.9302444301518014)])
def test_the_clock_is_never_ahead_of_the_server(answers: list[tuple[float, float]]) -> None:
    """A timestamp that is written by it is never in the future for anybody else."""
    machine = Machine()
    for pause, took in answers:
        machine.later(pause)
        machine.answered(took)
        # To the microsecond that a timestamp has.
        assert machine.clock.now() - machine.server <= timedelta(microseconds=1)


@pytest.mark.parametrize("by", [OFF, -OFF, 2 * LONGEST, -2 * LONGEST], ids=str)
def test_clock_follows_a_corrected_clock_of_the_server(by: timedelta) -> None:
    machine = Machine()
    machine.answered()
    machine.put += by
    machine.answered()
    assert abs(machine.clock.now() - machine.server) < SECOND
