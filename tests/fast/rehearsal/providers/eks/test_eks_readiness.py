"""Waiting for an API server: a real one on loopback, with a certificate that nobody knows."""

import asyncio
import datetime
import http.server
import ipaddress
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from agentenv.rehearsal.providers.eks.readiness import is_healthy, wait_until_healthy


@dataclass
class Server:
    """An HTTPS server that answers /healthz with the statuses it is given, the last of them for ever."""

    url: str
    statuses: list[int]
    paths: list[str] = field(default_factory=list)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server_state = Server("", [200])

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server_state.paths.append(self.path)
            self.send_response(
                server_state.statuses.pop(0) if len(server_state.statuses) > 1 else server_state.statuses[0]
            )
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's names
            pass

    http_server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate(tmp_path / "server.pem"))
    http_server.socket = context.wrap_socket(http_server.socket, server_side=True)
    thread = threading.Thread(target=http_server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    server_state.url = f"https://127.0.0.1:{http_server.server_port}"
    yield server_state
    http_server.shutdown()
    http_server.server_close()
    thread.join()


def certificate(path: Path) -> Path:
    """A certificate that its own key has signed, and the key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "nobody")])
    now = datetime.datetime.now(datetime.UTC)
    created = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("192.0.2.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + created.public_bytes(serialization.Encoding.PEM))
    return path


def test_any_certificate_is_accepted(server: Server) -> None:
    assert is_healthy(server.url)
    assert server.paths == ["/healthz"]


@pytest.mark.parametrize("status", [401, 500, 503])
def test_only_a_healthy_server_is_ready(server: Server, status: int) -> None:
    server.statuses = [status]
    assert not is_healthy(server.url)


@pytest.mark.parametrize("endpoint", ["https://127.0.0.1:9", "http://127.0.0.1:9", "nonsense", ""])
def test_unreachable_endpoint_is_not_ready(endpoint: str) -> None:
    assert not is_healthy(endpoint)


def test_health_is_polled_until_it_succeeds(server: Server) -> None:
    server.statuses = [500, 503, 200]
    server_state: list[str] = []
    assert asyncio.run(wait_until_healthy(server.url, server_state.append, interval=0.01, attempts=10))
    assert len(server.paths) == 3
    assert [text.split(" ")[3] for text in server_state] == ["0.1", "0.09"]


def test_polling_ends_at_the_timeout(server: Server) -> None:
    server.statuses = [500]
    server_state: list[str] = []
    assert not asyncio.run(wait_until_healthy(server.url, server_state.append, interval=0.01, attempts=3))
    assert len(server.paths) == 3
