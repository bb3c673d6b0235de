"""The processes that a language host starts: they are ended with it, and given a moment to leave by themselves."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The engine gives a plugin five seconds in all.
_PATIENCE_SECONDS = 3.0


class Hosted:
    """What is running now."""

    def __init__(self) -> None:
        self._running: set[asyncio.subprocess.Process] = set()
        self._ending: set[asyncio.Task[None]] = set()

    async def start(
        self, command: Sequence[str], environment: Mapping[str, str], folder: str | None = None, *, captured: bool
    ) -> asyncio.subprocess.Process:
        """Start a command; what is not captured goes where ours goes, which is to the engine."""
        pipe = asyncio.subprocess.PIPE if captured else None
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            env=dict(environment),
            cwd=folder or None,
        )
        self._running.add(process)
        return process

    async def ended(self, process: asyncio.subprocess.Process) -> int:
        """Wait for its end; whoever gives up waiting has it ended."""
        try:
            return await process.wait()
        finally:
            self.end(process)

    def end(self, process: asyncio.subprocess.Process) -> None:
        """Have it ended, without waiting for that."""
        self._running.discard(process)
        if process.returncode is None:
            task = asyncio.ensure_future(_end(process))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def end_all(self) -> None:
        """End everything, and wait until it is."""
        for process in tuple(self._running):
            self.end(process)
        if self._ending:
            await asyncio.wait(self._ending)


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
