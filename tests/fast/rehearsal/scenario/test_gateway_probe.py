"""A workspace is entered by its host over TLS of the rehearsal's authority; what goes wrong there fails the probe."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest

from agentenv.rehearsal.controlplane.auth.certificates import Authority
from agentenv.rehearsal.scenario import gateway_probe
from agentenv.rehearsal.scenario.command_probe import Workspace
from agentenv.rehearsal.scenario.gateway_probe import TEXT, Front, Hosts, enter, front_of, keys_of, wake
from agentenv.rehearsal.scenario.storage_probe import ProbeFailed

DOMAIN = "os.localhost"
ID = "w-a0" + "a" * 26
Answer = Callable[[str, str], tuple[int, str]]


def by_owner(host: str, key: str) -> tuple[int, str]:
    return (200, TEXT) if key == "Bearer mine" and ID in host else (404, "none")


class _Server(ThreadingHTTPServer):
    answer: Answer = staticmethod(by_owner)
    hosts: list[str]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        server = cast("_Server", self.server)
        host = self.headers["Host"]
        server.hosts.append(host)
        status, text = server.answer(host, self.headers.get("Authorization", ""))
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Log nothing."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[_Server, Hosts]]:
    authority = Authority(tmp_path)
    certificate, key = authority.server("front", [f"*.{DOMAIN}"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with _Server(("127.0.0.1", 0), _Handler) as serving:
        serving.hosts = []
        serving.socket = context.wrap_socket(serving.socket, server_side=True)
        threading.Thread(target=serving.serve_forever, args=(0.05,), daemon=True).start()
        front = Front(f"127.0.0.1:{serving.server_port}", str(authority.ca), DOMAIN)
        yield serving, Hosts(front, ID, "mine", "theirs")
        serving.shutdown()


class Commands:
    """A workspace whose pod is the server at the same address."""

    def __init__(self, hosts: Hosts) -> None:
        self.scripts: list[str] = []
        self._hosts = hosts

    def run(self, script: str) -> str:
        self.scripts.append(script)
        return ""

    def pod_connection(self, _seconds: float) -> Any:
        context = self._hosts.front.connection(self._hosts.port)
        return context.__enter__()

    def headers(self, scope: str) -> dict[str, str]:
        assert scope == "port:3000"
        return {"Authorization": "Bearer mine"}


def test_a_program_is_opened_by_its_host_and_refused_to_a_stranger(
    server: tuple[_Server, Hosts], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_probe, "_REQUESTS", 3)  # this server's responses take 40 ms each
    serving, hosts = server
    commands = Commands(hosts)
    assert isinstance(enter(hosts, cast("Workspace", commands)), float)
    assert "http.server 3000" in commands.scripts[0]
    assert set(serving.hosts) > {f"3000-{ID}.{DOMAIN}"}
    assert wake(hosts) > 0
    assert serving.hosts[-1] == f"49983-{ID}.{DOMAIN}"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda _host, _key: (200, TEXT), "a stranger at"),
        (lambda host, key: (200, TEXT) if key == "Bearer mine" else (404, host), "a stranger at"),
        (lambda host, key: by_owner(host, key) if key == "Bearer mine" else (403, "no"), "a stranger at"),
        (lambda _host, _key: (502, "nothing listens"), "answers 502: nothing listens"),
    ],
    ids=["open to all", "another text", "another status", "not served"],
)
def test_a_wrong_answer_fails_the_probe(
    server: tuple[_Server, Hosts], monkeypatch: pytest.MonkeyPatch, answer: Answer, why: str
) -> None:
    monkeypatch.setattr(gateway_probe, "_READY_SECONDS", 0.1)
    serving, hosts = server
    serving.answer = answer
    with pytest.raises(ProbeFailed, match=why):
        enter(hosts, cast("Workspace", Commands(hosts)))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda _host, _key: (200, TEXT), "a stranger woke"),
        (lambda _host, key: (200, "empty") if key == "Bearer mine" else (502, ""), "was answered with 200: empty"),
        (lambda _host, _key: (409, "asleep"), "was answered with 409: asleep"),
    ],
)
def test_a_wake_that_fails_or_serves_a_stranger_fails_the_probe(
    server: tuple[_Server, Hosts], answer: Answer, why: str
) -> None:
    serving, hosts = server
    serving.answer = answer
    with pytest.raises(ProbeFailed, match=why):
        wake(hosts)


def test_a_certificate_of_another_authority_or_host_is_refused(server: tuple[_Server, Hosts], tmp_path: Path) -> None:
    _, hosts = server
    other = Front(hosts.front.address, str(Authority(tmp_path / "other").ca), DOMAIN)
    with pytest.raises(ssl.SSLCertVerificationError):
        other.get(hosts.port, "/", {})
    with pytest.raises(ssl.SSLCertVerificationError):
        hosts.front.get("3000-a.example.com", "/", {})


def test_an_environment_without_a_domain_or_a_balancer_has_no_front() -> None:
    balancers = {"listeners": {"arn": "127.0.0.1:1"}, "authority": "/ca"}
    settings = {
        "domain": DOMAIN,
        "certificate": "arn:aws:acm:us-east-1:123456789012:certificate/4e1b6f2a-9c3d-4b57-8d20-7a5e9f1c3b64",
    }
    assert front_of(settings, balancers) == Front("127.0.0.1:1", "/ca", DOMAIN)
    assert front_of({}, balancers) is None
    assert front_of(settings, {"listeners": {}, "authority": "/ca"}) is None


def test_keys_are_revoked_also_where_the_probe_fails() -> None:
    calls: list[tuple[str, str]] = []

    class Caller:
        def __init__(self, name: str) -> None:
            self.name = name

        def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
            calls.append((method, path))
            assert (body is None) == (method == "DELETE")
            return {"id": self.name, "key": f"key of {self.name}"}

    def probe() -> None:
        with keys_of(Front("", "", ""), ID, Caller("a"), Caller("b")) as hosts:
            assert (hosts.owner, hosts.stranger) == ("key of a", "key of b")
            raise ProbeFailed("it fails")

    with pytest.raises(ProbeFailed):
        probe()
    assert calls[2:] == [("DELETE", "/v1/keys/a"), ("DELETE", "/v1/keys/b")]
