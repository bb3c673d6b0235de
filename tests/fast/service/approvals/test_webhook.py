"""The webhook of approvals: its signature, the addresses that it may have, and where it does not follow."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import ip_address

import httpx2
import pytest

from agentenv.core.gateway.access_records import Approval
from agentenv.service.approvals import webhook as module
from agentenv.service.approvals.webhook import (
    SIGNATURE,
    TIMESTAMP,
    AddressRefusedError,
    Webhook,
    is_allowed_address,
)
from tests.stub_server import Request, Response, stub_server

NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)
WAITING = Approval("0" * 16, "w-1", "u-me", "run", "command: ls", "key.1", NOW, NOW, NOW)


@dataclass
class Server:
    """A receiver of messages, with the statuses that it answers; 204 without one."""

    server_port: int = 0
    received: list[tuple[dict[str, str], bytes]] = field(default_factory=list[tuple[dict[str, str], bytes]])
    answers: list[int] = field(default_factory=list[int])


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.0)
    receiver = Server()

    def respond(request: Request) -> Response:
        receiver.received.append((dict(request.headers), request.body))
        status = receiver.answers.pop(0) if receiver.answers else 204
        return Response(status, headers={"Location": "http://169.254.169.254/"})

    with stub_server(respond) as receiver.server_port:
        yield receiver


def send(port: int, ranges: tuple[str, ...] = ("127.0.0.0/8", "::1/128"), host: str = "localhost") -> None:
    async def secret() -> str:
        return "hush"

    url = f"http://{host}:{port}/hook"
    asyncio.run(Webhook(url, secret, ranges, "https://console.example.com/#/approvals", lambda: NOW).send(WAITING))


def test_a_message_has_the_call_and_a_signature_with_its_time(server: Server) -> None:
    send(server.server_port, host="127.0.0.1")
    [(headers, body)] = server.received
    expected = hmac.new(b"hush", headers[TIMESTAMP].encode() + b"." + body, hashlib.sha256).hexdigest()
    assert headers[SIGNATURE] == f"v1={expected}"
    assert headers[TIMESTAMP] == str(int(NOW.timestamp()))
    assert headers["Host"] == f"127.0.0.1:{server.server_port}"
    message = json.loads(body)
    assert (message["tool"], message["asked"], message["workspace"]) == ("run", "command: ls", "w-1")
    assert message["link"] == "https://console.example.com/#/approvals"


def test_an_address_that_the_settings_do_not_allow_gets_nothing(server: Server) -> None:
    for ranges in ((), ("10.0.0.0/8",)):
        with pytest.raises(AddressRefusedError):
            send(server.server_port, ranges)
    assert server.received == []


def test_a_redirect_is_not_followed_and_a_failure_is_repeated(server: Server) -> None:
    server.answers[:] = [500, 204]
    send(server.server_port, host="127.0.0.1")
    assert len(server.received) == 2
    server.received.clear()
    server.answers[:] = [307] * 3
    with pytest.raises(httpx2.HTTPStatusError):
        send(server.server_port, host="127.0.0.1")
    assert len(server.received) == 3


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1::1", True),
        ("127.0.0.1", False),
        ("169.254.169.254", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("100.64.0.1", False),
        ("0.0.0.1", False),
        ("224.0.0.1", False),
        ("::1", False),
        ("fd00::1", False),
        ("fe80::1", False),
        ("::ffff:169.254.169.254", False),
        ("::ffff:10.1.2.3", False),
    ],
)
def test_private_addresses_are_refused_unless_named(address: str, *, allowed: bool) -> None:
    assert is_allowed_address(ip_address(address), ()) is allowed
    assert is_allowed_address(ip_address("10.1.2.3"), ("10.0.0.0/8",))
    assert is_allowed_address(ip_address("::ffff:10.1.2.3"), ("10.0.0.0/8",))
