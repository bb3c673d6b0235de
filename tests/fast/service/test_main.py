"""The process exits with an error when its watches of the cluster end, or its loops fail."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

import httpx2
from fastapi import FastAPI

from agentenv.rehearsal.controlplane.ports import Ports
from agentenv.service.__main__ import serve, serve_loops
from agentenv.service.configuration import Configuration
from agentenv.service.http import app as service_app
from agentenv.service.kube.client import KubeClient
from agentenv.service.kube.informer import Informer
from agentenv.service.loops import runner
from agentenv.service.telemetry.metrics import Metrics
from tests.fast.service.kube.apiserver import ApiServer
from tests.fast.service.workspaces.stage import settings_of

if TYPE_CHECKING:
    import pytest


def test_process_exits_with_an_error_when_its_watches_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> bool:
        def create_app(_c: Any, _m: Any, on_watches_ended: Callable[[], None]) -> FastAPI:
            @contextlib.asynccontextmanager
            async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
                asyncio.get_running_loop().call_soon(on_watches_ended)
                yield

            return FastAPI(lifespan=lifespan)

        monkeypatch.setattr(service_app, "create_app", create_app)
        configuration = Configuration(settings=settings_of(), replica="r1", host="127.0.0.1", port=0)
        async with asyncio.timeout(20):
            return await serve(configuration, Metrics())

    assert asyncio.run(run())
    errors = [record.message for record in caplog.records if record.levelno >= logging.ERROR]
    assert any("watches of the cluster ended" in record for record in errors)


def loops_with(monkeypatch: pytest.MonkeyPatch, lead: Callable[..., Awaitable[None]], port: int = 0) -> bool:
    """Return whether the process of the loops failed, with an election of the test's own."""
    monkeypatch.setattr(runner, "lead", lead)
    server = ApiServer()
    monkeypatch.setattr(KubeClient, "from_kubeconfig", lambda *_, **__: KubeClient(server.client()))
    configuration = Configuration(settings=settings_of(), replica="r1", host="127.0.0.1", port=port, loops=True)

    async def run() -> bool:
        async with asyncio.timeout(20):
            return await serve_loops(configuration, Metrics())

    return asyncio.run(run())


def test_process_exits_with_an_error_when_its_loops_fail(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def lead(*_: Any) -> None:
        raise ValueError("a defect")

    assert loops_with(monkeypatch, lead)
    assert any("the loops failed" in record.message for record in caplog.records)


def test_process_of_loops_exits_with_an_error_when_its_watches_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def ends(_: Informer) -> None:
        return

    async def lead(_leader: Any, _scheduler: Any, _metrics: Any, stop: asyncio.Event) -> None:
        await stop.wait()

    monkeypatch.setattr(Informer, "run", ends)
    assert loops_with(monkeypatch, lead)
    assert any("watches of the cluster ended" in record.message for record in caplog.records)


def test_the_loops_have_probes_and_end_at_sigterm(monkeypatch: pytest.MonkeyPatch) -> None:
    statuses: list[int] = []
    ports = Ports(("metrics",))
    port = ports["metrics"]

    async def answer(client: httpx2.AsyncClient, path: str) -> int:
        while True:
            try:
                return (await client.get(path)).status_code
            except httpx2.ConnectError:
                await asyncio.sleep(0.01)  # the server starts beside the loops

    async def lead(_leader: Any, _scheduler: Any, _metrics: Any, stop: asyncio.Event) -> None:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            statuses.append(await answer(client, "/healthz"))
            while (status := await answer(client, "/readyz")) != 200:
                assert status == 503
                await asyncio.sleep(0.01)
            statuses.append(status)
        signal.raise_signal(signal.SIGTERM)
        await stop.wait()

    with ports:
        assert not loops_with(monkeypatch, lead, port)
    assert statuses == [200, 200]
