"""A request to enter a workspace as the gateway describes it, and the decisions that it understands. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from html import escape
from typing import Final
from urllib.parse import parse_qsl, unquote

from agentenv.service.http.problems import MEDIA_TYPE, Problem

# Headers that the gateway sets for the pod, and the one by which it routes.
DESTINATION, TOKEN, PORT = "x-gateway-destination", "x-workspace-token", "x-workspace-port"
# Headers with credentials of ours. They never reach a program in a workspace.
ACCESS_TOKEN, TRAFFIC_TOKEN, API_KEY = "x-access-token", "e2b-traffic-access-token", "x-api-key"
SANDBOX_ID, SANDBOX_PORT = "e2b-sandbox-id", "e2b-sandbox-port"
# Paths of ours on the hosts of workspaces, which are not routed to a program.
OWN_PATHS: Final = "/.well-known/agentenv/"
_SAFE: Final = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class EntryRequest:
    """A request as the gateway received it; names of headers are in lower case."""

    method: str
    host: str
    target: str  # path and query
    headers: Mapping[str, str]
    source: str = ""  # the address of the client

    @property
    def path(self) -> str:
        """Return the path, as it is on the wire."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> dict[str, str]:
        """Return the decoded query; of a repeated name the last value counts."""
        return dict(parse_qsl(self.target.partition("?")[2], keep_blank_values=True))

    @property
    def has_repeated_query(self) -> bool:
        """Return whether a name is in the query twice: readers differ in which value counts."""
        return len(self.query) < len(parse_qsl(self.target.partition("?")[2], keep_blank_values=True))

    @property
    def is_navigation(self) -> bool:
        """Return whether a browser shows the response as a page."""
        mode = self.headers.get("sec-fetch-mode")
        accepts_page = "text/html" in self.headers.get("accept", "")
        return self.method in _SAFE and not self.is_upgrade and (mode == "navigate" or (mode is None and accepts_page))

    @property
    def is_upgrade(self) -> bool:
        """Return whether the connection changes its protocol, as for a WebSocket."""
        return "upgrade" in self.headers or ":protocol" in self.headers or self.method == "CONNECT"

    @property
    def is_same_origin(self) -> bool:
        """Return whether a page of this host sent it, or a person opened it: cookies count for nothing else.

        A WebSocket or an unsafe method needs the origin: a page of another host can send either with cookies.
        """
        origin, site = self.headers.get("origin"), self.headers.get("sec-fetch-site")
        # Names below `localhost` are this machine's, and have no certificate (RFC 6761).
        scheme = "http" if self.host.partition(":")[0].endswith(".localhost") else "https"
        if origin is not None and origin != f"{scheme}://{self.host}":
            return False
        if self.is_upgrade or self.method not in _SAFE:
            return origin is not None and site in {None, "same-origin", "none"}
        if site in {None, "same-origin", "none"}:
            return True
        is_page = self.headers.get("sec-fetch-mode") == "navigate" and self.headers.get("sec-fetch-dest") == "document"
        return is_page and self.method == "GET"

    def cookie(self, name: str) -> str | None:
        """Return a cookie; None where it is missing, or there are several, of which one was planted."""
        values = [value for key, value in _cookies(self.headers.get("cookie", "")) if key == name]
        return values[0] if len(values) == 1 else None


@dataclass(frozen=True, slots=True)
class Allow:
    """The request goes on to a pod."""

    headers: Mapping[str, str]  # replaced
    remove: tuple[str, ...] = ()
    response_headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Deny:
    """The gateway answers itself."""

    status: int
    body: str = ""
    headers: tuple[tuple[str, str], ...] = field(default=())


Decision = Allow | Deny
Headers = tuple[tuple[str, str], ...]


def with_headers(decision: Decision, headers: Headers) -> Decision:
    """Return a decision whose response has more headers."""
    if isinstance(decision, Allow):
        return replace(decision, response_headers=(*decision.response_headers, *headers))
    return replace(decision, headers=(*decision.headers, *headers))


def without_cookies(header: str, names: frozenset[str]) -> str:
    """Return a Cookie header without cookies of ours."""

    def is_ours(cookie: str) -> bool:
        return cookie.partition("=")[0].strip() in names

    parts = (part.strip().split(",") for part in header.split(";"))
    left = (",".join(cookie for cookie in part if not is_ours(cookie)) for part in parts if not all(map(is_ours, part)))
    return "; ".join(left)


def redirect(location: str, *headers: tuple[str, str]) -> Deny:
    """Return a redirect, which no cache stores and whose page sends no referrer."""
    own = (("location", location), ("cache-control", "no-store"), ("referrer-policy", "no-referrer"))
    return Deny(303, "", (*own, *headers))


def refusal(problem: Problem, request: EntryRequest, *headers: tuple[str, str]) -> Deny:
    """Return a problem as a page for a navigation, else as problem+json."""
    own = [("cache-control", "no-store"), *headers]
    if problem.retry_after is not None:
        own.append(("retry-after", str(problem.retry_after)))
    if problem.status == 401:
        own.append(("www-authenticate", "Bearer"))
    if not request.is_navigation:
        return Deny(problem.status, json.dumps(problem.document()), (("content-type", MEDIA_TYPE), *own))
    document = problem.document()
    page = _page(str(document["title"]), f"<p>{escape(problem.detail)}</p><p>{escape(problem.way_out)}</p>")
    return Deny(problem.status, page, (*_PAGE_HEADERS, *own))


def waiting_page() -> Deny:
    """Return the page that a person sees while a workspace wakes; it loads itself again."""
    page = _page("Waking up", "<p>The workspace is waking up. This page opens it when it is ready.</p>", refresh=2)
    return Deny(503, page, (*_PAGE_HEADERS, ("retry-after", "2"), ("cache-control", "no-store")))


# Nothing on these pages runs, and no page frames them.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
_PAGE_HEADERS = (
    ("content-type", "text/html; charset=utf-8"),
    ("content-security-policy", _POLICY),
    ("x-content-type-options", "nosniff"),
)
_STYLE = "body{font:16px/1.5 system-ui,sans-serif;max-width:36em;margin:20vh auto;padding:0 1em}"


def _page(title: str, body: str, refresh: int | None = None) -> str:
    again = f'<meta http-equiv="refresh" content="{refresh}">' if refresh else ""
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8">{again}<title>{escape(title)}</title>'
        f"<style>{_STYLE}</style><h1>{escape(title)}</h1>{body}</html>"
    )


def host_cookie(name: str, value: str, seconds: int) -> str:
    """Return a Set-Cookie header of one host, which scripts cannot read."""
    return f"{name}={value}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age={seconds}"


def safe_path(text: str) -> str:
    """Return a path to go on to on the same host; `/` for one that would lead to another."""
    decoded = unquote(text)
    leads_away = decoded[:2] in {"//", "/\\"} or "\\" in decoded or not decoded.isprintable()
    return "/" if not text.startswith("/") or leads_away or len(text) > 2048 else text


def _cookies(header: str) -> list[tuple[str, str]]:
    # Envoy joins several headers of HTTP/1.1 by a comma, which no cookie of ours contains.
    pairs = (part.partition("=") for part in re.split("[;,]", header))
    return [(name.strip(), value.strip()) for name, _, value in pairs]
