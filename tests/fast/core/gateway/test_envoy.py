"""Tests of the configuration with the real Envoy: what it routes, removes, refuses and passes on."""

from __future__ import annotations

import asyncio
import http.client
import json
import queue
import socket
import struct
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import aiohttp
import grpc
import psutil
import pytest

from agentenv.core.capabilities.cluster_facts import DAEMON_PORT
from agentenv.core.gateway.envoy import DESTINATION, HEADERS_OF_A_HOST, EnvoyPlan, bootstrap
from agentenv.core.gateway.hosts import parse_host
from agentenv.rehearsal.cloud.network_load_balancers import IDLE_SECONDS as BALANCER_IDLE
from tests.fast.core.gateway.running import (
    DOMAIN,
    ENVOY,
    LOOPBACK,
    TIMEOUT,
    WORKSPACES,
    Authorizer,
    Check,
    Gateway,
    HttpServer,
    Verdict,
    exchange,
    get,
    own_address,
    running,
    sandbox,
    to,
)

HOST = f"3000-w-{'a' * 26}.{WORKSPACES}"


@pytest.fixture(scope="module")
def started() -> Iterator[Gateway]:
    authorizer, service = Authorizer(), HttpServer(LOOPBACK, 0)
    with running(authorizer, service) as gateway:
        yield gateway
    authorizer.stop()
    service.stop()


@pytest.fixture
def gateway(started: Gateway) -> Gateway:
    started.authorizer.seen.clear()
    started.authorizer.decide = lambda _: Verdict(denied=404)
    started.service.seen.clear()
    return started


@pytest.fixture
def behind(gateway: Gateway) -> Iterator[HttpServer]:
    """A sandbox to which the authorizer sends every request."""
    server = sandbox()
    gateway.authorizer.decide = lambda _: to(server.address, x_workspace_token="ours", x_workspace_port="3000")
    yield server
    server.stop()


@pytest.mark.parametrize("domains", [(DOMAIN, WORKSPACES), ("os.localhost", "os.localhost")])
def test_envoy_accepts_the_configuration(tmp_path: Path, domains: tuple[str, str]) -> None:
    file = tmp_path / "envoy.json"
    file.write_text(json.dumps(bootstrap(EnvoyPlan(*domains, 8080, authorizer_host=LOOPBACK))), encoding="utf-8")
    result = subprocess.run([ENVOY, "--mode", "validate", "-c", file], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_request_is_routed_by_the_authorization(gateway: Gateway, behind: HttpServer) -> None:
    status, head, body = get(gateway, HOST, "/a//b%2Fc?q=%2f", "Cookie: theirs=1")
    assert (status, json.loads(body)["server"]) == (200, f"{behind.address}:{DAEMON_PORT}")
    [received] = behind.seen
    assert received.path == "/a//b%2Fc?q=%2f"
    assert received.header("host") == HOST
    assert received.header("x-workspace-token") == "ours"
    assert received.header("x-workspace-port") == "3000"
    assert received.header("cookie") == "theirs=1"
    assert received.header(DESTINATION) is None
    assert "server: program" in head
    assert "x-envoy" not in head
    assert gateway.service.seen == []


OURS = {
    DESTINATION: "127.0.0.1:1",
    "X-Gateway-Anything": "theirs",
    "X-Workspace-Token": "theirs",
    "x-workspace-port": "22",
    "X-Envoy-Original-Path": "/theirs",
    "X-Envoy-Internal": "true",
    "X-Forwarded-For": "203.0.113.9",
    "X-Forwarded-Proto": "http",
    "X-Forwarded-Host": "evil.example.org",
    "Forwarded": "for=203.0.113.9",
    "X-Real-Ip": "203.0.113.9",
    "X_Workspace_Token": "theirs",
}


@pytest.mark.parametrize("host", [HOST, f"api.{DOMAIN}"])
def test_headers_that_callers_must_not_set_are_removed(gateway: Gateway, behind: HttpServer, host: str) -> None:
    assert get(gateway, host, "/", *(f"{name}: {value}" for name, value in OURS.items()))[0] == 200
    [received] = gateway.service.seen if host.startswith("api.") else behind.seen
    checked = {name: value for check in gateway.authorizer.seen for name, value in check.headers.items()}
    for headers in (dict(received.headers), checked):
        assert not {"theirs", "203.0.113.9", "evil.example.org", "/theirs", "127.0.0.1:1"} & set(headers.values())
    assert received.header("x-forwarded-proto") == "https"
    names = {name.lower() for name, _ in received.headers}
    assert not {name for name in names if name.startswith(("x-envoy-", "x-gateway-"))}


def test_header_removed_by_the_authorization_does_not_reach_the_program(gateway: Gateway, behind: HttpServer) -> None:
    gateway.authorizer.decide = lambda _: Verdict(
        {DESTINATION: f"{behind.address}:{DAEMON_PORT}"}, remove=("authorization",)
    )
    assert get(gateway, HOST, "/", "Authorization: Bearer secret")[0] == 200
    assert gateway.authorizer.seen[0].headers["authorization"] == "Bearer secret"
    assert behind.seen[0].header("authorization") is None


@pytest.mark.parametrize("host", [DOMAIN, f"api.{DOMAIN}", f"console.{DOMAIN}", f"API.{DOMAIN}:8443"])
def test_hosts_of_the_service_go_to_it_without_authorization(gateway: Gateway, host: str) -> None:
    assert get(gateway, host, "/v1/workspaces?limit=1", "Authorization: Bearer t")[0] == 200
    assert gateway.authorizer.seen == []
    assert gateway.service.seen[0].path == "/v1/workspaces?limit=1"
    assert gateway.service.seen[0].header("authorization") == "Bearer t"


@pytest.mark.parametrize("host", [f"sandbox.{DOMAIN}", f"sandbox.{WORKSPACES}", f"ann.{WORKSPACES}", f"{HOST}:443"])
def test_hosts_of_workspaces_are_authorized(gateway: Gateway, host: str) -> None:
    gateway.authorizer.decide = lambda _: Verdict({"location": "https://login.example.com"}, denied=302, body="sign in")
    status, head, body = get(gateway, host)
    assert (status, body) == (302, "sign in")
    assert "location: https://login.example.com" in head
    [check] = gateway.authorizer.seen
    assert (check.host, check.caller) == (host, LOOPBACK)


@pytest.mark.parametrize(
    "host",
    [
        "example.org",
        "127.0.0.1",
        "[::1]",
        f"{DOMAIN}.",
        f"api.{DOMAIN}.",
        f"{HOST}.",
        f"unknown.{DOMAIN}",
        WORKSPACES,
        f"a.b.{WORKSPACES}",
        f"ann%2e{WORKSPACES}",
        f"ann{WORKSPACES}",
        f"ann.{WORKSPACES}.evil.example.org",
    ],
)
def test_other_hosts_are_not_found_without_authorization(gateway: Gateway, host: str) -> None:
    assert get(gateway, host)[0] in {400, 404}
    assert gateway.authorizer.seen == []
    assert gateway.service.seen == []
    assert parse_host(host, DOMAIN, WORKSPACES) is None


@pytest.mark.parametrize(
    "target",
    [f"http://api.{DOMAIN}/v1", "http://169.254.169.254/latest", f"http://{HOST}/"],
)
def test_an_absolute_target_is_routed_by_its_own_host(gateway: Gateway, behind: HttpServer, target: str) -> None:
    """The Host header beside it has no say, neither here nor behind."""
    exchange(gateway, f"GET {target} HTTP/1.1\r\nHost: ann.{WORKSPACES}\r\n\r\n".encode())
    hosts = [check.host for check in gateway.authorizer.seen]
    received = [each.header("host") for each in (*gateway.service.seen, *behind.seen)]
    assert hosts == ([HOST] if HOST in target else [])
    assert received == ([] if "169.254" in target else [target.split("/")[2]])


@pytest.mark.parametrize(
    "verdict",
    [
        Verdict(),
        Verdict({DESTINATION: ""}),
        Verdict({DESTINATION: "127.0.0.1:22"}),
        Verdict({DESTINATION: "localhost:49983"}),
        Verdict({DESTINATION: f"{LOOPBACK}:49983,{LOOPBACK}:49983"}),
    ],
)
def test_nothing_is_routed_without_a_sandbox_as_destination(gateway: Gateway, verdict: Verdict) -> None:
    gateway.authorizer.decide = lambda _: verdict
    assert get(gateway, HOST, "/", f"{DESTINATION}: {LOOPBACK}:{gateway.service.port}")[0] == 503
    assert gateway.service.seen == []


def test_nothing_is_routed_while_the_authorization_fails(gateway: Gateway, behind: HttpServer) -> None:
    lost = Authorizer()
    lost.decide = lambda _: to(behind.address)
    with running(lost, gateway.service) as other:
        assert get(other, HOST)[0] == 200
        lost.stop()
        assert get(other, HOST, "/", f"{DESTINATION}: {behind.address}:{DAEMON_PORT}")[0] == 503
        assert get(other, f"api.{DOMAIN}")[0] == 200
    assert len(behind.seen) == 1


def test_a_sandbox_that_is_gone_is_an_error_and_another_at_its_address_gets_its_own_requests(
    gateway: Gateway, behind: HttpServer
) -> None:
    address = behind.address
    gateway.authorizer.decide = lambda check: to(address, x_workspace_token=check.headers["x-test"])
    assert get(gateway, HOST, "/", "X-Test: first")[0] == 200
    behind.stop()
    assert get(gateway, HOST, "/", "X-Test: none")[0] == 503
    later = HttpServer(address, DAEMON_PORT)
    try:
        assert get(gateway, HOST, "/", "X-Test: later")[0] == 200
        assert [received.header("x-workspace-token") for received in later.seen] == ["later"]
    finally:
        later.stop()
        # For the fixture, which stops what it started.
        behind.__init__(own_address(), DAEMON_PORT)


def test_websockets_pass_in_both_directions(gateway: Gateway, behind: HttpServer) -> None:
    async def talk() -> list[str]:
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(url(gateway, "/ws"), headers={"Host": HOST}) as websocket,
        ):
            await websocket.send_str("first")
            first = await websocket.receive_str(timeout=TIMEOUT)
            await websocket.send_str("second")
            return [first, await websocket.receive_str(timeout=TIMEOUT)]

    assert asyncio.run(talk()) == ["first", "second"]
    assert behind.seen[0].header("x-workspace-token") == "ours"


def test_an_upgrade_that_is_denied_is_not_opened(gateway: Gateway) -> None:
    gateway.authorizer.decide = lambda _: Verdict(denied=403)

    async def talk() -> int:
        async with aiohttp.ClientSession() as session:
            try:
                await session.ws_connect(url(gateway, "/ws"), headers={"Host": HOST})
            except aiohttp.WSServerHandshakeError as error:
                return error.status
        return 101

    assert asyncio.run(talk()) == 403


@pytest.mark.usefixtures("behind")
def test_responses_of_a_sandbox_change_nothing_of_the_console_host(gateway: Gateway, behind: HttpServer) -> None:
    console, path = f"console.{DOMAIN}", f"/sandbox/w-{'a' * 26}/hostile/..%2f?x=1"
    assert get(gateway, console, "/app")[0] == 200
    assert [row.path for row in gateway.service.seen] == ["/app"]
    assert gateway.authorizer.seen == []
    status, head, _ = get(gateway, console, path)
    assert status == 200
    assert [check.path for check in gateway.authorizer.seen] == [path]
    assert [row.path for row in behind.seen] == ["/hostile/..%2f?x=1"]
    lines = dict(line.split(": ", 1) for line in head.lower().splitlines() if ": " in line)
    assert lines["content-security-policy"] == "sandbox; default-src 'none'"
    assert (lines["content-disposition"], lines["x-content-type-options"]) == ("attachment", "nosniff")
    assert not set(HEADERS_OF_A_HOST) & set(lines)
    gateway.authorizer.decide = lambda _: Verdict()
    assert get(gateway, console, path)[0] == 503
    gateway.authorizer.decide = lambda _: Verdict(denied=401)
    assert get(gateway, console, path)[0] == 401


def test_events_arrive_as_they_are_sent(gateway: Gateway, behind: HttpServer) -> None:
    connection = http.client.HTTPConnection(LOOPBACK, gateway.plan.port, timeout=TIMEOUT)
    connection.request("GET", "/events", headers={"Host": HOST})
    response = connection.getresponse()
    assert response.readline() == b"data: first\n"
    # Only now does the program send the second one.
    behind.sent.set()
    assert response.read().endswith(b"data: second\n\n")
    connection.close()


def test_files_of_any_size_pass_without_being_held(gateway: Gateway, behind: HttpServer) -> None:
    size = 256 * 2**20
    before = memory_mib(gateway)

    async def transfer() -> tuple[int, int]:
        async def blocks() -> AsyncIterator[bytes]:
            for _ in range(size // 2**20):
                yield b"x" * 2**20

        async with aiohttp.ClientSession(headers={"Host": HOST}) as session:
            async with session.post(url(gateway, "/upload"), data=blocks()) as response:
                uploaded = (await response.json())["body"]
            async with session.get(url(gateway, f"/large?size={size}")) as response:
                downloaded = 0
                async for chunk in response.content.iter_any():
                    downloaded += len(chunk)
        return uploaded, downloaded

    assert asyncio.run(transfer()) == (size, size)
    assert memory_mib(gateway) - before < 32


def test_grpc_streams_pass_in_both_directions(gateway: Gateway) -> None:
    address = own_address()

    def echo(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        context.set_trailing_metadata((("ended", "well"),))
        yield from requests

    server = grpc.server(ThreadPoolExecutor(2))
    method = grpc.stream_stream_rpc_method_handler(echo)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Echo", {"Talk": method}),))
    server.add_insecure_port(f"{address}:{DAEMON_PORT}")
    server.start()
    gateway.authorizer.decide = lambda _: to(address)
    options = [("grpc.default_authority", HOST)]
    with grpc.insecure_channel(f"{LOOPBACK}:{gateway.plan.port}", options) as channel:
        waiting: queue.Queue[bytes | None] = queue.Queue()
        waiting.put(b"one")
        call = channel.stream_stream("/test.Echo/Talk")(iter(waiting.get, None), timeout=TIMEOUT)
        assert next(call) == b"one"
        waiting.put(b"two")
        assert next(call) == b"two"
        waiting.put(None)
        assert list(call) == []
        assert ("ended", "well") in call.trailing_metadata()
    server.stop(0).wait()


LINES = "X: y\r\n" * 101
SMUGGLED = f"GET /smuggled HTTP/1.1\r\nHost: api.{DOMAIN}\r\n\r\n"


@pytest.mark.parametrize(
    "framing",
    [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding : chunked\r\n",
        " Transfer-Encoding: chunked\r\n",
        "Transfer-Encoding:\x0bchunked\r\n",
        "Content-Length: 0\r\nContent-Length: 4\r\n",
        "Content-Length: +4\r\n",
        "Content-Length: 4, 0\r\n",
        "X: y\x00\r\n",
        "Host: evil.example.org\r\n",
    ],
)
def test_a_request_that_two_parsers_may_read_differently_is_refused(
    gateway: Gateway, behind: HttpServer, framing: str
) -> None:
    request = f"POST / HTTP/1.1\r\nHost: {HOST}\r\n{framing}\r\n0\r\n\r\n{SMUGGLED}"
    assert exchange(gateway, request.encode("latin-1"))[0] in {400, 404, 501}
    assert (behind.seen, gateway.service.seen, gateway.authorizer.seen) == ([], [], [])


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (f"GET / HTTP/1.1\r\nHost: {HOST}\r\nCookie: {'c' * 33_000}\r\n\r\n", 431),
        (f"GET / HTTP/1.1\r\nHost: {HOST}\r\n{LINES}\r\n", 431),
        (f"CONNECT {HOST}:443 HTTP/1.1\r\nHost: {HOST}\r\n\r\n", 404),
        (f"GET / HTTP/1.0\r\nHost: {HOST}\r\n\r\n", 426),
        ("GET / HTTP/1.1\r\n\r\n", 400),
    ],
)
def test_requests_are_bounded(gateway: Gateway, behind: HttpServer, request_: str, status: int) -> None:
    assert exchange(gateway, request_.encode())[0] == status
    assert (behind.seen, gateway.authorizer.seen) == ([], [])


def test_dots_in_a_path_are_resolved_before_the_authorization(gateway: Gateway, behind: HttpServer) -> None:
    assert get(gateway, HOST, "/files/%2e%2e/process.Process/Start")[0] == 200
    assert gateway.authorizer.seen[0].path == behind.seen[0].path == "/process.Process/Start"


def test_the_status_port_serves_two_paths_and_the_administration_has_no_port(gateway: Gateway) -> None:
    def status(method: str, path: str) -> int:
        connection = http.client.HTTPConnection(LOOPBACK, gateway.plan.status_port, timeout=TIMEOUT)
        connection.request(method, path)
        answer = connection.getresponse().status
        connection.close()
        return answer

    assert [status("GET", path) for path in ("/ready", "/stats/prometheus")] == [200, 200]
    assert [status("GET", path) for path in ("/config_dump", "/stats", "/", "/ready/../config_dump")] == [404] * 4
    assert [status("POST", path) for path in ("/quitquitquit", "/ready")] == [404, 404]
    listening = {
        each.laddr.port
        for each in psutil.Process(gateway.process.pid).net_connections()
        if each.status == psutil.CONN_LISTEN
    }
    assert listening == {gateway.plan.port, gateway.plan.status_port}


def test_the_address_of_a_caller_comes_from_the_proxy_protocol(gateway: Gateway, behind: HttpServer) -> None:
    with running(gateway.authorizer, gateway.service, proxy_protocol=True) as other:
        request = f"GET / HTTP/1.1\r\nHost: {HOST}\r\nX-Forwarded-For: 203.0.113.1\r\n\r\n".encode()
        assert exchange(other, request)[0] == 0
        header = b"\r\n\r\n\x00\r\nQUIT\n" + bytes([0x21, 0x11]) + struct.pack("!H", 12)
        header += socket.inet_aton("198.51.100.7") + socket.inet_aton("10.0.0.1") + struct.pack("!HH", 40000, 443)
        assert exchange(other, header + request)[0] == 200
    assert [check.caller for check in gateway.authorizer.seen] == ["198.51.100.7"]
    assert [received.header("x-forwarded-for") for received in behind.seen] == ["198.51.100.7"]


def test_the_log_has_no_paths_and_no_headers(gateway: Gateway, behind: HttpServer) -> None:
    with running(gateway.authorizer, gateway.service) as other:
        assert get(other, HOST, "/secret-path?signature=secret", "Authorization: secret")[0] == 200
        other.process.terminate()
        other.process.wait(TIMEOUT)
        log = other.log.read_text(encoding="utf-8")
    line = json.loads(next(line for line in log.splitlines() if line.startswith("{")))
    assert (line["host"], line["status"], line["destination"]) == (HOST, 200, f"{behind.address}:{DAEMON_PORT}")
    assert "secret" not in log


def test_many_requests_for_one_workspace_wait_for_one_verdict_each(gateway: Gateway, behind: HttpServer) -> None:
    awake = threading.Event()

    def wake(_: Check) -> Verdict:
        assert awake.wait(TIMEOUT)
        return to(behind.address)

    gateway.authorizer.decide = wake
    with ThreadPoolExecutor(20) as callers:
        waiting = [callers.submit(get, gateway, HOST) for _ in range(20)]
        while len(gateway.authorizer.seen) < 20:
            threading.Event().wait(0.01)
        assert behind.seen == []
        awake.set()
        assert [each.result(TIMEOUT)[0] for each in waiting] == [200] * 20


def url(gateway: Gateway, path: str) -> str:
    return f"http://{LOOPBACK}:{gateway.plan.port}{path}"


def memory_mib(gateway: Gateway) -> float:
    return psutil.Process(gateway.process.pid).memory_info().rss / 2**20


def test_one_address_that_sends_too_much_is_refused_and_others_are_not(gateway: Gateway, behind: HttpServer) -> None:
    def send(connected: Gateway, caller: str) -> int:
        line = f"PROXY TCP4 {caller} 192.0.2.1 40000 443\r\n"
        return exchange(connected, f"{line}GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())[0]

    limits = {"source_burst": 3, "source_requests": 3, "source_seconds": 1_000}
    with running(gateway.authorizer, gateway.service, proxy_protocol=True, **limits) as other:
        assert [send(other, "203.0.113.7") for _ in range(5)] == [200, 200, 200, 429, 429]
        assert [send(other, "203.0.113.8") for _ in range(4)] == [200, 200, 200, 429]
    assert {check.caller for check in gateway.authorizer.seen} == {"203.0.113.7", "203.0.113.8"}
    assert len(gateway.authorizer.seen) == 6, "the authorization is not asked about the others"


def test_the_paths_of_the_sign_in_have_a_limit_of_their_own(gateway: Gateway) -> None:
    limits = {"sign_in_burst": 2, "sign_in_requests": 2, "source_seconds": 1_000}
    with running(gateway.authorizer, gateway.service, **limits) as other:
        paths = ("/v1/sign-in", "/v1/sign-in/enter?host=a", "/v1/sign-in/callback?code=1", "/v1/sign-out")
        assert [get(other, f"api.{DOMAIN}", path)[0] for path in paths] == [200, 200, 429, 429]
        assert get(other, f"api.{DOMAIN}", "/v1/workspaces")[0] == 200
        assert get(other, f"api.{DOMAIN}", "/v1/./sign-in")[0] == 429


def test_gateway_without_memory_sheds_load_and_stays_live(gateway: Gateway, behind: HttpServer) -> None:
    with running(gateway.authorizer, gateway.service, memory=2**20) as full:
        deadline = time.monotonic() + TIMEOUT
        while (status := get(full, HOST)[0]) == 200:
            assert time.monotonic() < deadline
        # A refused connection, or a refusal on one that had been accepted.
        assert status in {0, 503}
        with socket.create_connection((LOOPBACK, full.plan.status_port), timeout=TIMEOUT) as connection:
            connection.sendall(b"GET /ready HTTP/1.1\r\nHost: status\r\nConnection: close\r\n\r\n")
            assert connection.recv(4096).startswith(b"HTTP/1.1 200")


def test_connections_are_bounded_by_the_memory_of_the_container() -> None:
    small, large = (EnvoyPlan(DOMAIN, WORKSPACES, 8080, memory=size * 2**20).most_connections for size in (256, 2048))
    assert small == 8_192
    assert large == 99_942
    assert EnvoyPlan(DOMAIN, WORKSPACES, 8080, memory=64 * 2**20).most_connections == 1_000


def test_connections_are_used_or_closed_before_the_load_balancer_drops_them() -> None:
    listener = bootstrap(EnvoyPlan(DOMAIN, WORKSPACES, 8080))["static_resources"]["listeners"][0]
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    durations = {
        "without a request": manager["common_http_protocol_options"]["idle_timeout"],
        "a stream without data": manager["stream_idle_timeout"],
        "HTTP/2 pings": manager["http2_protocol_options"]["connection_keepalive"]["interval"],
        "packets of TCP": f"{listener['tcp_keepalive']['keepalive_time']}s",
    }
    assert {name for name, text in durations.items() if float(text.removesuffix("s")) >= BALANCER_IDLE} == set()
