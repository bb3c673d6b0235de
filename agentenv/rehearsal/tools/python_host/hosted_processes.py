"""The processes that a language host starts: interrupted with it, and killed after a grace period."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The engine gives a plugin five seconds in all.
_GRACE_SECONDS = 3.0


class Hosted:
    """The running processes."""

    def __init__(self) -> None:
        self._running: set[asyncio.subprocess.Process] = set()
        self._ending: set[asyncio.Task[None]] = set()

    async def start(
        self, command: Sequence[str], environment: Mapping[str, str], folder: str | None = None, *, captured: bool
    ) -> asyncio.subprocess.Process:
        """Start a command; output that is not captured goes to the engine."""
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

    async def wait(self, process: asyncio.subprocess.Process) -> int:
        """Wait for its end; stop it if the wait is cancelled."""
        try:
            return await process.wait()
        finally:
            self.stop(process)

    def stop(self, process: asyncio.subprocess.Process) -> None:
        """Stop a process without waiting."""
        self._running.discard(process)
        if process.returncode is None:
            task = asyncio.ensure_future(_stop(process))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def stop_all(self) -> None:
        """Stop every process and wait for the end."""
        for process in tuple(self._running):
            self.stop(process)
        if self._ending:
            await asyncio.wait(self._ending)


async def _stop(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    try:
        async with asyncio.timeout(_GRACE_SECONDS):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
