"""API keys: create, list and revoke them, and the caller of a request with one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from agentenv.core.gateway.access_records import ApiKey
from agentenv.core.gateway.api_keys import Scope, digest, key_id, matches, new_key
from agentenv.service.gateway.access_cache import AccessCache
from agentenv.service.http.auth.callers import Caller, with_implied_roles
from agentenv.service.http.problems import Problem, UnauthenticatedError, not_found

MOST_KEYS = 25  # an owner
LONGEST = timedelta(days=366)


class ApiKeys:
    """The API keys of an environment."""

    def __init__(self, cache: AccessCache, now: Callable[[], datetime]) -> None:
        self._cache, self._now = cache, now
        self._lock = asyncio.Lock()

    def caller(self, key: str) -> Caller:
        """Return the caller of a key; raise `UnauthenticatedError` where it is invalid, from memory alone."""
        id_ = key_id(key)
        record = self._cache.key(id_) if id_ else None
        if record is None or not matches(key, record.digest):
            raise UnauthenticatedError("the API key is unknown, expired or revoked")
        self._cache.note_use(record)
        return Caller(
            record.owner,
            with_implied_roles("user"),
            "key",
            teams=record.teams,
            scopes=record.scopes,
            classes=record.classes,
            workspace=record.workspace,
            session=f"key.{record.id}",
        )

    def is_known(self, key: str) -> bool:
        """Return whether the id of a key is one that this replica has read."""
        return self._cache.has_key(key_id(key) or "")

    async def look_up(self) -> None:
        """Read the keys that other replicas created until now."""
        await self._cache.refresh()

    async def create(
        self,
        caller: Caller,
        name: str,
        scopes: Iterable[Scope],
        lifetime: timedelta,
        classes: Iterable[str],
        *,
        workspace: str = "",
    ) -> tuple[ApiKey, str]:
        """Return a new key of a caller with its secret, which is not stored; one of a workspace admits to it alone."""
        if caller.source == "key":
            # Otherwise the holder of a key could outlast its revocation.
            raise Problem("not-allowed", "an API key cannot create API keys", "sign in as a person")
        now, secret = self._now(), new_key()
        record = ApiKey(
            key_id(secret) or "",
            digest(secret),
            caller.owner,
            name,
            frozenset(scopes),
            now,
            now + min(lifetime, LONGEST),
            frozenset(classes),
            caller.teams if not workspace else frozenset(),
            workspace=workspace,
        )
        async with self._lock:
            if len(self._cache.keys_of(caller.owner)) >= MOST_KEYS:
                raise Problem("refused", f"an owner has at most {MOST_KEYS} API keys", "revoke one that is not used")
            await self._cache.put(record)
        return record, secret

    def list(self, owner: str) -> list[ApiKey]:
        """Return the valid keys of an owner."""
        return self._cache.keys_of(owner)

    async def revoke(self, caller: Caller, id_: str) -> ApiKey:
        """Revoke a key of the caller, or as an operator any; every replica refuses it within seconds."""
        record = self._cache.key(id_)
        if record is None or not caller.can_see(record.owner):
            raise not_found("key")
        revoked = replace(record, revoked=True)
        await self._cache.put(revoked)
        return revoked
