"""An HTTP server on loopback whose responses a test decides."""

from __future__ import annotations

import datetime
import ipaddress
import json
import ssl
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


@dataclass(frozen=True)
class Request:
    """A request that the server received; `target` is its path with the query."""

    method: str
    target: str
    headers: Message
    body: bytes

    @property
    def path(self) -> str:
        """Return the path without the query."""
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, list[str]]:
        """Return the parameters of the query."""
        return parse_qs(urlsplit(self.target).query)

    def json(self) -> Any:
        """Return the document in the body; None without one."""
        return json.loads(self.body) if self.body else None


@dataclass(frozen=True)
class Response:
    """The status, the body, which becomes JSON unless it is bytes, and further headers."""

    status: int = 200
    body: Any = b""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@contextmanager
def stub_server(
    respond: Callable[[Request], Response], *, keep_alive: bool = False, certificate: Path | None = None
) -> Generator[int]:
    """Serve until the end of the context, over TLS where there is a certificate with its key; yield the port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1" if keep_alive else "HTTP/1.0"

        def _respond(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            response = respond(Request(self.command, self.path, self.headers, body))
            data = response.body if isinstance(response.body, bytes) else json.dumps(response.body).encode()
            self.send_response(response.status)
            for name, value in {"Content-Length": str(len(data)), **response.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _respond  # noqa: N815 - the names that http.server calls

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def self_signed(path: Path, address: str = "127.0.0.1") -> bytes:
    """Write a key with a certificate for an address, which the key itself has signed; return the certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "stub")])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = signed.public_bytes(serialization.Encoding.PEM)
    private = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(key.private_bytes(*private) + pem)
    return pem
