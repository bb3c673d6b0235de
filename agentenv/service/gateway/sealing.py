"""The service's own secrets for the gateway, and the sealing of cookies and codes with them.

They are in a Secret of the service's namespace, which the loops create. A replica holds them in memory and reads them
again in the background, so that no request waits for the API server.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from agentenv.core.gateway.access_tokens import Purpose, access_token, epoch_of
from agentenv.core.values.object_fields import parsed_object, rows, section, text
from agentenv.core.values.timestamps import format_timestamp, parse_timestamp
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.http.dependencies import AccessTokens
from agentenv.service.http.problems import Problem
from agentenv.service.kube.client import KubeApiError

_LOG = logging.getLogger(__name__)
ENTRY_KEY = "secrets.json"
ROTATE_AFTER = timedelta(days=30)
# Every replica has a new key before one seals with it; what the last key sealed has expired by the time it goes.
SPREAD = timedelta(minutes=5)
KEEP_FOR = timedelta(days=60)
REFRESH_SECONDS, RETRY_SECONDS = 30.0, 2.0
MOST_BYTES = 4096  # of a cookie
_SEALED = re.compile(r"[A-Za-z0-9_-]+={0,2}")


@dataclass(frozen=True)
class GatewaySecrets:
    """The secret of access tokens, which never changes, and the keys of cookies."""

    access: bytes = field(repr=False)
    cookie_keys: tuple[tuple[datetime, str], ...] = field(repr=False)  # each since when

    def seal(self, purpose: str, content: Mapping[str, Any], now: datetime) -> str:
        """Return a text that only the service can read, with the time."""
        ready = [key for since, key in self.cookie_keys if since + SPREAD <= now] or [self.cookie_keys[0][1]]
        document = json.dumps({**content, "for": purpose}, separators=(",", ":")).encode()
        return Fernet(ready[-1]).encrypt_at_time(document, int(now.timestamp())).decode()

    def unseal(self, purpose: str, sealed: str, lifetime: timedelta, now: datetime) -> dict[str, Any] | None:
        """Return what was sealed for a purpose no longer ago than its lifetime; None for anything else."""
        # The decoder ignores what is not of its alphabet, and what follows the padding.
        if len(sealed) > MOST_BYTES or not _SEALED.fullmatch(sealed):
            return None
        keys = MultiFernet([Fernet(key) for _, key in reversed(self.cookie_keys)])
        try:
            opened = keys.decrypt_at_time(sealed.encode(), int(lifetime.total_seconds()), int(now.timestamp()))
        except (InvalidToken, UnicodeEncodeError):
            return None
        content = parsed_object(opened)
        return content if content is not None and content.pop("for", None) == purpose else None


def new_secrets(now: datetime) -> GatewaySecrets:
    """Return new secrets."""
    return GatewaySecrets(base64.urlsafe_b64decode(Fernet.generate_key()), ((now, _new_key()),))


def rotated(secrets: GatewaySecrets, now: datetime) -> GatewaySecrets:
    """Return the secrets with a new key for cookies where the newest is old, and without those that seal nothing."""
    keys: Sequence[tuple[datetime, str]] = secrets.cookie_keys
    if keys[-1][0] + ROTATE_AFTER <= now:
        keys = [*keys, (now, _new_key())]
    valid = tuple(row for row in keys if row[0] + KEEP_FOR > now or row == keys[-1])
    return GatewaySecrets(secrets.access, valid)


def to_text(secrets: GatewaySecrets) -> str:
    """Return the secrets as the Secret holds them."""
    keys = [{"since": format_timestamp(since), "key": key} for since, key in secrets.cookie_keys]
    return json.dumps({"access": base64.b64encode(secrets.access).decode(), "cookies": keys}, separators=(",", ":"))


def secrets_of(secret: Mapping[str, Any] | None) -> GatewaySecrets | None:
    """Return the secrets of a Secret; None without one that can be read. The reason is logged without its content."""
    if secret is None:
        return None
    try:
        document = parsed_object(base64.b64decode(text(section(secret, "data"), ENTRY_KEY)))
        if document is None:
            return None
        keys = [(parse_timestamp(row.get("since")), text(row, "key")) for row in rows(document, "cookies")]
        read = tuple(sorted((since, key) for since, key in keys if since is not None))
        for _, key in read:
            Fernet(key)
        access = base64.b64decode(text(document, "access"))
    except (ValueError, TypeError, AttributeError) as failure:
        _LOG.error("the secrets of the gateway cannot be read", extra={"facts": {"kind": type(failure).__name__}})
        return None
    return GatewaySecrets(access, read) if len(access) >= 32 and read else None


class SecretsCache:
    """The secrets in the memory of a replica, read again every half minute in the background."""

    def __init__(self, read: Callable[[], Awaitable[Mapping[str, Any] | None]]) -> None:
        """`read` returns the Secret."""
        self._read = read
        self._secrets: GatewaySecrets | None = None

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            await self.refresh()
            await asyncio.sleep(REFRESH_SECONDS if self._secrets else RETRY_SECONDS)

    async def refresh(self) -> None:
        """Read the secrets; the last ones stay where that fails."""
        try:
            self._secrets = secrets_of(await self._read()) or self._secrets
        except KubeApiError as failure:
            _LOG.warning("the secrets of the gateway cannot be read", extra={"facts": {"why": str(failure)}})

    def current(self) -> GatewaySecrets:
        """Return the secrets; raise a `Problem` while there are none."""
        if self._secrets is None:
            raise Problem("unavailable", "the gateway has no secrets yet", "retry in a minute", retry_after=15)
        return self._secrets


def fingerprint(value: str) -> str:
    """Return a hash of a random value, which does not reveal it."""
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _new_key() -> str:
    return Fernet.generate_key().decode()


class WorkspaceTokens(AccessTokens):
    """The access tokens of workspaces, of the secret that this replica holds."""

    def __init__(self, secrets: Callable[[], GatewaySecrets]) -> None:
        self._secrets = secrets

    def token(self, workspace: Workspace, owner: str, purpose: Purpose) -> str:
        """Return the token of a workspace for a purpose; raise a `Problem` while there is no secret."""
        epoch = epoch_of(workspace, shared=owner != workspace.owner)
        return access_token(self._secrets().access, epoch, purpose)
