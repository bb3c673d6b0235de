"""Applications on loopback, and asynchronous contexts of a thread of their own, for tests without an event loop."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, TypeVar

import uvicorn

from agentenv.rehearsal.controlplane.ports import HOST

T = TypeVar("T")
SECONDS = 180.0


@asynccontextmanager
async def served(app: Any, **options: Any) -> AsyncGenerator[int]:
    """Serve an application in this event loop; yield its port."""
    config = uvicorn.Config(app, log_config=None, access_log=False, proxy_headers=False, **options)
    server = uvicorn.Server(config)
    with socket.create_server((HOST, 0)) as listener:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            await serving


@contextmanager
def in_thread(context: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Enter a context in the event loop of a thread of its own; yield what it yields."""
    entered: Future[tuple[T, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def run() -> None:
        async with context as value:
            ended = asyncio.Event()
            entered.set_result((value, asyncio.get_running_loop(), ended))
            await ended.wait()

    def enter() -> None:
        try:
            asyncio.run(run())
        except BaseException as failure:
            if entered.done():
                raise
            entered.set_exception(failure)

    thread = threading.Thread(target=enter, daemon=True)
    thread.start()
    value, loop, ended = entered.result(SECONDS)
    try:
        yield value
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(SECONDS)
        assert not thread.is_alive()
