"""Request and response bodies.

Unknown fields are refused: a misspelt field that is ignored looks as if it were applied.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from agentenv.core.workspaces.workspace import Access, Because, CreateResult, Event, Lease, Mode, State, Workspace
from agentenv.service.http.values import Dollars, Id, Labels, Line, Moment, Name, Owner, Seconds, Shared


class Shape(BaseModel):
    """The base of all bodies."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


# By what a session and an agent are known; said here and in the description, so that both agree.
_TIED = {
    "session": ("a session is tied to a chat: say which by `session`", ("session",)),
    "agent": ("nobody knows which agent it is for: say its name by `agent`", ("agent",)),
}


class WorkspaceAsked(Shape):
    """A workspace that is asked for."""

    model_config = ConfigDict(
        json_schema_extra={
            "allOf": [
                {
                    "if": {"properties": {"mode": {"const": mode}}, "required": ["mode"]},
                    "then": {"required": list(names), "properties": {name: {"type": "string"} for name in names}},
                }
                for mode, (_, names) in _TIED.items()
            ]
        }
    )

    class_: Annotated[Name, Field(alias="class", description="The class that it is of.")]
    mode: Annotated[
        Mode,
        Field(
            description="`user`: one, kept; `session`: fresh, tied to a chat and archived with it; `agent`: one agent's"
            " own."
        ),
    ] = "user"
    key: Annotated[
        Line | None,
        Field(
            description="Asked for again by the same owner, it is the same workspace. Left out, it follows from the"
            " mode: a user has one, a session one by its chat, an agent one by its name."
        ),
    ] = None
    session: Annotated[Line | None, Field(description="The chat of a session.")] = None
    agent: Annotated[Line | None, Field(description="The agent's name.")] = None
    owner: Annotated[Owner | None, Field(description="For whom it is; for whoever asks when left out.")] = None
    channel: Annotated[Name, Field(description="Which release of the class.")] = "stable"
    labels: Annotated[Labels, Field(description="What its owner finds it by.")] = {}
    shared: Annotated[Shared, Field(description="Who else may use it, and how.")] = {}
    idle_after: Annotated[
        Seconds | None, Field(description="Seconds without use until it sleeps; the class's when left out.")
    ] = None
    deadline: Annotated[Moment | None, Field(description="When it ends at the latest.")] = None
    budget: Annotated[
        Dollars | None, Field(description="Dollars a month at which it is put to sleep; the class's when left out.")
    ] = None
    parent: Annotated[
        Id | None, Field(description="A workspace that this one is made for, and may not do more than.")
    ] = None
    start: Annotated[
        str,
        Field(pattern="^(any|warm)$", description="`warm`: refused with `pool-empty` rather than started cold."),
    ] = "any"

    @model_validator(mode="after")
    def _tied(self) -> Self:
        words, names = _TIED.get(self.mode, ("", ()))
        if any(getattr(self, name) is None for name in names):
            raise ValueError(words)
        return self


class WorkspaceChanged(Shape):
    """What of a workspace is to be another; what is left out stays, and null takes away."""

    class_: Annotated[
        Name | None, Field(alias="class", description="Made anew of that class, cold, on the same data.")
    ] = None
    labels: Labels | None = None
    shared: Shared | None = None
    idle_after: Seconds | None = None
    deadline: Moment | None = None
    budget: Dollars | None = None
    busy_until: Annotated[Moment | None, Field(description="Not put to sleep for idling before that.")] = None
    wake_at: Annotated[Moment | None, Field(description="When it is woken.")] = None


class LeaseAsked(Shape):
    """A hold on a workspace."""

    mode: Access = "rw"
    seconds: Annotated[
        int | None, Field(ge=10, le=86_400, description="How long without a heartbeat; the service's when left out.")
    ] = None


class LeaseShape(Shape):
    """A hold that somebody has."""

    holder: str
    mode: Access
    until: datetime

    @classmethod
    def of(cls, lease: Lease) -> LeaseShape:
        """As it is told."""
        return cls(holder=lease.holder, mode=lease.mode, until=lease.until)


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
    suspended_because: Because | None
    deleted_at: datetime | None
    destroy_after: datetime | None
    session: str | None
    parent: str | None
    cold: Annotated[str | None, Field(description="Why it was not taken from a pool, where it was not.")]
    why: Annotated[str | None, Field(description="What stands against it, where it is not running.")]

    @classmethod
    def of(cls, workspace: Workspace, now: datetime) -> WorkspaceShape:
        """As it is told."""
        return cls.model_construct(
            id=workspace.id,
            owner=workspace.owner,
            class_=workspace.class_name,
            mode=workspace.mode,
            state=workspace.state,
            created=workspace.created,
            created_by=workspace.created_by,
            task=workspace.task,
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
            suspended_because=workspace.suspended_because,
            deleted_at=workspace.deleted_at,
            destroy_after=workspace.destroy_after,
            session=workspace.archive,
            parent=workspace.parent,
            cold=workspace.cold,
            why=workspace.why or None,
        )


class WorkspacePage(Shape):
    """A part of a list."""

    items: list[WorkspaceShape]
    after: Annotated[str | None, Field(description="Where the next page begins; null on the last.")]


class EventShape(Shape):
    """Something that happened."""

    at: datetime
    about: str
    reason: str
    message: str
    count: int
    warning: bool

    @classmethod
    def of(cls, event: Event) -> EventShape:
        """As it is told."""
        return cls(
            at=event.at,
            about=event.about,
            reason=event.reason,
            message=event.message,
            count=event.count,
            warning=event.warning,
        )


class EventList(Shape):
    """What happened, the latest first."""

    items: list[EventShape]


class ClassShape(Shape):
    """A class that whoever asks may have a workspace of."""

    name: str
    tier: str
    modes: list[Mode]
    channels: list[str]
    idle_after: int
    max_lifetime: int | None
    budget: Dollars | None
    kept: Annotated[bool, Field(description="Whether its files outlive its processes.")]


class ClassList(Shape):
    """The classes that whoever asks may have workspaces of."""

    items: list[ClassShape]


class CallerShape(Shape):
    """Whoever asks."""

    owner: str
    roles: list[str]


class SwarmAsked(Shape):
    """Several workspaces for one task, that share a volume."""

    class_: Annotated[Name, Field(alias="class")]
    task: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$")]
    count: Annotated[int, Field(ge=1, le=500)]
    fit: Annotated[bool, Field(description="As many as there is room for, at least one; else all of them or none.")] = (
        False
    )
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


class SessionEnded(Shape):
    """A chat that was archived, or deleted."""

    session: Line


class Counted(Shape):
    """How many were meant."""

    workspaces: int


class ProblemShape(BaseModel):
    """Why a request is not done, and what to do."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    way_out: str
    errors: list[dict[str, Any]] | None = None


def location(result: CreateResult) -> str:
    """Where a workspace is looked at."""
    return f"/v1/workspaces/{result.workspace.id}"
