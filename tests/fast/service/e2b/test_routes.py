"""The control API as other clients use it: the shapes of errors, older routes, and what no method of `e2b` reads."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import httpx2
import pytest
from e2b import Sandbox

from agentenv.core.workspaces.workspace import Event
from agentenv.service.e2b import reports, routes, templates
from agentenv.service.http.dependencies import AuthenticatedRoute
from agentenv.service.workspaces.backend import KubernetesBackend
from tests.fast.service.e2b.conftest import DOMAIN, Service

NOBODY = "w-aaaaaaaaaaaaaaaaaaaaaaaaaa"


@pytest.fixture
def key(service: Service, request: pytest.FixtureRequest) -> str:
    """A key of the same owner as that of the client."""
    return service.key(request.node.name)


def _is_error(response: httpx2.Response, status: int) -> bool:
    document = response.json()
    assert response.headers["content-type"] == "application/json"
    return response.status_code == document["code"] == status and bool(document["message"])


def test_every_route_authenticates_before_it_validates(service: Service) -> None:
    rows = [route for each in (reports, routes, templates) for route in each.router.routes]
    assert len(rows) > 15
    for route in rows:
        assert isinstance(route, AuthenticatedRoute)
        for method in route.methods or ():
            response = service.request(method, route.path.replace("{id}", "NO-ID!"), content=b"{")
            assert _is_error(response, 401), route.path
    assert _is_error(service.request("GET", "/no/such"), 401)


def test_routes_that_change_something_name_a_scope() -> None:
    scopes = {
        (method, route.path.removeprefix("/v2")): route.scope
        for route in routes.router.routes
        if isinstance(route, AuthenticatedRoute)
        for method in route.methods or ()
        if method != "GET"
    }
    assert set(scopes.values()) == {"create", "use", "wake"}
    assert scopes["DELETE", "/sandboxes/{id}"] == scopes["POST", "/sandboxes"] == "create"


@pytest.mark.parametrize("header", [{"Authorization": "Bearer {}"}, {"X-API-KEY": "{}"}, {"x-api-key": "{}"}], ids=str)
def test_a_key_in_either_header(service: Service, key: str, header: dict[str, str]) -> None:
    headers = {name: value.format(key) for name, value in header.items()}
    assert service.request("GET", "/sandboxes", headers=headers).json() == []


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"{}",
        b'{"templateID": 3}',
        b'{"templateID": ""}',
        b'{"templateID": "standard", "timeout": "long"}',
        b'{"templateID": "standard", "metadata": {"a": 1}}',
        b'{"templateID": "standard", "metadata": ["a"]}',
        b'{"templateID": "standard", "autoResume": {"enabled": true}}',
        b'{"templateID": "standard", "unknown": 1}',
        b'{"templateID": "standard", "envVars": {"A": null}}',
        b"\xff",
    ],
)
def test_a_body_that_cannot_be_read_is_a_bad_request(service: Service, key: str, body: bytes) -> None:
    before = service.claims()
    headers = {"Content-Type": "application/json"}
    assert _is_error(service.request("POST", "/v2/sandboxes", key, content=body, headers=headers), 400)
    assert service.claims() == before


@pytest.mark.parametrize(
    "query",
    ["state=stopped", "limit=0", "limit=101", "order=up", "metadata=a", "startedAfter=now", "nextToken=%00", "x=1"],
)
def test_a_query_that_cannot_be_read_is_a_bad_request(service: Service, key: str, query: str) -> None:
    assert _is_error(service.request("GET", f"/v2/sandboxes?{query}", key), 400)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("DELETE", ""),
        ("POST", "/connect"),
        ("POST", "/pause"),
        ("POST", "/resume"),
        ("POST", "/timeout"),
        ("POST", "/refreshes"),
        ("GET", "/metrics"),
        ("GET", "/logs"),
    ],
)
def test_an_unknown_sandbox_is_not_found(service: Service, key: str, method: str, path: str) -> None:
    body: dict[str, Any] = {"json": {"timeout": 60}} if path == "/timeout" else {}
    assert _is_error(service.request(method, f"/sandboxes/{NOBODY}{path}", key, **body), 404)


def test_paths_and_methods_that_do_not_exist(service: Service, key: str) -> None:
    assert _is_error(service.request("GET", "/no/such", key), 404)
    assert _is_error(service.request("PUT", "/sandboxes", key), 404)
    assert _is_error(service.request("OPTIONS", "/sandboxes", key), 405)
    assert _is_error(service.request("POST", "/v2/sandboxes", key, content=b"x" * 300_000), 413)


def test_states_that_do_not_allow_it_are_conflicts(service: Service, key: str) -> None:
    id_ = Sandbox.create().sandbox_id
    assert _is_error(service.request("POST", f"/sandboxes/{id_}/resume", key), 409)
    assert service.request("POST", f"/sandboxes/{id_}/pause", key).status_code == 204
    assert _is_error(service.request("POST", f"/sandboxes/{id_}/pause", key), 409)


def test_connect_reports_whether_it_resumed(service: Service, key: str) -> None:
    sandbox = Sandbox.create()
    for path in ("/sandboxes", "/v2/sandboxes"):
        running = service.request("POST", f"{path}/{sandbox.sandbox_id}/connect", key, json={"timeout": 60})
        sandbox.pause()
        resumed = service.request("POST", f"{path}/{sandbox.sandbox_id}/connect", key)
        assert (running.status_code, resumed.status_code) == (200, 201)
        assert running.json() == resumed.json()
    document = resumed.json()
    assert (document["sandboxID"], document["domain"], document["templateID"]) == (
        sandbox.sandbox_id,
        DOMAIN,
        "standard",
    )


def test_the_older_resume_sets_what_the_timeout_does(service: Service, key: str) -> None:
    sandbox = Sandbox.create(timeout=60)
    sandbox.pause()
    resumed = service.request("POST", f"/sandboxes/{sandbox.sandbox_id}/resume", key, json={"autoPause": True})
    assert resumed.status_code == 201
    info = service.request("GET", f"/sandboxes/{sandbox.sandbox_id}", key).json()
    assert info["lifecycle"] == {"onTimeout": "pause", "autoResume": False}
    left = datetime.fromisoformat(info["endAt"]) - service.dependencies.now()
    assert timedelta(0) < left <= timedelta(seconds=15)


def test_a_refresh_never_shortens(service: Service, key: str) -> None:
    sandbox = Sandbox.create(timeout=600)
    ends: list[datetime] = []
    for duration in (60, 1200):
        path = f"/sandboxes/{sandbox.sandbox_id}/refreshes"
        assert service.request("POST", path, key, json={"duration": duration}).status_code == 204
        ends.append(sandbox.get_info().end_at)
    assert ends[1] - ends[0] > timedelta(seconds=590)


def test_the_older_list_has_running_sandboxes_only(service: Service, key: str) -> None:
    first, second = Sandbox.create(metadata={"a": "1"}), Sandbox.create(metadata={"a": "2"})
    third = Sandbox.create(metadata={"a": "1"})
    third.pause()
    listed = service.request("GET", "/sandboxes", key).json()
    assert [row["sandboxID"] for row in listed] == [second.sandbox_id, first.sandbox_id]
    assert {"clientID", "startedAt", "endAt", "cpuCount", "memoryMB", "diskSizeMB", "envdVersion"} <= listed[0].keys()
    filtered = service.request("GET", "/sandboxes?metadata=a%3D1", key).json()
    assert [row["sandboxID"] for row in filtered] == [first.sandbox_id]


def test_metrics_of_several_sandboxes(service: Service, key: str) -> None:
    first, second = Sandbox.create(), Sandbox.create()
    second.pause()
    ids = f"{first.sandbox_id},{second.sandbox_id},{NOBODY}"
    rows = service.request("GET", f"/sandboxes/metrics?sandbox_ids={ids}", key).json()["sandboxes"]
    assert {id_: row["cpuUsedPct"] for id_, row in rows.items()} == {first.sandbox_id: 12.5}


def test_events_are_the_log(service: Service, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox, at = Sandbox.create(), service.dependencies.now()
    rows = [
        Event(at, "Pod/x", "Started", "it runs"),
        Event(at - timedelta(minutes=1), "Pod/x", "Failed", "no", 2, True),
    ]

    async def events(_: object, id_: str) -> list[Event]:
        assert id_ == sandbox.sandbox_id
        return rows

    monkeypatch.setattr(KubernetesBackend, "events", events)
    path = f"/sandboxes/{sandbox.sandbox_id}/logs"
    older = service.request("GET", path, key).json()
    assert [row["line"] for row in older["logs"]] == ["Failed: no", "Started: it runs"]
    assert [row["level"] for row in older["logEntries"]] == ["warn", "info"]

    def messages(query: str) -> list[str]:
        return [row["message"] for row in service.request("GET", f"/v2{path}?{query}", key).json()["logs"]]

    assert messages("direction=backward&limit=1") == ["Started: it runs"]
    assert messages("level=warn") == ["Failed: no"]
    assert messages("search=runs") == ["Started: it runs"]
    since = int((at - timedelta(seconds=5)).timestamp() * 1000)
    assert messages(f"cursor={since}") == ["Started: it runs"]
    assert messages(f"cursor={since}&direction=backward") == ["Failed: no"]


def test_templates_are_the_classes_that_the_caller_may_use(service: Service, key: str) -> None:
    rows = service.request("GET", "/templates", key).json()
    assert [row["templateID"] for row in rows] == ["standard", "offline"]
    assert service.request("GET", "/templates/aliases/standard", key).json()["templateID"] == "standard"
    assert service.request("GET", "/templates/aliases/base", key).json()["templateID"] == "standard"
    assert _is_error(service.request("GET", "/templates/aliases/secret", key), 404)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v3/templates"),
        ("DELETE", "/templates/standard"),
        ("GET", "/volumes"),
        ("POST", "/volumes"),
        ("GET", "/secrets"),
        ("GET", "/snapshots"),
    ],
)
def test_what_is_not_offered_has_its_reason(service: Service, key: str, method: str, path: str) -> None:
    response = service.request(method, path, key)
    assert _is_error(response, 501)
    assert len(response.json()["message"]) > 40


def test_a_cluster_that_does_not_answer_is_unavailable(service: Service, key: str) -> None:
    service.in_loop(lambda: service.stage.server.failing.extend([503] * 20))
    try:
        response = service.request("GET", f"/sandboxes/{NOBODY}", key)
    finally:
        service.in_loop(service.stage.server.failing.clear)
    assert _is_error(response, 503)
    assert int(response.headers["Retry-After"]) > 0


def test_an_unexpected_error_has_the_shape_too(service: Service, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(_: object, id_: str) -> None:
        raise ZeroDivisionError(id_)

    monkeypatch.setattr(KubernetesBackend, "get", broken)
    response = service.request("GET", f"/sandboxes/{NOBODY}", key)
    assert _is_error(response, 500)
    assert NOBODY not in response.text


def test_a_workspace_of_the_own_api_is_a_sandbox_without_an_end(service: Service, key: str) -> None:
    body = {"class": "standard"}
    created = httpx2.post(f"{service.url}/v1/workspaces", json=body, headers={"X-API-Key": key}, trust_env=False)
    id_ = created.json()["id"]
    assert Sandbox.connect(id_, timeout=1).get_info().end_at.year > 2030
    maker = service.key("test_a_workspace_of_the_own_api_is_a_sandbox_without_an_end", ("create", "read"))
    assert _is_error(service.request("DELETE", f"/sandboxes/{id_}", maker), 403)
    Sandbox.set_timeout(id_, 60)
    assert Sandbox.get_info(id_).lifecycle == {"on_timeout": "pause", "auto_resume": True}
    assert Sandbox.kill(id_)
    assert id_ not in service.claims()


def test_only_callers_who_may_run_programs_get_the_tokens(
    service: Service, key: str, request: pytest.FixtureRequest
) -> None:
    sandbox, tokens = Sandbox.create(), {"envdAccessToken", "trafficAccessToken"}
    path = f"/sandboxes/{sandbox.sandbox_id}"
    assert tokens <= set(service.request("GET", path, key).json())
    reader = service.key(request.node.name, ("read", "wake"))
    answers = [service.request("GET", path, reader), service.request("POST", f"{path}/connect", reader)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert [tokens & set(answer.json()) for answer in answers] == [set(), set()]
