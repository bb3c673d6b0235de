"""Requests of the Kubernetes client, its errors, and the lines of a watch."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentenv.service.kube.client import (
    CLAIMS,
    MANAGER,
    PAGE,
    POOLS,
    VOLUMES,
    KubeApiError,
    KubeClient,
    _lines,  # pyright: ignore[reportPrivateUsage] - what it does has no other way in
    collect,
)
from tests.fast.service.fake_api_server import run
from tests.stub_server import Request, Response, stub_server

READ = {"metadata": {"name": "a", "namespace": "sandbox-box", "uid": "u", "resourceVersion": "7"}}
TOKEN = {
    "apiVersion": "client.authentication.k8s.io/v1beta1",
    "kind": "ExecCredential",
    "status": {"token": "of-the-command"},
}


@dataclass
class Server:
    """A server that records requests and sends prepared answers."""

    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    answers: list[tuple[int, dict[str, Any]]] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    recorder = Server()

    def respond(request: Request) -> Response:
        recorder.requests.append(
            {
                "do": f"{request.method} {request.path}",
                "query": {key: values[0] for key, values in request.query.items()},
                "body": request.json(),
                "type": request.headers.get("Content-Type"),
                "who": request.headers.get("Authorization"),
            }
        )
        return Response(*recorder.answers.pop(0), {"Content-Type": "application/json"})

    with stub_server(respond) as port:
        recorder.url = f"http://127.0.0.1:{port}"
        yield recorder


@pytest.fixture
def kubeconfig(server: Server, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """A kubeconfig like a stack's, with a command that fetches a token."""
    fetched = tmp_path / "fetched"
    script = f"open({str(fetched)!r}, 'a').write('x'); print({json.dumps(TOKEN)!r})"
    command = {"apiVersion": TOKEN["apiVersion"], "command": sys.executable, "args": ["-c", script], "env": []}
    yield _leading_to(server.url, {"exec": command})
    # However many requests there were, the token was fetched once.
    assert not fetched.exists() or fetched.read_text() == "x"


def play(kubeconfig: dict[str, Any], act: Callable[[KubeClient], Awaitable[Any]]) -> Any:
    """Return what a coroutine returns that works with a client which does not retry."""

    async def connected() -> Any:
        client = KubeClient.from_kubeconfig_document(kubeconfig, attempts=1)
        try:
            return await act(client)
        finally:
            await client.close()

    return asyncio.run(connected())


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


def test_a_list_is_read_to_its_end_with_the_token_of_the_command(server: Server, kubeconfig: dict[str, Any]) -> None:
    for names, more in ((["a", "b"], "further"), (["c"], "")):
        items = [{"metadata": {"name": name, "managedFields": [{}]}} for name in names]
        server.answers.append((200, {"metadata": {"continue": more}, "items": items}))
    listed = play(kubeconfig, lambda kube: collect(kube.list(CLAIMS, "sandbox-box", {"here": None, "task": "t"})))
    assert [document["metadata"] for document in listed] == [{"name": "a"}, {"name": "b"}, {"name": "c"}]
    first, second = server.requests
    assert first["do"] == "GET /apis/extensions.agents.x-k8s.io/v1beta1/namespaces/sandbox-box/sandboxclaims"
    assert first["query"] == {"labelSelector": "here,task=t", "limit": str(PAGE)}
    assert second["query"]["continue"] == "further"
    assert {request["who"] for request in server.requests} == {"Bearer of-the-command"}


def test_a_missing_object_is_none_and_another_error_is_raised(server: Server, kubeconfig: dict[str, Any]) -> None:
    server.answers += [refusal(404, "NotFound"), refusal(403, "Forbidden", "not by you")]

    async def act(kube: KubeClient) -> None:
        assert await kube.find(VOLUMES, "pv") is None
        with pytest.raises(KubeApiError, match="not by you"):
            await kube.find(VOLUMES, "pv")

    play(kubeconfig, act)
    assert [request["do"] for request in server.requests] == ["GET /api/v1/persistentvolumes/pv"] * 2


def test_a_patch_requires_the_version_that_was_read(server: Server, kubeconfig: dict[str, Any]) -> None:
    server.answers += [(200, READ), refusal(409, "Conflict"), refusal(404, "NotFound"), refusal(422, "Invalid", "odd")]
    changes = {"metadata": {"annotations": {"a": None}}, "spec": {"replicas": 0}}

    async def act(kube: KubeClient) -> None:
        assert await kube.patch(POOLS, READ, changes) == READ
        assert [await kube.patch(POOLS, READ, changes) for _ in range(2)] == [None, None]
        with pytest.raises(KubeApiError, match="odd"):
            await kube.patch(POOLS, READ, changes)

    play(kubeconfig, act)
    request = server.requests[0]
    assert request["do"] == "PATCH /apis/extensions.agents.x-k8s.io/v1beta1/namespaces/sandbox-box/sandboxwarmpools/a"
    assert request["type"] == "application/merge-patch+json"
    assert request["query"] == {"fieldManager": MANAGER}
    version = {"uid": "u", "resourceVersion": "7"}
    assert request["body"] == {"metadata": {"annotations": {"a": None}, **version}, "spec": {"replicas": 0}}


def test_a_delete_requires_the_version_that_was_read(server: Server, kubeconfig: dict[str, Any]) -> None:
    success = (200, {"kind": "Status", "status": "Success"})
    server.answers += [success, refusal(409, "Conflict"), success]

    async def act(kube: KubeClient) -> list[bool]:
        deleted = [await kube.delete(POOLS, READ) for _ in range(2)]
        return [*deleted, await kube.delete(POOLS, READ, any_version=True, policy="Foreground")]

    assert play(kubeconfig, act) == [True, False, True]
    read, _, any_version = (request["body"] for request in server.requests)
    assert server.requests[0]["do"].startswith("DELETE ")
    assert (read["preconditions"], read["propagationPolicy"]) == ({"uid": "u", "resourceVersion": "7"}, "Background")
    assert (any_version["preconditions"], any_version["propagationPolicy"]) == ({"uid": "u"}, "Foreground")


def test_an_existing_object_is_not_created_again(server: Server, kubeconfig: dict[str, Any]) -> None:
    server.answers += [(201, READ), refusal(409, "AlreadyExists"), refusal(403, "Forbidden", "exceeded quota")]
    document = {"kind": "SandboxWarmPool", "metadata": {"name": "a", "namespace": "sandbox-box"}}

    async def act(kube: KubeClient) -> None:
        assert [await kube.create(POOLS, document) for _ in range(2)] == [READ, None]
        with pytest.raises(KubeApiError, match="exceeded quota"):
            await kube.create(POOLS, document)

    play(kubeconfig, act)
    assert server.requests[0]["body"]["metadata"] == document["metadata"]


def test_a_quota_conflict_does_not_mean_that_the_object_exists(server: Server, kubeconfig: dict[str, Any]) -> None:
    server.answers += [refusal(409, "Conflict", "cannot be fulfilled on resourcequotas"), (201, READ)]
    document = {"kind": "SandboxClaim", "metadata": {"name": "a", "namespace": "sandbox-box"}}

    async def act(kube: KubeClient) -> None:
        with pytest.raises(KubeApiError, match="resourcequotas") as refused:
            await kube.create(CLAIMS, document)
        assert refused.value.transient
        assert await kube.create(CLAIMS, document) == READ

    play(kubeconfig, act)


REQUESTS: list[Callable[[KubeClient], Awaitable[object]]] = [
    lambda kube: kube.find(CLAIMS, "a", "sandbox-box"),
    lambda kube: collect(kube.list(CLAIMS)),
    lambda kube: kube.create(CLAIMS, READ),
    lambda kube: kube.patch(CLAIMS, READ, {}),
    lambda kube: kube.delete(CLAIMS, READ),
    lambda kube: kube.review("a-token", "an-audience"),
]


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_server_that_does_not_answer_is_a_transient_error(
    server: Server, kubeconfig: dict[str, Any], request_: Callable[[KubeClient], Awaitable[object]]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        gone = _leading_to(f"http://127.0.0.1:{nobody.getsockname()[1]}")
    with pytest.raises(KubeApiError, match="does not answer") as refused:
        play(gone, request_)
    assert refused.value.transient
    server.answers += [refusal(429, "TooManyRequests", "busy")]
    with pytest.raises(KubeApiError, match=r"busy|429") as refused:
        play(kubeconfig, request_)
    assert refused.value.transient


def test_an_admission_webhook_that_denies_is_no_transient_error() -> None:
    assert KubeApiError("etcd is busy", 500).transient
    assert not KubeApiError('admission webhook "w" denied the request: no', 500).transient


def lines(parts: Iterable[bytes]) -> list[bytes]:
    """Return the lines of a body that arrives in parts."""

    async def coming() -> AsyncIterator[bytes]:
        for part in parts:
            yield part

    async def play() -> list[bytes]:
        return [line async for line in _lines(coming())]

    return run(play)


# Mostly newlines, so that lines are short, empty, and cut at their ends.
TEXT = st.lists(st.sampled_from([b"a", b"{}", b"\r", b"\n", b"\n", "ß".encode(), b"\x00"])).map(b"".join)


@given(TEXT, st.lists(st.integers(0, 40)))
def test_lines_do_not_depend_on_the_chunks(text: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    assert lines(text[start:end] for start, end in pairwise(places)) == [
        line for line in text.split(b"\n")[:-1] if line
    ]


@given(TEXT, st.binary(min_size=1).filter(lambda rest: b"\n" not in rest))
def test_an_incomplete_last_line_is_dropped(text: bytes, rest: bytes) -> None:
    whole = text + b"\n"
    assert lines([whole + rest]) == lines([whole, rest]) == lines([whole])


def test_a_line_is_yielded_as_soon_as_it_is_complete() -> None:
    async def play() -> list[bytes]:
        ended = asyncio.Event()

        async def coming() -> AsyncIterator[bytes]:
            yield b"one\ntw"
            assert ended.is_set()
            yield b"o\n"

        found: list[bytes] = []
        async for line in _lines(coming()):
            found.append(line)
            ended.set()
        return found

    assert asyncio.run(play()) == [b"one", b"two"]
