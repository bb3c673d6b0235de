"""Tokens as `aws eks get-token` creates them: a presigned GetCallerIdentity that the receiver sends to STS.

    k8s-aws-v1.<base64 of https://sts…/?Action=GetCallerIdentity&…&X-Amz-Signature=…>

The cluster's name is nowhere in the address: it goes into the signature as the header `x-k8s-aws-id`, so a token for
another cluster shows only when the signature is made again with our name. That needs the caller's secret key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, quote, urlsplit

PREFIX = "k8s-aws-v1."
HEADER = "x-k8s-aws-id"
_LIFE = timedelta(minutes=15)  # EKS's own limit, whatever X-Amz-Expires is
_SKEW = timedelta(minutes=5)
_ALGORITHM = "AWS4-HMAC-SHA256"
_STS_PARTS = ("sts", "amazonaws", "com")


class TokenRefused(Exception):
    """The reason why a token is not accepted."""


@dataclass(frozen=True)
class PresignedToken:
    """A token that is complete and not expired; only STS can tell whose it is."""

    host: str
    query: str
    access_key: str
    scope: str  # date/region/service/aws4_request
    stamp: str
    signed_headers: str
    signature: str

    @property
    def authorization(self) -> str:
        """Return the same signature as a header."""
        credential = f"Credential={self.access_key}/{self.scope}"
        return f"{_ALGORITHM} {credential}, SignedHeaders={self.signed_headers}, Signature={self.signature}"

    def signed_for(self, cluster: str, secret: str) -> bool:
        """Return whether this is the signature for that cluster with that secret key."""
        values = {"host": self.host, HEADER: cluster}
        names = self.signed_headers.split(";")
        if not set(names) <= values.keys():
            return False
        pairs = parse_qsl(self.query, keep_blank_values=True)
        canonical_query = "&".join(
            f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}"
            for name, value in sorted(pairs)
            if name != "X-Amz-Signature"
        )
        headers = "".join(f"{name}:{values[name]}\n" for name in names)
        request = "\n".join(("GET", "/", canonical_query, headers, self.signed_headers, hashlib.sha256().hexdigest()))
        digest = hashlib.sha256(request.encode()).hexdigest()
        text = "\n".join((_ALGORITHM, self.stamp, self.scope, digest))
        key = f"AWS4{secret}".encode()
        for part in (*self.scope.split("/"), text):
            key = hmac.digest(key, part.encode(), "sha256")
        return hmac.compare_digest(key.hex(), self.signature)


def read(token: str, now: datetime, also_from: str = "") -> PresignedToken:
    """Parse a token; TokenRefused if it is malformed, not for STS, or too old.

    `also_from` is a host that serves STS beside the real ones.
    """
    if not token.startswith(PREFIX):
        raise TokenRefused(f"it does not start with '{PREFIX}'")
    encoded = token.removeprefix(PREFIX)
    try:
        padded = encoded + "=" * (-len(encoded) % 4)
        # Without `validate`, characters outside the alphabet would be dropped
        address = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise TokenRefused("what follows the prefix is not base64 of an address") from error
    parts = urlsplit(address)
    if parts.path not in {"", "/"} or not (_is_sts(parts.netloc) or (also_from and parts.netloc == also_from)):
        raise TokenRefused(f"it is an address at '{parts.netloc}{parts.path}', not at STS")
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    parameters = dict(pairs)
    if len(parameters) != len(pairs):
        raise TokenRefused("a parameter of its address is there twice")
    if parameters.get("Action") != "GetCallerIdentity":
        raise TokenRefused(f"it asks STS for {parameters.get('Action')!r}, not for GetCallerIdentity")
    if parameters.get("X-Amz-Algorithm") != _ALGORITHM or not parameters.get("X-Amz-Signature"):
        raise TokenRefused("it is not signed")
    if HEADER not in parameters.get("X-Amz-SignedHeaders", "").split(";"):
        raise TokenRefused(f"the header {HEADER}, which names the cluster, is not among the signed ones")
    _in_time(parameters.get("X-Amz-Date", ""), now)
    access_key, _, scope = parameters.get("X-Amz-Credential", "").partition("/")
    if not access_key or scope.count("/") != 3:
        raise TokenRefused("its X-Amz-Credential does not name a key and its scope")
    return PresignedToken(
        host=parts.netloc,
        query=parts.query,
        access_key=access_key,
        scope=scope,
        stamp=parameters["X-Amz-Date"],
        signed_headers=parameters["X-Amz-SignedHeaders"],
        signature=parameters["X-Amz-Signature"],
    )


def _in_time(stamp: str, now: datetime) -> None:
    try:
        signed = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError as error:
        raise TokenRefused(f"its X-Amz-Date '{stamp}' is not a time") from error
    if now > signed + _LIFE:
        raise TokenRefused(f"it expired: it was signed at {signed:%H:%M:%S} and is good for 15 minutes")
    if signed > now + _SKEW:
        raise TokenRefused(f"it was signed at {signed:%H:%M:%S}, which is yet to come")


def _is_sts(host: str) -> bool:
    """Return whether a host is `sts.amazonaws.com` or `sts.<region>.amazonaws.com`, in any partition."""
    labels = host.removesuffix(".cn").removesuffix(".").split(".")
    first, *_, second, third = labels if len(labels) >= 3 else ("", "", "")
    return (first.removesuffix("-fips"), second, third) == _STS_PARTS and len(labels) <= 4
