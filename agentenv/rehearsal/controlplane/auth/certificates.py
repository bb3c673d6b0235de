"""The certificate authority of one run: it signs server and client certificates and creates service account keys.

All files are in one folder that only its owner can read, and are useless once the run is over.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFE = timedelta(days=7)  # a stage that was kept up may stay for days
_SKEW = timedelta(minutes=5)


class Authority:
    """Signs certificates for one run; every file is readable by its owner only."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "rehearsal")])
        own = self._builder(self._name, self._key.public_key())
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        own = own.add_extension(_usage(authority=True), critical=True)
        self._certificate = own.sign(self._key, hashes.SHA256())
        self.ca = self._write("ca.crt", self._certificate.public_bytes(serialization.Encoding.PEM))
        self.ca_key = self._write("ca.key", _private(self._key))

    @cached_property
    def pem(self) -> str:
        """Return the authority's own certificate, as DescribeCluster returns it (there in base64)."""
        return self.ca.read_text(encoding="ascii")

    def server(self, name: str, hosts: Sequence[str]) -> tuple[Path, Path]:
        """Create a certificate and key for a server with these names and addresses; etcd's peers are clients too."""
        uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        return self._issue(name, x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), uses, hosts)

    def client(self, user: str, groups: Sequence[str] = ()) -> tuple[Path, Path]:
        """Create a certificate and key for a Kubernetes user."""
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        return self._issue(user.replace(":", "-"), subject, [ExtendedKeyUsageOID.CLIENT_AUTH], ())

    def service_account_key(self) -> tuple[Path, Path]:
        """Create the key pair of service account tokens: RSA, because EKS uses RS256 and STS accepts nothing else."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return self._write("service-accounts.key", _private(key)), self._write("service-accounts.pub", public)

    def _issue(
        self, name: str, subject: x509.Name, uses: list[x509.ObjectIdentifier], hosts: Sequence[str]
    ) -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(subject, key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(authority=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general(host) for host in hosts]), critical=False
            )
        pem = builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        return self._write(f"{name}.crt", pem), self._write(f"{name}.key", _private(key))

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder(self._name, subject, key, x509.random_serial_number())
        builder = builder.not_valid_before(now - _SKEW).not_valid_after(now + _LIFE)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return builder.add_extension(signer, critical=False)

    def _write(self, name: str, content: bytes) -> Path:
        path = self.folder / name
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
        return path


def _private(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
