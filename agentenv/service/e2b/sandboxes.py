"""Workspaces as the sandboxes of the `e2b` clients: states, documents, filters and pages. Pure."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote

from agentenv.config.sections.classes import SizeName
from agentenv.core.classes.pods.resources import CPU, DISK, MEMORY
from agentenv.core.classes.sizes import SMALL
from agentenv.core.lifecycle.deadline import timeout_is_over
from agentenv.core.values.timestamps import EARLIEST, format_timestamp, parse_timestamp
from agentenv.core.workspaces.workspace import Mode, Workspace
from agentenv.service.catalog import Catalog, Class
from agentenv.service.e2b.bodies import ListQuery
from agentenv.service.http.problems import Problem

Document = dict[str, Any]
State = Literal["running", "paused"]
STATES: tuple[State, ...] = ("running", "paused")

# workspaced serves what envd of this version serves.
ENVD_VERSION = "0.6.4"
# The clients send a default template where their caller names none.
DEFAULT_TEMPLATE = "base"
CLIENT_ID = "agentenv"
# The clients require an end; that of a workspace without a timeout is never reached.
_NO_END = timedelta(days=3650)
_MIB = 1 << 20


def state_of(workspace: Workspace, now: datetime) -> State | None:
    """Return the state of a sandbox; None for one that is killed, failed, or at the end of its timeout."""
    if workspace.state in {"deleting", "deleted", "failed"}:
        return None
    if timeout_is_over(workspace, now) and workspace.timeout is not None:
        return None if workspace.timeout.then == "delete" else "paused"
    # While it is being suspended, it has the reason already; one that moves or is replaced comes back by itself.
    because = workspace.suspended_because
    return "running" if because == "moving" or (because is None and workspace.state != "suspended") else "paused"


def template_of(workspace: Workspace, of_class: Class | None) -> str:
    """Return the template of a workspace: its class, with the channel where that is not the stable one."""
    channels = [release.channel for release in of_class.releases if workspace.pool in release.names] if of_class else []
    return workspace.class_name if not channels or "stable" in channels else f"{workspace.class_name}:{channels[0]}"


def listed(workspace: Workspace, state: State, catalog: Catalog) -> Document:
    """Return a sandbox as in a list."""
    of_class = catalog.classes.get(workspace.class_name)
    started = workspace.created or EARLIEST
    template = template_of(workspace, of_class)
    return {
        "templateID": template,
        "alias": template,
        "sandboxID": workspace.id,
        "clientID": CLIENT_ID,
        "startedAt": format_timestamp(started),
        "endAt": format_timestamp(workspace.deadline or started + _NO_END),
        "state": state,
        "envdVersion": ENVD_VERSION,
        "metadata": dict(workspace.metadata),
        **sizes_of(of_class, workspace.current_size),
    }


def detail(workspace: Workspace, state: State, catalog: Catalog) -> Document:
    """Return a sandbox with all that is known of it, without its tokens."""
    of_class = catalog.classes.get(workspace.class_name)
    timeout = workspace.timeout
    return {
        **listed(workspace, state, catalog),
        "allowInternetAccess": of_class.reaches_internet if of_class else None,
        "lifecycle": {
            "onTimeout": "kill" if timeout is not None and timeout.then == "delete" else "pause",
            "autoResume": timeout is None or timeout.wakes,
        },
        **({"pauseMode": "filesystem"} if state == "paused" else {}),
    }


def sizes_of(of_class: Class | None, size: SizeName = SMALL) -> Document:
    """Return what a sandbox of a class may use at most, in one of its sizes."""
    if of_class is None or size not in of_class.sizes:
        return {"cpuCount": 1, "memoryMB": 0, "diskSizeMB": 0}
    limits = of_class.sizes[size].limits
    disk = of_class.plan.settings.storage.size.value if of_class.has_homes else limits[DISK]
    return {
        "cpuCount": max(1, math.ceil(limits[CPU])),
        "memoryMB": int(limits[MEMORY] // _MIB),
        "diskSizeMB": int(disk // _MIB),
    }


@dataclass(frozen=True)
class Choice:
    """The filters of a list, as its query has them."""

    metadata: Mapping[str, str]
    states: frozenset[str]
    templates: Mapping[Mode, str] | None  # in each mode
    started_after: datetime | None

    @classmethod
    def of(cls, query: ListQuery, templates: Mapping[Mode, str] | None) -> Choice:
        """Return the filters of a query; raise a `Problem` for those that cannot be read."""
        states = frozenset(state for text in query.state for state in text.split(",")) or frozenset(STATES)
        if states - set(STATES):
            raise _malformed(f"state: {min(states - set(STATES))!r} is no state", "use `running` or `paused`")
        return cls(metadata_filter(query.metadata), states, templates, query.started_after)

    def accepts(self, workspace: Workspace, state: str | None, template: str) -> bool:
        """Return whether a sandbox passes the filters."""
        return (
            state in self.states
            and (self.templates is None or self.templates.get(workspace.mode) == template)
            and (self.started_after is None or (workspace.created or EARLIEST) >= self.started_after)
            and all(workspace.metadata.get(key) == value for key, value in self.metadata.items())
        )


def metadata_filter(text: str | None) -> dict[str, str]:
    """Return the metadata that a query requires; the clients quote keys and values before they encode the form."""
    if not text:
        return {}
    try:
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=True, max_num_fields=100)
    except ValueError:
        raise _malformed("metadata: it is no list of key=value", "separate pairs by `&`, and quote them") from None
    return {unquote(key): unquote(value) for key, value in pairs}


def page(
    workspaces: Iterable[Workspace], order: str, limit: int, token: str | None
) -> tuple[Sequence[Workspace], str | None]:
    """Return a page of workspaces by their start, and the token of the next page."""
    ordered = sorted(workspaces, key=_position, reverse=order == "desc")
    if token is not None:
        last = _read_token(token)
        ordered = [each for each in ordered if (_position(each) < last if order == "desc" else _position(each) > last)]
    chosen = ordered[:limit]
    return chosen, _token(chosen[-1]) if len(ordered) > limit else None


def _position(workspace: Workspace) -> tuple[str, str]:
    return format_timestamp(workspace.created or EARLIEST), workspace.id


def _token(workspace: Workspace) -> str:
    return base64.urlsafe_b64encode("_".join(_position(workspace)).encode()).decode()


def _read_token(token: str) -> tuple[str, str]:
    try:
        started, _, id_ = base64.b64decode(token, altchars=b"-_", validate=True).decode().partition("_")
    except ValueError:
        started, id_ = "", ""
    if not id_ or parse_timestamp(started) is None:
        raise _malformed("nextToken: it is not from a page of this list", "start with the first page")
    return started, id_


def metric(document: Mapping[str, Any], sizes: Document) -> Document:
    """Return a metric of workspaced as the control API has it.

    Without a cgroup of its own, as under gVisor, a sandbox sees the processors and the memory of its node.
    """
    at, memory = int(document.get("ts", 0)), int(document.get("mem_total", 0))
    limit = int(sizes["memoryMB"]) * _MIB
    return {
        "timestamp": datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z"),
        "timestampUnix": at,
        "cpuCount": min(int(document.get("cpu_count", 0)), int(sizes["cpuCount"])),
        "cpuUsedPct": float(document.get("cpu_used_pct", 0.0)),
        "memUsed": int(document.get("mem_used", 0)),
        "memTotal": min(memory, limit) if limit else memory,
        "memCache": int(document.get("mem_cache", 0)),
        "diskUsed": int(document.get("disk_used", 0)),
        "diskTotal": int(document.get("disk_total", 0)),
    }


def template_document(of_class: Class, channel: str) -> Document:
    """Return a release of a class as a template."""
    name = of_class.name if channel == "stable" else f"{of_class.name}:{channel}"
    never = format_timestamp(EARLIEST)
    return {
        "templateID": name,
        "buildID": of_class.release(channel).names[0],
        "buildStatus": "ready",
        "buildCount": 1,
        "public": False,
        "aliases": [name],
        "names": [name],
        "createdAt": never,
        "updatedAt": never,
        "createdBy": None,
        "lastSpawnedAt": None,
        "spawnCount": 0,
        "envdVersion": ENVD_VERSION,
        **sizes_of(of_class),
    }


def _malformed(detail_: str, way_out: str) -> Problem:
    return Problem("malformed", detail_, way_out)
