"""Calls that concurrent callers share: while one runs, others with the same key wait for its result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class SharedCalls(Generic[Result]):
    """The running calls of one kind, by key."""

    def __init__(self) -> None:
        self._running: dict[Hashable, asyncio.Task[Result]] = {}

    async def run(self, key: Hashable, call: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Return the result of the running call of a key, or of a new one. A cancelled caller does not cancel it."""
        task = self._running.get(key)
        if task is None:
            task = self._running[key] = asyncio.create_task(call())
            task.add_done_callback(lambda done: self._end(key, done))
        return await asyncio.shield(task)

    def _end(self, key: Hashable, task: asyncio.Task[Result]) -> None:
        del self._running[key]
        if not task.cancelled():
            task.exception()  # perhaps nobody waits for it any more
