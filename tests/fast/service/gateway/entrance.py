"""An authorizer over workspaces in memory, with a real authenticator, store and seals, and pods that are noted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, cast

import jwt

from agentenv.config.sections.service import Service
from agentenv.core.gateway.access_tokens import Purpose, access_token, epoch_of
from agentenv.core.workspaces.workspace import CreateResult, Sharing, Workspace
from agentenv.service.gateway.access_cache import AccessCache
from agentenv.service.gateway.admissions import Admissions
from agentenv.service.gateway.authorize import Authorizer, Domains
from agentenv.service.gateway.entry import Allow, Decision, Deny, EntryRequest
from agentenv.service.gateway.keys import ApiKeys
from agentenv.service.gateway.sealing import new_secrets
from agentenv.service.gateway.visitors import Visitors
from agentenv.service.gateway.waking import Waker
from agentenv.service.http.auth.authenticate import Authenticator
from agentenv.service.http.auth.issuer import Issuer, TokenVerifier
from agentenv.service.http.auth.keys import KeySet
from agentenv.service.http.auth.rate_limits import RateLimiter
from agentenv.service.http.auth.token_reviews import Account, TokenReviewer
from agentenv.service.workspaced.client import WorkspacedError
from agentenv.service.workspaced.tokens import Grant
from agentenv.service.workspaces.backend_protocol import Endpoint
from tests.fast.service.gateway.stored import Clock, MemoryStore
from tests.fast.service.http.auth.issuer import AUDIENCE, SigningKey

START = datetime(2026, 11, 19, 12, tzinfo=UTC)
DOMAIN, WORKSPACES = "os.example.com", "workspaces.example.net"
MINE, THEIRS, NOBODYS = (f"w-a0{letter * 26}" for letter in "abc")


class Directory:
    """Workspaces by id. One runs at once after a resume, or when the test says so."""

    def __init__(self) -> None:
        self.workspaces: dict[str, Workspace] = {}
        self.endpoints: dict[str, Endpoint] = {}
        self.without_workspaced: set[str] = set()
        self.resumed: list[str] = []
        self.wakes_at_once = True
        self._changed = asyncio.Event()

    def put(self, id_: str, owner: str, state: Any = "running", **more: Any) -> Workspace:
        workspace = Workspace(id_, owner, "standard", "user", state, claim_uid=f"claim-{id_[-3:]}", **more)
        self.workspaces[id_] = workspace
        if state == "running":
            self.endpoints[id_] = Endpoint(f"pod-{id_[-3:]}", workspace.claim_uid, "10.0.0.7", 49983)
        else:
            self.endpoints.pop(id_, None)
        self._changed.set()
        return workspace

    def change(self, id_: str, **changes: Any) -> None:
        self.workspaces[id_] = replace(self.workspaces[id_], **changes)

    def cached(self, id_: str) -> Workspace | None:
        return self.workspaces.get(id_)

    def endpoint(self, id_: str) -> Endpoint | None:
        return self.endpoints.get(id_)

    def lacks_workspaced(self, id_: str) -> bool:
        return id_ in self.without_workspaced

    async def reachable(self, id_: str, *, wait: float) -> Endpoint | None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait
        while id_ not in self.endpoints and loop.time() < deadline:
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), deadline - loop.time())
            except TimeoutError:
                break
        return self.endpoints.get(id_)

    async def resume(self, workspace: Workspace, on_requested: Callable[[], None]) -> CreateResult:
        self.resumed.append(workspace.id)
        on_requested()
        if self.wakes_at_once:
            await asyncio.sleep(0)
            workspace = self.put(workspace.id, workspace.owner, ports=workspace.ports, shared=workspace.shared)
        return CreateResult(workspace, ready=workspace.state == "running", existed=True)


class Pods:
    """Signs with what a token is for, and notes which sessions are ended."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        self.callers: list[str] = []
        self.away = False

    async def sign(self, grant: Grant) -> str:
        self.callers.append(grant.caller)
        return f"{grant.pod_uid}/{grant.claim_uid}/{grant.scope}/{grant.session}"

    async def end_session(self, pod: Endpoint, session: str) -> None:
        if self.away:
            raise WorkspacedError(f"{pod.address} does not answer")
        self.ended.append(session)


class LocalIssuer(TokenVerifier):
    """An issuer whose keys need no fetch."""

    url = "https://issuer.example.com"

    def __init__(self) -> None:
        self._key = SigningKey("first")

        async def fetch() -> dict[str, Any]:
            return {"keys": [self._key.public]}

        super().__init__(KeySet(fetch), AUDIENCE, self.url)

    def token(self, owner: str, **claims: Any) -> str:
        """Return a token of an owner."""
        now = int(time.time())
        known = {"iss": self.url, "sub": owner, "owner": owner, "aud": AUDIENCE, "iat": now, "exp": now + 300}
        headers = {"kid": self._key.name}
        return jwt.encode({**known, **claims}, self._key.private, algorithm=self._key.algorithm, headers=headers)


class NoReviews:
    """The API server must not be asked on the way of a request."""

    def is_cached(self, _token: str) -> bool:
        raise AssertionError("the API server was asked")

    async def review_token(self, _token: str) -> Account:
        raise AssertionError("the API server was asked")


@dataclass
class Entrance:
    """The parts of one replica."""

    directory: Directory
    pods: Pods
    store: MemoryStore
    clock: Clock
    cache: AccessCache
    keys: ApiKeys
    issuer: Any
    authorizer: Authorizer
    admissions: Admissions
    secrets: Any
    aliases: dict[str, tuple[str, int]]
    glass: set[tuple[str, str]]
    used: list[str]

    async def check(self, host: str, target: str = "/", method: str = "GET", **headers: str) -> Decision:
        """Return the decision about a request; names of headers have `_` for `-`."""
        named = {name.replace("_", "-").lower(): value for name, value in headers.items()}
        return await self.authorizer.check(EntryRequest(method, host, target, named, "192.0.2.1"))

    def bearer(self, owner: str, **claims: Any) -> Mapping[str, str]:
        """Return the header of a token of the issuer."""
        return {"authorization": f"Bearer {self.issuer.token(owner, **claims)}"}

    def access_token(self, id_: str, purpose: Purpose = "api", *, shared: bool = False) -> str:
        """Return a workspace's own token, as its owner or a sharer gets it now."""
        return access_token(self.secrets.access, epoch_of(self.directory.workspaces[id_], shared=shared), purpose)


def entrance(
    *, sign_in: bool = False, sharing: tuple[Sharing, ...] = ("private", "team", "link", "public"), **more: Any
) -> Entrance:
    """Return a replica with a workspace of `u-me` that runs, and one of `u-other`."""
    directory, pods, store, clock = Directory(), Pods(), MemoryStore(), Clock(START)
    cache = AccessCache(store, now=clock.now, monotonic=clock.monotonic)
    asyncio.run(cache.poll())
    keys, issuer, secrets = ApiKeys(cache, clock.now), LocalIssuer(), new_secrets(START)
    aliases, glass, used = dict[str, tuple[str, int]](), set[tuple[str, str]](), list[str]()
    authenticator = Authenticator(
        Service(operators=("ops",)),
        cast("Issuer", issuer),
        cast("TokenReviewer", NoReviews()),
        keys=keys,
        owner_claim="owner",
    )
    admissions = Admissions(pods, pods, monotonic=clock.monotonic)
    authorizer = Authorizer(
        directory,
        Domains(DOMAIN, WORKSPACES, sign_in),
        Visitors(authenticator, cache, lambda: secrets, clock.now),
        admissions,
        Waker(directory.resume),
        now=clock.now,
        sharing_of=lambda _: sharing,
        resolve_alias=aliases.get,
        break_glass=lambda workspace, owner: (workspace, owner) in glass,
        note_use=lambda workspace: used.append(workspace.id),
        **{"requests": RateLimiter(100_000), **more},
    )
    directory.put(MINE, "u-me")
    directory.put(THEIRS, "u-other")
    return Entrance(
        directory, pods, store, clock, cache, keys, issuer, authorizer, admissions, secrets, aliases, glass, used
    )


def allowed(decision: Decision) -> Allow:
    """Return the decision if it routes the request."""
    assert isinstance(decision, Allow), decision
    return decision


def denied(decision: Decision) -> Deny:
    """Return the decision if it routes nothing."""
    assert isinstance(decision, Deny), decision
    return decision
