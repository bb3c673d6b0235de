"""The authorization on the wire, as Envoy speaks it: what is allowed, what is denied, and nothing at a failure."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from agentenv.service.gateway.entry import Allow, Decision, Deny, EntryRequest
from agentenv.service.gateway.messages import SERVICE, CheckRequest, CheckResponse
from agentenv.service.gateway.server import Check, serving
from tests.fast.service.gateway.entrance import MINE, WORKSPACES, entrance

Call = Callable[[Any], Awaitable[Any]]


def message(host: str, path: str = "/", **headers: str) -> Any:
    request = CheckRequest()
    request.attributes.source.address.socket_address.address = "192.0.2.7"
    http = request.attributes.request.http
    http.method, http.host, http.path = "GET", host, path
    for name, value in headers.items():
        http.headers[name.replace("_", "-")] = value
    return request


def on_wire(check: Check, act: Callable[[Call], Awaitable[None]]) -> None:
    async def run() -> None:
        async with (
            asyncio.timeout(30),
            serving(check, "127.0.0.1:0") as port,
            grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
        ):
            call = channel.unary_unary(
                f"/{SERVICE}/Check",
                request_serializer=CheckRequest.SerializeToString,
                response_deserializer=CheckResponse.FromString,
            )
            await act(call)

    asyncio.run(run())


def headers_of(options: Any) -> dict[str, tuple[str, int]]:
    return {option.header.key: (option.header.value, option.append_action) for option in options}


def test_an_allowed_request_gets_its_headers_and_loses_credentials() -> None:
    gate = entrance()

    async def act(call: Call) -> None:
        bearer = gate.bearer("u-me")
        response = await call(message(f"3000-{MINE}.{WORKSPACES}", "/x?y", **bearer, cookie="__Host-link=a"))
        assert response.status.code == 0
        assert not response.HasField("denied_response")
        headers = headers_of(response.ok_response.headers)
        assert headers["x-gateway-destination"] == ("10.0.0.7:49983", 2)
        assert headers["x-workspace-port"] == ("3000", 2)
        assert set(response.ok_response.headers_to_remove) == {"authorization", "cookie"}

    on_wire(gate.authorizer.check, act)


def test_a_denied_request_has_a_status_and_cannot_be_taken_for_an_allowed_one() -> None:
    gate = entrance()

    async def act(call: Call) -> None:
        response = await call(message(f"3000-{MINE}.{WORKSPACES}"))
        assert response.status.code == 7
        assert response.denied_response.status.code == 404
        assert headers_of(response.denied_response.headers)["content-type"][0] == "application/problem+json"
        assert not response.HasField("ok_response")

    on_wire(gate.authorizer.check, act)


def test_each_cookie_is_a_header_of_its_own() -> None:
    async def check(_: EntryRequest) -> Decision:
        return Deny(303, "", (("location", "/"), ("set-cookie", "a=1"), ("set-cookie", "b=2")))

    async def act(call: Call) -> None:
        options = (await call(message("h"))).denied_response.headers
        assert [(option.header.key, option.append_action) for option in options] == [
            ("location", 2),
            ("set-cookie", 0),
            ("set-cookie", 0),
        ]

    on_wire(check, act)


def test_a_defect_routes_nothing() -> None:
    async def check(_: EntryRequest) -> Decision:
        raise ZeroDivisionError("secret")

    async def act(call: Call) -> None:
        response = await call(message("h"))
        assert response.denied_response.status.code == 503
        assert "secret" not in response.denied_response.body

    on_wire(check, act)


def test_a_request_that_is_held_delays_no_other() -> None:
    released = asyncio.Event()

    async def check(request: EntryRequest) -> Decision:
        if request.host == "slow":
            await released.wait()
        return Allow({"x-gateway-destination": f"{request.host}:1"})

    async def act(call: Call) -> None:
        slow = asyncio.ensure_future(call(message("slow")))
        for _ in range(20):
            assert (await call(message("quick"))).status.code == 0
        assert not slow.done()
        released.set()
        assert headers_of((await slow).ok_response.headers)["x-gateway-destination"][0] == "slow:1"

    on_wire(check, act)


def test_a_caller_that_leaves_ends_its_check_and_not_the_server() -> None:
    left = asyncio.Event()
    began = asyncio.Event()

    async def check(request: EntryRequest) -> Decision:
        if request.host == "leaves":
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                left.set()
        return Allow({})

    async def act(call: Call) -> None:
        leaving = asyncio.ensure_future(call(message("leaves")))
        await began.wait()
        leaving.cancel()
        await left.wait()
        assert (await call(message("next"))).status.code == 0

    on_wire(check, act)


START_A_PROGRAM = """
import asyncio, subprocess
from agentenv.dev.serve import local_service
from agentenv.service.gateway.server import serving
import grpc

async def act():
    async with serving(None, "127.0.0.1:0") as port, grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = asyncio.ensure_future(channel.unary_unary("/none")(b""))
        await asyncio.sleep(0)
        # A function of its own, so that Python forks.
        subprocess.run(["true"], preexec_fn=lambda: None, check=True)
        await asyncio.gather(call, return_exceptions=True)

asyncio.run(act())
"""


def test_nothing_is_printed_for_programs_that_the_process_starts() -> None:
    ended = subprocess.run([sys.executable, "-c", START_A_PROGRAM], capture_output=True, text=True, check=True)
    assert ended.stderr == ""
