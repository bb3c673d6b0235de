"""The connection to the API server, over real sockets, with working and with failing servers."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import functools
import gzip
import ipaddress
import json
import shlex
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from lightkube import KubeConfig
from lightkube.config.models import Cluster, User, UserExec
from lightkube.core.exceptions import ConfigError

from agentenv.service.kube import connection
from agentenv.service.kube.client import CLAIMS, KubeClient
from agentenv.service.kube.connection import Connection

Turn = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
P = ParamSpec("P")
# A long timeout to connect, a short timeout to read.
IMPATIENT = httpx2.Timeout(10.0, read=0.05)
# The limit of a test, below the default timeout of a connection.
LONGEST = 8.0


@dataclass(frozen=True)
class ReceivedRequest:
    """A request as the server received it."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        """Return the target without its parameters."""
        return urlsplit(self.target).path

    @property
    def params(self) -> dict[str, str]:
        """Return the parameters of the target."""
        return dict(parse_qsl(urlsplit(self.target).query, strict_parsing=True))


class Server:
    """A server with prepared raw responses; it answers `{}` to all other requests."""

    def __init__(self, *turns: bytes | Turn, then: bytes | Turn = b"", tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[ReceivedRequest] = []
        self.peers: list[Any] = []  # the certificates of clients
        self.connections = 0
        self.port = 0
        self._turns, self._then, self._tls = list(turns), then or response(), tls
        self._open: dict[asyncio.Task[Any], asyncio.StreamWriter] = {}

    @property
    def open(self) -> int:
        """Return the number of open connections."""
        return len(self._open)

    @property
    def url(self) -> str:
        """Return the server's address."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Server:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._open.values():
            writer.transport.abort()
        if self._open:
            hanging = (await asyncio.wait(self._open, timeout=1.0))[1]
            for task in hanging:
                task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        self.connections += 1
        self.peers.append(writer.get_extra_info("peercert"))
        try:
            while not writer.is_closing():
                self.requests.append(await _read(reader))
                turn = self._turns.pop(0) if self._turns else self._then
                if isinstance(turn, bytes):
                    writer.write(turn)
                else:
                    await turn(reader, writer)
        except (OSError, EOFError):
            pass
        finally:
            del self._open[task]
            writer.close()


async def _read(reader: asyncio.StreamReader) -> ReceivedRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
    method, target, _ = head[0].split(" ")
    # What is too large is not taken at all.
    length = int(headers.get("content-length", 0))
    return ReceivedRequest(method, target, headers, await reader.readexactly(length) if length < 1 << 20 else b"")


def response(body: bytes = b"{}", status: str = "200 OK", *headers: str) -> bytes:
    """Return a complete response."""
    return "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]).encode() + body


def part(body: bytes) -> bytes:
    """Return a chunk of a response without a known length."""
    return b"%x\r\n%s\r\n" % (len(body), body)


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
DENIED = response(b"{}", "401 Unauthorized")


async def no_answer(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """Send nothing until the client closes the connection."""
    await reader.read()


def begin_with(start: bytes, then: Turn = no_answer) -> Turn:
    """Return a turn that sends these bytes and continues with another turn, by default with silence."""

    async def turn(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        await then(reader, writer)

    return turn


async def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Close the connection."""
    writer.close()


async def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Reset the connection, as when a process is killed."""
    # One turn of the event loop first, so that earlier bytes are sent.
    await asyncio.sleep(0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def stop_reading(given_up: asyncio.Event) -> Turn:
    """Return a turn that stops reading until the event is set."""

    async def turn(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await given_up.wait()
        while await reader.read(1 << 20):
            pass

    return turn


def async_test(play: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an asynchronous test to its end; a test that hangs fails."""

    @functools.wraps(play)
    def test(*args: P.args, **kwargs: P.kwargs) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(LONGEST):
                await play(*args, **kwargs)

        asyncio.run(bounded())

    return test


async def until(true: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    while not true():
        await asyncio.sleep(0.001)


def config(address: str, user: User | None = None, **cluster: Any) -> Any:
    """Return a cluster's configuration as lightkube reads it from a kubeconfig."""
    return KubeConfig.from_one(cluster=Cluster(server=address, **cluster), user=user).get()


@contextlib.asynccontextmanager
async def connected(
    server: Server, user: User | None = None, *, prefix: str = "", **cluster: Any
) -> AsyncGenerator[Connection]:
    """Connect to the server, and check afterwards that no connection stays open."""
    conn = Connection(config(server.url + prefix, user, **cluster))
    try:
        yield conn
    finally:
        await conn.aclose()
    await until(lambda: not server.open)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "netrc"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


# Requests.


@async_test
async def test_a_request_is_sent_unchanged() -> None:
    params = {"labelSelector": "app=a,tier in (b,c)", "continue": "eyJ2IjoibWV0YS5rOHMuaW8ifQ+/==", "limit": "500"}
    headers = {"Content-Type": "application/merge-patch+json", "Accept": "application/json;as=Table;v=v1"}
    async with Server() as server, connected(server) as conn:
        await conn.request("PATCH", "/api/v1/namespaces/a/things/b", params=params, content=b'{"a":1}', headers=headers)
        await conn.request("GET", "/version")
    changed, read = server.requests
    assert (changed.method, changed.path, changed.body) == ("PATCH", "/api/v1/namespaces/a/things/b", b'{"a":1}')
    assert changed.params == params
    assert changed.headers["content-type"] == headers["Content-Type"]
    assert changed.headers["accept"] == headers["Accept"]
    assert (read.method, read.target, read.body) == ("GET", "/version", b"")
    assert changed.headers["host"] == f"127.0.0.1:{server.port}"


@pytest.mark.parametrize("prefix", ["/k8s/clusters/c-1", "/k8s/clusters/c-1/"])
@async_test
async def test_the_server_url_may_have_a_path(prefix: str) -> None:
    async with Server() as server, connected(server, prefix=prefix) as conn:
        await conn.request("GET", "/api/v1/pods", params={"limit": "1"})
    assert [request_.target for request_ in server.requests] == ["/k8s/clusters/c-1/api/v1/pods?limit=1"]


@async_test
async def test_redirects_are_not_followed_and_cookies_are_not_stored() -> None:
    elsewhere = response(b"", "307 Temporary Redirect", "Location: /elsewhere", "Set-Cookie: known=by; Path=/")
    async with Server(elsewhere) as server, connected(server, User(token="secret")) as conn:
        answer = await conn.request("GET", "/here")
        assert (answer.status_code, answer.headers["location"]) == (307, "/elsewhere")
        await conn.request("GET", "/here")
    assert [request_.path for request_ in server.requests] == ["/here", "/here"]
    assert not any("cookie" in request_.headers for request_ in server.requests)


# Responses.


@async_test
async def test_responses_have_httpx_types() -> None:
    refused = response(b'{"reason":"Conflict"}', "409 Conflict", "Retry-After: 3", "X-Part: one", "X-Part: two")
    async with Server(refused) as server, connected(server) as conn:
        answer = await conn.request("GET", "/")
    assert isinstance(answer, httpx2.Response)
    assert (answer.status_code, answer.reason_phrase) == (409, "Conflict")
    assert (answer.headers["retry-after"], answer.headers.get_list("x-part")) == ("3", ["one", "two"])
    assert answer.json() == {"reason": "Conflict"}


@async_test
async def test_a_compressed_body_is_decoded() -> None:
    packed = gzip.compress(b'{"items":[]}')
    async with Server(response(packed, "200 OK", "Content-Encoding: gzip")) as server, connected(server) as conn:
        answer = await conn.request("GET", "/")
    assert "gzip" in server.requests[0].headers["accept-encoding"]
    assert (answer.json(), answer.content) == ({"items": []}, b'{"items":[]}')
    assert "content-encoding" not in answer.headers


@async_test
async def test_a_warning_may_be_in_any_language() -> None:
    async with Server(response(b"{}", "200 OK", 'Warning: 299 - "zu groß"')) as server, connected(server) as conn:
        answer = await conn.request("GET", "/")
    assert answer.headers["warning"] == '299 - "zu groß"'


# Credentials.


def bearers(server: Server) -> list[str | None]:
    """Return the `Authorization` header of each request."""
    return [request_.headers.get("authorization") for request_ in server.requests]


@async_test
async def test_an_expired_token_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old\n")
    async with Server(response(), DENIED) as server, connected(server, User(token_file=str(file))) as conn:
        await conn.request("GET", "/")
        file.write_text("new\n")
        answer = await conn.request("POST", "/", content=b'{"a":1}')
        assert answer.status_code == 200
        await conn.request("GET", "/")
    assert bearers(server) == ["Bearer old", "Bearer old", "Bearer new", "Bearer new"]
    assert [request_.body for request_ in server.requests] == [b"", b'{"a":1}', b'{"a":1}', b""]


@async_test
async def test_a_second_refusal_is_returned(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    async with Server(then=DENIED) as server, connected(server, User(token_file=str(file))) as conn:
        assert (await conn.request("GET", "/")).status_code == 401
        async with conn.stream("GET", "/") as answer:
            assert answer.status_code == 401
    assert len(server.requests) == 4


def command(folder: Path, line: str) -> User:
    """Return a user whose token a command prints."""
    call = UserExec(apiVersion="client.authentication.k8s.io/v1beta1", command="sh", args=["-c", line])
    (folder / "token").write_text("old")
    return User(exec=call)


def print_token(folder: Path) -> str:
    """Return a command that prints the current token and records each call."""
    mark, token = shlex.quote(str(folder / "calls")), shlex.quote(str(folder / "token"))
    return f'echo x >> {mark}; printf \'{{"status":{{"token":"%s"}}}}\' "$(cat {token})"'


@async_test
async def test_an_exec_plugin_runs_again_when_its_token_has_expired(tmp_path: Path) -> None:
    user = command(tmp_path, print_token(tmp_path))
    async with (
        Server(response(), response(), DENIED, response(), then=DENIED) as server,
        connected(server, user) as conn,
    ):
        await conn.request("GET", "/")
        await conn.request("GET", "/")
        (tmp_path / "token").write_text("new")
        assert (await conn.request("GET", "/")).status_code == 200
        assert (await conn.request("GET", "/")).status_code == 401
    assert bearers(server) == [f"Bearer {token}" for token in ("old", "old", "old", "new", "new", "new")]
    assert (tmp_path / "calls").read_text().count("x") == 3


@async_test
async def test_a_failing_exec_plugin_leaves_no_connection_open(tmp_path: Path) -> None:
    once = f"{print_token(tmp_path)}; test $(wc -l < {shlex.quote(str(tmp_path / 'calls'))}) = 1"
    unfinished = begin_with(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 9\r\n\r\n{")
    async with Server(response(), unfinished) as server, connected(server, command(tmp_path, once)) as conn:
        await conn.request("GET", "/")
        with pytest.raises(ConfigError) as raised:
            await conn.request("GET", "/")
        await until(lambda: not server.open)
    assert "returned 1" in str(raised.value)


@pytest.mark.parametrize(
    ("user", "known"),
    [
        (User(token="fixed"), "Bearer fixed"),
        (User(username="ann", password="secret"), "Basic " + base64.b64encode(b"ann:secret").decode()),
        (User(), None),
        (None, None),
    ],
)
@async_test
async def test_a_request_with_a_fixed_token_is_sent_once(
    user: User | None, known: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The credentials of another host are not used.
    netrc = tmp_path / "netrc"
    netrc.write_text("default login somebody password else\n")
    monkeypatch.setenv("NETRC", str(netrc))
    async with Server(DENIED) as server, connected(server, user) as conn:
        assert (await conn.request("GET", "/")).status_code == 401
    assert bearers(server) == [known]


# Connections.


@async_test
async def test_connections_are_reused() -> None:
    async with Server() as server, connected(server) as conn:
        for _ in range(3):
            await conn.request("GET", "/")
        assert (server.connections, server.open) == (1, 1)
        for _ in range(3):
            await asyncio.gather(*(conn.request("GET", "/") for _ in range(4)))
        assert server.connections == 4


@async_test
async def test_a_closed_connection_is_not_reused() -> None:
    async with Server(begin_with(response(), close)) as server, connected(server) as conn:
        await conn.request("GET", "/")
        await until(lambda: not server.open)
        await asyncio.sleep(0.01)
        # A creation is not repeated: on a closed connection it would fail.
        assert (await conn.request("POST", "/", content=b"{}")).status_code == 200
    assert (len(server.requests), server.connections) == (2, 2)


@async_test
async def test_the_proxy_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Server() as between:
        monkeypatch.setenv("HTTP_PROXY", f"127.0.0.1:{between.port}")
        far = Connection(config("http://kubernetes.invalid:8080"))
        assert (await far.request("GET", "/api")).status_code == 200
        await far.aclose()
        monkeypatch.setenv("NO_PROXY", "localhost,127.0.0.1")
        async with Server() as server, connected(server) as conn:
            await conn.request("GET", "/near")
    assert [request_.target for request_ in between.requests] == ["http://kubernetes.invalid:8080/api"]
    assert [request_.target for request_ in server.requests] == ["/near"]


# Failures.


@pytest.mark.parametrize(
    ("turn", "kind"),
    [
        pytest.param(close, httpx2.RemoteProtocolError, id="leaves without an answer"),
        pytest.param(reset, httpx2.ReadError, id="breaks"),
        pytest.param(
            begin_with(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", close),
            httpx2.RemoteProtocolError,
            id="leaves in the middle of a body of known length",
        ),
        pytest.param(
            begin_with(CHUNKED + part(b"{"), close),
            httpx2.RemoteProtocolError,
            id="leaves in the middle of a body in parts",
        ),
        pytest.param(b"SSH-2.0-OpenSSH_9.9\r\n\r\n", httpx2.RemoteProtocolError, id="speaks of something else"),
        pytest.param(no_answer, httpx2.ReadTimeout, id="never answers"),
        pytest.param(begin_with(CHUNKED + part(b"{")), httpx2.ReadTimeout, id="stops in the middle of a body"),
    ],
)
@async_test
async def test_a_server_that(
    turn: bytes | Turn, kind: type[httpx2.TransportError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "TIMEOUT", IMPATIENT)
    async with Server(response(), then=turn) as server, connected(server) as conn:
        await conn.request("GET", "/")
        with pytest.raises(httpx2.TransportError) as raised:
            await conn.request("POST", "/", content=b"{}")
        assert type(raised.value) is kind
        await until(lambda: not server.open)


@pytest.mark.filterwarnings("ignore:Sending a large body")
@async_test
async def test_a_server_that_does_not_read_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    given_up = asyncio.Event()
    async with Server(response(), stop_reading(given_up)) as server, connected(server) as conn:
        await conn.request("GET", "/")
        monkeypatch.setattr(connection, "TIMEOUT", httpx2.Timeout(0.03))
        with pytest.raises(httpx2.ReadTimeout):
            await conn.request("POST", "/", content=bytes(16 << 20))
        given_up.set()
        await until(lambda: not server.open)


@async_test
async def test_a_server_that_does_not_exist() -> None:
    async with Server() as server:
        nobody = config(server.url)
    conn = Connection(nobody)
    with pytest.raises(httpx2.ConnectError):
        await conn.request("GET", "/")
    await conn.aclose()


@async_test
async def test_a_server_without_a_tls_handshake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "TIMEOUT", httpx2.Timeout(10.0, connect=0.05))
    silent = socket.create_server(("127.0.0.1", 0))
    conn = Connection(config(f"https://127.0.0.1:{silent.getsockname()[1]}"))
    with silent, pytest.raises(httpx2.ConnectTimeout):
        await conn.request("GET", "/")
    await conn.aclose()


# Streams.


async def first(answer: httpx2.Response) -> bytes:
    """Return the first part of a response."""
    return await anext(aiter(answer.aiter_raw()))


@async_test
async def test_a_stream_yields_data_as_it_arrives() -> None:
    seen = asyncio.Event()

    async def second(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await seen.wait()
        writer.write(part(b"two\n") + part(b""))

    found: list[bytes] = []
    async with Server(begin_with(CHUNKED + part(b"one\n"), second)) as server, connected(server) as conn:
        async with conn.stream("GET", "/", params={"watch": "true"}, headers={"Accept": "a/b"}) as answer:
            assert answer.status_code == 200
            async for some in answer.aiter_raw():
                found.append(some)
                seen.set()
        # It has come to its end, and so its connection is free.
        await conn.request("GET", "/")
        assert server.connections == 1
    assert found == [b"one\n", b"two\n"]
    assert (server.requests[0].params, server.requests[0].headers["accept"]) == ({"watch": "true"}, "a/b")


@async_test
async def test_the_error_body_of_a_stream_can_be_read() -> None:
    refused = response(b'{"code":410}', "410 Gone")
    async with Server(refused) as server, connected(server) as conn, conn.stream("GET", "/") as answer:
        await answer.aread()
        assert (answer.status_code, answer.json()) == (410, {"code": 410})


@pytest.mark.parametrize(
    ("then", "kind"),
    [(no_answer, httpx2.ReadTimeout), (close, httpx2.RemoteProtocolError), (reset, httpx2.RemoteProtocolError)],
)
@async_test
async def test_a_broken_stream_raises(then: Turn, kind: type[httpx2.TransportError]) -> None:
    async def follow() -> None:
        async with conn.stream("GET", "/", timeout=IMPATIENT) as answer:
            async for some in answer.aiter_raw():
                assert some == b"one\n"

    async with Server(begin_with(CHUNKED + part(b"one\n"), then)) as server, connected(server) as conn:
        with pytest.raises(httpx2.TransportError) as raised:
            await follow()
        assert type(raised.value) is kind
        await until(lambda: not server.open)


@async_test
async def test_a_stream_that_never_starts_times_out() -> None:
    async with Server(then=no_answer) as server, connected(server) as conn:
        with pytest.raises(httpx2.ReadTimeout):
            async with conn.stream("GET", "/", timeout=IMPATIENT):
                pass
        await until(lambda: not server.open)


@async_test
async def test_closing_a_stream_does_not_affect_others() -> None:
    async with Server(response(), begin_with(CHUNKED + part(b"one\n"))) as server, connected(server) as conn:
        await conn.request("GET", "/")
        async with conn.stream("GET", "/") as answer:
            assert await first(answer) == b"one\n"
            await conn.request("GET", "/beside")
            assert server.open == 2
        await until(lambda: server.open == 1)
        await conn.request("GET", "/after")
        assert server.connections == 2


@async_test
async def test_a_watch_uses_the_connection() -> None:
    event = {"type": "ADDED", "object": {"metadata": {"name": "ann"}}}
    line = json.dumps(event).encode() + b"\n"
    cut = begin_with(CHUNKED + part(line[:9]) + part(line[9:] + line[:9]), close)
    async with Server(cut) as server, connected(server) as conn:
        events = KubeClient(conn).watch(CLAIMS, "7", labels="a=b")
        assert await anext(events) == ("ADDED", event["object"])
        with pytest.raises(httpx2.RemoteProtocolError):
            await anext(events)
    assert server.requests[0].params.items() >= {("watch", "true"), ("resourceVersion", "7"), ("labelSelector", "a=b")}


# Closing.


@pytest.mark.parametrize("turn", [no_answer, begin_with(CHUNKED + part(b"{"))])
@async_test
async def test_a_cancelled_request_leaves_no_connection_open(turn: Turn) -> None:
    async with Server(turn) as server, connected(server) as conn:
        pending = asyncio.create_task(conn.request("GET", "/"))
        await until(lambda: bool(server.requests))
        await asyncio.sleep(0.01)
        pending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pending
        await until(lambda: not server.open)
        assert (await conn.request("GET", "/")).status_code == 200


@async_test
async def test_closing_the_connection_ends_open_requests() -> None:
    begun = begin_with(CHUNKED + part(b"one\n"))
    async with Server(response(), begun, begun, no_answer) as server:
        conn = Connection(config(server.url))
        await conn.request("GET", "/")

        async def follow() -> None:
            async with conn.stream("GET", "/") as answer:
                async for _ in answer.aiter_raw():
                    pass

        following = asyncio.create_task(follow())
        await until(lambda: len(server.requests) == 2)
        reading = asyncio.create_task(conn.request("GET", "/"))
        await until(lambda: len(server.requests) == 3)
        pending = asyncio.create_task(conn.request("GET", "/"))
        await until(lambda: len(server.requests) == 4)
        await asyncio.sleep(0.01)
        await conn.aclose()
        ended = await asyncio.gather(following, reading, pending, return_exceptions=True)
        assert [type(conn) for conn in ended] == [httpx2.ReadError] * 3
        await until(lambda: not server.open)
        with pytest.raises(RuntimeError, match="closed"):
            await conn.request("GET", "/")


@async_test
async def test_an_unused_connection_can_be_closed() -> None:
    await Connection(config("http://127.0.0.1:1")).aclose()


# TLS.


class Authority:
    """A certificate authority that writes certificates for a day and their keys into a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._folder = folder
        self.own = self._write(name, self._signed(self._name, self._key, x509.BasicConstraints(True, None)))

    def certificate(self, name: str, address: str = "127.0.0.1") -> tuple[Path, Path]:
        """Return a certificate for an address, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        at = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        secret = self._folder / f"{name}.key"
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        secret.write_bytes(key.private_bytes(*form))
        return self._write(name, self._signed(subject, key, at)), secret

    def _write(self, name: str, signed: x509.Certificate) -> Path:
        file = self._folder / f"{name}.crt"
        file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        return file

    def _signed(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=12))
            .not_valid_after(now + datetime.timedelta(hours=12))
            .add_extension(extension, critical=False)
            .sign(self._key, hashes.SHA256())
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def authority(folder: Path) -> Authority:
    return Authority(folder, "authority")


def tls_context(
    authority: Authority, certificate: tuple[Path, Path], *, client_certificates: bool = False
) -> ssl.SSLContext:
    """Return the TLS context of a server, with client certificates where that is set."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    if client_certificates:
        context.load_verify_locations(authority.own)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


@async_test
async def test_a_kubeconfig_has_the_authority_and_the_client_certificate(folder: Path, authority: Authority) -> None:
    authority.certificate("ann")
    tls = tls_context(authority, authority.certificate("server"), client_certificates=True)
    async with Server(response(b'{"metadata":{"name":"x"}}'), tls=tls) as server:
        trusted = base64.b64encode(authority.own.read_bytes()).decode()
        document = {
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "there", "user": "ann"}}],
            "clusters": [{"name": "there", "cluster": {"server": server.url, "certificate-authority-data": trusted}}],
            # By their place beside the file.
            "users": [{"name": "ann", "user": {"client-certificate": "ann.crt", "client-key": "ann.key"}}],
        }
        kubeconfig = folder / "kubeconfig.yaml"
        kubeconfig.write_text(yaml.safe_dump(document))
        kube = KubeClient.from_kubeconfig(kubeconfig)
        assert await kube.find(CLAIMS, "x", "here") == {"metadata": {"name": "x"}}
        await kube.close()
    assert dict(server.peers[0]["subject"][0]) == {"commonName": "ann"}
    assert server.requests[0].path == CLAIMS.path("here", "x")


@async_test
async def test_a_missing_client_certificate_is_an_error_of_the_server(authority: Authority) -> None:
    tls = tls_context(authority, authority.certificate("strict"), client_certificates=True)
    async with Server(tls=tls) as server, connected(server, certificate_auth=str(authority.own)) as conn:
        with pytest.raises(httpx2.TransportError):
            await conn.request("GET", "/")
    assert server.requests == []


@pytest.mark.parametrize(("signer", "address"), [("another", "127.0.0.1"), ("authority", "127.0.0.2")])
@async_test
async def test_no_request_is_sent_to_an_untrusted_server(
    signer: str, address: str, tmp_path: Path, authority: Authority
) -> None:
    signing = authority if signer == "authority" else Authority(tmp_path, signer)
    tls = tls_context(signing, signing.certificate("stranger", address))
    trusted = {"certificate_auth": str(authority.own)}
    async with Server(tls=tls) as server, connected(server, User(token="secret"), **trusted) as conn:
        with pytest.raises(httpx2.ConnectError, match="certificate"):
            await conn.request("GET", "/")
    assert server.requests == []
