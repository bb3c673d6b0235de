"""The identity of a cluster: an address, a token issuer and a certificate authority of its own."""

from __future__ import annotations

import base64
import secrets
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

YEARS = timedelta(days=3650)


def authority() -> str:
    """Return a certificate authority as EKS shows it; clients decode it, and fail on anything else."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
    moment = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment)
        .not_valid_after(moment + YEARS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return base64.b64encode(certificate.public_bytes(serialization.Encoding.PEM)).decode()


def identity(region: str) -> tuple[str, str]:
    """Return issuer and address of a new cluster."""
    own = secrets.token_hex(16).upper()
    return f"https://oidc.eks.{region}.amazonaws.com/id/{own}", f"https://{own}.gr7.{region}.eks.amazonaws.com"
