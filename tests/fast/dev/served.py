"""The local service, served over HTTP from a thread, with simulated sandboxes."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agentenv.dev.sandboxes import Sandboxes
from agentenv.dev.serve import Local, local_service
from agentenv.dev.settings import default_settings
from agentenv.dev.state import opened
from agentenv.service.http.app import application
from agentenv.service.http.server import http_server
from tests.fast.dev.simulated import Clock, SimulatedSandboxes

if TYPE_CHECKING:
    from fastapi import FastAPI


@dataclass
class Served:
    """A served service: its address, the API key of its owner, and its parts."""

    address: str
    key: str
    folder: Path
    local: Local
    loop: asyncio.AbstractEventLoop


class _Server(threading.Thread):
    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.folder, self.started_at = folder, queue.Queue[Any]()
        self.server: Any = None

    def run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as failure:  # noqa: BLE001 - whoever waits for the start raises it
            self.started_at.put(failure)

    async def _serve(self) -> None:
        served: list[Local] = []
        loop = asyncio.get_running_loop()
        with opened(self.folder) as state:

            @contextlib.asynccontextmanager
            async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
                simulated = cast("Sandboxes", SimulatedSandboxes(Clock()))
                async with local_service(default_settings(), state, lambda _: simulated) as local:
                    app.state.dependencies = local.dependencies
                    served.append(local)
                    yield

            def started(port: int) -> None:
                address = f"http://127.0.0.1:{port}"
                state.announce(address)
                self.started_at.put(Served(address, state.key(), state.folder, served[0], loop))

            self.server = http_server(application(lifespan), "127.0.0.1", 0, started)
            self.server.capture_signals = contextlib.nullcontext  # this is not the main thread
            await self.server.serve()


@contextmanager
def serving(folder: Path) -> Iterator[Served]:
    """Serve from a thread until the end of the context."""
    thread = _Server(folder)
    thread.start()
    started = thread.started_at.get(timeout=120)
    if isinstance(started, BaseException):
        raise started
    try:
        yield started
    finally:
        thread.server.should_exit = True
        thread.join(30)
