"""The sessions of people in a browser: a sealed cookie at the API's or the console's host. Each ends everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from secrets import token_hex
from typing import Any

from agentenv.core.gateway.access_records import EndedSession
from agentenv.core.values.timestamps import parse_timestamp
from agentenv.service.gateway.access_cache import AccessCache
from agentenv.service.gateway.entry import EntryRequest
from agentenv.service.gateway.sealing import GatewaySecrets
from agentenv.service.gateway.visitors import PERSON_FOR, caller_of, content_of
from agentenv.service.http.auth.callers import Caller

SESSION_COOKIE = "__Host-session"
Secrets = Callable[[], GatewaySecrets]
_KEY = "key."


@dataclass(frozen=True)
class Step:
    """Where a browser goes next, with cookies to set: name, value and seconds."""

    location: str
    cookies: tuple[tuple[str, str, int], ...] = ()


class BrowserSessions:
    """The sessions of one environment."""

    def __init__(
        self,
        access: AccessCache,
        secrets: Secrets,
        classes_of: Callable[[Caller], Iterable[str]],
        now: Callable[[], datetime],
    ) -> None:
        """`classes_of` returns the classes that a caller may have."""
        self._access, self._secrets, self._classes_of, self._now = access, secrets, classes_of, now

    def person(self, request: EntryRequest) -> Caller | None:
        """Return who is signed in at the request's host, where the request may use cookies."""
        content = self.content(request) if request.is_same_origin else None
        return session_caller(content) if content is not None else None

    def begin(self, caller: Caller) -> tuple[str, str, int]:
        """Return the cookie of a new session of a caller. One by an API key ends with the key."""
        key = caller.session.removeprefix(_KEY) if caller.session.startswith(_KEY) else ""
        classes = frozenset(self._classes_of(caller))
        person = replace(caller, source="session", session=token_hex(16), classes=classes)
        content = {**content_of(person), "until": (self._now() + PERSON_FOR).isoformat(), "key": key}
        sealed = self._secrets().seal("session", content, self._now())
        return SESSION_COOKIE, sealed, int(PERSON_FOR.total_seconds())

    async def end(self, request: EntryRequest) -> Step:
        """Sign out: every host's cookie of the session is refused from now on, and what is open ends."""
        content = self.content(request) if request.is_same_origin else None
        if content is not None:
            await end_session(self._access, content)
        return Step("/", ((SESSION_COOKIE, "", 0),))

    def content(self, request: EntryRequest) -> dict[str, Any] | None:
        """Return the content of the request's session, if it has not ended."""
        cookie = request.cookie(SESSION_COOKIE)
        content = self._secrets().unseal("session", cookie, PERSON_FOR, self._now()) if cookie else None
        return content if content is not None and self.is_valid(content) else None

    def is_valid(self, content: Mapping[str, Any]) -> bool:
        """Return whether a session has not ended, and its API key is valid, if it is by one."""
        person, key = caller_of(content), str(content.get("key") or "")
        if person is None or self._access.has_ended(person.session):
            return False
        return not key or self._access.key(key) is not None


def session_caller(content: Mapping[str, Any]) -> Caller | None:
    """Return the caller of a session. By an API key it has no more rights than the key."""
    person = caller_of(content)
    return replace(person, source="key") if person is not None and content.get("key") else person


async def end_session(access: AccessCache, content: Mapping[str, Any]) -> None:
    """End the session of a sealed cookie."""
    person, until = caller_of(content), parse_timestamp(content.get("until"))
    if person is not None and until is not None:
        await access.put(EndedSession(person.session, person.owner, until))
