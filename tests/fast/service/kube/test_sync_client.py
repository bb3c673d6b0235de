"""How the API server is spoken to: who asks, what is sent with a change, and what is made of its answers."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from agentenv.service.kube.sync_client import CLAIMS, PAGE, POOLS, VOLUMES, SyncKubeApiError, SyncKubeClient

READ = {"metadata": {"name": "a", "namespace": "sandbox-box", "uid": "u", "resourceVersion": "7"}}
TOKEN = {
    "apiVersion": "client.authentication.k8s.io/v1beta1",
    "kind": "ExecCredential",
    "status": {"token": "of-the-command"},
}


@dataclass
class Server:
    """Keeps what it is asked, and answers what it was told to."""

    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    answers: list[tuple[int, dict[str, Any]]] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            split = urlsplit(self.path)
            made.asked.append(
                {
                    "do": f"{self.command} {split.path}",
                    "query": {key: values[0] for key, values in parse_qs(split.query).items()},
                    "body": json.loads(self.rfile.read(length)) if length else None,
                    "type": self.headers.get("Content-Type"),
                    "who": self.headers.get("Authorization"),
                }
            )
            status, document = made.answers.pop(0)
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815 - the library's names

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
            """Nobody reads it."""

    listening = HTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{listening.server_port}"
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield made
    listening.shutdown()
    listening.server_close()
    thread.join()


@pytest.fixture
def cluster(server: Server, tmp_path: Path) -> Iterator[SyncKubeClient]:
    """By a kubeconfig like a stack's, with a command that fetches a token."""
    said = tmp_path / "asked"
    script = f"open({str(said)!r}, 'a').write('x'); print({json.dumps(TOKEN)!r})"
    command = {"apiVersion": TOKEN["apiVersion"], "command": sys.executable, "args": ["-c", script], "env": []}
    made = SyncKubeClient.from_kubeconfig_document(_leading_to(server.url, {"exec": command}))
    yield made
    made.close()
    # However much was asked, the token was fetched once.
    assert not said.exists() or said.read_text() == "x"


def _leading_to(url: str, user: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kubernetes", "cluster": {"server": url}}],
        "users": [{"name": "aws", "user": user or {}}],
        "contexts": [{"name": "aws", "context": {"cluster": "kubernetes", "user": "aws"}}],
        "current-context": "aws",
    }


def refusal(code: int, reason: str, message: str = "no") -> tuple[int, dict[str, Any]]:
    return code, {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}


def test_long_lists_are_read_to_their_end_as_who_the_command_says(server: Server, cluster: SyncKubeClient) -> None:
    for names, more in ((["a", "b"], "further"), (["c"], "")):
        items = [{"metadata": {"name": name}} for name in names]
        server.answers.append((200, {"metadata": {"continue": more}, "items": items}))
    found = [one["metadata"]["name"] for one in cluster.list(CLAIMS, "sandbox-box", {"here": None, "task": "t"})]
    assert found == ["a", "b", "c"]
    first, second = server.asked
    assert first["do"] == "GET /apis/extensions.agents.x-k8s.io/v1beta1/namespaces/sandbox-box/sandboxclaims"
    assert first["query"] == {"labelSelector": "here,task=t", "limit": str(PAGE)}
    assert second["query"]["continue"] == "further"
    assert {one["who"] for one in server.asked} == {"Bearer of-the-command"}


def test_one_that_is_not_there_is_none_and_another_answer_is_a_refusal(server: Server, cluster: SyncKubeClient) -> None:
    server.answers += [refusal(404, "NotFound"), refusal(403, "Forbidden", "not by you")]
    assert cluster.find(VOLUMES, "pv") is None
    with pytest.raises(SyncKubeApiError, match="not by you"):
        cluster.find(VOLUMES, "pv")
    assert [one["do"] for one in server.asked] == ["GET /api/v1/persistentvolumes/pv"] * 2


def test_a_change_is_of_the_version_that_was_read(server: Server, cluster: SyncKubeClient) -> None:
    server.answers += [(200, READ), refusal(409, "Conflict"), refusal(404, "NotFound"), refusal(422, "Invalid", "odd")]
    changes = {"metadata": {"annotations": {"a": None}}, "spec": {"replicas": 0}}
    assert cluster.patch(POOLS, READ, changes) is True
    (asked,) = server.asked
    assert asked["do"] == "PATCH /apis/extensions.agents.x-k8s.io/v1beta1/namespaces/sandbox-box/sandboxwarmpools/a"
    assert asked["type"] == "application/merge-patch+json"
    assert asked["query"] == {"fieldManager": "agentenv"}
    version = {"uid": "u", "resourceVersion": "7"}
    assert asked["body"] == {"metadata": {"annotations": {"a": None}, **version}, "spec": {"replicas": 0}}
    assert [cluster.patch(POOLS, READ, changes) for _ in range(2)] == [False, False]
    with pytest.raises(SyncKubeApiError, match="odd"):
        cluster.patch(POOLS, READ, changes)


def test_only_what_was_read_is_removed(server: Server, cluster: SyncKubeClient) -> None:
    server.answers += [(200, {"kind": "Status", "status": "Success"}), refusal(409, "Conflict")]
    assert [cluster.delete(POOLS, READ) for _ in range(2)] == [True, False]
    asked = server.asked[0]
    assert asked["do"].startswith("DELETE ")
    assert asked["body"]["preconditions"] == {"uid": "u", "resourceVersion": "7"}
    assert asked["body"]["propagationPolicy"] == "Background"


def test_what_is_there_already_is_not_made_again(server: Server, cluster: SyncKubeClient) -> None:
    server.answers += [(201, READ), refusal(409, "AlreadyExists"), refusal(403, "Forbidden", "exceeded quota")]
    document = {"kind": "SandboxWarmPool", "metadata": {"name": "a", "namespace": "sandbox-box"}}
    assert [cluster.create(POOLS, document) for _ in range(2)] == [True, False]
    with pytest.raises(SyncKubeApiError, match="exceeded quota"):
        cluster.create(POOLS, document)
    assert server.asked[0]["body"]["metadata"] == document["metadata"]


def test_a_quota_that_was_counted_at_the_same_moment_is_no_thing_of_that_name(
    server: Server, cluster: SyncKubeClient
) -> None:
    server.answers += [refusal(409, "Conflict", "cannot be fulfilled on resourcequotas"), (201, READ)]
    document = {"kind": "SandboxClaim", "metadata": {"name": "a", "namespace": "sandbox-box"}}
    with pytest.raises(SyncKubeApiError, match="resourcequotas") as told:
        cluster.create(CLAIMS, document)
    assert told.value.transient
    assert cluster.create(CLAIMS, document) is True


ASKED: list[Callable[[SyncKubeClient], object]] = [
    lambda cluster: cluster.find(CLAIMS, "a", "sandbox-box"),
    lambda cluster: [*cluster.list(CLAIMS)],
    lambda cluster: cluster.create(CLAIMS, READ),
    lambda cluster: cluster.patch(CLAIMS, READ, {}),
    lambda cluster: cluster.delete(CLAIMS, READ),
    lambda cluster: cluster.review("a-token", "an-audience"),
]


@pytest.mark.parametrize("ask", ASKED)
def test_a_server_that_does_not_answer_cannot_just_now(
    server: Server, cluster: SyncKubeClient, ask: Callable[[SyncKubeClient], object]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        gone = SyncKubeClient.from_kubeconfig_document(_leading_to(f"http://127.0.0.1:{nobody.getsockname()[1]}"))
    with pytest.raises(SyncKubeApiError, match="does not answer") as told:
        ask(gone)
    assert told.value.transient
    gone.close()
    server.answers += [refusal(429, "TooManyRequests", "busy")]
    with pytest.raises(SyncKubeApiError, match=r"busy|429") as told:
        ask(cluster)
    assert told.value.transient
