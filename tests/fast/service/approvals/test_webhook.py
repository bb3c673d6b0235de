"""The webhook of approvals: its signature, the addresses that it may have, and where it does not follow."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import ip_address
from typing import Any

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

NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)
WAITING = Approval("0" * 16, "w-1", "u-me", "run", "command: ls", "key.1", NOW, NOW, NOW)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.0)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            listening.received.append((dict(self.headers), body))  # type: ignore[attr-defined]
            self.send_response(listening.answers.pop(0) if listening.answers else 204)  # type: ignore[attr-defined]
            self.send_header("Location", "http://169.254.169.254/")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002 - the base's

    listening = HTTPServer(("127.0.0.1", 0), Handler)
    listening.received, listening.answers = [], []  # type: ignore[attr-defined]
    thread = threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield listening
    listening.shutdown()
    thread.join()
    listening.server_close()


def send(port: int, ranges: tuple[str, ...] = ("127.0.0.0/8", "::1/128"), host: str = "localhost") -> None:
    async def secret() -> str:
        return "hush"

    url = f"http://{host}:{port}/hook"
    asyncio.run(Webhook(url, secret, ranges, "https://console.example.com/#/approvals", lambda: NOW).send(WAITING))


def test_a_message_has_the_call_and_a_signature_with_its_time(server: Any) -> None:
    send(server.server_port, host="127.0.0.1")
    [(headers, body)] = server.received
    expected = hmac.new(b"hush", headers[TIMESTAMP].encode() + b"." + body, hashlib.sha256).hexdigest()
    assert headers[SIGNATURE] == f"v1={expected}"
    assert headers[TIMESTAMP] == str(int(NOW.timestamp()))
    assert headers["Host"] == f"127.0.0.1:{server.server_port}"
    message = json.loads(body)
    assert (message["tool"], message["asked"], message["workspace"]) == ("run", "command: ls", "w-1")
    assert message["link"] == "https://console.example.com/#/approvals"


def test_an_address_that_the_settings_do_not_allow_gets_nothing(server: Any) -> None:
    for ranges in ((), ("10.0.0.0/8",)):
        with pytest.raises(AddressRefusedError):
            send(server.server_port, ranges)
    assert server.received == []


def test_a_redirect_is_not_followed_and_a_failure_is_repeated(server: Any) -> None:
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
