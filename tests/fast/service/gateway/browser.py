"""A browser with a cookie jar a host, between the API, the gateway's hosts and the issuer; and all three."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import httpx2

from agentenv.config.sections.service import Service
from agentenv.core.gateway.hosts import CONSOLE_PATH
from agentenv.rehearsal.issuer import RegisteredClient, RehearsalIssuer
from agentenv.service.gateway.audit import AuditTrail
from agentenv.service.gateway.authorize import Authorizer, Domains
from agentenv.service.gateway.entry import Allow, EntryRequest
from agentenv.service.gateway.own_paths import OwnPaths
from agentenv.service.gateway.pods import GatewayPods
from agentenv.service.gateway.sharing import aliases_in
from agentenv.service.gateway.sign_in import CALLBACK, Client, SignIn
from agentenv.service.gateway.visitors import Visitors
from agentenv.service.gateway.waking import Waker
from agentenv.service.http.app import application
from agentenv.service.http.auth.authenticate import Authenticator
from agentenv.service.http.auth.issuer import Issuer
from agentenv.service.http.auth.rate_limits import RateLimiter
from agentenv.service.http.auth.token_reviews import TokenReviewer
from tests.fast.service.gateway.entrance import DOMAIN, WORKSPACES, Entrance, NoReviews, entrance

if TYPE_CHECKING:
    from fastapi import FastAPI

API, CONSOLE = f"api.{DOMAIN}", f"console.{DOMAIN}"
NAVIGATION = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document", "sec-fetch-site": "none"}


@dataclass(frozen=True)
class Page:
    """A response as a browser received it."""

    status: int
    headers: list[tuple[str, str]]
    allow: Allow | None = None
    body: str = ""

    def header(self, name: str) -> str:
        """Return a header of the response."""
        return next((value for key, value in self.headers if key == name), "")


@dataclass
class World:
    """The API, the gateway and the issuer of an environment."""

    gate: Entrance
    issuer: RehearsalIssuer
    api: httpx2.AsyncClient
    http: httpx2.AsyncClient
    authorizer: Authorizer
    sign_in: SignIn
    trail: AuditTrail


@dataclass
class Browser:
    """A browser of a person, who is known to the issuer as `user`."""

    world: World
    user: str = "alice"
    jars: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    visited: list[str] = field(default_factory=list[str])

    async def send(
        self, url: str, method: str = "GET", headers: Mapping[str, str] | None = None, *, cookies: bool = True
    ) -> Page:
        """Send one request with the cookies of its host, and keep those that it sets."""
        parts = urlsplit(url)
        self.visited.append(url)
        jar = self.jars.setdefault(parts.netloc, {})
        all_headers = dict(NAVIGATION if headers is None else headers)
        if jar and cookies:
            all_headers["cookie"] = "; ".join(f"{name}={value}" for name, value in jar.items())
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        page = await self._answer(parts.netloc, method, target or "/", all_headers)
        for name, value in page.headers:
            if name == "set-cookie":
                assert "Domain" not in value, "no cookie is for a whole domain"
                assert all(word in value for word in ("Secure", "HttpOnly", "SameSite=Lax", "Path=/;")), value
                pair, *attributes = value.split("; ")
                cookie, _, content = pair.partition("=")
                assert cookie.startswith("__Host-")
                jar.pop(cookie, None)
                if "Max-Age=0" not in attributes:
                    jar[cookie] = content
        return page

    async def _answer(self, host: str, method: str, target: str, headers: dict[str, str]) -> Page:
        world = self.world
        if host == urlsplit(world.issuer.url).netloc:
            response = await world.http.get(f"http://{host}{target}&login_hint={self.user}")
        elif host == API or (host == CONSOLE and not target.startswith(CONSOLE_PATH)):
            world.api.cookies.clear()  # the jars of the browsers are here
            response = await world.api.request(method, f"https://{host}{target}", headers=headers)
        else:
            decision = await world.authorizer.check(EntryRequest(method, host, target, headers, "192.0.2.9"))
            if isinstance(decision, Allow):
                return Page(200, list(decision.response_headers), decision)
            return Page(decision.status, list(decision.headers), body=decision.body)
        return Page(response.status_code, response.headers.multi_items(), body=response.text)

    async def open(self, url: str) -> Page:
        """Open an address and follow redirects, as a person does."""
        for _ in range(12):
            page = await self.send(url)
            if page.status not in {302, 303}:
                return page
            location = page.header("location")
            parts = urlsplit(url)
            url = location if "://" in location else f"{parts.scheme}://{parts.netloc}{location}"
        raise AssertionError("too many redirects")


def in_world(act: Callable[[World], Awaitable[None]]) -> None:
    """Run a coroutine with an environment whose people sign in with a browser."""
    gate = entrance()
    client = RegisteredClient("console", "hush", frozenset({f"https://{host}{CALLBACK}" for host in (API, CONSOLE)}))
    issuer = RehearsalIssuer((client,), groups={"olga": ("ops",)})

    async def secret() -> str:
        return "hush"

    async def run() -> None:
        async with httpx2.AsyncClient(trust_env=False) as http, asyncio.timeout(60):
            verifier = Issuer(issuer.url, "agent-environment", http)
            authenticator = Authenticator(
                Service(operators=("ops",)), verifier, cast("TokenReviewer", NoReviews()), keys=gate.keys
            )
            sign_in = SignIn(
                Client("console", secret),
                verifier,
                http,
                domains=(DOMAIN, WORKSPACES),
                access=gate.cache,
                secrets=lambda: gate.secrets,
                person_of=authenticator.person,
                classes_of=lambda _: ("standard",),
                now=gate.clock.now,
            )
            trail = AuditTrail(gate.store, timedelta(days=1), gate.clock.now, gate.clock.monotonic)
            visitors = Visitors(authenticator, gate.cache, lambda: gate.secrets, gate.clock.now, sessions=sign_in)
            authorizer = Authorizer(
                gate.directory,
                Domains(DOMAIN, WORKSPACES, sign_in=True),
                visitors,
                gate.admissions,
                Waker(gate.directory.resume),
                now=gate.clock.now,
                sharing_of=lambda _: ("private", "team", "link", "public"),
                resolve_alias=aliases_in(gate.cache),
                freed_at=gate.cache.freed_at,
                note_entry=trail.note,
                own_path=OwnPaths(gate.cache, lambda: gate.secrets, gate.clock.now).answer,
                requests=RateLimiter(100_000),
            )
            app = _application()
            app.state.dependencies = _Dependencies(sign_in, sign_in)
            transport = httpx2.ASGITransport(app=app)
            async with httpx2.AsyncClient(transport=transport, base_url=f"https://{API}") as api:
                await act(World(gate, issuer, api, http, authorizer, sign_in, trail))

    with issuer.running():
        asyncio.run(run())


@cache
def _application() -> FastAPI:
    return application()


@dataclass
class _Dependencies:
    """The dependencies that the routes of the sign-in need."""

    sign_in: Any
    sessions: Any
    gateway_pods: GatewayPods = field(default_factory=GatewayPods)
