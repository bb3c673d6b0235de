"""The service of one machine on loopback, with sandboxes that run, and MCP clients of the official SDK for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from agentenv.dev.gateway import addresses
from agentenv.dev.machine import Machine
from agentenv.dev.serve import Local, local_service
from agentenv.dev.settings import default_settings
from agentenv.dev.state import State
from agentenv.service.http.app import application
from tests.served import served

SECONDS = 300.0


@dataclass
class Served:
    """A served API, and the key of its owner."""

    local: Local
    url: str
    key: str

    @contextlib.asynccontextmanager
    async def tools(self, key: str | None = None) -> AsyncGenerator[Tools]:
        """Connect as an agent."""
        headers = {"Authorization": f"Bearer {key or self.key}"}
        async with (
            httpx2.AsyncClient(headers=headers, trust_env=False, timeout=60) as http,
            Client(streamable_http_client(f"{self.url}/mcp", http_client=http)) as client,
        ):
            yield Tools(client)


@dataclass
class Tools:
    """The tools, as an agent calls them."""

    client: Client

    async def __call__(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Return the structured result of a tool."""
        result = await self.client.call_tool(name, arguments)
        assert not result.is_error, result.content
        assert result.structured_content is not None
        return result.structured_content

    async def refused(self, name: str, **arguments: Any) -> str:
        """Return the text by which a tool refuses."""
        result = await self.client.call_tool(name, arguments)
        assert result.is_error, result.structured_content
        return getattr(result.content[0], "text", "")


@contextlib.asynccontextmanager
async def serving(state: State, on: Machine) -> AsyncGenerator[Served]:
    """Serve the API of one machine."""
    async with local_service(default_settings(), state, lambda keys: on.sandboxes(state.homes, keys)) as local:
        app = application()
        app.state.dependencies = local.dependencies
        local.dependencies.gateway = addresses(8000)
        async with served(app) as port:
            yield Served(local, f"http://127.0.0.1:{port}", state.key())


def with_service(state: State, on: Machine, act: Callable[[Served], Awaitable[None]]) -> None:
    """Run a coroutine with a served API."""

    async def run() -> None:
        async with asyncio.timeout(SECONDS), serving(state, on) as service:
            await act(service)

    asyncio.run(run())
