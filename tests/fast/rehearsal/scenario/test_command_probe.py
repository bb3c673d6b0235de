"""A command's output is read from workspaced's stream, and what goes wrong is said in its words."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from agentenv.rehearsal.controlplane.client import Client
from agentenv.rehearsal.scenario import command_probe
from agentenv.rehearsal.scenario.command_probe import CommandRefused, Output, Workspace
from agentenv.rehearsal.scenario.storage_probe import ProbeFailed
from tests.stub_server import Request, Response, stub_server

Object = dict[str, Any]


def data(**texts: str) -> Object:
    encoded = {kind: base64.b64encode(text.encode()).decode() for kind, text in texts.items()}
    return {"event": {"data": encoded}}


def frames(*messages: Object, last: Object | None = None) -> bytes:
    rows = [*((0, message) for message in messages), *([] if last is None else [(2, last)])]
    bodies = [(flags, json.dumps(message).encode()) for flags, message in rows]
    return b"".join(struct.pack(">BI", flags, len(body)) + body for flags, body in bodies)


ENDED = {"event": {"end": {"exitCode": 3, "exited": True}}}
STARTED = {"event": {"start": {"pid": 7}}}


@dataclass
class Server:
    """A workspaced with prepared replies, which records the token and the message of each request."""

    server_port: int = 0
    replies: list[tuple[int, bytes]] = field(default_factory=list[tuple[int, bytes]])
    requests: list[tuple[str, Object]] = field(default_factory=list[tuple[str, Object]])


@pytest.fixture
def server() -> Iterator[Server]:
    workspaced = Server()

    def respond(request: Request) -> Response:
        workspaced.requests.append((request.headers["X-Workspace-Token"], json.loads(request.body[5:])))
        return Response(*workspaced.replies.pop(0))

    with stub_server(respond) as workspaced.server_port:
        yield workspaced


def pod_at(server: Server) -> Object:
    ports = [{"name": "http", "containerPort": 1}, {"name": "workspaced", "containerPort": server.server_port}]
    status = {"podIP": "127.0.0.1"}
    return {"metadata": {"uid": "pod-1"}, "spec": {"containers": [{"ports": ports}]}, "status": status}


class FakeApi:
    """An API server with one pod, or with several states of it, one for each request."""

    def __init__(self, *pods: Object | None) -> None:
        self.pods = list(pods)

    def find(self, path: str) -> Object | None:
        assert path == "/api/v1/namespaces/sandbox-a/pods/pool-1"
        return self.pods.pop(0) if len(self.pods) > 1 else self.pods[0]


def workspace(*pods: Object | None) -> Workspace:
    claim = {"metadata": {"uid": "claim-1", "namespace": "sandbox-a"}, "status": {"sandbox": {"name": "pool-1"}}}
    return Workspace(cast("Client", FakeApi(*pods)), claim, lambda *parts: "/".join(parts))


def test_output_is_joined_and_the_exit_code_is_the_commands(server: Server) -> None:
    content = frames(STARTED, data(stdout="a"), data(stderr="e"), data(stdout="b\n"), ENDED, last={})
    server.replies.append((200, content))
    assert command_probe.run_script(pod_at(server), "token", "a script") == Output("ab\n", "e", 3)
    [(token, request)] = server.requests
    assert (token, request["process"]["args"]) == ("token", ["-c", "a script"])


@pytest.mark.parametrize(
    ("response", "words"),
    [
        ((401, b'{"message": "expired"}'), "401 .*expired"),
        ((200, frames(last={"error": {"message": "wrong_audience"}})), "wrong_audience"),
    ],
)
def test_refusal_has_the_message_of_workspaced(server: Server, response: tuple[int, bytes], words: str) -> None:
    server.replies.append(response)
    with pytest.raises(CommandRefused, match=words):
        command_probe.run_script(pod_at(server), "token", "true")


def test_a_workspace_waits_until_its_keys_have_arrived(server: Server) -> None:
    end = {"event": {"end": {"exited": True}}}
    server.replies += [(401, b"unknown_key"), (200, frames(data(stdout="rehearsed\n"), end, last={}))]
    command_probe.check_file(workspace(pod_at(server)))
    assert {token for token, _ in server.requests} == {"pod-1/claim-1/api"}


def test_a_pod_that_ends_or_has_no_address_yet_is_waited_for(server: Server) -> None:
    """After a suspension the former pod may still be there for a moment, and the next one starts without an address."""
    pod = pod_at(server)
    former = {**pod, "metadata": {"uid": "pod-0", "deletionTimestamp": "2026-11-19T16:00:00Z"}}
    end = {"event": {"end": {"exited": True}}}
    server.replies.append((200, frames(data(stdout="rehearsed\n"), end, last={})))
    command_probe.check_file(workspace(former, None, {**pod, "status": {}}, pod))
    assert [token for token, _ in server.requests] == ["pod-1/claim-1/api"]


def test_a_lost_file_fails(server: Server) -> None:
    failed = {"event": {"end": {"exitCode": 1, "exited": True}}}
    server.replies.append((200, frames(data(stderr="No such file"), failed, last={})))
    with pytest.raises(ProbeFailed, match="ended with 1 in pool-1: No such file"):
        command_probe.check_file(workspace(pod_at(server)))


@pytest.mark.parametrize(("address", "running"), [("127.64.1.1", True), ("10.128.0.4", False), ("", False)])
def test_only_pods_with_an_address_of_this_machine_run(address: str, running: bool) -> None:
    assert workspace({"status": {"podIP": address}}).is_running() is running
    assert workspace(None).is_running() is False
