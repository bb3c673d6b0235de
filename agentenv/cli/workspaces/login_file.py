"""The login of this user: in the system's key ring, if it has one, and in a file that only the user reads."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agentenv.cli.main import CommandError
from agentenv.cli.workspaces import key_ring

_SECRETS = ("token", "refresh_token")
_IN_KEY_RING = "in_key_ring"


@dataclass(frozen=True)
class Login:
    """A login: with an API key, or with tokens of an issuer, which are refreshed."""

    service: str
    token: str = field(repr=False)
    token_endpoint: str = ""
    client_id: str = ""
    refresh_token: str = field(default="", repr=False)
    expires: float = 0.0  # of the token, in seconds since 1970; 0 for an API key


def folder() -> Path:
    """Return the folder of the user's configuration."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "agentenv"


def login_file() -> Path:
    """Return the path of the login."""
    return folder() / "login.json"


def saved_login() -> Login | None:
    """Return the login of this user, None without one."""
    try:
        document = _document()
        if document.pop(_IN_KEY_RING, False):
            secrets = key_ring.read(document["service"])
            if secrets is None:
                raise CommandError("the key ring is locked, or has no login any more; sign in with `agentenv login`")
            document |= secrets
        return Login(**document)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise CommandError(f"{login_file()} cannot be read: {error}; sign in again with `agentenv login`") from None


def save_login(login: Login) -> None:
    """Write the login: its secrets into the key ring, or else into the file."""
    document: dict[str, Any] = asdict(login)
    former = _service_in_key_ring()
    if former is not None and former != login.service:
        key_ring.delete(former)
    if key_ring.store(login.service, {name: document[name] for name in _SECRETS}):
        document = {name: value for name, value in document.items() if name not in _SECRETS} | {_IN_KEY_RING: True}
    write_private(login_file(), json.dumps(document, indent=2) + "\n")


def delete_login() -> bool:
    """Delete the login; return whether there was one."""
    if not login_file().exists():
        return False
    if (former := _service_in_key_ring()) is not None:
        key_ring.delete(former)
    login_file().unlink()
    return True


def _document() -> dict[str, Any]:
    document: Any = json.loads(login_file().read_text(encoding="utf-8"))
    if not isinstance(document, dict):
        raise TypeError("it is no JSON object")
    return document  # pyright: ignore[reportUnknownVariableType] - ours


def _service_in_key_ring() -> str | None:
    """Return the service of a login whose secrets are in the key ring; None where the file cannot be read."""
    try:
        document = _document()
    except (OSError, ValueError, TypeError):
        return None
    return str(document.get("service")) if document.get(_IN_KEY_RING) else None


def write_private(path: Path, text: str) -> None:
    """Write a file that only this user reads, in one step."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    unfinished.replace(path)
