"""Routes of what is known of a sandbox in use: its metrics, and its events as logs."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, Field

from agentenv.client.connect_json import SandboxError
from agentenv.core.workspaces.workspace import Event, Workspace
from agentenv.service.e2b.operations import find_sandbox
from agentenv.service.e2b.sandboxes import Document, metric, sizes_of, state_of
from agentenv.service.http.dependencies import AuthenticatedRoute, CurrentCaller, Dependencies, RequestDependencies
from agentenv.service.http.values import ID

router = APIRouter(route_class=AuthenticatedRoute)

Named = Annotated[str, Path(pattern=ID)]
_LEVELS = ("debug", "info", "warn", "error")


@router.get("/sandboxes/metrics")
async def metrics_of_several(
    caller: CurrentCaller, dependencies: RequestDependencies, sandbox_ids: Annotated[str, Query(max_length=8192)]
) -> Document:
    """Return the current metrics of several sandboxes; those that are not running have none."""
    ids = [id_ for id_ in dict.fromkeys(sandbox_ids.split(",")) if id_][:100]
    found = await asyncio.gather(*(dependencies.backend.get(id_) for id_ in ids))
    now = dependencies.now()
    running = [each for each in found if each and each.owner == caller.owner and state_of(each, now) == "running"]
    rows = await asyncio.gather(*(_metrics(dependencies, each) for each in running))
    return {"sandboxes": {each.id: row[0] for each, row in zip(running, rows, strict=True) if row}}


@router.get("/sandboxes/{id}/metrics")
async def metrics(
    id_: Annotated[Named, Path(alias="id")],
    caller: CurrentCaller,
    dependencies: RequestDependencies,
    start: Annotated[int | None, Query()] = None,
    end: Annotated[int | None, Query()] = None,
) -> list[Document]:
    """Return the metrics of a sandbox: the current ones, as no earlier ones are stored."""
    workspace, state = await find_sandbox(dependencies, caller, "see", id_)
    rows = await _metrics(dependencies, workspace) if state == "running" else []
    return [
        row for row in rows if (start or 0) <= row["timestampUnix"] and (end is None or row["timestampUnix"] <= end)
    ]


@router.get("/sandboxes/{id}/logs")
async def logs(
    id_: Annotated[Named, Path(alias="id")],
    caller: CurrentCaller,
    dependencies: RequestDependencies,
    start: Annotated[int | None, Query(ge=0)] = None,
    limit: Annotated[int, Query(ge=0, le=1000)] = 1000,
) -> Document:
    """Return the events of a sandbox in the last hour, the earliest first."""
    workspace, _ = await find_sandbox(dependencies, caller, "see", id_)
    entries = await _log(dependencies, workspace, LogQuery(cursor=start, limit=limit))
    return {"logs": [{"timestamp": row["timestamp"], "line": row["message"]} for row in entries], "logEntries": entries}


class LogQuery(BaseModel):
    """The selection of a log's entries."""

    model_config = ConfigDict(extra="forbid")

    cursor: Annotated[int | None, Field(ge=0)] = None  # milliseconds
    limit: Annotated[int, Field(ge=0, le=1000)] = 1000
    direction: Annotated[str, Field(pattern="^(forward|backward)$")] = "forward"
    level: Annotated[str, Field(pattern="^(debug|info|warn|error)$")] = "debug"
    search: Annotated[str, Field(max_length=256)] = ""


@router.get("/v2/sandboxes/{id}/logs")
async def log_page(
    id_: Annotated[Named, Path(alias="id")],
    query: Annotated[LogQuery, Query()],
    caller: CurrentCaller,
    dependencies: RequestDependencies,
) -> Document:
    """Return the events of a sandbox in the last hour, from a time on."""
    workspace, _ = await find_sandbox(dependencies, caller, "see", id_)
    return {"logs": await _log(dependencies, workspace, query)}


async def _metrics(dependencies: Dependencies, workspace: Workspace) -> list[Document]:
    if dependencies.sandboxes is None:
        return []
    try:
        of_class = dependencies.catalog.classes.get(workspace.class_name)
        sizes = sizes_of(of_class, workspace.current_size)
        return [metric(await dependencies.sandboxes.metrics(workspace), sizes)]
    except (SandboxError, ValueError, TypeError, OverflowError):
        # It is starting or stopping, or something else has taken over its port.
        return []


async def _log(dependencies: Dependencies, workspace: Workspace, query: LogQuery) -> list[Document]:
    forward, since = query.direction == "forward", query.cursor
    events = sorted(await dependencies.backend.events(workspace.id), key=lambda event: event.at, reverse=not forward)
    entries = [
        _entry(event)
        for event in events
        if since is None or (_milliseconds(event.at) >= since if forward else _milliseconds(event.at) <= since)
    ]
    least = _LEVELS.index(query.level)
    chosen = [row for row in entries if _LEVELS.index(row["level"]) >= least and query.search in row["message"]]
    return chosen[: query.limit]


def _entry(event: Event) -> Document:
    return {
        "timestamp": event.at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "message": f"{event.reason}: {event.message}",
        "level": "warn" if event.warning else "info",
        "fields": {"about": event.about, "count": str(event.count)},
    }


def _milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)
