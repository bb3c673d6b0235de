"""Events as a stream: who sees which, the cursor, ended credentials, and readers that are too slow."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agentenv.client import ApiError, Client
from agentenv.client.events import EventDecoder, Message
from agentenv.core.workspaces.workspace import CreateRequest
from agentenv.service.http import events as stream_module
from agentenv.service.http import streams
from tests.fast.dev.served import Served, serving
from tests.fast.service.workspaces.backend_contract import MISSING


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("events") / "state") as started:
        yield started


@pytest.fixture
def client(served: Served) -> Iterator[Client]:
    with Client(served.address, served.key) as connected:
        yield connected


@asynccontextmanager
async def stream(served: Served, key: str = "", **query: Any) -> AsyncGenerator[AsyncIterator[Message]]:
    """Open a stream, and yield its messages."""
    headers = {"Authorization": f"Bearer {key or served.key}"}
    if (last := query.pop("last", None)) is not None:
        headers["Last-Event-ID"] = last
    async with (
        httpx2.AsyncClient(base_url=served.address, headers=headers, trust_env=False) as http,
        asyncio.timeout(30),
        http.stream("GET", "/v1/events", params=query) as response,
    ):
        assert response.status_code == 200, await response.aread()
        decoder = EventDecoder()

        async def messages() -> AsyncIterator[Message]:
            async for data in response.aiter_bytes():
                for message in decoder.feed(data):
                    message.data["cursor"] = decoder.cursor
                    yield message

        yield messages()


async def until(messages: AsyncIterator[Message], kind: str) -> tuple[list[Message], Message]:
    """Return the messages before the first one of a kind, and that one."""
    before: list[Message] = []
    async for message in messages:
        if message.kind == kind:
            return before, message
        before.append(message)
    raise AssertionError(f"the stream ended without {kind}: {before}")


_keys = (f"events-{number}" for number in itertools.count())


def created(client: Client) -> str:
    return client.create_workspace({"class": "standard", "key": next(_keys)}, wait=10)["id"]


def test_a_change_arrives_as_an_event_with_a_number_and_as_the_state_of_the_workspace(
    served: Served, client: Client
) -> None:
    id_ = created(client)

    async def act() -> None:
        async with stream(served, workspace=id_) as messages:
            before, ready = await until(messages, "ready")
            assert before == []
            await asyncio.to_thread(client.suspend_workspace, id_)
            got = {message.kind: message.data for message in [await anext(messages) for _ in range(2)]}
            assert (got["event"]["reason"], got["event"]["workspace"]) == ("Suspended", id_)
            assert int(got["event"]["cursor"]) > int(ready.data["cursor"])
            assert (got["workspace"]["id"], got["workspace"]["state"]) == (id_, "suspended")

    asyncio.run(act())


@pytest.mark.parametrize("by", ["after", "last"])
def test_a_stream_continues_after_the_last_event_without_loss_or_repetition(
    served: Served, client: Client, by: str
) -> None:
    id_ = created(client)

    async def act() -> None:
        async with stream(served, workspace=id_, after=0) as messages:
            before, _ = await until(messages, "ready")
        assert [message.data["reason"] for message in before] == ["Created", "Running"]
        await asyncio.to_thread(client.suspend_workspace, id_)
        async with stream(served, workspace=id_, **{by: before[0].data["cursor"]}) as messages:
            missed, _ = await until(messages, "ready")
        assert [message.data["reason"] for message in missed] == ["Running", "Suspended"]

    asyncio.run(act())


def test_a_destroyed_workspace_is_reported_as_removed(served: Served, client: Client) -> None:
    id_ = created(client)

    async def act() -> None:
        async with stream(served) as messages:
            await until(messages, "ready")
            await asyncio.to_thread(client.delete_workspace, id_, destroy=True)
            _, removed = await until(messages, "removed")
            assert removed.data["workspace"] == id_

    asyncio.run(act())


def test_events_of_other_owners_are_streamed_to_operators_on_request(served: Served, client: Client) -> None:
    key = client.create_key({"name": "reader", "scopes": ["read"]})["key"]
    with Client(served.address, key) as reader, pytest.raises(ApiError, match="only operators"):
        next(reader.follow_events(everybody=True))
    with pytest.raises(ApiError, match="no such workspace"):
        next(client.follow_events(workspace=MISSING))
    request = CreateRequest("u-other", "key/other", "standard", "u-other")

    async def act() -> None:
        async with stream(served) as own, stream(served, everybody="true") as everybodys:
            await until(own, "ready")
            await until(everybodys, "ready")
            creating = served.local.backend.create(request, wait=10)
            foreign = asyncio.run_coroutine_threadsafe(creating, served.loop).result().workspace.id
            _, seen = await until(everybodys, "workspace")
            mine = await asyncio.to_thread(created, client)
            assert (seen.data["id"], (await until(own, "workspace"))[1].data["id"]) == (foreign, mine)
        async with stream(served, after=0) as again:
            before, _ = await until(again, "ready")
        assert before
        assert foreign not in {message.data["workspace"] for message in before}

    asyncio.run(act())


def test_a_stream_ends_when_its_key_is_revoked(served: Served, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "HEARTBEAT_SECONDS", 0.05)
    key = client.create_key({"name": "short", "scopes": ["read"]})

    async def act() -> None:
        async with stream(served, key["key"]) as messages:
            await until(messages, "ready")
            await asyncio.to_thread(client.revoke_key, key["id"])
            assert [message async for message in messages if message.kind == "event"] == []

    asyncio.run(act())


def test_streams_are_limited_and_end_by_themselves(
    served: Served, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MOST_STREAMS_OF_OWNER", 1)

    async def act() -> None:
        async with stream(served) as messages:
            await until(messages, "ready")
            with pytest.raises(ApiError, match="at most 1 streams"):
                await asyncio.to_thread(lambda: next(client.follow_events()))
        monkeypatch.setattr(stream_module, "LONGEST_STREAM", 0.1)
        monkeypatch.setattr(stream_module, "SHORTEST_STREAM", 0.1)
        while served.local.dependencies.streams != streams.Streams():
            await asyncio.sleep(0)
        async with stream(served) as messages:
            assert [message.kind async for message in messages] == ["ready"]

    asyncio.run(act())


def test_a_reader_that_does_not_read_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection is closed; the events of the meantime are at the next one."""
    monkeypatch.setattr(stream_module, "SEND_SECONDS", 0.2)
    monkeypatch.setattr(stream_module, "HEARTBEAT_SECONDS", 0.05)
    with serving(tmp_path / "state") as served, Client(served.address, served.key) as client:
        id_ = created(client)

        async def act() -> None:
            host, _, port = served.address.removeprefix("http://").partition(":")
            reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
            request = f"GET /v1/events HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {served.key}\r\n\r\n"
            writer.write(request.encode())
            assert b"200" in await reader.readline()
            log = served.local.backend.log
            (row,) = [row for row in log.since(0)[0] if row.workspace == id_][:1]
            long = replace(row.event, message="x" * 100_000)

            def flood() -> None:
                for number in range(row.number + 100, row.number + 400):
                    log.add(number, id_, long)

            served.loop.call_soon_threadsafe(flood)
            async with asyncio.timeout(30):
                while served.local.dependencies.streams != streams.Streams():
                    await asyncio.sleep(0)
            writer.transport.abort()

        asyncio.run(act())


def test_the_decoder_takes_bytes_in_any_pieces() -> None:
    text = b'retry: 1\n\n: \n\nid: 7\nevent: event\ndata: {"reason": "caf\xc3\xa9"}\n\ndata: {}\n\n'
    for size in (1, 3, len(text)):
        decoder = EventDecoder()
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        got = [message for piece in pieces for message in decoder.feed(piece)]
        assert got == [Message("event", {"reason": "café"}), Message("message", {})]
        assert decoder.cursor == "7"
    with pytest.raises(ValueError, match="without an end"):
        list(EventDecoder().feed(b"x" * (5 << 20)))
