"""Faults around the gateway, with the real Envoy: what breaks, what goes on, and what comes back."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from agentenv.core.gateway import envoy as envoy_configuration
from agentenv.core.gateway.envoy import IDLE_UPSTREAM_SECONDS
from agentenv.core.workspaces.workspace import PortSharing
from agentenv.service.gateway import authorize
from agentenv.service.gateway.entry import Allow, EntryRequest
from agentenv.service.gateway.sealing import SecretsCache
from agentenv.service.http.problems import Problem
from agentenv.service.kube.client import KubeApi, KubeApiError
from agentenv.service.workspaced.tokens import Grant, TokenSigner
from tests.fast.core.gateway.running import LOOPBACK, TIMEOUT, Authorizer, Gateway, exchange, running, sandbox
from tests.fast.service.gateway.entrance import MINE, THEIRS, WORKSPACES, entrance
from tests.fast.service.gateway.through_envoy import Front, ServedAuthorizer, front, place
from tests.fast.service.workspaced.test_tokens import Server as SecretsServer

MY_PORT, THEIR_PORT = (f"3000-{id_}.{WORKSPACES}" for id_ in (MINE, THEIRS))
UPGRADE = "\r\n".join(
    (
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    )
)
FRAME, ECHO = b"\x81\x82\x00\x00\x00\x00hi", b"\x81\x02hi"


@pytest.fixture
def opened() -> Iterator[Front]:
    with front() as running_front:
        for id_ in (MINE, THEIRS):
            running_front.gate.directory.change(id_, ports={3000: PortSharing("public", wake=True)})
        yield running_front


@contextmanager
def websocket(envoy: Gateway, host: str) -> Iterator[socket.socket]:
    """Yield an open WebSocket."""
    with envoy.connect() as sock:
        sock.sendall(f"GET /ws HTTP/1.1\r\nHost: {host}\r\n{UPGRADE}\r\n\r\n".encode())
        assert b" 101 " in sock.recv(4096)
        yield sock


def echoes(sock: socket.socket) -> bool:
    """Return whether a WebSocket still answers; False once it is closed."""
    try:
        sock.sendall(FRAME)
        received = b""
        while len(received) < len(ECHO) and (data := sock.recv(len(ECHO))):
            received += data
    except ConnectionError:
        return False
    return received == ECHO


def get(envoy: Gateway, host: str) -> int:
    return exchange(envoy, f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())[0]


def test_an_envoy_that_is_killed_breaks_its_own_streams_alone(opened: Front) -> None:
    authorizer = cast("Authorizer", SimpleNamespace(port=opened.authorizer.port))
    with (
        running(authorizer, opened.envoy.service) as other,
        websocket(other, MY_PORT) as lost,
        websocket(opened.envoy, MY_PORT) as remaining,
    ):
        other.process.kill()
        other.process.wait(TIMEOUT)
        assert not echoes(lost)
        assert echoes(remaining)
        assert get(opened.envoy, MY_PORT) == 200


def test_a_service_that_is_killed_breaks_no_stream_and_another_takes_over(opened: Front) -> None:
    with websocket(opened.envoy, MY_PORT) as sock:
        opened.authorizer.stop()
        assert echoes(sock)
        assert get(opened.envoy, MY_PORT) == 503, "nothing is routed without an authorization"
        assert echoes(sock)
        opened.authorizer = ServedAuthorizer(opened.gate, opened.authorizer.port)
        # Envoy connects again after a while.
        statuses = iter(lambda: get(opened.envoy, MY_PORT), 200)
        assert set(statuses) <= {503}
        assert echoes(sock)


def test_a_pod_that_is_lost_ends_its_streams_and_the_next_one_serves(opened: Front) -> None:
    with websocket(opened.envoy, MY_PORT) as mine, websocket(opened.envoy, THEIR_PORT) as theirs:
        opened.mine.lose()
        assert not echoes(mine)
        assert get(opened.envoy, MY_PORT) == 503
        assert echoes(theirs)
    opened.mine.stop()
    opened.mine = sandbox()
    place(opened.gate, MINE, opened.mine)
    assert get(opened.envoy, MY_PORT) == 200


def test_an_address_that_another_tenant_has_a_moment_later_gets_no_request_of_the_former(
    opened: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authorize, "LAG_SECONDS", 0.1)
    assert get(opened.envoy, MY_PORT) == 200
    [former] = opened.mine.seen
    # The connection to the address is still open in Envoy, which would use it again for so long.
    assert IDLE_UPSTREAM_SECONDS > 0
    directory = opened.gate.directory
    directory.endpoints.pop(MINE)
    place(opened.gate, THEIRS, opened.mine)
    assert get(opened.envoy, THEIR_PORT) == 200
    pod = directory.endpoints[THEIRS]
    tokens = [received.header("x-workspace-token") or "" for received in opened.mine.seen]
    assert tokens[0] == former.header("x-workspace-token")
    assert tokens[1].startswith(f"{pod.pod_uid}/{pod.claim_uid}/"), (
        "workspaced admits tokens of its pod and claim alone"
    )
    assert not tokens[0].startswith(f"{pod.pod_uid}/")
    assert get(opened.envoy, MY_PORT) == 503
    assert len(opened.mine.seen) == 2


def test_failed_wake_is_answered_with_its_reason_and_retried_by_the_next_request(
    opened: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = opened.gate.directory
    directory.put(MINE, "u-me", "suspended", ports={3000: PortSharing("public", wake=True)})
    resume, fails = directory.resume, [True]

    async def resumed(workspace: Any, on_requested: Callable[[], None]) -> Any:
        if fails.pop() if fails else False:
            raise Problem("no-room", "its class is full", "retry later", retry_after=30)
        result = await resume(workspace, on_requested)
        place(opened.gate, MINE, opened.mine)
        return result

    monkeypatch.setattr(opened.gate.authorizer._waker, "_resume", resumed)
    status, head, body = opened.send(MY_PORT)
    assert (status, json.loads(body)["detail"]) == (503, "its class is full")
    assert "retry-after: 30" in head
    assert opened.mine.seen == []
    assert opened.send(MY_PORT)[0] == 200


def test_slow_readers_fill_no_memory_and_delay_no_other_request(opened: Front) -> None:
    envoy = psutil.Process(opened.envoy.process.pid)
    get(opened.envoy, MY_PORT)
    before = envoy.memory_info().rss
    slow = [opened.envoy.connect() for _ in range(20)]
    for sock in slow:
        sock.sendall(f"GET /large?size={2**30} HTTP/1.1\r\nHost: {MY_PORT}\r\n\r\n".encode())
        assert sock.recv(1024)
    assert [get(opened.envoy, MY_PORT) for _ in range(20)] == [200] * 20
    assert envoy.memory_info().rss - before < 20 * 2**20
    for sock in slow:
        sock.close()


@pytest.fixture
def short_headers_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    assert envoy_configuration.HEADERS_SECONDS == 10
    monkeypatch.setattr(envoy_configuration, "HEADERS_SECONDS", 1)


@pytest.mark.usefixtures("short_headers_timeout")  # before the gateway starts
def test_a_connection_that_ends_in_the_middle_of_its_headers_is_closed(opened: Front) -> None:
    with opened.envoy.connect() as half, opened.envoy.connect() as silent:
        half.sendall(f"GET / HTTP/1.1\r\nHost: {MY_PORT}\r\nX-Rest: ".encode())
        assert get(opened.envoy, MY_PORT) == 200
        half.settimeout(60)
        assert half.recv(4096).startswith(b"HTTP/1.1 408")
        assert silent.send(b"GET") == 3
    assert len(opened.mine.seen) == 1


def test_warm_traffic_goes_on_for_ten_minutes_without_the_api_server() -> None:
    async def find() -> Any:
        if server.fails:
            raise KubeApiError("away", 503)

    async def run() -> None:
        await signer.sign(Grant("p", "api"))
        server.fails = True
        for seconds in range(0, 601, 30):
            gate.clock.seconds = float(seconds)
            await SecretsCache(find).refresh()
            await gate.cache.poll()
            await gate.admissions.sweep()
            async with asyncio.timeout(TIMEOUT):
                headers = {name.replace("_", "-"): value for name, value in gate.bearer("u-me").items()}
                request = EntryRequest("GET", MY_PORT, "/", headers, LOOPBACK)
                assert isinstance(await gate.authorizer.check(request), Allow), seconds
        assert server.reads > 10

    gate, server = entrance(), SecretsServer()
    signer = TokenSigner(cast("KubeApi", server), "workspace-service", gate.clock.now, monotonic=gate.clock.monotonic)
    gate.admissions._signer = signer
    asyncio.run(run())
