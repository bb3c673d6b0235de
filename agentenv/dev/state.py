"""The folder of `agentenv dev`: records, homes and the API key, which one process at a time uses."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agentenv.core.gateway.api_keys import key_id, new_key

VARIABLE = "AGENTENV_DEV_STATE"


class InUseError(Exception):
    """Another process uses the folder."""


@dataclass(frozen=True)
class State:
    """The folder, while this process uses it."""

    folder: Path

    @property
    def homes(self) -> Path:
        return self.folder / "homes"

    @property
    def records(self) -> Path:
        return self.folder / "records.sqlite"

    @property
    def secrets(self) -> Path:
        return self.folder / "gateway-secrets.json"

    @property
    def key_file(self) -> Path:
        return self.folder / "api-key"

    def key(self) -> str:
        """Return the API key, created at the first start; its file is readable by its owner only."""
        if self.key_file.exists() and key_id(key := self.key_file.read_text(encoding="ascii").strip()):
            return key
        return _create_private(self.key_file, new_key())

    def webhook_secret(self) -> str:
        """Return the key of the signatures of approvals' webhook, created at the first use."""
        file = self.folder / "webhook-secret"
        if file.exists() and (secret := file.read_text(encoding="ascii").strip()):
            return secret
        return _create_private(file, secrets.token_hex(32))

    def announce(self, address: str) -> None:
        """Record the address, for the message of a second start."""
        (self.folder / "lock").write_text(f"{address} (process {os.getpid()})", encoding="utf-8")


def _create_private(file: Path, text: str) -> str:
    """Write a text to a file that only its owner reads, and return it."""
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as opened_file:
        opened_file.write(f"{text}\n")
    return text


def folder() -> Path:
    """Return the folder that `agentenv dev` uses by default."""
    if path := os.environ.get(VARIABLE):
        return Path(path)
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "agentenv" / "dev"


@contextmanager
def opened(path: Path) -> Iterator[State]:
    """Use the folder, and create it if it is missing; raise `InUseError` while another process does."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (path / "lock").open("a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise InUseError(lock.read() or "another process, which is starting") from None
        try:
            yield State(path)
        finally:
            lock.truncate(0)


def announced(path: Path) -> tuple[str, str] | None:
    """Return the address and the API key of the process that uses the folder; None where none does."""
    state = State(path)
    if not path.is_dir():
        return None
    try:
        with opened(state.folder):
            return None
    except InUseError as error:
        address, _, _ = str(error).partition(" ")
    return (address, state.key()) if address.startswith("http") else None


def delete(path: Path) -> None:
    """Delete the folder with every workspace; raise `InUseError` while it is used."""
    with opened(path):
        shutil.rmtree(path)
