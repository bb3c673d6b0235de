"""Events as a stream (SSE) with a cursor: what happens to the caller's workspaces, as it happens.

A stream ends after some minutes, and its reader continues after the last event that it got. One that reads too slowly
is ended earlier. The credential is checked again while a stream is open.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema  # noqa: TC002 - FastAPI reads annotations

from agentenv.core.workspaces.workspace import Filter, Workspace
from agentenv.service.http.auth.callers import Caller
from agentenv.service.http.auth.permissions import is_allowed, require
from agentenv.service.http.dependencies import (
    AuthenticatedRoute,
    CurrentCaller,
    Dependencies,
    RequestDependencies,
    authenticated,
)
from agentenv.service.http.problems import Problem
from agentenv.service.http.responses import problems
from agentenv.service.http.schemas import EventShape, WorkspaceShape
from agentenv.service.http.values import Id
from agentenv.service.workspaces.event_log import Follower, LoggedEvent

if TYPE_CHECKING:
    from starlette.types import Message, Send

router = APIRouter(prefix="/v1/events", tags=["events"], route_class=AuthenticatedRoute)
MEDIA_TYPE = "text/event-stream"
# The schema of each message, not of the stream: so do those that check or show a description read it.
MESSAGE = {
    "type": "object",
    "required": ["event", "data"],
    "properties": {
        "event": {"type": "string", "enum": ["event", "workspace", "removed", "gap", "ready"]},
        "id": {"type": "string"},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
}
HEARTBEAT_SECONDS = 15.0
# Less than the time that a response may take.
SHORTEST_STREAM, LONGEST_STREAM = 200.0, 260.0
# The time in which a reader takes what fills its connection.
SEND_SECONDS = 20.0
RETRY_MILLISECONDS = 1_000
# Of so many workspaces of a caller it is told that they are gone.
MOST_KNOWN = 5_000
Cursor = Annotated[int, Field(ge=0, le=2**63)]


class EventQuery(BaseModel):
    """Which events to follow."""

    model_config = ConfigDict(extra="forbid")

    after: Annotated[
        Cursor | None, Field(description="The `id` of the last event that was read; 0 for all of the last hour.")
    ] = None
    workspace: Annotated[Id | None, Field(description="Only this workspace.")] = None
    everybody: Annotated[bool, Field(description="All workspaces, for operators.")] = False


@dataclass
class _Reader:
    """What one caller may see of the workspaces."""

    dependencies: Dependencies
    caller: Caller
    query: EventQuery
    known: set[str]

    def message_of(self, logged: LoggedEvent) -> str:
        workspace = self.dependencies.backend.cached(logged.workspace)
        if workspace is None or not self._sees(workspace):
            return ""
        document = {"workspace": logged.workspace, **EventShape.of(logged.event).model_dump(mode="json")}
        return _message("event", document, logged.number)

    def state_of(self, id_: str) -> str:
        workspace = self.dependencies.backend.cached(id_)
        if workspace is not None and self._sees(workspace):
            if len(self.known) < MOST_KNOWN:
                self.known.add(id_)
            return _message("workspace", WorkspaceShape.of(workspace, self.dependencies.now()))
        if id_ in self.known:
            self.known.discard(id_)
            return _message("removed", {"workspace": id_})
        return ""

    def _sees(self, workspace: Workspace) -> bool:
        if self.query.workspace is not None:
            return workspace.id == self.query.workspace and is_allowed(self.caller, "see", workspace)
        return self.query.everybody or _own(self.caller).matches(workspace)


def _own(caller: Caller) -> Filter:
    """Return which workspaces are a caller's, or shared with them: as in a list."""
    return Filter(reader=caller.owner, deleted=True)


class EventStream(StreamingResponse):
    """A response whose reader is dropped where it does not read."""

    def __init__(self, messages: AsyncGenerator[str], opened: AbstractContextManager[None]) -> None:
        """`opened` is entered while messages are sent."""
        super().__init__(messages, media_type=MEDIA_TYPE)
        self._messages, self._opened = messages, opened

    async def stream_response(self, send: Send) -> None:
        """Send the messages as they come."""

        async def timely(message: Message) -> None:
            async with asyncio.timeout(SEND_SECONDS):
                await send(message)

        with self._opened:
            try:
                await super().stream_response(timely)
            except TimeoutError:
                return  # the server closes a connection whose response is not complete
            finally:
                await self._messages.aclose()


@router.get(
    "",
    operation_id="followEvents",
    response_class=Response,
    responses={
        200: {
            "description": "Messages of four kinds. `event`: an event of a workspace, with an `id`. `workspace`: a"
            " workspace as it is now. `removed`: a workspace that is gone, or not the caller's to see any more."
            " `gap`: events after the cursor were forgotten; list them. `ready` has the cursor of the start.",
            "content": {MEDIA_TYPE: {"schema": MESSAGE}},
        },
        **problems(401, 403, 404, 422, 429, 503),
    },
)
async def follow(
    query: Annotated[EventQuery, Query()],
    request: Request,
    caller: CurrentCaller,
    dependencies: RequestDependencies,
    # Without `null` in its description: a header is absent, or a number.
    last_event_id: Annotated[
        Cursor | SkipJsonSchema[None], Header(description="Instead of `after`, and before it.")
    ] = None,
) -> Response:
    """Follow the events of the caller's workspaces as server-sent events. It ends after some minutes; continue it."""
    if query.everybody and not caller.is_operator:
        raise Problem("not-allowed", "only operators follow everybody's events", "leave out `everybody`")
    if query.workspace is not None:
        require(caller, "see", await dependencies.backend.get(query.workspace))
    after = last_event_id if last_event_id is not None else query.after
    dependencies.streams.check(caller.owner)
    page = await dependencies.backend.list(_own(caller), limit=MOST_KNOWN)
    reader = _Reader(dependencies, caller, query, {workspace.id for workspace in page.workspaces})
    return EventStream(_messages(request, reader, after), dependencies.streams.opened(caller.owner))


async def _messages(request: Request, reader: _Reader, after: int | None) -> AsyncGenerator[str]:
    log, deadline = reader.dependencies.backend.log, time.monotonic() + _duration()
    rows, complete = log.since(after) if after is not None else ([], True)
    with log.following(min(after, log.latest) if after is not None and log.loaded else after) as follower:
        cursor = log.latest if log.loaded else after
        yield f"retry: {RETRY_MILLISECONDS}\n\n"
        if not complete:
            yield _message("gap", {})
        for row in rows:
            if message := reader.message_of(row):
                yield message
        yield _message("ready", {}, cursor)
        while not follower.dropped and (left := deadline - time.monotonic()) > 0:
            if not await follower.wait(min(left, HEARTBEAT_SECONDS)):
                if not await _still_allowed(request, reader.caller):
                    return
                yield ": \n\n"
            elif text := _taken(reader, follower):
                yield text


def _taken(reader: _Reader, follower: Follower) -> str:
    events, changed = follower.take()
    return "".join([*(reader.message_of(row) for row in events), *(reader.state_of(id_) for id_ in changed)])


async def _still_allowed(request: Request, caller: Caller) -> bool:
    """Return whether the credential of the request still is valid, and the same caller's."""
    try:
        return (await authenticated(request)).owner == caller.owner
    except Problem:
        return False


def _duration() -> float:
    # Readers do not come back all at once.
    return random.uniform(SHORTEST_STREAM, LONGEST_STREAM)  # noqa: S311 - no secret


def _message(kind: str, content: BaseModel | dict[str, Any], number: int | None = None) -> str:
    """Return a message. Its data is JSON in one line, in which nothing can be taken for another field."""
    data = content.model_dump_json(by_alias=True) if isinstance(content, BaseModel) else json.dumps(content)
    cursor = f"id: {number}\n" if number is not None else ""
    return f"{cursor}event: {kind}\ndata: {data}\n\n"
