"""The secrets of a login are in the system's key ring where there is one, and in a file of 0600 otherwise."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends.fail import Keyring as NoKeyring
from keyring.errors import KeyringLocked

from agentenv.cli.main import CommandError
from agentenv.cli.workspaces.login_file import Login, delete_login, login_file, save_login, saved_login

LOGIN = Login("https://api.example.com", "a-token", "https://login.example.com/token", "cli", "a-refresh-token", 5.0)


class Ring(KeyringBackend):
    """A key ring in memory, which can be locked."""

    priority = 5  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride] - the library's own form

    def __init__(self) -> None:
        super().__init__()
        self.secrets: dict[tuple[str, str], str] = {}
        self.is_locked = False

    def _check(self) -> None:
        if self.is_locked:
            raise KeyringLocked("locked")

    def get_password(self, service: str, username: str) -> str | None:
        self._check()
        return self.secrets.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._check()
        self.secrets[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        self._check()
        del self.secrets[service, username]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


@pytest.fixture
def ring() -> Iterator[Ring]:
    ring = Ring()
    keyring.set_keyring(ring)
    yield ring
    keyring.set_keyring(NoKeyring())


def test_secrets_are_in_the_key_ring_and_not_in_the_file(ring: Ring) -> None:
    save_login(LOGIN)
    text = login_file().read_text()
    assert "a-token" not in text
    assert "a-refresh-token" not in text
    assert login_file().stat().st_mode & 0o777 == 0o600
    assert list(ring.secrets) == [("agentenv", LOGIN.service)]
    assert saved_login() == LOGIN
    assert delete_login()
    assert ring.secrets == {}
    assert saved_login() is None


def test_login_at_another_service_leaves_no_secret_of_the_former(ring: Ring) -> None:
    save_login(LOGIN)
    other = Login("https://other.example.com", "another-token")
    save_login(other)
    assert list(ring.secrets) == [("agentenv", other.service)]
    assert saved_login() == other


def test_locked_key_ring_is_named_and_does_not_prevent_another_login(ring: Ring) -> None:
    save_login(LOGIN)
    ring.is_locked = True
    with pytest.raises(CommandError, match=r"key ring is locked.*agentenv login"):
        saved_login()
    save_login(LOGIN)
    assert saved_login() == LOGIN
    assert "a-token" in login_file().read_text()


def test_login_is_in_a_file_without_a_key_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    for missing in (False, True):
        if missing:
            monkeypatch.setitem(sys.modules, "keyring", None)
        save_login(LOGIN)
        assert json.loads(login_file().read_text())["token"] == "a-token"
        assert login_file().stat().st_mode & 0o777 == 0o600
        assert saved_login() == LOGIN
        assert delete_login()
