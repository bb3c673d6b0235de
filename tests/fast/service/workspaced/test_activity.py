"""workspaced as a source of activity, and a client that trusts nothing that a sandbox answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from agentenv.core.lifecycle.idle import Activity
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.kube.client import PODS
from agentenv.service.workspaced.activity import WorkspacedActivity
from agentenv.service.workspaced.client import (
    TOKEN_HEADER,
    Status,
    WorkspacedClient,
    WorkspacedError,
    endpoint_of,
)
from agentenv.service.workspaced.tokens import Grant
from agentenv.service.workspaces.backend_protocol import Endpoint
from tests.fast.service.fake_api_server import FakeApiServer
from tests.fast.service.loops.cluster import START, Cluster

Answer = Callable[[httpx2.Request], httpx2.Response]
PORT = {"name": "workspaced", "containerPort": 49983}
ADDRESS = Endpoint("uid-1", "", "10.0.0.7", 49983)


class Signer:
    """Signs with the uid itself, so that a test sees whom a token is for."""

    async def sign(self, grant: Grant) -> str:
        return f"{grant.pod_uid}/{grant.scope}/{grant.claim_uid}{grant.session}"


def client(answer: Answer) -> WorkspacedClient:
    return WorkspacedClient(Signer(), httpx2.AsyncClient(transport=httpx2.MockTransport(answer)))


def pod(name: str, *, port: dict[str, Any] | None = PORT, **status: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "sandbox-box", "uid": f"uid-{name}"},
        "spec": {"containers": [{"name": "sandbox", **({"ports": [port]} if port else {})}]},
        "status": {"podIP": "10.0.0.7", **status},
    }


def workspace(name: str) -> Workspace:
    return Workspace(name, "u-1", "box", "user", "running", sandbox=name)


def test_last_activity_is_reported_except_for_unresponsive_sandboxes() -> None:
    server = FakeApiServer()
    for name in ("idle", "busy", "away", "broken"):
        server.put(PODS, pod(name))
    server.put(PODS, pod("other", port=None))
    bodies = {
        "uid-idle": {"idle_seconds": 3600, "busy": False},
        "uid-busy": {"idle_seconds": 3600, "busy": True},
        "uid-broken": {"idle_seconds": "soon", "busy": False},
    }

    def answer(request: httpx2.Request) -> httpx2.Response:
        uid, scope, claim = request.headers[TOKEN_HEADER].split("/")
        assert (scope, claim, request.url.path) == ("control", "", "/status")
        if uid not in bodies:
            raise httpx2.ConnectError("refused")
        return httpx2.Response(200, json=bodies[uid])

    source = WorkspacedActivity(Cluster(server).context().backend, client(answer))
    names = ("idle", "busy", "away", "broken", "other", "gone")
    seen = asyncio.run(source.seen([workspace(name) for name in names], {}, START))
    assert seen == {
        "idle": Activity("workspaced", START - timedelta(hours=1), decisive=True),
        "busy": Activity("workspaced", START, decisive=True),
        # It has no workspaced, or no pod: nothing to say, and no reason to keep it awake.
        "other": Activity("workspaced"),
        "gone": Activity("workspaced"),
    }


def test_a_pod_is_reached_by_its_own_port_and_address() -> None:
    assert endpoint_of(pod("a")) == Endpoint("uid-a", "", "10.0.0.7", 49983)
    assert endpoint_of(pod("a", port={**PORT, "containerPort": 1})) == Endpoint("uid-a", "", "10.0.0.7", 1)
    assert endpoint_of(pod("a", podIP="")) is None
    assert endpoint_of(pod("a", port={"name": "http", "containerPort": 80})) is None
    assert Endpoint("u", "", "fd00::1", 1).destination == "[fd00::1]:1"


def test_a_status_is_read_and_the_session_of_a_call_is_quoted() -> None:
    paths: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        paths.append(f"{request.method} {request.url.raw_path.decode()}")
        return httpx2.Response(200, json={"idle_seconds": 0, "busy": False}) if "status" in paths[-1] else NO_CONTENT

    reached = client(answer)
    assert asyncio.run(reached.status(ADDRESS)) == Status(0.0, busy=False)
    asyncio.run(reached.end_session(ADDRESS, "a/../b"))
    assert paths == ["GET /status", "POST /sessions/a%2F..%2Fb/end"]


NO_CONTENT = httpx2.Response(204)


@pytest.mark.parametrize(
    ("response", "why"),
    [
        (httpx2.Response(401), "401"),
        (httpx2.Response(302, headers={"Location": "http://169.254.169.254/"}), "302"),
        (httpx2.Response(200, content=b"x" * (2 << 20)), "too large"),
        (httpx2.Response(200, content=b"<html>"), "not JSON"),
        (httpx2.Response(200, content=b"[]"), "no object"),
        (httpx2.Response(200, content=b'{"idle_seconds": NaN, "busy": false}'), "cannot be read"),
        (httpx2.Response(200, json={"idle_seconds": -1, "busy": False}), "cannot be read"),
        (httpx2.Response(200, json={"idle_seconds": 1e300, "busy": False}), "cannot be read"),
        (httpx2.Response(200, json={"idle_seconds": True, "busy": False}), "cannot be read"),
        (httpx2.Response(200, json={"idle_seconds": 1}), "cannot be read"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_sandbox_answers_is_not_trusted(response: httpx2.Response, why: str) -> None:
    with pytest.raises(WorkspacedError, match=why):
        asyncio.run(client(lambda _: response).status(ADDRESS))


def test_a_deeply_nested_answer_is_an_error_too() -> None:
    body = json.dumps(1).encode().join([b"[" * 100_000, b"]" * 100_000])
    with pytest.raises(WorkspacedError, match="not JSON"):
        asyncio.run(client(lambda _: httpx2.Response(200, content=body)).status(ADDRESS))


@pytest.mark.parametrize("used", [-1, True, 1.5, "1", None])
def test_the_memory_of_a_sandbox_is_a_count_of_bytes(used: object) -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        assert (request.url.path, request.headers[TOKEN_HEADER]) == ("/metrics", "uid-1/control/")
        return httpx2.Response(200, json={"mem_used": answered})

    answered: object = 1 << 30
    assert asyncio.run(client(answer).used_memory(ADDRESS)) == 1 << 30
    answered = used
    with pytest.raises(WorkspacedError, match="cannot be read"):
        asyncio.run(client(answer).used_memory(ADDRESS))
