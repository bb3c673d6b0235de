"""The real `e2b` client, through the real Envoy and the real authorizer, to sandboxes that run on this machine.

The client reaches every host through Envoy as its HTTP proxy, as no name below the test's domain resolves.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Coroutine, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

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
from tests.served import in_thread, served

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


@contextlib.asynccontextmanager
async def _serving(on: Machine, folder: Path) -> AsyncGenerator[Served]:
    with opened(folder) as state:
        async with (
            local_service(default_settings(), state, lambda keys: on.sandboxes(state.homes, keys)) as local,
            _authorizing(local) as authorizer_port,
        ):
            app = application()
            app.state.dependencies = local.dependencies
            async with served(app) as port:
                yield Served(local, asyncio.get_running_loop(), port, authorizer_port)


@pytest.fixture(scope="module")
def environment(on: Machine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service with its authorizer."""
    with in_thread(_serving(on, tmp_path_factory.mktemp("dev"))) as environment_:
        yield environment_


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
