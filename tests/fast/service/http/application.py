"""The whole of the API over a backend on its stage: whoever asks has a token of an issuer that a test holds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx2

from agentenv.service.http.app import application
from agentenv.service.http.auth.authenticate import Authenticator
from agentenv.service.http.auth.issuer import Issuer
from agentenv.service.http.auth.rate_limits import RateLimiter
from agentenv.service.http.auth.token_reviews import TokenReviewer
from agentenv.service.http.dependencies import Dependencies
from tests.fast.service.http.auth.issuer import AUDIENCE, Issuing
from tests.fast.service.kube.apiserver import Object
from tests.fast.service.workspaces.stage import Stage, staged


@dataclass
class Whole:
    """All of it."""

    stage: Stage
    issuing: Issuing
    client: httpx2.AsyncClient

    async def ask(self, subject: str, method: str, path: str, body: Object | None = None, **said: Any) -> Any:
        """What somebody is answered: whose token says more of them by `claims`, and who sends more by `headers`."""
        token = self.issuing.token(subject, **said.get("claims", {}))
        headers = {"Authorization": f"Bearer {token}", **said.get("headers", {})}
        return await self.client.request(method, f"/v1{path}", json=body, headers=headers)


def on_the_whole(act: Callable[[Whole], Awaitable[None]], *classes: Object, **service: Any) -> None:
    """Do something with it."""
    issuing = Issuing()

    async def play() -> None:
        async with staged(*classes) as stage, httpx2.AsyncClient(trust_env=False) as plain, asyncio.timeout(60):
            app = application(None, stage.metrics)
            app.state.dependencies = Dependencies(
                backend=stage.backend,
                catalog=stage.catalog,
                authenticator=Authenticator(
                    stage.catalog.settings.service.model_copy(update=service),
                    Issuer(issuing.url, AUDIENCE, plain),
                    TokenReviewer(stage.kube, AUDIENCE),
                ),
                limits=RateLimiter(100_000),
                metrics=stage.metrics,
                now=stage.kube.clock.now,
            )
            around = httpx2.ASGITransport(app=app)
            async with httpx2.AsyncClient(transport=around, base_url="http://here") as client:
                await act(Whole(stage, issuing, client))

    try:
        asyncio.run(play())
    finally:
        issuing.close()
