"""Calls of a remote service that blocks: in threads of its own, with a deadline, behind a breaker.

So a service that hangs takes the threads of no other one, and callers wait for it three times, not each time. A thread
whose caller no longer waits ends by the timeouts of its client.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from agentenv.service.aws.clients import AwsUnavailableError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

THREADS = 8
DEADLINE_SECONDS = 8.0
# After so many failures in a row, the service is not called for a while; then one call shows whether it is back.
MOST_FAILURES, PAUSE_SECONDS = 3, 15.0


class Remote:
    """One remote service."""

    def __init__(
        self,
        name: str,
        *,
        threads: int = THREADS,
        deadline: float = DEADLINE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name, self._deadline, self._clock = name, deadline, clock
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._failures = 0
        self._closed_again_at = -math.inf

    async def run(
        self, function: Callable[Parameters, Result], *arguments: Parameters.args, **options: Parameters.kwargs
    ) -> Result:
        """Return the result of a function that calls the service; raise `AwsUnavailableError` without an answer."""
        self._refuse_while_open()
        context = contextvars.copy_context()
        call = functools.partial(context.run, functools.partial(function, *arguments, **options))
        try:
            async with asyncio.timeout(self._deadline):
                result = await asyncio.get_running_loop().run_in_executor(self._pool, call)
        except TimeoutError:
            self._count_failure()
            raise AwsUnavailableError(f"{self._name} did not answer within {self._deadline:.0f} s") from None
        except AwsUnavailableError:
            self._count_failure()
            raise
        self._failures = 0
        return result

    def _refuse_while_open(self) -> None:
        if self._failures < MOST_FAILURES:
            return
        left = self._closed_again_at - self._clock()
        if left > 0:
            raise AwsUnavailableError(f"{self._name} did not answer; it is called again in {math.ceil(left)} s")
        # One caller tries; the others are refused until it knows
        self._closed_again_at = self._clock() + PAUSE_SECONDS

    def _count_failure(self) -> None:
        self._failures += 1
        self._closed_again_at = self._clock() + PAUSE_SECONDS
