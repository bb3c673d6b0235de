"""The secrets of a login in the system's key ring, where the extra `keyring` is installed and the system has one.

`PYTHON_KEYRING_BACKEND=keyring.backends.fail.Keyring` turns it off, as for every program that uses the library.
"""

from __future__ import annotations

import json
from typing import Any

_SERVICE = "agentenv"
# Of the library's backends: those below keep no secrets, or keep them in a plain file.
_LEAST_PRIORITY = 1


def store(account: str, secrets: dict[str, str]) -> bool:
    """Store the secrets of an account; return whether a key ring has them now."""
    ring = _ring()
    if ring is None:
        return False
    try:
        ring.set_password(_SERVICE, account, json.dumps(secrets))
    except _errors():
        return False  # it is locked, or its system does not take secrets of this length
    return True


def read(account: str) -> dict[str, str] | None:
    """Return the secrets of an account; None where the key ring has none, or is locked."""
    ring = _ring()
    try:
        text = ring.get_password(_SERVICE, account) if ring is not None else None
        document: Any = json.loads(text) if text else None
    except (*_errors(), ValueError):
        return None
    return document if isinstance(document, dict) else None  # pyright: ignore[reportUnknownVariableType] - ours


def delete(account: str) -> None:
    """Delete the secrets of an account, where the key ring has any."""
    ring = _ring()
    if ring is not None and read(account) is not None:
        ring.delete_password(_SERVICE, account)


def _ring() -> Any | None:
    try:
        import keyring
    except ModuleNotFoundError:
        return None
    ring = keyring.get_keyring()
    return ring if ring.priority >= _LEAST_PRIORITY else None


def _errors() -> tuple[type[Exception], ...]:
    try:
        from keyring.errors import KeyringError
    except ModuleNotFoundError:
        return ()
    return (KeyringError,)
