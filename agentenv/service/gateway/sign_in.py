"""Sign people in with a browser: the OIDC code flow with PKCE at the API's host, and a cookie at each other host.

No cookie is for a whole domain, because programs of different owners share it. A browser that comes to a workspace's
host without a cookie is sent to the API's host, and comes back with a code. The code is valid once, for 30 seconds, for
that host, and for the browser that was sent.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx2

from agentenv.core.gateway.hosts import parse_host
from agentenv.core.values.object_fields import parsed_object, text
from agentenv.service.gateway.access_cache import AccessCache
from agentenv.service.gateway.browser_sessions import BrowserSessions, Secrets, Step
from agentenv.service.gateway.entry import OWN_PATHS, EntryRequest, safe_path
from agentenv.service.gateway.sealing import fingerprint
from agentenv.service.http.auth.callers import Caller
from agentenv.service.http.auth.issuer import Issuer, TokenVerifier
from agentenv.service.http.problems import Problem, UnauthenticatedError

_LOG = logging.getLogger(__name__)
STATE_COOKIE = "__Host-sign-in"
CALLBACK = "/v1/sign-in/callback"
STATE_FOR, CODE_FOR = timedelta(minutes=10), timedelta(seconds=30)
_TIMEOUT = 10.0
# Sign-ins that a replica finishes at once: each holds a thread, and a connection to the issuer.
AT_ONCE = 32
_MOST_BYTES = 100_000


@dataclass(frozen=True)
class Client:
    """The service as a client of the issuer."""

    id: str
    secret: Callable[[], Awaitable[str]]
    scopes: tuple[str, ...] = ()


class SignIn(BrowserSessions):
    """The sign-in of one environment."""

    def __init__(
        self,
        client: Client,
        issuer: Issuer,
        http: httpx2.AsyncClient,
        *,
        domains: tuple[str, str],
        access: AccessCache,
        secrets: Secrets,
        person_of: Callable[[Mapping[str, Any]], Caller],
        classes_of: Callable[[Caller], Iterable[str]],
        now: Callable[[], datetime],
    ) -> None:
        """`person_of` returns the caller of an ID token's claims, `classes_of` the classes that a caller may have."""
        super().__init__(access, secrets, classes_of, now)
        self._client, self._issuer, self._http, self._domains = client, issuer, http, domains
        self._person_of = person_of
        self._free = AT_ONCE
        self._id_tokens = TokenVerifier(issuer.keys, client.id, issuer.url)

    async def start(self, request: EntryRequest, then: str) -> Step:
        """Send a browser to the issuer; it comes back to `then`, a path of this host."""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        sealed = self._secrets().seal(
            "sign-in", {"state": state, "nonce": nonce, "verifier": verifier, "then": safe_path(then)}, self._now()
        )
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": self._client.id,
            "redirect_uri": self._callback(request),
            "scope": " ".join(("openid", *self._client.scopes)),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        endpoint = await self._endpoint("authorization_endpoint")
        joined = "&" if "?" in endpoint else "?"
        seconds = int(STATE_FOR.total_seconds())
        return Step(f"{endpoint}{joined}{urlencode(query)}", ((STATE_COOKIE, sealed, seconds),))

    async def finish(self, request: EntryRequest) -> Step:
        """Sign in a browser that the issuer sent back."""
        if not self._free:
            raise Problem("unavailable", "too many people are signing in", "sign in again", retry_after=5)
        self._free -= 1
        try:
            return await self._finish(request)
        finally:
            self._free += 1

    async def _finish(self, request: EntryRequest) -> Step:
        query, cookie = request.query, request.cookie(STATE_COOKIE)
        started = self._secrets().unseal("sign-in", cookie, STATE_FOR, self._now()) if cookie else None
        if started is None or not hmac.compare_digest(query.get("state", "").encode(), str(started["state"]).encode()):
            raise UnauthenticatedError("this sign-in was not started by this browser, or took too long")
        if query.get("iss", self._issuer.url) != self._issuer.url:
            raise UnauthenticatedError("the sign-in came back from another issuer")
        if not query.get("code"):
            raise UnauthenticatedError("the issuer refused the sign-in")
        if not await self._access.use_once(f"state/{fingerprint(str(started['state']))}", self._now() + STATE_FOR):
            raise UnauthenticatedError("this sign-in was finished before")
        claims = await self._claims(query["code"], str(started["verifier"]), self._callback(request))
        if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), str(started["nonce"]).encode()):
            raise UnauthenticatedError("the issuer's token is for another sign-in")
        person = replace(self._person_of(claims), claims=claims)
        return Step(str(started["then"]), (self.begin(person), (STATE_COOKIE, "", 0)))

    async def enter(self, request: EntryRequest, host: str, path: str, browser: str) -> Step:
        """Send a browser on to a path of a workspace's host with a code, after it has signed in.

        `browser` is the fingerprint of the cookie that the browser has at that host.
        """
        host = host.lower()
        parsed = parse_host(host, *self._domains)
        name, _, port = host.partition(":")
        if parsed is None or parsed.kind != "workspace" or port != request.host.partition(":")[2]:
            raise Problem("malformed", "the host is not one of a workspace", "open the workspace's address again")
        if request.headers.get("sec-fetch-dest", "document") != "document":
            raise Problem("not-allowed", "a sign-in is not for a part of a page", "open the address in a window")
        content = self.content(request)
        if content is None:
            return await self.start(request, request.target)
        code = {**content, "host": name, "browser": browser, "id": secrets.token_hex(16)}
        sealed = self._secrets().seal("code", code, self._now())
        going = urlencode({"code": sealed, "path": safe_path(path)})
        return Step(f"https://{host}{OWN_PATHS}enter?{going}")

    def _callback(self, request: EntryRequest) -> str:
        # Only these hosts are registered at the issuer, whatever host a request names.
        _, colon, port = request.host.partition(":")
        host = parse_host(request.host, *self._domains)
        label = "console" if host is not None and host.kind == "console" else "api"
        return f"https://{label}.{self._domains[0]}{colon}{port}{CALLBACK}"

    async def _endpoint(self, name: str) -> str:
        endpoint = text(await self._issuer.discovery(), name)
        if urlsplit(endpoint).scheme not in {"https", "http"}:
            raise Problem("unavailable", f"the issuer has no {name}", "tell the platform team")
        return endpoint

    async def _claims(self, code: str, verifier: str, callback: str) -> Mapping[str, Any]:
        """Return the claims of the ID token for a code."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": callback,
            "client_id": self._client.id,
            "client_secret": await self._client.secret(),
            "code_verifier": verifier,
        }
        try:
            response = await self._http.post(
                await self._endpoint("token_endpoint"), data=form, timeout=_TIMEOUT, follow_redirects=False
            )
        except httpx2.HTTPError as failure:
            _LOG.warning("the issuer does not answer", extra={"facts": {"why": type(failure).__name__}})
            raise Problem("unavailable", "the issuer does not answer", "sign in again", retry_after=5) from None
        document = parsed_object(response.content) if len(response.content) <= _MOST_BYTES else None
        if response.status_code != 200 or document is None:
            reason = text(document, "error") if document else ""
            _LOG.warning("the issuer refused a code", extra={"facts": {"status": response.status_code, "why": reason}})
            raise UnauthenticatedError("the issuer refused the sign-in")
        return await self._id_tokens.verify(text(document, "id_token"))
