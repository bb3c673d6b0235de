"""Envoy of the wheel as a process, with an authorizer and sandboxes that this test process serves."""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.client import HTTPResponse, RemoteDisconnected
from pathlib import Path
from typing import Any

import grpc
from aiohttp import WSMsgType, web
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from agentenv.core.capabilities.cluster_facts import DAEMON_PORT
from agentenv.core.gateway.envoy import DESTINATION, HEADERS_OF_A_HOST, EnvoyPlan, bootstrap
from agentenv.rehearsal.controlplane.ports import Ports

ENVOY = Path(sys.executable).with_name("envoy")
DOMAIN, WORKSPACES = "os.example.com", "workspaces.example.net"
TIMEOUT = 20.0
LOOPBACK = "127.0.0.1"

# The parts of envoy.service.auth.v3 that the tests read and set: message -> field -> (number, type).
_AUTH: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "Pair": {"key": (1, "string"), "value": (2, "string")},
    "SocketAddress": {"address": (2, "string")},
    "Address": {"socket_address": (1, "SocketAddress")},
    "Peer": {"address": (1, "Address")},
    "Http": {"method": (2, "string"), "headers": (3, "Pair*"), "path": (4, "string"), "host": (5, "string")},
    "Request": {"http": (2, "Http")},
    "Attributes": {"source": (1, "Peer"), "request": (4, "Request")},
    "CheckRequest": {"attributes": (1, "Attributes")},
    "HeaderOption": {"header": (1, "Pair")},
    "HttpStatus": {"code": (1, "int32")},
    "Status": {"code": (1, "int32")},
    "Denied": {"status": (1, "HttpStatus"), "headers": (2, "HeaderOption*"), "body": (3, "string")},
    "Allowed": {"headers": (2, "HeaderOption*"), "headers_to_remove": (5, "string*")},
    "CheckResponse": {"status": (1, "Status"), "denied_response": (2, "Denied"), "ok_response": (3, "Allowed")},
}


def _messages() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="auth.proto", package="auth", syntax="proto3")
    kinds = {"string": 9, "int32": 5}
    for name, fields in _AUTH.items():
        message = file.message_type.add(name=name)
        for label, (number, kind) in fields.items():
            plain = kind.rstrip("*")
            descriptor = message.field.add(name=label, number=number, label=3 if kind.endswith("*") else 1)
            descriptor.type = kinds.get(plain, 11)  # pyright: ignore[reportAttributeAccessIssue] - the enum's number
            if plain not in kinds:
                descriptor.type_name = f".auth.{plain}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"auth.{name}")) for name in _AUTH}


_MESSAGE = _messages()


@dataclass(frozen=True)
class Check:
    """A request for authorization, as it came from Envoy."""

    method: str
    host: str
    path: str
    headers: Mapping[str, str]
    caller: str


@dataclass(frozen=True)
class Verdict:
    """An answer of the authorizer: headers to add, or a status with which the request is denied."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    remove: tuple[str, ...] = ()
    denied: int = 0
    body: str = ""


def to(address: str, **headers: str) -> Verdict:
    """Return the verdict that sends a request to a sandbox."""
    return Verdict({DESTINATION: f"{address}:{DAEMON_PORT}", **{k.replace("_", "-"): v for k, v in headers.items()}})


class Authorizer:
    """An authorization server whose verdicts a test chooses."""

    def __init__(self) -> None:
        self.decide: Callable[[Check], Verdict] = lambda _: Verdict(denied=404)
        self.seen: list[Check] = []
        self._server = grpc.server(ThreadPoolExecutor(32))
        handler = grpc.unary_unary_rpc_method_handler(
            self._check,
            request_deserializer=_MESSAGE["CheckRequest"].FromString,
            response_serializer=_MESSAGE["CheckResponse"].SerializeToString,
        )
        service = grpc.method_handlers_generic_handler("envoy.service.auth.v3.Authorization", {"Check": handler})
        self._server.add_generic_rpc_handlers((service,))
        self.port = self._server.add_insecure_port(f"{LOOPBACK}:0")
        self._server.start()

    def _check(self, request: Any, _: Any) -> Any:
        http = request.attributes.request.http
        headers = {pair.key: pair.value for pair in http.headers}
        caller = request.attributes.source.address.socket_address.address
        check = Check(http.method, http.host, http.path, headers, caller)
        self.seen.append(check)
        verdict = self.decide(check)
        response = _MESSAGE["CheckResponse"]()
        answer = response.denied_response if verdict.denied else response.ok_response
        for key, value in verdict.headers.items():
            option = answer.headers.add()
            option.header.key, option.header.value = key, value
        if verdict.denied:
            response.status.code = 7
            answer.status.code, answer.body = verdict.denied, verdict.body
        else:
            answer.headers_to_remove.extend(verdict.remove)
        return response

    def stop(self) -> None:
        """End it; open requests fail."""
        self._server.stop(0).wait()


@dataclass(frozen=True)
class Received:
    """A request as a server behind the gateway received it."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: int

    def header(self, name: str) -> str | None:
        """Return the value of a header."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


class HttpServer:
    """A server of HTTP/1.1 behind the gateway: it echoes, streams events, and speaks over WebSockets."""

    def __init__(self, address: str, port: int) -> None:
        self.address, self.port = address, port
        self.seen: list[Received] = []
        self.sent = threading.Event()  # that a client has seen the first event, so that the second one may follow
        self._loop = asyncio.new_event_loop()
        self._runner: web.AppRunner | None = None
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        assert started.wait(TIMEOUT)

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        app = web.Application(client_max_size=2**40)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0)

        async def start() -> int:
            assert self._runner is not None
            await self._runner.setup()
            site = web.TCPSite(self._runner, self.address, self.port, reuse_address=True)
            await site.start()
            return self._runner.addresses[0][1]

        self.port = self._loop.run_until_complete(start())
        started.set()
        self._loop.run_forever()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Upgrade", "").lower() == "websocket":
            self._record(request, 0)
            return await self._echo(request)
        size = 0
        async for chunk in request.content.iter_any():
            size += len(chunk)
        self._record(request, size)
        if request.path == "/events":
            return await self._events(request)
        if request.path.startswith("/hostile"):
            headers = dict.fromkeys(HEADERS_OF_A_HOST, "theirs") | {"Content-Security-Policy": "theirs"}
            return web.Response(text="<script>", content_type="text/html", headers=headers)
        if request.path == "/large":
            return await _large(request, int(request.query["size"]))
        body = {"server": f"{self.address}:{self.port}", "body": size}
        return web.json_response(body, headers={"Server": "program"})

    def _record(self, request: web.Request, body: int) -> None:
        self.seen.append(Received(request.method, request.raw_path, tuple(request.headers.items()), body))

    async def _echo(self, request: web.Request) -> web.WebSocketResponse:
        websocket = web.WebSocketResponse()
        await websocket.prepare(request)
        async for message in websocket:
            if message.type is WSMsgType.TEXT:
                await websocket.send_str(message.data)
        return websocket

    async def _events(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: first\n\n")
        await asyncio.to_thread(self.sent.wait, TIMEOUT)
        await response.write(b"data: second\n\n")
        return response

    def lose(self) -> None:
        """Reset its connections and close its port, as if its pod was lost."""
        runner = self._runner
        assert runner is not None

        async def reset() -> None:
            assert runner.server is not None
            for site in list(runner.sites):
                await site.stop()
            for connection in list(runner.server.connections):
                if connection.transport is not None:
                    connection.transport.abort()

        asyncio.run_coroutine_threadsafe(reset(), self._loop).result(TIMEOUT)

    def stop(self) -> None:
        """Close the server and its connections."""
        runner = self._runner
        assert runner is not None
        asyncio.run_coroutine_threadsafe(runner.cleanup(), self._loop).result(TIMEOUT)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT)
        self._loop.close()


async def _large(request: web.Request, size: int) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    block = b"x" * 2**20
    for _ in range(size // len(block)):
        await response.write(block)
    return response


def own_address() -> str:
    """Return a loopback address that no other test uses."""
    return ".".join(("127", *(str(64 + secrets.randbelow(190)) for _ in range(3))))


def sandbox() -> HttpServer:
    """Start a server where a sandbox's workspaced would be."""
    return HttpServer(own_address(), DAEMON_PORT)


@dataclass(frozen=True)
class Gateway:
    """A running Envoy with what is behind it."""

    plan: EnvoyPlan
    authorizer: Authorizer
    service: HttpServer
    process: subprocess.Popen[bytes]
    log: Path

    def connect(self) -> socket.socket:
        """Return a connection to it."""
        return socket.create_connection((LOOPBACK, self.plan.port), timeout=TIMEOUT)


@contextmanager
def running(authorizer: Authorizer, service: HttpServer, **changes: Any) -> Iterator[Gateway]:
    """Run Envoy until the block ends."""
    # A Unix socket's path has at most 108 characters, which a test's own folder exceeds.
    folder = Path(tempfile.mkdtemp(prefix="envoy"))
    ports = Ports(("gateway", "status"))
    plan = EnvoyPlan(
        DOMAIN,
        WORKSPACES,
        service.port,
        service_host=LOOPBACK,
        authorizer_host=LOOPBACK,
        authorizer_port=authorizer.port,
        address=LOOPBACK,
        port=ports["gateway"],
        status_port=ports["status"],
        admin_socket=str(folder / "admin.sock"),
        proxy_protocol=False,
    )
    plan = replace(plan, **changes)
    file, log = folder / "envoy.json", folder / "log"
    file.write_text(json.dumps(bootstrap(plan)), encoding="utf-8")
    command = [ENVOY, "-c", file, "--concurrency", "1", "--use-dynamic-base-id", "--log-level", "warning"]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        _wait_until_ready(plan, process, log)
        yield Gateway(plan, authorizer, service, process, log)
    finally:
        process.kill()
        process.wait(TIMEOUT)
        ports.close()
        shutil.rmtree(folder)


def _wait_until_ready(plan: EnvoyPlan, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + TIMEOUT
    while True:
        assert process.poll() is None, log.read_text(encoding="utf-8")
        try:
            with socket.create_connection((LOOPBACK, plan.status_port), timeout=TIMEOUT) as connection:
                connection.sendall(b"GET /ready HTTP/1.1\r\nHost: status\r\nConnection: close\r\n\r\n")
                if connection.recv(4096).startswith(b"HTTP/1.1 200"):
                    return
        except ConnectionError:
            pass
        assert time.monotonic() < deadline, log.read_text(encoding="utf-8")
        time.sleep(0.01)


def exchange(gateway: Gateway, request: bytes) -> tuple[int, str, str]:
    """Send bytes, and return the status, the head and the body of the first response; 0 where there is none."""
    with gateway.connect() as connection:
        connection.sendall(request)
        response = HTTPResponse(connection)
        try:
            response.begin()
        except (ConnectionResetError, RemoteDisconnected):
            return 0, "", ""
        head = "\n".join(f"{name.lower()}: {value}" for name, value in response.getheaders())
        return response.status, head, response.read().decode()


def get(gateway: Gateway, host: str, path: str = "/", *headers: str) -> tuple[int, str, str]:
    """Send a request, and return the status, the head and the body of the response."""
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}", *headers]
    return exchange(gateway, ("\r\n".join(lines) + "\r\n\r\n").encode())
