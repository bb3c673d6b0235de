"""The HTTP server of the service's processes."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

import uvicorn

from agentenv.service.http.connection_limits import LimitedProtocol

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp

# A request for a cold workspace may wait for a node; Kubernetes gives the pod this long and a little more.
GRACE_SECONDS = 25


class HttpServer(uvicorn.Server):
    """A server that ends at a signal. uvicorn's own would then raise the signal again, and kill the process by it."""

    def __init__(self, config: uvicorn.Config, on_started: Callable[[int], None]) -> None:
        super().__init__(config)
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, and call `on_started` with the port."""
        await super().startup(sockets)
        if self.started:
            self._on_started(self.servers[0].sockets[0].getsockname()[1])

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Handle signals while it serves."""
        loop, signals = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)
        for number in signals:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)


def http_server(app: ASGIApp, host: str, port: int, on_started: Callable[[int], None] = lambda _: None) -> HttpServer:
    """Return a server of an application; `on_started` is called with its port once it listens."""
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=LimitedProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        # Anybody can send X-Forwarded-For, so the peer's address is the source.
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    return HttpServer(config, on_started)
