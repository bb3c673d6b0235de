"""A replica's authorizer behind the real Envoy, with a sandbox that records what reaches it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

from agentenv.core.capabilities.cluster_facts import DAEMON_PORT
from agentenv.service.gateway.entry import Decision, EntryRequest
from agentenv.service.gateway.own_paths import OwnPaths
from agentenv.service.gateway.server import serving
from agentenv.service.workspaces.backend_protocol import Endpoint
from tests.fast.core.gateway.running import (
    LOOPBACK,
    TIMEOUT,
    Authorizer,
    Gateway,
    HttpServer,
    exchange,
    running,
    sandbox,
)
from tests.fast.service.gateway.entrance import MINE, THEIRS, Entrance, entrance


class ServedAuthorizer:
    """Serves an authorizer over gRPC from a thread of its own."""

    def __init__(self, gate: Entrance, port: int = 0) -> None:
        self.gate, self._address = gate, f"{LOOPBACK}:{port}"
        self.port = 0
        self.seen: list[EntryRequest] = []
        self._started = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), daemon=True)
        self._thread.start()
        assert self._started.wait(TIMEOUT)

    async def _serve(self) -> None:
        async with serving(self._check, self._address) as self.port:
            self._started.set()
            await self._stop.wait()

    async def _check(self, request: EntryRequest) -> Decision:
        self.seen.append(request)
        return await self.gate.authorizer.check(request)

    def run(self, work: Any) -> Any:
        """Return the result of a coroutine, in its loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT)

    def stop(self) -> None:
        """End it; open requests fail."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(TIMEOUT)


@dataclass
class Front:
    """Envoy with an authorizer, and the sandboxes of two owners behind it."""

    envoy: Gateway
    authorizer: ServedAuthorizer
    mine: HttpServer
    theirs: HttpServer

    @property
    def gate(self) -> Entrance:
        """Return the parts of the replica."""
        return self.authorizer.gate

    def send(
        self, host: str, path: str = "/", *headers: str, method: str = "GET", body: str = ""
    ) -> tuple[int, str, str]:
        """Send a request, and return the status, the head and the body of the response."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *headers]
        return exchange(self.envoy, ("\r\n".join(lines) + "\r\n\r\n" + body).encode("latin-1"))

    def bearer(self, owner: str) -> str:
        """Return the header of a token of the issuer."""
        return f"Authorization: {self.gate.bearer(owner)['authorization']}"


@contextmanager
def front(**changes: Any) -> Iterator[Front]:
    """Run Envoy with the workspaces of `u-me` and `u-other` behind it."""
    gate = entrance()
    now = gate.clock.now
    gate.authorizer._own_path = OwnPaths(gate.cache, lambda: gate.secrets, now).answer
    gate.authorizer._freed_at = gate.cache.freed_at
    mine, theirs, service = sandbox(), sandbox(), HttpServer(LOOPBACK, 0)
    for id_, server in ((MINE, mine), (THEIRS, theirs)):
        place(gate, id_, server)
    authorizer = ServedAuthorizer(gate)
    with running(cast("Authorizer", SimpleNamespace(port=authorizer.port)), service, **changes) as envoy:
        opened = Front(envoy, authorizer, mine, theirs)
        try:
            yield opened
        finally:
            # A test may have replaced any of them.
            opened.authorizer.stop()
            for server in (opened.mine, opened.theirs, service):
                server.stop()


def place(gate: Entrance, id_: str, server: HttpServer) -> None:
    """Have a workspace run at a server's address."""
    known = gate.directory.endpoints.get(id_) or Endpoint(f"pod-{id_[-3:]}", f"claim-{id_[-3:]}", "", DAEMON_PORT)
    gate.directory.endpoints[id_] = replace(known, address=server.address)


def cookies(values: Mapping[str, str]) -> str:
    """Return a Cookie header."""
    return "Cookie: " + "; ".join(f"{name}={value}" for name, value in values.items())
