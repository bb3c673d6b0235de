"""Attacks on workspaces through the real Envoy and authorizer: what reaches which sandbox, and what refusals say."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, StreamEnded, StreamReset

from agentenv.core.gateway.access_records import Alias, Link
from agentenv.core.gateway.access_tokens import signature
from agentenv.core.gateway.api_keys import digest
from agentenv.core.workspaces.workspace import PortSharing
from agentenv.service.gateway.entry import OWN_PATHS
from agentenv.service.gateway.sealing import fingerprint
from agentenv.service.gateway.visitors import content_of
from agentenv.service.http.auth.callers import Caller, with_implied_roles
from tests.fast.core.gateway.running import TIMEOUT
from tests.fast.service.gateway.entrance import MINE, NOBODYS, THEIRS, WORKSPACES
from tests.fast.service.gateway.through_envoy import Front, cookies, front

MY_PORT, THEIR_PORT, NOBODYS_PORT = (f"3000-{id_}.{WORKSPACES}" for id_ in (MINE, THEIRS, NOBODYS))
MY_API, THEIR_API = (f"49983-{id_}.{WORKSPACES}" for id_ in (MINE, THEIRS))
SANDBOX = f"sandbox.{WORKSPACES}"
SOCKET = (
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
ME = Caller("u-me", with_implied_roles("user"), "session", session="s-1")


@pytest.fixture(scope="module")
def started() -> Iterator[Front]:
    with front() as opened:
        yield opened


@pytest.fixture
def attacked(started: Front) -> Front:
    for server in (started.mine, started.theirs, started.envoy.service):
        server.seen.clear()
    started.authorizer.seen.clear()
    for id_ in (MINE, THEIRS):
        started.gate.directory.change(id_, shared={}, ports={})
    return started


def nothing_reached(attacked: Front) -> bool:
    return (attacked.mine.seen, attacked.theirs.seen, attacked.envoy.service.seen) == ([], [], [])


def test_headers_of_the_gateway_from_a_caller_are_ignored(attacked: Front) -> None:
    headers = (
        f"X-Gateway-Destination: {attacked.theirs.address}:49983",
        "X-Workspace-Token: forged",
        "X-Workspace-Port: 22",
        f"X-Forwarded-Host: {THEIR_PORT}",
        "X-Forwarded-For: 203.0.113.9",
        f"Forwarded: host={THEIR_PORT}",
        f"X-Envoy-Original-Host: {THEIR_PORT}",
        f"X-Original-URL: http://{THEIR_PORT}/",
    )
    assert attacked.send(MY_PORT, "/", attacked.bearer("u-me"), *headers)[0] == 200
    [received] = attacked.mine.seen
    assert received.header("x-workspace-port") == "3000"
    assert received.header("x-workspace-token") == _token_of(attacked)
    assert "203.0.113.9" not in repr(received)
    assert received.header("authorization") is None
    assert attacked.theirs.seen == []


def _token_of(attacked: Front) -> str:
    [token] = {admission.token for admission in attacked.gate.admissions._admissions.values() if admission.port == 3000}
    return token


@pytest.mark.parametrize("host", [THEIR_PORT, NOBODYS_PORT])
def test_a_host_header_beside_the_authority_is_ignored(attacked: Front, host: str) -> None:
    request = ((":method", "GET"), (":scheme", "https"), (":path", "/"))
    own = (("authorization", attacked.gate.bearer("u-me")["authorization"]),)
    statuses = {
        _http2(attacked, (*request, (":authority", host), *own, ("host", MY_PORT))),
        _http2(attacked, (*request, (":authority", host), ("x-forwarded-host", MY_PORT), *own)),
    }
    assert statuses <= {400, 404, 0}
    assert nothing_reached(attacked)
    assert _http2(attacked, (*request, (":authority", MY_PORT), *own)) == 200


def _http2(attacked: Front, headers: tuple[tuple[str, str], ...]) -> int:
    """Return the status of a request over HTTP/2; 0 where the stream was reset."""
    config = H2Configuration(validate_outbound_headers=False, normalize_outbound_headers=False)
    connection = H2Connection(config)
    connection.initiate_connection()
    connection.send_headers(1, headers, end_stream=True)
    with attacked.envoy.connect() as sock:
        sock.sendall(connection.data_to_send())
        status = 0
        while data := sock.recv(65536):
            for event in connection.receive_data(data):
                if isinstance(event, ResponseReceived):
                    fields = {bytes(name): bytes(value) for name, value in event.headers or ()}
                    status = int(fields[b":status"])
                if isinstance(event, DataReceived):
                    connection.acknowledge_received_data(event.flow_controlled_length or 0, 1)
                if isinstance(event, StreamEnded | StreamReset):
                    return status
            sock.sendall(connection.data_to_send())
    return status


def test_headers_of_the_e2b_client_reach_only_what_its_credential_does(attacked: Front) -> None:
    token = attacked.gate.access_token(MINE)
    named = (f"E2b-Sandbox-Id: {THEIRS}", "E2b-Sandbox-Port: 49983")
    for credential in (f"X-Access-Token: {token}", attacked.bearer("u-me"), "X-Access-Token: x"):
        assert attacked.send(SANDBOX, "/files?path=a", credential, *named)[0] == 502
        # At a host of a workspace these headers are the program's own.
        assert attacked.send(THEIR_PORT, "/", credential, f"E2b-Sandbox-Id: {MINE}")[0] == 404
    assert nothing_reached(attacked)
    doubled = (f"E2b-Sandbox-Id: {MINE}", f"E2b-Sandbox-Id: {THEIRS}")
    assert attacked.send(SANDBOX, "/", f"X-Access-Token: {token}", *doubled)[0] == 404
    assert nothing_reached(attacked)
    assert attacked.send(SANDBOX, "/", f"X-Access-Token: {token}", f"E2b-Sandbox-Id: {MINE}")[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        f"{MY_PORT}.",
        MY_PORT.replace(".", "%2e", 1),
        MY_PORT.replace("-", "%2d", 1),
        MY_PORT.replace(WORKSPACES, WORKSPACES.replace("e", "\u0435")).encode().decode("latin-1"),
        f"xn--3000-{MINE}.{WORKSPACES}",
        f"3000-{MINE}.evil.{WORKSPACES}",
        f"evil.3000-{MINE}.{WORKSPACES}",
        f"03000-{MINE}.{WORKSPACES}",
        f"65536-{MINE}.{WORKSPACES}",
        "127.0.0.1",
        "[::ffff:127.0.0.1]",
        "2130706433",
        f"{MY_PORT}@evil.example.org",
        f"{MY_PORT}:80:80",
        f"{MY_PORT}, {THEIR_PORT}",
    ],
)
def test_a_host_that_is_written_in_another_way_is_no_host(attacked: Front, host: str) -> None:
    assert attacked.send(host, "/", attacked.bearer("u-me"))[0] in {400, 404}
    assert nothing_reached(attacked)


@pytest.mark.parametrize(
    "framing",
    [
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding:\tchunked \r\nContent-Length: 2",
        "Content-Length: 3\r\nContent-Length: 60",
    ],
)
def test_a_request_behind_another_is_never_smuggled_in(attacked: Front, framing: str) -> None:
    attacked.gate.directory.change(MINE, ports={3000: PortSharing("public")})
    smuggled = f"GET /smuggled HTTP/1.1\r\nHost: {MY_API}\r\n\r\n"
    attacked.send(MY_PORT, "/", framing, method="POST", body=f"0\r\n\r\n{smuggled}")
    reached = [received.path for server in (attacked.mine, attacked.theirs) for received in server.seen]
    assert "/smuggled" not in reached


def test_each_request_of_a_connection_is_authorized_by_itself(attacked: Front) -> None:
    attacked.gate.directory.change(MINE, ports={3000: PortSharing("public")})
    requests = (
        f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n" for host in (MY_PORT, f"4000-{MINE}.{WORKSPACES}", THEIR_PORT)
    )
    with attacked.envoy.connect() as sock:
        sock.sendall("".join(requests).encode())
        answered = b""
        while answered.count(b"HTTP/1.1 ") < 3:
            data = sock.recv(65536)
            assert data
            answered += data
    assert re.findall(rb"HTTP/1.1 (\d+)", answered) == [b"200", b"404", b"404"]
    assert (len(attacked.mine.seen), attacked.theirs.seen) == (1, [])


def sealed_person(attacked: Front, host: str, caller: Caller = ME) -> str:
    gate = attacked.gate
    until = gate.clock.now() + timedelta(hours=12)
    content = {**content_of(caller), "until": until.isoformat(), "host": host}
    return gate.secrets.seal("person", content, gate.clock.now())


def test_a_cookie_serves_its_host_alone(attacked: Front) -> None:
    cookie = cookies({"__Host-workspace": sealed_person(attacked, MY_PORT)})
    assert attacked.send(MY_PORT, "/", cookie)[0] == 200
    [received] = attacked.mine.seen
    assert received.header("cookie") is None
    for host in (f"4000-{MINE}.{WORKSPACES}", MY_API, THEIR_PORT):
        assert attacked.send(host, "/", cookie)[0] in {404, 502}
    assert len(attacked.mine.seen) == 1


def test_a_planted_cookie_beside_that_of_a_person_is_refused(attacked: Front) -> None:
    """Whether it is in the same header or in one of its own, whoever comes first."""
    mallory = Caller("u-other", with_implied_roles("user"), "session", session="s-2")
    own, planted = (sealed_person(attacked, THEIR_PORT, caller) for caller in (ME, mallory))
    tossed = [f"Cookie: __Host-workspace={value}" for value in (own, planted)]
    for headers in (tossed, tossed[::-1], [f"{tossed[0]}; __Host-workspace={planted}"]):
        assert attacked.send(THEIR_PORT, "/", *headers)[0] == 404
    assert nothing_reached(attacked)


def test_cookies_of_ours_reach_no_program_however_they_are_sent(attacked: Front) -> None:
    own = sealed_person(attacked, MY_PORT)
    sent = (["Cookie: a=1", f"Cookie: __Host-workspace={own}"], [f"Cookie: __Host-link=x,a=1; __Host-workspace={own}"])
    for headers in sent:
        assert attacked.send(MY_PORT, "/", *headers)[0] == 200
    assert [received.header("cookie") for received in attacked.mine.seen] == ["a=1", "a=1"]


@pytest.mark.parametrize("bomb", [f"Cookie: a={'c' * 33_000}", "\r\n".join(f"Cookie: a{i}=b" for i in range(101))])
def test_too_many_cookies_are_refused_before_authorization(attacked: Front, bomb: str) -> None:
    assert attacked.send(MY_PORT, "/", bomb, attacked.bearer("u-me"))[0] == 431
    assert attacked.authorizer.seen == []


async def _link(attacked: Front, **changes: Any) -> None:
    now = attacked.gate.clock.now()
    values = {"id": "abc", "digest": digest("hush"), "workspace": THEIRS, "port": 3000, "wake": False}
    values |= {"created_by": "u-other", "created": now, "expires": now + timedelta(minutes=5)}
    await attacked.gate.cache.put(Link(**{**values, **changes}))


@pytest.mark.parametrize(
    "path",
    ["//evil.example", "https://evil.example", "/\\evil.example", "%2f%2fevil.example", "/%09/evil.example", "\\evil"],
)
def test_redirects_stay_on_the_site(attacked: Front, path: str) -> None:
    attacked.authorizer.run(_link(attacked))
    status, head, _ = attacked.send(THEIR_PORT, f"{OWN_PATHS}link?token=abc.hush&path={quote(path, safe='%')}")
    assert status == 303
    assert "location: /\n" in f"{head}\n"


@pytest.mark.parametrize(
    "token", ["abc.", "abc.hush2", "abd.hush", "abc", ".hush", "abc.hus", "abc..hush", "abc.hush%00", "ABC.hush"]
)
def test_an_altered_link_opens_nothing(attacked: Front, token: str) -> None:
    attacked.authorizer.run(_link(attacked))
    assert attacked.send(THEIR_PORT, f"{OWN_PATHS}link?token={token}")[0] == 404


def test_the_cookie_of_a_link_is_not_replayed_at_another_host(attacked: Front) -> None:
    attacked.gate.directory.change(THEIRS, ports={port: PortSharing("link") for port in (3000, 4000)})
    attacked.authorizer.run(_link(attacked))
    _, head, _ = attacked.send(THEIR_PORT, f"{OWN_PATHS}link?token=abc.hush")
    cookie = next(line for line in head.splitlines() if line.startswith("set-cookie: __Host-link"))
    cookie = "Cookie: " + cookie.partition(": ")[2].partition(";")[0]
    assert attacked.send(THEIR_PORT, "/", cookie)[0] == 200
    for host in (f"4000-{THEIRS}.{WORKSPACES}", THEIR_API, MY_PORT):
        assert attacked.send(host, "/", cookie)[0] in {404, 502}


def test_a_code_is_not_injected_into_another_browser_or_host(attacked: Front) -> None:
    gate = attacked.gate
    until = (gate.clock.now() + timedelta(hours=12)).isoformat()
    content = {**content_of(ME), "until": until, "host": MY_PORT, "browser": fingerprint("mine"), "id": "c-1"}
    code = gate.secrets.seal("code", content, gate.clock.now())
    enter = f"{OWN_PATHS}enter?code={code}"
    assert attacked.send(MY_PORT, enter)[0] == 401
    assert attacked.send(MY_PORT, enter, cookies({"__Host-browser": "another"}))[0] == 401
    assert attacked.send(THEIR_PORT, enter, cookies({"__Host-browser": "mine"}))[0] == 401
    assert attacked.send(MY_PORT, enter, cookies({"__Host-browser": "mine"}))[0] == 303
    assert attacked.send(MY_PORT, enter, cookies({"__Host-browser": "mine"}))[0] == 401, "once"


def test_a_signed_link_to_a_file_is_for_that_file_and_host(attacked: Front) -> None:
    signed = quote(signature("/a", "read", "", attacked.gate.access_token(MINE)), safe="")
    assert attacked.send(MY_API, f"/files?path=/a&signature={signed}")[0] == 200
    for host, target in (
        (MY_API, f"/files?path=/b&signature={signed}"),
        (MY_API, f"/files?path=/b&path=/a&signature={signed}"),
        (MY_API, f"/files/../files?path=/b&signature={signed}"),
        (MY_API, f"/process.Process/List?path=/a&signature={signed}"),
        (THEIR_API, f"/files?path=/a&signature={signed}"),
    ):
        assert attacked.send(host, target)[0] in {401, 502}, target
    assert len(attacked.mine.seen) == 1


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (f"https://{MY_PORT}", 101),
        (f"https://{THEIR_PORT}", 404),
        (f"https://{WORKSPACES}", 404),
        (f"http://{MY_PORT}", 404),
        ("null", 404),
        (None, 404),
        (f"https://{MY_PORT}.evil.example", 404),
    ],
)
def test_a_page_of_another_origin_opens_no_websocket_with_a_persons_cookies(
    attacked: Front, origin: str | None, status: int
) -> None:
    cookie = cookies({"__Host-workspace": sealed_person(attacked, MY_PORT)})
    headers = [cookie, *SOCKET, *([f"Origin: {origin}"] if origin else [])]
    with attacked.envoy.connect() as sock:
        sock.sendall("\r\n".join(["GET /ws HTTP/1.1", f"Host: {MY_PORT}", *headers, "", ""]).encode())
        assert int(sock.recv(65536).split()[1]) == status
    assert len(attacked.mine.seen) == (status == 101)


def test_a_service_worker_of_a_former_owner_is_removed(attacked: Front) -> None:
    now = attacked.gate.clock.now()
    attacked.authorizer.run(attacked.gate.cache.put(Alias("shop", "u-me", MINE, 3000, now, freed=now)))
    attacked.gate.aliases["shop"] = (MINE, 3000)
    status, head, _ = attacked.send(f"shop.{WORKSPACES}", "/sw.js", "Service-Worker: script")
    assert status == 404
    assert 'clear-site-data: "cache", "cookies", "storage"' in head
    assert nothing_reached(attacked)


@pytest.mark.parametrize("owner", [None, "u-me"])
@pytest.mark.parametrize("port", [3000, 49983])
def test_responses_do_not_reveal_whether_a_workspace_exists(attacked: Front, owner: str | None, port: int) -> None:
    headers = [attacked.bearer(owner)] if owner else []
    answers: list[tuple[int, list[str], str]] = []
    for id_ in (THEIRS, NOBODYS):
        status, head, body = attacked.send(f"{port}-{id_}.{WORKSPACES}", "/", *headers)
        lines = [line for line in head.splitlines() if not line.startswith("date:")]
        answers.append((status, lines, body.replace(id_, "ID")))
    assert answers[0] == answers[1]
    assert answers[0][0] in {404, 502}
    assert nothing_reached(attacked)


def test_requests_of_a_stranger_are_not_routed(attacked: Front) -> None:
    """A refusal comes before the body, and the connection is not left with it."""
    with attacked.envoy.connect() as sock:
        sock.settimeout(TIMEOUT)
        sock.sendall(f"POST / HTTP/1.1\r\nHost: {THEIR_PORT}\r\nContent-Length: 1000000\r\n\r\n".encode())
        assert sock.recv(65536).split()[1] == b"404"
        sock.shutdown(socket.SHUT_WR)
    assert nothing_reached(attacked)
