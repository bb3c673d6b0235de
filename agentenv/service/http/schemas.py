"""Request and response bodies.

Unknown fields are refused: a misspelt field that is ignored looks as if it were applied.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from agentenv.config.sections.capabilities import Word
from agentenv.config.sections.classes import SizeName
from agentenv.core.classes.sizes import SMALL
from agentenv.core.workspaces.grants import EVERYTHING, Grants
from agentenv.core.workspaces.swarms import task_of
from agentenv.core.workspaces.workspace import (
    Access,
    Because,
    CreateResult,
    Event,
    Lease,
    Mode,
    Sharing,
    State,
    Workspace,
)
from agentenv.service.http.values import Dollars, Id, Labels, Line, Moment, Name, Owner, Seconds, Shared

# A year, and a day of a leap year.
MAX_LIFE = 366 * 86_400


class Shape(BaseModel):
    """The base of all bodies."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


# The field that a mode requires: for validation and for the OpenAPI document.
_REQUIRED_BY_MODE = {
    "session": ("mode `session` requires `session`, the id of the chat", ("session",)),
    "agent": ("mode `agent` requires `agent`, the agent's name", ("agent",)),
}


class GrantsRequest(Shape):
    """What a workspace may have at most, below what its class gives; an absent field is what the class gives."""

    ports: Annotated[
        list[Annotated[int, Field(ge=1, le=65535)]] | None,
        Field(max_length=50, description="The ports of its programs that can be opened and shared."),
    ] = None
    capabilities: Annotated[
        list[Word] | None,
        Field(
            max_length=20,
            description="The network of its class must be within these. Without `identity` its programs get neither"
            " credentials nor secrets.",
        ),
    ] = None
    size: Annotated[SizeName | None, Field(description="The largest size that it may get.")] = None
    life: Annotated[
        int | None, Field(ge=60, le=MAX_LIFE, description="Seconds until it is deleted; this end is never moved.")
    ] = None


class WorkspaceCreate(Shape):
    """A request for a workspace."""

    model_config = ConfigDict(
        json_schema_extra={
            "allOf": [
                {
                    "if": {"properties": {"mode": {"const": mode}}, "required": ["mode"]},
                    "then": {"required": list(names), "properties": {name: {"type": "string"} for name in names}},
                }
                for mode, (_, names) in _REQUIRED_BY_MODE.items()
            ]
        }
    )

    class_: Annotated[Name, Field(alias="class", description="The workspace's class.")]
    mode: Annotated[
        Mode,
        Field(
            description="`user`: one a user, retained. `session`: one a chat, ended with it. `agent`: one a named"
            " agent."
        ),
    ] = "user"
    key: Annotated[
        Line | None,
        Field(
            description="The idempotency key: the same key of the same owner returns the same workspace. By default it"
            " follows from the mode: one workspace a user, a chat, or an agent."
        ),
    ] = None
    session: Annotated[Line | None, Field(description="The id of the chat, for mode `session`.")] = None
    agent: Annotated[Line | None, Field(description="The agent's name, for mode `agent`.")] = None
    owner: Annotated[
        Owner | None, Field(description="The owner, if an operator creates it for another user; default: the caller.")
    ] = None
    channel: Annotated[Name, Field(description="The release channel of the class.")] = "stable"
    labels: Annotated[Labels, Field(description="Labels to list workspaces by.")] = {}
    shared: Annotated[Shared, Field(description="Other owners that may use it, and how.")] = {}
    idle_after: Annotated[
        Seconds | None, Field(description="Seconds without use until it is suspended; default: the class's.")
    ] = None
    deadline: Annotated[Moment | None, Field(description="When it is suspended at the latest.")] = None
    budget: Annotated[
        Dollars | None, Field(description="Dollars a month at which it is suspended; default: the class's.")
    ] = None
    size: Annotated[SizeName, Field(description="A size of the class; a larger one takes a moment longer.")] = SMALL
    parent: Annotated[
        Id | None,
        Field(
            description="The workspace that this one works for and ends with; its capabilities must include this one's,"
            " and this one's budget comes out of its budget."
        ),
    ] = None
    grants: Annotated[
        GrantsRequest,
        Field(description="Less than its class gives, and never more; a child has no more than its parent."),
    ] = GrantsRequest()
    start: Annotated[
        str,
        Field(pattern="^(any|warm)$", description="`warm`: return `pool-empty` instead of a cold start."),
    ] = "any"

    @model_validator(mode="after")
    def _require_fields_of_mode(self) -> Self:
        message, names = _REQUIRED_BY_MODE.get(self.mode, ("", ()))
        if any(getattr(self, name) is None for name in names):
            raise ValueError(message)
        return self


class WorkspaceUpdate(Shape):
    """The fields of a workspace to change: an absent field stays as it is, null removes its value."""

    class_: Annotated[
        Name | None, Field(alias="class", description="Recreate it in this class, cold, on the same data.")
    ] = None
    labels: Labels | None = None
    shared: Shared | None = None
    idle_after: Seconds | None = None
    deadline: Moment | None = None
    budget: Dollars | None = None
    size: Annotated[
        SizeName | None,
        Field(description="A size of the class. Its sandbox is resized in place, or at its next resume."),
    ] = None
    busy_until: Annotated[
        Moment | None, Field(description="It is not suspended for idling before this time, a day ahead at most.")
    ] = None
    wake_at: Annotated[Moment | None, Field(description="When it is resumed.")] = None


class LeaseRequest(Shape):
    """A request for a lease on a workspace."""

    mode: Access = "rw"
    seconds: Annotated[
        int | None, Field(ge=10, le=86_400, description="Seconds until it expires unless renewed; default: a setting.")
    ] = None


class LeaseShape(Shape):
    """A lease on a workspace."""

    holder: str
    mode: Access
    until: datetime

    @classmethod
    def of(cls, lease: Lease) -> LeaseShape:
        """Return the shape of a lease."""
        return cls(holder=lease.holder, mode=lease.mode, until=lease.until)


class GrantsShape(Shape):
    """What a workspace may have at most; null is what its class gives."""

    ports: list[int] | None
    capabilities: list[Word] | None
    size: SizeName | None
    ends: Annotated[datetime | None, Field(description="When it is deleted.")]

    @classmethod
    def of(cls, grants: Grants) -> GrantsShape | None:
        """Return the shape of grants; None where the class decides alone."""
        if grants == EVERYTHING:
            return None
        return cls.model_construct(
            ports=None if grants.ports is None else sorted(grants.ports),
            capabilities=None if grants.capabilities is None else sorted(grants.capabilities),
            size=grants.size,
            ends=grants.ends,
        )


class LastEndShape(Shape):
    """How the processes of a workspace last ended."""

    reason: Annotated[str, Field(description="Kubernetes' own: `OOMKilled` means out of memory.")]
    exit_code: int
    at: datetime | None
    message: str


class WorkspaceShape(Shape):
    """A workspace."""

    id: str
    owner: str
    class_: Annotated[str, Field(alias="class")]
    mode: Mode
    state: State
    created: datetime | None
    created_by: str
    task: str | None
    sandbox: str | None
    addresses: list[str]
    labels: dict[str, str]
    shared: dict[str, Access]
    leases: list[LeaseShape]
    last_active: datetime | None
    busy_until: datetime | None
    wake_at: datetime | None
    idle_after: int | None
    deadline: datetime | None
    budget: Dollars | None
    grants: Annotated[GrantsShape | None, Field(description="Null where its class decides alone.")]
    suspended_because: Because | None
    deleted_at: datetime | None
    destroy_after: datetime | None
    session: str | None
    parent: str | None
    size: SizeName
    current_size: Annotated[SizeName, Field(description="The size that its sandbox has.")]
    size_pending: Annotated[
        str | None,
        Field(description="Why its sandbox does not have the requested size; it has it after the next resume."),
    ]
    cold: Annotated[str | None, Field(description="Why it was started cold, if it was.")]
    why: Annotated[str | None, Field(description="Why it is not running, if it is not; in the words of its pod.")]
    restarts: Annotated[int, Field(description="How often its processes were started again in its current pod.")]
    last_end: Annotated[LastEndShape | None, Field(description="How they last ended, if they did.")]

    @classmethod
    def of(cls, workspace: Workspace, now: datetime) -> WorkspaceShape:
        """Return the shape of a workspace."""
        return cls.model_construct(
            id=workspace.id,
            owner=workspace.owner,
            class_=workspace.class_name,
            mode=workspace.mode,
            state=workspace.state,
            created=workspace.created,
            created_by=workspace.created_by,
            task=task_of(workspace),
            sandbox=workspace.sandbox,
            addresses=list(workspace.addresses),
            labels=dict(workspace.labels),
            shared=dict(workspace.shared),
            leases=[LeaseShape.of(lease) for lease in workspace.held(now)],
            last_active=workspace.last_active,
            busy_until=workspace.busy_until,
            wake_at=workspace.wake_at,
            idle_after=None if workspace.idle_after is None else int(workspace.idle_after.total_seconds()),
            deadline=workspace.deadline,
            budget=workspace.budget,
            grants=GrantsShape.of(workspace.grants),
            suspended_because=workspace.suspended_because,
            deleted_at=workspace.deleted_at,
            destroy_after=workspace.destroy_after,
            session=workspace.archive,
            parent=workspace.parent,
            size=workspace.size,
            current_size=workspace.current_size,
            size_pending=workspace.size_pending,
            cold=workspace.cold,
            why=workspace.why or None,
            restarts=workspace.restarts,
            last_end=LastEndShape.model_construct(**asdict(workspace.last_end)) if workspace.last_end else None,
        )


class WorkspacePage(Shape):
    """A page of a list."""

    items: list[WorkspaceShape]
    after: Annotated[str | None, Field(description="The `after` of the next page; null on the last page.")]


class EventShape(Shape):
    """An event of a workspace."""

    at: datetime
    about: str
    reason: str
    message: str
    count: int
    warning: bool

    @classmethod
    def of(cls, event: Event) -> EventShape:
        """Return the shape of an event."""
        return cls(
            at=event.at,
            about=event.about,
            reason=event.reason,
            message=event.message,
            count=event.count,
            warning=event.warning,
        )


class EventList(Shape):
    """The events of a workspace, the latest first."""

    items: list[EventShape]


class ClassShape(Shape):
    """A class that the caller may create workspaces of."""

    name: str
    tier: str
    modes: list[Mode]
    channels: list[str]
    sizes: list[SizeName]
    idle_after: int
    max_lifetime: int | None
    budget: Dollars | None
    kept: Annotated[bool, Field(description="Whether its files outlive its processes.")]
    kept_for: Annotated[
        dict[Mode, int], Field(description="Seconds that the files of a deleted workspace are retained, by mode.")
    ]
    sharing: Annotated[list[Sharing], Field(description="How ports may be shared, besides `private`.")]


class ClassList(Shape):
    """The classes that the caller may create workspaces of."""

    items: list[ClassShape]


class GatewayShape(Shape):
    """Where workspaces are reached."""

    sandboxes: Annotated[
        str,
        Field(description="Their own API; headers `E2b-Sandbox-Id` and `E2b-Sandbox-Port` choose."),
    ]
    ports: Annotated[str, Field(description="The URL of a port, with `{port}` and `{workspace}`.")]


class CallerShape(Shape):
    """The caller."""

    owner: str
    roles: list[str]
    gateway: Annotated[GatewayShape | None, Field(description="Null where the environment has no gateway.")] = None


class SwarmCreate(Shape):
    """A request for a swarm: several workspaces of one task that share a volume."""

    class_: Annotated[Name, Field(alias="class")]
    task: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$")]
    count: Annotated[int, Field(ge=1, le=500)]
    fit: Annotated[
        bool, Field(description="Create as many as the class has capacity for, at least one, instead of all or none.")
    ] = False
    channel: Name = "stable"
    deadline: Moment | None = None


class SwarmShape(Shape):
    """A swarm."""

    task: str
    class_: Annotated[str, Field(alias="class")]
    asked: int
    ready: int
    state: Annotated[str, Field(pattern="^(creating|running|failed)$")]
    why: str | None
    workspaces: list[str]


class SwarmPage(Shape):
    """A page of swarms."""

    items: list[SwarmShape]
    after: Annotated[str | None, Field(description="The `after` of the next page; null on the last page.")]


class SessionEnded(Shape):
    """A chat that was archived or deleted."""

    session: Annotated[Line, Field(description="The id of the chat.")]
    owner: Annotated[
        Owner | None, Field(description="The owner of the session, for operators; default: the caller.")
    ] = None


class EndedWorkspaces(Shape):
    """The number of workspaces that end."""

    workspaces: int


class ProblemShape(BaseModel):
    """Why a request is refused, and what to do."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    way_out: str
    errors: list[dict[str, Any]] | None = None


def location(result: CreateResult) -> str:
    """Return the path of a workspace."""
    return f"/v1/workspaces/{result.workspace.id}"
