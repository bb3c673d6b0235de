"""The keys that tokens for sandboxes are signed with, and when one takes the place of another.

A key is published before it signs anything, and stays published until every token that it signed has expired: the
kubelet brings a new ConfigMap to a pod within a minute or two. Only the first key of all signs at once, because nobody
has another one.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from agentenv.core.values.timestamps import format_timestamp, parse_timestamp

ROTATE_AFTER = timedelta(days=1)
# How long after its publication a key is in every pod.
SPREAD = timedelta(minutes=10)
# How long the last token of a key is valid, with a margin for clocks.
EXPIRY = timedelta(minutes=5)


class UnreadableKeysError(Exception):
    """The stored keys cannot be read."""


@dataclass(frozen=True)
class SigningKey:
    """A private key, and when all classes had its public part."""

    id: str
    private: Ed25519PrivateKey = field(repr=False)
    created: datetime
    published: datetime | None = None

    @property
    def public(self) -> dict[str, str]:
        """Return the public part, as a JWK."""
        raw = self.private.public_key().public_bytes_raw()
        return {"kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "kid": self.id, "x": _encode(raw)}


def new_key(now: datetime) -> SigningKey:
    """Return a new key."""
    return SigningKey(f"{now:%Y%m%d}-{secrets.token_hex(4)}", Ed25519PrivateKey.generate(), now)


def signing_key(keys: Sequence[SigningKey], now: datetime) -> SigningKey | None:
    """Return the newest key that every pod has; without one the oldest."""
    ready = [key for key in keys if key.published is not None and key.published + SPREAD <= now]
    return max(ready, key=_age) if ready else min(keys, key=_age, default=None)


def rotated(keys: Sequence[SigningKey], now: datetime) -> tuple[SigningKey, ...]:
    """Return the keys that there should be: a new one when the newest is old, and none that signs nothing any more."""
    newest = max(keys, key=_age, default=None)
    # While a key is not in every class, another one would not get there either.
    fresh = newest is not None and (newest.published is None or newest.created + ROTATE_AFTER > now)
    current = list(keys) if fresh else [*keys, new_key(now)]
    signing = signing_key(current, now)
    if signing is not None and signing.published is not None and signing.published + SPREAD + EXPIRY <= now:
        current = [key for key in current if key.created >= signing.created]
    return tuple(sorted(current, key=_age))


def jwks(keys: Iterable[SigningKey]) -> str:
    """Return the public parts, as the document that workspaced reads."""
    return json.dumps({"keys": [key.public for key in keys]}, separators=(",", ":"))


def to_text(keys: Iterable[SigningKey]) -> str:
    """Return the keys as the Secret holds them."""
    rows = [
        {
            "id": key.id,
            "private": _encode(key.private.private_bytes_raw()),
            "created": format_timestamp(key.created),
            **({"published": format_timestamp(key.published)} if key.published else {}),
        }
        for key in keys
    ]
    return json.dumps(rows, separators=(",", ":"))


def from_text(text: str) -> tuple[SigningKey, ...]:
    """Return the keys of a Secret; raise `UnreadableKeysError` without their content."""
    try:
        rows: list[dict[str, Any]] = json.loads(text)
        return tuple(_key(row) for row in rows)
    except (ValueError, TypeError, KeyError) as failure:
        # The message of the failure may quote the text.
        raise UnreadableKeysError(f"the signing keys cannot be read: {type(failure).__name__}") from None


def _key(row: dict[str, Any]) -> SigningKey:
    created = parse_timestamp(row["created"])
    if created is None:
        raise ValueError("created")
    private = Ed25519PrivateKey.from_private_bytes(base64.urlsafe_b64decode(row["private"] + "=="))
    return SigningKey(str(row["id"]), private, created, parse_timestamp(row.get("published")))


def _age(key: SigningKey) -> tuple[datetime, str]:
    return key.created, key.id


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
