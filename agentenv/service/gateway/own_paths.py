"""The gateway's own paths on the hosts of workspaces: to enter with a code or a link, and to sign out.

No response depends on the workspace, so it does not reveal whether the workspace exists.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from datetime import datetime

from agentenv.core.gateway.access_records import CLEARED_FOR
from agentenv.core.gateway.api_keys import matches
from agentenv.service.gateway.access_cache import AccessCache
from agentenv.service.gateway.authorize import Destination
from agentenv.service.gateway.browser_sessions import end_session
from agentenv.service.gateway.entry import (
    OWN_PATHS,
    Decision,
    EntryRequest,
    host_cookie,
    redirect,
    safe_path,
)
from agentenv.service.gateway.sealing import GatewaySecrets, fingerprint
from agentenv.service.gateway.sign_in import CODE_FOR
from agentenv.service.gateway.visitors import (
    BROWSER_COOKIE,
    FRESH_COOKIE,
    LINK_COOKIE,
    LINK_FOR,
    PERSON_COOKIE,
    PERSON_FOR,
    fresh_mark,
)
from agentenv.service.http.problems import Problem, UnauthenticatedError, not_found


class OwnPaths:
    """Answers the paths below `OWN_PATHS`."""

    def __init__(self, access: AccessCache, secrets: Callable[[], GatewaySecrets], now: Callable[[], datetime]) -> None:
        self._access, self._secrets, self._now = access, secrets, now

    async def answer(self, request: EntryRequest, destination: Destination) -> Decision:
        """Return the response to a request."""
        match request.method, request.path.removeprefix(OWN_PATHS):
            case "GET", "enter":
                return await self._enter(request)
            case "GET", "link":
                return self._follow(request)
            case "GET", "fresh":
                return self._mark(request, destination)
            case "POST", "sign-out":
                return await self._sign_out(request)
            case _:
                raise not_found("page")

    async def _enter(self, request: EntryRequest) -> Decision:
        """Exchange a code for the cookie of this host."""
        query, browser = request.query, request.cookie(BROWSER_COOKIE)
        content = self._secrets().unseal("code", query.get("code", ""), CODE_FOR, self._now())
        if (
            content is None
            or browser is None
            or content.get("host") != _name(request)
            or not hmac.compare_digest(str(content.get("browser", "")), fingerprint(browser))
            or not await self._access.use_once(f"code/{content.get('id')}", self._now() + CODE_FOR)
        ):
            raise UnauthenticatedError("the code is for another browser or host, has expired, or was used")
        session = {key: value for key, value in content.items() if key not in {"browser", "id"}}
        sealed = self._secrets().seal("person", session, self._now())
        return redirect(
            safe_path(query.get("path", "/")),
            ("set-cookie", host_cookie(PERSON_COOKIE, sealed, int(PERSON_FOR.total_seconds()))),
            ("set-cookie", host_cookie(BROWSER_COOKIE, "", 0)),
        )

    def _follow(self, request: EntryRequest) -> Decision:
        """Exchange a link for a cookie of this host, and strip its secret from the address."""
        query = request.query
        id_, _, secret = query.get("token", "").partition(".")
        link = self._access.link(id_)
        if link is None or not matches(secret, link.digest):
            raise Problem("not-found", "the link is unknown, expired or revoked", "ask for another one")
        sealed = self._secrets().seal("link", {"link": link.id, "host": _name(request)}, self._now())
        seconds = min(link.expires - self._now(), LINK_FOR).total_seconds()
        cookie = host_cookie(LINK_COOKIE, sealed, max(1, int(seconds)))
        return redirect(safe_path(query.get("path", "/")), ("set-cookie", cookie))

    def _mark(self, request: EntryRequest, destination: Destination) -> Decision:
        """Mark a browser that has deleted what it held of the alias's former owner, and send it on."""
        freed = self._access.freed_at(destination.alias) if destination.alias else None
        value, seconds = (fresh_mark(freed), int(CLEARED_FOR.total_seconds())) if freed is not None else ("", 0)
        cookie = host_cookie(FRESH_COOKIE, value, seconds)
        return redirect(safe_path(request.query.get("path", "/")), ("set-cookie", cookie))

    async def _sign_out(self, request: EntryRequest) -> Decision:
        cookie = request.cookie(PERSON_COOKIE) if request.is_same_origin else None
        content = self._secrets().unseal("person", cookie, PERSON_FOR, self._now()) if cookie else None
        if content is not None and content.get("host") == _name(request):
            await end_session(self._access, content)
        return redirect("/", ("set-cookie", host_cookie(PERSON_COOKIE, "", 0)))


def _name(request: EntryRequest) -> str:
    return request.host.partition(":")[0].lower()
