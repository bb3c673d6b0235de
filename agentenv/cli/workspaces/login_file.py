"""The login of this user: the service's address and a token, in a file that only the user reads."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agentenv.cli.main import CommandError


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
        document: dict[str, Any] = json.loads(login_file().read_text(encoding="utf-8"))
        return Login(**document)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise CommandError(f"{login_file()} cannot be read: {error}; sign in again with `agentenv login`") from None


def save_login(login: Login) -> None:
    """Write the login."""
    write_private(login_file(), json.dumps(asdict(login), indent=2) + "\n")


def delete_login() -> bool:
    """Delete the login; return whether there was one."""
    if not login_file().exists():
        return False
    login_file().unlink()
    return True


def write_private(path: Path, text: str) -> None:
    """Write a file that only this user reads, in one step."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    unfinished.replace(path)
