"""The service on loopback with a small API server behind it, for the real `e2b` client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import httpx2
import pytest

from agentenv.client.connect_json import SandboxError
from agentenv.client.sandbox import AsyncSandbox
from agentenv.core.gateway.access_tokens import Purpose, access_token, epoch_of
from agentenv.core.gateway.api_keys import SCOPES, Scope
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.gateway.access_cache import AccessCache
from agentenv.service.gateway.keys import ApiKeys
from agentenv.service.http.app import application
from agentenv.service.http.auth.authenticate import Authenticator
from agentenv.service.http.auth.callers import Caller, owner_id
from agentenv.service.http.auth.rate_limits import RateLimiter
from agentenv.service.http.auth.token_reviews import TokenReviewer
from agentenv.service.http.dependencies import AccessTokens, Dependencies, Sandboxes, SignEntry
from tests.fast.service.gateway.stored import MemoryStore
from tests.fast.service.kube.apiserver import Object
from tests.fast.service.workspaces.stage import IMAGE, Stage, staged
from tests.served import in_thread, served

T = TypeVar("T")
SECRET = b"secret of the tests"
DOMAIN = "os.example.com"
CERTIFICATE = "arn:aws:acm:us-east-1:111122223333:certificate/1"
CLASSES: tuple[Object, ...] = (
    {
        "name": "standard",
        "capabilities": ["dns", "web"],
        "resources": {"cpu": "500m", "memory": "1Gi", "burst": {"cpu": "2"}},
        "maxLifetime": "90d",
    },
    {"name": "offline", "modes": ["session"], "suspendAfter": "1m"},
    {"name": "secret"},
)


class HmacTokens(AccessTokens):
    """Tokens of a known secret."""

    def token(self, workspace: Workspace, owner: str, purpose: Purpose) -> str:
        return access_token(SECRET, epoch_of(workspace, shared=owner != workspace.owner), purpose)


@dataclass
class RecordedSandboxes(Sandboxes):
    """Records what each sandbox is sent, and refuses for those that are away."""

    variables: dict[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    measured: Mapping[str, Any] = field(
        default_factory=lambda: {
            "ts": 1_700_000_000,
            "cpu_count": 2,
            "cpu_used_pct": 12.5,
            "mem_used": 5,
            "mem_total": 9,
        }
    )
    away: bool = False

    async def sandbox(self, workspace: Workspace, sign: SignEntry | None = None) -> AsyncSandbox:  # noqa: ARG002 - none
        raise SandboxError("unavailable", "it runs no processes")

    async def initialize(self, workspace: Workspace, variables: Mapping[str, str]) -> None:
        if self.away:
            raise SandboxError("unavailable", "it does not answer")
        self.variables[workspace.id] = variables

    async def metrics(self, workspace: Workspace) -> Mapping[str, Any]:  # noqa: ARG002 - all have the same
        if self.away:
            raise SandboxError("unavailable", "it does not answer")
        return self.measured


@dataclass
class Service:
    """A running service, from the thread of a test."""

    url: str
    loop: asyncio.AbstractEventLoop
    stage: Stage
    dependencies: Dependencies
    keys: ApiKeys
    sandboxes: RecordedSandboxes

    def run(self, act: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the service's loop."""
        return asyncio.run_coroutine_threadsafe(act, self.loop).result(30)

    def key(self, subject: str = "ann", scopes: tuple[Scope, ...] = SCOPES, classes: tuple[str, ...] = ()) -> str:
        """Return an API key of a subject."""
        caller = Caller(owner_id("test", subject), frozenset({"user"}), "token")
        named = classes or tuple(self.stage.catalog.classes)[:2]
        return self.run(self.keys.create(caller, "test", scopes, timedelta(days=1), named))[1]

    def claim(self, id_: str, **annotations: str | None) -> Object:
        """Return the claim of a sandbox, after setting annotations of its domain."""
        key = next(key for key in self.stage.server.objects if key[0] == "sandboxclaims" and key[2] == id_)
        claim = deepcopy(self.stage.server.objects[key])
        if annotations:
            for name, value in annotations.items():
                claim["metadata"]["annotations"][f"sandbox.users.io/{name}"] = value
            self.in_loop(lambda: self.stage.server.put("sandboxclaims", claim))
        return claim

    def claims(self) -> set[str]:
        """Return the names of the claims that exist."""
        return {key[2] for key in self.stage.server.objects if key[0] == "sandboxclaims"}

    def in_loop(self, act: Callable[[], object]) -> None:
        """Call a function in the service's loop."""

        async def call() -> None:
            act()

        self.run(call())

    def request(self, method: str, path: str, key: str | None = None, **options: Any) -> httpx2.Response:
        """Send a request as no client would."""
        headers = {**({"X-API-Key": key} if key else {}), **options.pop("headers", {})}
        return httpx2.request(method, f"{self.url}/e2b{path}", headers=headers, trust_env=False, **options)


def _follow_suspensions(stage: Stage) -> None:
    """Have the claim of a sandbox say whether it is suspended, as the controller does; claims differ in their age."""
    put, create = stage.server.put, stage.server.on_create
    age = iter(range(10_000))

    def put_and_follow(plural: str, thing: Object) -> Object:
        result = put(plural, thing)
        if plural == "sandboxes":
            _report_mode(thing)
        return result

    def _report_mode(sandbox: Object) -> None:
        owner = sandbox["metadata"]["ownerReferences"][0]["name"]
        claim = stage.server.objects.get(("sandboxclaims", sandbox["metadata"]["namespace"], owner))
        if claim is None or "status" not in claim:
            return
        paused = sandbox["spec"]["operatingMode"] == "Suspended"
        ready: Object = {"type": "Ready", "status": str(not paused)}
        ready |= {"reason": "SandboxSuspended"} if paused else {}
        put("sandboxclaims", {**claim, "status": {**claim["status"], "conditions": [ready]}})

    def create_and_date(created: Object) -> None:
        if created.get("kind") == "SandboxClaim":
            at = datetime.now(UTC) - timedelta(hours=1) + timedelta(seconds=next(age))
            created["metadata"]["creationTimestamp"] = at.strftime("%Y-%m-%dT%H:%M:%SZ")
        create(created)

    stage.server.put, stage.server.on_create = put_and_follow, create_and_date  # type: ignore[method-assign]


@asynccontextmanager
async def _serving() -> AsyncGenerator[Service]:
    async with staged(*CLASSES, domain=DOMAIN, image=IMAGE, certificate=CERTIFICATE) as stage:
        _follow_suspensions(stage)
        now = stage.kube.clock.now
        access = AccessCache(MemoryStore(), now=now)
        await access.poll()
        keys, sandboxes = ApiKeys(access, now), RecordedSandboxes()
        app = application(None, stage.metrics)
        service = stage.catalog.settings.service
        app.state.dependencies = dependencies = Dependencies(
            backend=stage.backend,
            catalog=stage.catalog,
            authenticator=Authenticator(service, None, TokenReviewer(stage.kube, service.audience), keys=keys),
            limits=RateLimiter(100_000),
            metrics=stage.metrics,
            swarms=stage.swarms,
            keys=keys,
            access=HmacTokens(),
            sandboxes=sandboxes,
            now=now,
        )
        async with served(app, lifespan="off") as port:
            loop = asyncio.get_running_loop()
            yield Service(f"http://127.0.0.1:{port}", loop, stage, dependencies, keys, sandboxes)


@pytest.fixture(scope="module")
def module_service() -> Iterator[Service]:
    with in_thread(_serving()) as service_:
        yield service_


@pytest.fixture
def service(
    module_service: Service, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Service]:
    """The service; the client's variables name it, with a key of the test's own owner."""
    monkeypatch.setenv("E2B_API_URL", f"{module_service.url}/e2b")
    monkeypatch.setenv("E2B_API_KEY", module_service.key(request.node.name))
    limits, sandboxes = module_service.dependencies.limits, module_service.sandboxes
    yield module_service
    module_service.dependencies.limits, sandboxes.away = limits, False
