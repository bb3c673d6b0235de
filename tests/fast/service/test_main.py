"""The process ends, and says that it is broken, when its watches of the cluster end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

from agentenv.service.__main__ import serve
from agentenv.service.configuration import Configuration
from agentenv.service.http import app as service_app
from agentenv.service.telemetry.metrics import Metrics
from tests.fast.service.workspaces.stage import settings_of

if TYPE_CHECKING:
    import pytest


def test_a_process_whose_watches_end_ends_with_an_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> bool:
        def make_app(_c: Any, _m: Any, _s: Any, ended: Callable[[], None]) -> FastAPI:
            @contextlib.asynccontextmanager
            async def living(_: FastAPI) -> AsyncGenerator[None]:
                asyncio.get_running_loop().call_soon(ended)
                yield

            return FastAPI(lifespan=living)

        monkeypatch.setattr(service_app, "create_app", make_app)
        configuration = Configuration(settings=settings_of(), replica="r1", host="127.0.0.1", port=0, loops=False)
        async with asyncio.timeout(20):
            return await serve(configuration, Metrics())

    assert asyncio.run(play())
    errors = [one.message for one in caplog.records if one.levelno >= logging.ERROR]
    assert any("watches of the cluster ended" in one for one in errors)
