"""A remote service that hangs delays its own callers only, and each of them no longer than its deadline."""

from __future__ import annotations

import asyncio
import threading

import pytest

from agentenv.service.aws.clients import AwsUnavailableError
from agentenv.service.aws.remote import MOST_FAILURES, PAUSE_SECONDS, Remote


class Service:
    """A service that hangs until it is released."""

    def __init__(self) -> None:
        self.calls, self.released = 0, threading.Event()

    def call(self) -> str:
        self.calls += 1
        self.released.wait(20)
        return "answer"


def test_a_hanging_service_takes_its_own_threads_only_and_is_then_left_alone() -> None:
    now, service = [0.0], Service()
    hanging, other = (Remote(name, threads=2, deadline=0.05, clock=lambda: now[0]) for name in ("hanging", "other"))

    async def act() -> None:
        for _ in range(MOST_FAILURES):
            with pytest.raises(AwsUnavailableError, match="hanging did not answer within"):
                await hanging.run(service.call)
        # Two threads are taken, and the third call waited for one.
        assert service.calls == 2
        with pytest.raises(AwsUnavailableError, match="called again in 15 s"):
            await hanging.run(service.call)
        assert await other.run(str.upper, "a") == "A"
        service.released.set()
        now[0] += PAUSE_SECONDS
        # One caller tries, and closes the breaker for all.
        trial = asyncio.create_task(hanging.run(service.call))
        await asyncio.sleep(0)
        with pytest.raises(AwsUnavailableError):
            await hanging.run(service.call)
        assert await trial == "answer"
        assert await hanging.run(service.call) == "answer"

    asyncio.run(act())


def test_a_refusal_is_an_answer() -> None:
    remote = Remote("refusing")

    def refuse() -> None:
        raise ValueError("no")

    async def act() -> None:
        for _ in range(MOST_FAILURES + 1):
            with pytest.raises(ValueError, match="no"):
                await remote.run(refuse)

    asyncio.run(act())
