"""Tokens are signed from memory: after the first read none waits for the API server."""

from __future__ import annotations

import asyncio
import base64
from datetime import UTC, datetime
from typing import Any, cast

import jwt
import pytest

from agentenv.core.classes.pods.daemon import KEYS_FILE
from agentenv.service.kube.client import KubeApi, KubeApiError
from agentenv.service.workspaced.keys import new_key, to_text
from agentenv.service.workspaced.tokens import Grant, NoSigningKeyError, TokenSigner

NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)
KEY = new_key(NOW)


class Server:
    """Has the Secret with the keys; it hangs or fails when a test says so."""

    def __init__(self) -> None:
        self.data = {KEYS_FILE: base64.b64encode(to_text([KEY]).encode()).decode()}
        self.reads, self.fails, self.released = 0, False, asyncio.Event()
        self.released.set()

    async def find(self, *_: Any) -> Any:
        self.reads += 1
        await self.released.wait()
        if self.fails:
            raise KubeApiError("away", 503)
        return {"data": self.data}


def signer_of(server: Server, clock: list[float]) -> TokenSigner:
    return TokenSigner(cast("KubeApi", server), "workspace-service", lambda: NOW, monotonic=lambda: clock[0])


def test_the_keys_are_read_once_for_many_and_again_in_the_background() -> None:
    async def run() -> None:
        server, clock = Server(), [0.0]
        signer = signer_of(server, clock)
        tokens = await asyncio.gather(*(signer.sign(Grant("p", "api", "c")) for _ in range(20)))
        assert server.reads == 1
        claims = jwt.decode(tokens[0], options={"verify_signature": False})
        assert (claims["aud"], claims["claim"], claims["exp"] - claims["iat"]) == ("p", "c", 60)
        clock[0] = 31.0
        server.released.clear()
        async with asyncio.timeout(60):
            for _ in range(3):
                assert await signer.sign(Grant("p", "api"))
        server.released.set()
        while server.reads < 2:
            await asyncio.sleep(0)
        assert server.reads == 2

    asyncio.run(run())


def test_tokens_are_signed_while_the_api_server_is_unreachable() -> None:
    async def run() -> None:
        server, clock = Server(), [0.0]
        signer = signer_of(server, clock)
        await signer.sign(Grant("p", "api"))
        server.fails = True
        for seconds in range(60, 660, 60):
            clock[0] = float(seconds)
            assert await signer.sign(Grant("p", "api"))
            await asyncio.sleep(0)

    asyncio.run(run())


def test_without_any_key_there_is_no_token() -> None:
    async def run() -> None:
        server = Server()
        server.data = {KEYS_FILE: base64.b64encode(b"[]").decode()}
        with pytest.raises(NoSigningKeyError):
            await signer_of(server, [0.0]).sign(Grant("p", "api"))

    asyncio.run(run())
