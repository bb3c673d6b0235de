"""The command `workspace`: its requests, its output, and access to a workspace."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agentenv.cli.main import FAILED, OK, dispatch
from agentenv.cli.workspaces.lease import lease
from agentenv.client import Client
from tests.stub_server import Request, Response, stub_server

TOKEN = "a-token-of-somebody"


@dataclass
class Stub:
    """A service with one workspace, which records its requests."""

    address: str = ""
    requests: list[tuple[str, str, dict[str, list[str]], Any, str]] = field(default_factory=list)
    state: str = "running"
    refusal: dict[str, Any] | None = None
    page: bytes | None = None  # what something else than the service answers

    def workspace(self) -> dict[str, Any]:
        return {
            **dict.fromkeys(("why", "cold", "suspended_because", "created"), None),
            "id": "w-1",
            "class": "standard",
            "mode": "user",
            "state": self.state,
            "owner": "u-1",
            "sandbox": "standard-abc12",
            "leases": [],
            "labels": {},
        }

    def paths(self, method: str) -> list[str]:
        return [path for options, path, *_ in self.requests if options == method]


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    service = Stub()

    def respond(request: Request) -> Response:
        path, query = request.path, request.query
        service.requests.append(
            (request.method, path, query, request.json(), request.headers.get("authorization") or "")
        )
        found: Any = service.workspace()
        if service.refusal is not None:
            return Response(402, service.refusal if service.page is None else service.page)
        if path.endswith("/resume"):
            service.state = "running"
            found = service.workspace()
        elif path == "/v1/workspaces" and request.method == "GET":
            last = "after" in query
            found = {
                "items": [found, {**found, "id": "w-3"}] if last else [found],
                "after": None if last else "w-1",
            }
        elif path.endswith("/events"):
            found = {"items": []}
        return Response(body=found if service.page is None else service.page)

    with stub_server(respond) as port:
        service.address = f"http://127.0.0.1:{port}"
        monkeypatch.setenv("AGENTENV_SERVICE", service.address)
        monkeypatch.setenv("AGENTENV_TOKEN", TOKEN)
        yield service


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a kubectl that records its arguments, and exits with $ENDS."""
    called = tmp_path / "called"
    program = tmp_path / "kubectl"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {called}\necho a-token-of-an-account\nexit ${{ENDS:-0}}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return called


def run_workspace(*words: str) -> int:
    return dispatch(["workspace", *words])


def test_a_create_request_has_only_the_given_options(service: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--class", "standard", "--key", "k", "--label", "team=a", "--budget", "2.50", "--wait", "5", "--json")
    assert run_workspace("create", *options) == OK
    [(method, path, query, body, bearer)] = service.requests
    assert (method, path, query) == ("POST", "/v1/workspaces", {"wait": ["5.0"]})
    assert body == {"class": "standard", "mode": "user", "key": "k", "labels": {"team": "a"}, "budget": "2.50"}
    assert bearer == f"Bearer {TOKEN}"
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["id"] == "w-1"


def test_a_list_is_read_to_its_last_page(service: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_workspace("list", "--class", "standard", "--everybody", "--json") == OK
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [workspace["id"] for workspace in found["workspaces"]] == ["w-1", "w-1", "w-3"]
    assert [query.get("after") for _, _, query, _, _ in service.requests] == [None, ["w-1"]]
    assert all(
        query["everybody"] == ["true"] and query["class"] == ["standard"] for _, _, query, _, _ in service.requests
    )
    assert run_workspace("list") == OK
    assert "w-3" in capsys.readouterr().out


def test_an_update_sends_only_the_given_options(service: Stub) -> None:
    assert run_workspace("update", "w-1", "--budget", "none", "--idle-after", "600", "--share", "u-2=ro") == OK
    assert service.requests[-1][3] == {"budget": None, "idle_after": 600, "shared": {"u-2": "ro"}}
    assert run_workspace("update", "w-1") == FAILED
    assert run_workspace("update", "w-1", "--label", "team") == FAILED
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    ("words", "method", "path"),
    [
        (("suspend", "w-1"), "POST", "/v1/workspaces/w-1/suspend"),
        (("resume", "w-1"), "POST", "/v1/workspaces/w-1/resume"),
        (("delete", "w-1", "--destroy"), "DELETE", "/v1/workspaces/w-1"),
        (("show", "w-1"), "GET", "/v1/workspaces/w-1"),
        (("show", "../../admin"), "GET", "/v1/workspaces/..%2F..%2Fadmin"),
    ],
)
def test_each_verb_is_one_request(service: Stub, words: tuple[str, ...], method: str, path: str) -> None:
    assert run_workspace(*words) == OK
    assert service.requests[0][:2] == (method, path)


def test_a_problem_is_printed_with_its_fix(service: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    service.refusal = {"title": "The budget is spent", "detail": "3.00 of 3.00", "way_out": "ask an admin to raise it"}
    assert run_workspace("resume", "w-1") == FAILED
    output = capsys.readouterr().err
    assert "The budget is spent; 3.00 of 3.00; ask an admin to raise it" in output
    assert TOKEN not in output


def test_a_response_of_something_else_is_an_error(service: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    service.page = b"<html>a proxy's page</html>"
    assert run_workspace("list") == FAILED
    assert "the response with status 200 is not from the workspace service" in capsys.readouterr().err


def test_a_token_comes_from_a_file_or_from_the_cluster(
    service: Stub, kubectl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text("from-a-file\n")
    assert run_workspace("show", "w-1", "--token-file", str(file)) == OK
    assert service.requests[-1][4] == "Bearer from-a-file"
    assert run_workspace("show", "w-1", "--account", "team/bot", "--context", "prod") == OK
    assert service.requests[-1][4] == "Bearer a-token-of-an-account"
    words = kubectl.read_text().splitlines()
    assert words == [
        *("--context=prod", "create", "token", "bot", "-n", "team"),
        *("--audience=agent-environment", "--duration=1h"),
    ]
    monkeypatch.delenv("AGENTENV_TOKEN")
    assert run_workspace("show", "w-1") == FAILED


def test_the_service_is_reached_through_the_cluster(
    service: Stub, kubectl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = service.address.rpartition(":")[2]
    script = kubectl.with_name("kubectl")
    script.write_text(f"{script.read_text().rpartition('echo')[0]}echo Forwarding from 127.0.0.1:{port} -\\> 8080\n")
    monkeypatch.delenv("AGENTENV_SERVICE")
    assert run_workspace("show", "w-1") == OK
    assert kubectl.read_text().splitlines() == [
        *("port-forward", "-n", "workspace-service", "service/workspace-service", ":http")
    ]


def test_a_lease_is_held_while_a_workspace_is_attached(service: Stub) -> None:
    service.state = "suspended"
    with Client(service.address, TOKEN) as client, lease(client, "w-1", read_only=True) as workspace:
        assert workspace["state"] == "running"
    assert service.paths("POST") == ["/v1/workspaces/w-1/resume"]
    [attached], [released] = service.paths("PUT"), service.paths("DELETE")
    assert attached == released
    assert attached.startswith("/v1/workspaces/w-1/leases/cli-")
    assert [body for method, _, _, body, _ in service.requests if method == "PUT"] == [{"mode": "ro", "seconds": 120}]


def test_a_workspace_that_failed_or_has_no_gateway_is_not_entered(
    service: Stub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_workspace("exec", "w-1", "--", "true") == FAILED
    assert "this environment has no gateway" in capsys.readouterr().err
    service.state = "failed"
    assert run_workspace("shell", "w-1") == FAILED
    assert "w-1 is failed" in capsys.readouterr().err
    assert run_workspace("cp", "w-1", "a", "b") == FAILED
    assert "exactly one path must begin with ':'" in capsys.readouterr().err
