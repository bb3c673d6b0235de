"""The whole API with a backend on a fake cluster; its callers have tokens of a fake issuer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx2

from agentenv.service.gateway.access_cache import AccessCache
from agentenv.service.gateway.keys import ApiKeys
from agentenv.service.http.app import application
from agentenv.service.http.auth.authenticate import Authenticator
from agentenv.service.http.auth.issuer import Issuer
from agentenv.service.http.auth.rate_limits import RateLimiter
from agentenv.service.http.auth.token_reviews import TokenReviewer
from agentenv.service.http.dependencies import Dependencies
from tests.fast.service.gateway.stored import MemoryStore
from tests.fast.service.http.auth.issuer import AUDIENCE, FakeIssuer
from tests.fast.service.kube.apiserver import Object
from tests.fast.service.workspaces.stage import Stage, staged


@dataclass
class ApiClient:
    """Sends requests to the API on behalf of subjects of the issuer."""

    stage: Stage
    issuer: FakeIssuer
    client: httpx2.AsyncClient
    dependencies: Dependencies

    async def request(
        self,
        subject: str,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        claims: Object | None = None,
        headers: Object | None = None,
    ) -> Any:
        """Return the response to a request with a subject's token, which may have more `claims`."""
        token = self.issuer.token(subject, **(claims or {}))
        all_headers = {"Authorization": f"Bearer {token}", **(headers or {})}
        return await self.client.request(method, f"/v1{path}", json=body, headers=all_headers)


def run_with_api(
    act: Callable[[ApiClient], Awaitable[None]], *classes: Object, stack: Object | None = None, **service: Any
) -> None:
    """Run a coroutine with the API of an environment with these classes and settings of its service.

    `stack` are those as a stack file has them; the rest is for the authentication alone.
    """
    issuer = FakeIssuer()

    async def run() -> None:
        async with (
            staged(*classes, **(stack or {})) as stage,
            httpx2.AsyncClient(trust_env=False) as plain,
            asyncio.timeout(60),
        ):
            app = application(None, stage.metrics)
            now = stage.kube.clock.now
            access = AccessCache(MemoryStore(), now=now)
            await access.poll()
            keys = ApiKeys(access, now)
            dependencies = app.state.dependencies = Dependencies(
                backend=stage.backend,
                catalog=stage.catalog,
                authenticator=Authenticator(
                    stage.catalog.settings.service.model_copy(update=service),
                    Issuer(issuer.url, AUDIENCE, plain),
                    TokenReviewer(stage.kube, AUDIENCE),
                    keys=keys,
                ),
                limits=RateLimiter(100_000),
                metrics=stage.metrics,
                swarms=stage.swarms,
                keys=keys,
                access_records=access,
                now=now,
            )
            transport = httpx2.ASGITransport(app=app)
            async with httpx2.AsyncClient(transport=transport, base_url="http://service") as client:
                await act(ApiClient(stage, issuer, client, dependencies))

    try:
        asyncio.run(run())
    finally:
        issuer.close()
