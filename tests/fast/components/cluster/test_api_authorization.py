"""An update goes on after the API server authorizes its caller, whose access entry takes effect some seconds later."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pulumi
import pytest

from agentenv.components.cluster import api_authorization
from agentenv.components.cluster.api_authorization import after_authorization, wait_for_authorization
from agentenv.rehearsal.providers.kubernetes.reach import ClusterConnection, ClusterUnreachable
from agentenv.rehearsal.providers.kubernetes.settings import Settings
from tests.stub_server import Request, Response, stub_server

UNAUTHENTICATED = Response(401, {"kind": "Status", "message": "Unauthorized"})
DENIED = Response(201, {"status": {"allowed": False}})
ALLOWED = Response(201, {"status": {"allowed": True}})


@dataclass
class Server:
    """An API server with the responses of a test, of which the last one stays."""

    url: str
    responses: list[Response]
    tokens: list[str] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    def respond(request: Request) -> Response:
        served.tokens.append(request.headers["Authorization"].removeprefix("Bearer "))
        return served.responses.pop(0) if len(served.responses) > 1 else served.responses[0]

    with stub_server(respond) as port:
        served = Server(f"http://127.0.0.1:{port}", [ALLOWED])
        yield served


@pytest.fixture
def kubeconfig(server: Server, tmp_path: Path) -> str:
    """A kubeconfig whose command prints another token each time."""
    source = (
        "import json, pathlib\n"
        f"runs = pathlib.Path({str(tmp_path / 'runs')!r})\n"
        "count = int(runs.read_text()) + 1 if runs.exists() else 1\n"
        "runs.write_text(str(count))\n"
        "print(json.dumps({'kind': 'ExecCredential', 'status': {'token': f't-{count}'}}))\n"
    )
    command = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", source],
        "env": [],
        "interactiveMode": "Never",
    }
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": server.url}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "aws"}}],
            "current-context": "x",
            "users": [{"name": "aws", "user": {"exec": command}}],
        }
    )


def test_refused_caller_waits_with_a_new_token_each_time_and_keeps_an_accepted_one(
    server: Server, kubeconfig: str
) -> None:
    server.responses = [UNAUTHENTICATED, DENIED, ALLOWED, Response(403, {}), ALLOWED]
    assert wait_for_authorization(kubeconfig, interval_seconds=0) == ""
    # Several API servers answer in turn: one that does not know the entry yet starts the row again.
    row = ["t-4"] * api_authorization.IN_A_ROW
    assert server.tokens == ["t-1", "t-2", "t-3", "t-3", *row]


def test_exec_plugin_runs_once_where_the_caller_is_authorized(server: Server, kubeconfig: str) -> None:
    assert wait_for_authorization(kubeconfig) == ""
    assert server.tokens == ["t-1"] * api_authorization.IN_A_ROW


def test_wait_ends_with_the_last_refusal(server: Server, kubeconfig: str) -> None:
    server.responses = [UNAUTHENTICATED]
    assert wait_for_authorization(kubeconfig, deadline_seconds=0) == "it answered 401"
    server.responses = [DENIED]
    assert "access policy" in wait_for_authorization(kubeconfig, deadline_seconds=0)
    assert len(server.tokens) == 2


def test_only_refusals_are_waited_for(server: Server, kubeconfig: str) -> None:
    server.responses = [Response(503, {})]
    assert wait_for_authorization(kubeconfig) == ""
    assert len(server.tokens) == 1
    nowhere = kubeconfig.replace(server.url, "http://127.0.0.1:1")
    assert wait_for_authorization(nowhere) == ""
    assert wait_for_authorization(kubeconfig.replace(sys.executable, "no-such-command")) == ""


def test_provider_fails_at_once_without_the_wait_and_connects_after_it(server: Server, kubeconfig: str) -> None:
    def connect() -> ClusterConnection:
        return ClusterConnection(Settings(kubeconfig=kubeconfig), {}, threading.Event())

    server.responses = [UNAUTHENTICATED]
    with pytest.raises(ClusterUnreachable, match="Unauthorized"):
        connect().cluster()
    server.responses = [UNAUTHENTICATED, DENIED, ALLOWED]
    assert wait_for_authorization(kubeconfig, interval_seconds=0) == ""
    assert connect().cluster()


@pytest.mark.parametrize("preview", [True, False])
def test_updates_wait_after_the_entries_and_previews_do_not(
    server: Server, kubeconfig: str, monkeypatch: pytest.MonkeyPatch, preview: bool
) -> None:
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: preview)
    calls: list[int] = []

    class Entry:
        @property
        def urn(self) -> pulumi.Output[str]:
            calls.append(len(server.tokens))
            return pulumi.Output.from_input("urn")

    async def program() -> tuple[str | None, set[Any]]:
        entry: Any = Entry()
        authorized = after_authorization(pulumi.Output.from_input(kubeconfig), [entry], entry)
        return await authorized.future(), await authorized.resources()

    # The provider must not be replaced with an entry, so its kubeconfig does not depend on the entries.
    assert asyncio.run(program()) == (kubeconfig, set())
    assert calls == ([] if preview else [0])
    assert len(server.tokens) == (0 if preview else api_authorization.IN_A_ROW)
