"""API keys: their form, their hash, and the scopes that limit them. A key is stored as its hash alone."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import Final, Literal, get_args

# In the order of what they allow; each is a right of its own.
Scope = Literal["read", "use", "create", "wake", "admin"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
_ID_LENGTH, _SECRET_LENGTH = 12, 40  # hex digits: the id is public, the secret has 160 bits
_KEY = re.compile(rf"e2b_([0-9a-f]{{{_ID_LENGTH}}})([0-9a-f]{{{_SECRET_LENGTH}}})")


def new_key() -> str:
    """Return a new key."""
    return f"e2b_{secrets.token_hex(_ID_LENGTH // 2)}{secrets.token_hex(_SECRET_LENGTH // 2)}"


def key_id(key: str) -> str | None:
    """Return the id in a key; None for a text that is no key."""
    match = _KEY.fullmatch(key)
    return match[1] if match else None


def digest(secret: str) -> str:
    """Return the hash of a random secret, as it is stored. It cannot be guessed, so it needs no salt."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def matches(secret: str, stored: str) -> bool:
    """Return whether a secret has the stored hash, in constant time."""
    return hmac.compare_digest(digest(secret), stored)
