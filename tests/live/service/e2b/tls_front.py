"""A proxy with TLS and ALPN in front of Envoy, at one address for every host, as a load balancer has it.

The client reaches it as its HTTP proxy, by CONNECT, and then speaks TLS to the host that it named.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def certificates(folder: Path, domain: str) -> tuple[Path, Path]:
    """Write an authority, and a certificate with its key for the hosts below a domain; return both files."""
    now = datetime.now(UTC)
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority, name = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)]) for text in ("Authority of the tests", domain)
    )

    def builder(subject: x509.Name, of: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        dates = x509.CertificateBuilder().not_valid_before(now).not_valid_after(now + timedelta(days=1))
        numbered = dates.serial_number(x509.random_serial_number())
        return numbered.subject_name(subject).issuer_name(authority).public_key(of.public_key())

    root = builder(authority, authority_key).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    hosts = x509.SubjectAlternativeName([x509.DNSName(f"*.{domain}")])
    leaf = builder(name, key).add_extension(hosts, critical=False).sign(authority_key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    trusted, presented = folder / "authority.pem", folder / "host.pem"
    trusted.write_bytes(root.sign(authority_key, hashes.SHA256()).public_bytes(pem))
    presented.write_bytes(leaf.public_bytes(pem) + private)
    return trusted, presented


@contextlib.asynccontextmanager
async def front(certificate: Path, to: int, protocols: list[str]) -> AsyncGenerator[int]:
    """Serve a proxy whose every host is TLS in front of a port; yield its own port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.set_alpn_protocols(protocols)
    async with (
        await asyncio.start_server(lambda r, w: _relay(r, w, to), "127.0.0.1", 0, ssl=context) as tls,
        await asyncio.start_server(
            lambda r, w: _connect(r, w, tls.sockets[0].getsockname()[1]), "127.0.0.1", 0
        ) as proxy,
    ):
        yield proxy.sockets[0].getsockname()[1]


async def _connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, to: int) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"CONNECT ")
    writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
    await _relay(reader, writer, to)


async def _relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, to: int) -> None:
    inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", to)

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(1 << 16):
                target.write(data)
                await target.drain()
        target.close()

    await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer))
