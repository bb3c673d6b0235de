"""The real `e2b` client, through the real Envoy and the real authorizer, to sandboxes that run on this machine.

The client reaches every host through Envoy as its HTTP proxy, as no name below the test's domain resolves.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
import uvicorn

from agentenv.core.gateway.api_keys import Scope
from agentenv.dev.gateway import DOMAIN
from agentenv.dev.machine import Machine
from agentenv.dev.serve import Local, local_service
from agentenv.dev.settings import default_settings
from agentenv.dev.state import opened
from agentenv.rehearsal.controlplane.ports import HOST, Ports
from agentenv.service.configuration import Configuration
from agentenv.service.gateway.setup import running_gateway
from agentenv.service.http.app import application
from tests.fast.core.gateway.running import running

T = TypeVar("T")
SECONDS = 180.0


@dataclass
class Served:
    """A served environment, for the thread of a test."""

    local: Local
    loop: asyncio.AbstractEventLoop
    service_port: int
    authorizer_port: int

    def run(self, act: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop of the service."""
        return asyncio.run_coroutine_threadsafe(act, self.loop).result(SECONDS)


@contextlib.asynccontextmanager
async def _authorizing(local: Local) -> AsyncGenerator[int]:
    settings = local.dependencies.catalog.settings
    with Ports(("authorizer",)) as ports:
        port = ports["authorizer"]
        configuration = Configuration(settings=settings, replica="test", host=HOST, authorizer_port=port)
        async with running_gateway(configuration, local.dependencies, local.signer, local.secrets):
            yield port


@pytest.fixture(scope="module")
def environment(on: Machine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service with its authorizer."""
    started, ending = threading.Event(), list[Callable[[], None]]()
    served: list[Served] = []

    async def serve(folder: Path) -> None:
        with opened(folder) as state:
            sandboxes = lambda keys: on.sandboxes(state.homes, keys)  # noqa: E731
            async with (
                local_service(default_settings(), state, sandboxes) as local,
                _authorizing(local) as authorizer_port,
            ):
                app = application()
                app.state.dependencies = local.dependencies
                server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, proxy_headers=False))
                serving_http = asyncio.create_task(server.serve())
                while not server.started:
                    assert not serving_http.done()
                    await asyncio.sleep(0.01)
                port = server.servers[0].sockets[0].getsockname()[1]
                served.append(Served(local, asyncio.get_running_loop(), port, authorizer_port))
                ending.append(lambda: setattr(server, "should_exit", True))
                started.set()
                await serving_http

    thread = threading.Thread(target=asyncio.run, args=(serve(tmp_path_factory.mktemp("dev")),), daemon=True)
    thread.start()
    assert started.wait(SECONDS)
    yield served[0]
    served[0].loop.call_soon_threadsafe(ending[0])
    thread.join(SECONDS)
    assert not thread.is_alive()


@pytest.fixture
def gateway(environment: Served, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """A running Envoy, and the options by which a client goes through it."""
    authorizer: Any = SimpleNamespace(port=environment.authorizer_port)
    service: Any = SimpleNamespace(port=environment.service_port)
    with running(authorizer, service, domain=DOMAIN, workspace_domain=DOMAIN) as envoy:
        monkeypatch.setenv("E2B_API_URL", f"http://api.{DOMAIN}/e2b")
        monkeypatch.setenv("E2B_SANDBOX_URL", f"http://sandbox.{DOMAIN}")
        monkeypatch.setenv("E2B_API_KEY", _key(environment))
        yield {"proxy": f"http://127.0.0.1:{envoy.plan.port}"}


def _key(environment: Served) -> str:
    """Return an API key of the owner of the environment."""
    keys, dependencies = environment.local.dependencies.keys, environment.local.dependencies
    assert keys is not None
    owner: Any = dependencies.authenticator
    classes = dependencies.catalog.classes
    scopes: tuple[Scope, ...] = ("read", "use", "create", "wake")
    return environment.run(keys.create(owner._owner, "e2b", scopes, timedelta(days=1), classes))[1]
