"""The clients send what the service's OpenAPI document describes, and raise its refusals."""

from __future__ import annotations

import asyncio
import inspect
import json
from typing import Any

import httpx2
import pytest

from agentenv.client import ApiError, AsyncClient, Client, ClientError
from agentenv.client import client as client_module
from agentenv.client.api import Api, AsyncApi
from agentenv.client.client import every
from agentenv.service.http.app import application

ADDRESS, TOKEN = "https://workspaces.example.com", "a-token"
# Operations that sandboxes call, with a token of their own
OF_SANDBOXES = {"exchange_token", "get_credentials", "read_secret"}
# A stream, which the client reads itself
STREAMS = {"follow_events"}


class Recorder:
    """Answers requests with one response, and records them."""

    def __init__(self, status: int, document: object) -> None:
        self.status, self.document = status, document
        self.requests: list[httpx2.Request] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        return httpx2.Response(self.status, json=self.document)

    @property
    def sent(self) -> tuple[str, str, Any]:
        [request] = self.requests
        return request.method, str(request.url).removeprefix(ADDRESS), json.loads(request.content or b"null")


def operations(api: type[object]) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(method)
        for name, method in vars(api).items()
        if not name.startswith("_") and name != "request"
    }


def test_both_clients_have_every_operation_with_the_same_arguments() -> None:
    paths: dict[str, dict[str, Any]] = application().openapi()["paths"]
    ids = {operation["operationId"] for methods in paths.values() for operation in methods.values()}
    names = {"".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in id_) for id_ in ids}
    assert set(operations(Api)) == names - OF_SANDBOXES - STREAMS
    for name in STREAMS:
        assert (
            inspect.signature(getattr(Client, name)).parameters
            == inspect.signature(getattr(AsyncClient, name)).parameters
        )
    assert operations(Api) == operations(AsyncApi)


def test_a_request_has_the_given_arguments_only() -> None:
    recorder = Recorder(201, {"id": "w-1"})
    with Client(ADDRESS, TOKEN, httpx2.MockTransport(recorder)) as client:
        assert client.create_workspace({"class": "standard"}, wait=5, idempotency_key="k")["id"] == "w-1"
    assert recorder.sent == ("POST", "/v1/workspaces?wait=5", {"class": "standard"})
    headers = recorder.requests[0].headers
    assert (headers["authorization"], headers["idempotency-key"]) == (f"Bearer {TOKEN}", "k")


def test_arguments_are_sent_as_the_service_reads_them() -> None:
    recorder = Recorder(200, {"items": [], "after": None})
    with Client(ADDRESS, TOKEN, httpx2.MockTransport(recorder)) as client:
        client.list_workspaces(class_="a", deleted=True, label=["team=a", "of=b"])
    assert recorder.sent[1] == "/v1/workspaces?class=a&label=team%3Da&label=of%3Db&deleted=true"
    recorder.requests.clear()
    with Client(ADDRESS, TOKEN, httpx2.MockTransport(recorder)) as client:
        client.get_workspace("../me?a=b")
    assert recorder.sent[1] == "/v1/workspaces/..%2Fme%3Fa%3Db"


def test_pages_are_read_to_the_last_one() -> None:
    rows = {None: {"items": [1, 2], "after": "2"}, "2": {"items": [3], "after": None}}
    assert list(every(lambda after: rows[after])) == [1, 2, 3]  # pyright: ignore[reportArgumentType]


def test_a_refusal_is_raised_with_its_kind_and_hint() -> None:
    problem = {
        "type": "urn:agent-environment:problem:budget-spent",
        "title": "The budget is spent",
        "detail": "3.00 of 3.00",
        "way_out": "ask an admin",
        "status": 402,
    }
    with Client(ADDRESS, TOKEN, httpx2.MockTransport(Recorder(402, problem))) as client:
        with pytest.raises(ApiError, match=r"The budget is spent; .*; ask an admin") as refused:
            client.resume_workspace("w-1")
        assert (refused.value.kind, refused.value.status) == ("budget-spent", 402)


def test_the_asynchronous_client_does_the_same() -> None:
    recorder = Recorder(200, {"owner": "u-1", "roles": ["user"]})

    async def read() -> str:
        async with AsyncClient(ADDRESS, TOKEN, httpx2.MockTransport(recorder)) as client:
            return (await client.get_caller())["owner"]

    assert asyncio.run(read()) == "u-1"
    assert recorder.sent == ("GET", "/v1/me", None)


def test_events_are_followed_over_streams_that_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_AGAIN_SECONDS", 0)
    queries: list[str] = []

    def respond(request: httpx2.Request) -> httpx2.Response:
        queries.append(request.url.query.decode())
        number = len(queries)
        if number == 2:
            raise httpx2.ConnectError("it restarts")
        body = f'id: {number}\nevent: event\ndata: {{"n":{number}}}\n\n'
        return httpx2.Response(200, content=body, headers={"Content-Type": "text/event-stream"})

    async def followed() -> list[Any]:
        async with AsyncClient(ADDRESS, TOKEN, httpx2.MockTransport(respond)) as client:
            messages = client.follow_events(workspace="w-1")
            return [(await anext(messages)).data["n"] for _ in range(2)]

    with Client(ADDRESS, TOKEN, httpx2.MockTransport(respond)) as client:
        messages = client.follow_events(workspace="w-1")
        assert [next(messages).data["n"] for _ in range(2)] == [1, 3]
    expected = ["workspace=w-1", "after=1&workspace=w-1", "after=1&workspace=w-1"]
    assert queries == expected
    queries.clear()
    assert asyncio.run(followed()) == [1, 3]
    assert queries == expected


def test_refused_streams_of_events_have_the_reason() -> None:
    refused = httpx2.MockTransport(Recorder(403, {"type": "urn:x:not-allowed", "detail": "only operators"}))

    async def follow() -> None:
        async with AsyncClient(ADDRESS, TOKEN, refused) as client:
            await anext(client.follow_events(everybody=True))

    with pytest.raises(ApiError, match="only operators"):
        asyncio.run(follow())
    with Client(ADDRESS, TOKEN, refused) as client, pytest.raises(ApiError, match="only operators"):
        next(client.follow_events(everybody=True))


def test_a_deletion_without_a_document_returns_none() -> None:
    def deleted(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(204)

    with Client(ADDRESS, TOKEN, httpx2.MockTransport(deleted)) as client:
        client.delete_secret("name")


@pytest.mark.parametrize(
    "address", ["http://workspaces.example.com", "ftp://127.0.0.1", "workspaces.example.com", "https://127.0.0.1:a"]
)
def test_an_unencrypted_or_invalid_address_is_an_error(address: str) -> None:
    with pytest.raises(ClientError, match=r"service address|not encrypted"):
        Client(address, TOKEN)


@pytest.mark.parametrize("token", ["t\u00f6ken", "two\nlines"])
def test_an_invalid_token_is_an_error_that_does_not_show_it(token: str) -> None:
    with pytest.raises(ClientError, match="the token contains invalid characters") as refused:
        Client(ADDRESS, token)
    assert token not in str(refused.value)


@pytest.mark.parametrize("content", [b"<html>a proxy's page</html>", b"[1]"])
def test_a_response_that_is_not_the_services_is_an_error(content: bytes) -> None:
    def page(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=content)

    with Client(ADDRESS, TOKEN, httpx2.MockTransport(page)) as client, pytest.raises(ClientError, match="status 200"):
        client.get_caller()
