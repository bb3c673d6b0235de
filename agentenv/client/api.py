"""The operations of the workspace service's API, and the documents that they send and return.

Written by `make generate` from the service's OpenAPI document. `Client` and `AsyncClient` send the requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict
from urllib.parse import quote


def _quoted(value: object) -> str:
    return quote(str(value), safe="")


class AliasSettings(TypedDict):
    """An alias, which names a host of the workspace."""

    alias: str
    port: NotRequired[int]


class Alias(TypedDict):
    """The alias of a workspace."""

    alias: str
    port: NotRequired[int]
    url: str


# A person's answer.
ApprovalAnswer = TypedDict(
    "ApprovalAnswer",
    {
        "answer": Literal["approve", "deny"],
        "for": "NotRequired[Literal['once', 'hour']]",
    },
)


class ApprovalList(TypedDict):
    """The approvals of a caller, the latest first."""

    items: list[Approval]


class Approval(TypedDict):
    """A call that waits for an approval, or did."""

    id: str
    workspace: str
    tool: str
    text: str
    created: str
    expires: str
    state: Literal["asked", "approved", "denied", "expired"]
    by: str | None
    until: str | None


class BreakGlassRequest(TypedDict):
    """Why an operator has to enter a workspace of another owner."""

    reason: str


class BreakGlass(TypedDict):
    """The right of an operator to enter."""

    workspace: str
    expires: str


class Budget(TypedDict):
    """The cost of an owner's month, and its cap."""

    spent: float | str
    cap: NotRequired[float | str | None]


class Caller(TypedDict):
    """The caller."""

    owner: str
    roles: list[str]
    gateway: NotRequired[Gateway | None]


class ClassList(TypedDict):
    """The classes that the caller may create workspaces of."""

    items: list[Class]


class Class(TypedDict):
    """A class that the caller may create workspaces of."""

    name: str
    tier: str
    modes: list[Literal["user", "session", "agent"]]
    channels: list[str]
    sizes: list[Literal["small", "medium", "large"]]
    idle_after: int
    max_lifetime: int | None
    budget: int | str | None
    kept: bool
    kept_for: dict[str, int]
    sharing: list[Literal["private", "team", "link", "public"]]


class EndedWorkspaces(TypedDict):
    """The number of workspaces that end."""

    workspaces: int


class EntryList(TypedDict):
    """The entries into a workspace on a day."""

    items: list[Entry]


class Entry(TypedDict):
    """A visitor entered the workspace. A visitor is recorded once an hour."""

    at: str
    who: str
    by: str
    opened: str
    source: str


class EventList(TypedDict):
    """The events of a workspace, the latest first."""

    items: list[Event]


class Event(TypedDict):
    """An event of a workspace."""

    at: str
    about: str
    reason: str
    message: str
    count: int
    warning: bool


class Gateway(TypedDict):
    """Where workspaces are reached."""

    sandboxes: str
    ports: str


class GrantsRequest(TypedDict):
    """What a workspace may have at most, below what its class gives; an absent field is what the class gives."""

    ports: NotRequired[list[int] | None]
    capabilities: NotRequired[
        list[Literal["dns", "web", "git", "packages", "identity", "metadata", "vpc", "api-server"]] | None
    ]
    size: NotRequired[Literal["small", "medium", "large"] | None]
    life: NotRequired[int | None]


class Grants(TypedDict):
    """What a workspace may have at most; null is what its class gives."""

    ports: list[int] | None
    capabilities: list[Literal["dns", "web", "git", "packages", "identity", "metadata", "vpc", "api-server"]] | None
    size: Literal["small", "medium", "large"] | None
    ends: str | None


class KeyCreate(TypedDict):
    """A request for an API key."""

    name: str
    scopes: list[Literal["read", "use", "create", "wake", "admin"]]
    expires_in: NotRequired[int]
    workspace: NotRequired[str | None]


class KeyList(TypedDict):
    """The valid keys of an owner."""

    items: list[Key]


class Key(TypedDict):
    """An API key, without its secret."""

    id: str
    name: str
    owner: str
    scopes: list[Literal["read", "use", "create", "wake", "admin"]]
    created: str
    expires: str
    last_used: NotRequired[str | None]
    workspace: NotRequired[str | None]


class LastEnd(TypedDict):
    """How the processes of a workspace last ended."""

    reason: str
    exit_code: int
    at: str | None
    message: str


class LeaseRequest(TypedDict):
    """A request for a lease on a workspace."""

    mode: NotRequired[Literal["rw", "ro"]]
    seconds: NotRequired[int | None]


class Lease(TypedDict):
    """A lease on a workspace."""

    holder: str
    mode: Literal["rw", "ro"]
    until: str


class LinkCreate(TypedDict):
    """A request for a link to a port that is shared by link."""

    port: int
    expires_in: NotRequired[int]
    wake: NotRequired[bool]


class LinkList(TypedDict):
    """The links of a workspace that are valid."""

    items: list[Link]


class Link(TypedDict):
    """A link, without its secret."""

    id: str
    port: int
    wake: bool
    created: str
    expires: str


class NewKey(TypedDict):
    """A new API key."""

    id: str
    name: str
    owner: str
    scopes: list[Literal["read", "use", "create", "wake", "admin"]]
    created: str
    expires: str
    last_used: NotRequired[str | None]
    workspace: NotRequired[str | None]
    key: str


class NewLink(TypedDict):
    """A new link."""

    id: str
    port: int
    wake: bool
    created: str
    expires: str
    url: str


class Operations(TypedDict):
    """The state of the environment."""

    pools: list[Pool]
    releases: list[Release]
    failures: list[Workspace]


# A warm pool.
Pool = TypedDict(
    "Pool",
    {
        "name": "str",
        "class": "str",
        "channel": "str",
        "size": "int",
        "ready": "int",
        "retiring": "bool",
    },
)


class PortList(TypedDict):
    """The ports of a workspace that are shared."""

    items: list[Port]


class PortSettings(TypedDict):
    """The sharing of a port."""

    sharing: Literal["private", "team", "link", "public"]
    teams: NotRequired[list[str]]
    wake: NotRequired[bool]


class Port(TypedDict):
    """A port, and where it is opened."""

    sharing: Literal["private", "team", "link", "public"]
    teams: NotRequired[list[str]]
    wake: NotRequired[bool]
    port: int
    url: str


class Problem(TypedDict):
    """Why a request is refused, and what to do."""

    type: str
    title: str
    status: int
    detail: str
    way_out: str
    errors: NotRequired[list[dict[str, Any]] | None]


# A release of a class.
Release = TypedDict(
    "Release",
    {
        "class": "str",
        "channel": "str",
        "release": "str",
        "workspaces": "dict[str, int]",
    },
)


class SecretList(TypedDict):
    """All secrets of one owner."""

    secrets: list[Secret]


class SecretPut(TypedDict):
    """The value of a secret."""

    value: str


class Secret(TypedDict):
    """A secret, without its value."""

    name: str
    reference: str
    arn: str
    changed: NotRequired[str | None]


class SessionEnded(TypedDict):
    """A chat that was archived or deleted."""

    session: str
    owner: NotRequired[str | None]


# A request for a swarm: several workspaces of one task that share a volume.
SwarmCreate = TypedDict(
    "SwarmCreate",
    {
        "class": "str",
        "task": "str",
        "count": "int",
        "fit": "NotRequired[bool]",
        "channel": "NotRequired[str]",
        "deadline": "NotRequired[str | None]",
    },
)


class SwarmPage(TypedDict):
    """A page of swarms."""

    items: list[Swarm]
    after: str | None


# A swarm.
Swarm = TypedDict(
    "Swarm",
    {
        "task": "str",
        "class": "str",
        "asked": "int",
        "ready": "int",
        "state": "str",
        "why": "str | None",
        "workspaces": "list[str]",
    },
)


class Usage(TypedDict):
    """An owner's usage."""

    owner: str
    since: str
    until: str
    lines: list[UsageLine]
    dollars: NotRequired[float | str | None]
    month: NotRequired[Budget | None]


# The usage of one workspace on one day.
UsageLine = TypedDict(
    "UsageLine",
    {
        "day": "str",
        "workspace": "str",
        "class": "str",
        "mode": "str",
        "task": "NotRequired[str | None]",
        "hours": "float | str",
        "cpu_seconds": "float | str",
        "memory_gib_hours": "float | str",
        "network_bytes": "float | str",
        "storage_gib_hours": "float | str",
        "sources": "list[str]",
        "dollars": "NotRequired[float | str | None]",
    },
)

# A request for a workspace.
WorkspaceCreate = TypedDict(
    "WorkspaceCreate",
    {
        "class": "str",
        "mode": "NotRequired[Literal['user', 'session', 'agent']]",
        "key": "NotRequired[str | None]",
        "session": "NotRequired[str | None]",
        "agent": "NotRequired[str | None]",
        "owner": "NotRequired[str | None]",
        "channel": "NotRequired[str]",
        "labels": "NotRequired[dict[str, str]]",
        "shared": "NotRequired[dict[str, Literal['rw', 'ro']]]",
        "idle_after": "NotRequired[int | None]",
        "deadline": "NotRequired[str | None]",
        "budget": "NotRequired[int | str | None]",
        "size": "NotRequired[Literal['small', 'medium', 'large']]",
        "parent": "NotRequired[str | None]",
        "grants": "NotRequired[GrantsRequest]",
        "start": "NotRequired[str]",
    },
)


class WorkspacePage(TypedDict):
    """A page of a list."""

    items: list[Workspace]
    after: str | None


# A workspace.
Workspace = TypedDict(
    "Workspace",
    {
        "id": "str",
        "owner": "str",
        "class": "str",
        "mode": Literal["user", "session", "agent"],
        "state": Literal[
            "creating", "running", "restarting", "moving", "suspending", "suspended", "failed", "deleting", "deleted"
        ],
        "created": "str | None",
        "created_by": "str",
        "task": "str | None",
        "sandbox": "str | None",
        "addresses": "list[str]",
        "labels": "dict[str, str]",
        "shared": "dict[str, Literal['rw', 'ro']]",
        "leases": "list[Lease]",
        "last_active": "str | None",
        "busy_until": "str | None",
        "wake_at": "str | None",
        "idle_after": "int | None",
        "deadline": "str | None",
        "budget": "int | str | None",
        "grants": "Grants | None",
        "suspended_because": "Literal['idle', 'budget', 'asked', 'deadline', 'failed', 'moving'] | None",
        "deleted_at": "str | None",
        "destroy_after": "str | None",
        "session": "str | None",
        "parent": "str | None",
        "size": Literal["small", "medium", "large"],
        "current_size": Literal["small", "medium", "large"],
        "size_pending": "str | None",
        "cold": "str | None",
        "why": "str | None",
        "restarts": "int",
        "last_end": "LastEnd | None",
    },
)

# The fields of a workspace to change: an absent field stays as it is, null removes its value.
WorkspaceUpdate = TypedDict(
    "WorkspaceUpdate",
    {
        "class": "NotRequired[str | None]",
        "labels": "NotRequired[dict[str, str] | None]",
        "shared": "NotRequired[dict[str, Literal['rw', 'ro']] | None]",
        "idle_after": "NotRequired[int | None]",
        "deadline": "NotRequired[str | None]",
        "budget": "NotRequired[int | str | None]",
        "size": "NotRequired[Literal['small', 'medium', 'large'] | None]",
        "busy_until": "NotRequired[str | None]",
        "wake_at": "NotRequired[str | None]",
    },
)


class Api:
    """The operations, each in one request."""

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        body: Any = None,
        headers: Mapping[str, Any] | None = None,
    ) -> Any:
        """Send a request and return the document of its response."""
        raise NotImplementedError

    def list_approvals(self) -> ApprovalList:
        """List what waits for the caller's approval, and what was answered in the last hour."""
        return self.request("GET", "/v1/approvals", {})

    def answer_approval(self, id_: str, body: ApprovalAnswer) -> Approval:
        """Approve a call that waits, once or for an hour, or deny it. Only a person answers, never an API key."""
        return self.request("POST", f"/v1/approvals/{_quoted(id_)}", {}, body)

    def list_classes(self) -> ClassList:
        """List the classes that the caller may create workspaces of."""
        return self.request("GET", "/v1/classes", {})

    def list_keys(self) -> KeyList:
        """List the caller's API keys that are valid, the oldest first."""
        return self.request("GET", "/v1/keys", {})

    def create_key(self, body: KeyCreate) -> NewKey:
        """Create an API key of the caller. It may create workspaces of the classes that the caller may have now."""
        return self.request("POST", "/v1/keys", {}, body)

    def revoke_key(self, id_: str) -> Key:
        """Revoke an API key of the caller; operators revoke any. It is refused within five seconds."""
        return self.request("DELETE", f"/v1/keys/{_quoted(id_)}", {})

    def get_caller(self) -> Caller:
        """Return the caller's owner id and roles, and where workspaces are reached."""
        return self.request("GET", "/v1/me", {})

    def get_operations(self) -> Operations:
        """Return the pools, releases and failures of the environment, for operators."""
        return self.request("GET", "/v1/operations", {})

    def list_secrets(self) -> SecretList:
        """List the caller's secrets by name."""
        return self.request("GET", "/v1/secrets", {})

    def delete_secret(self, name: str) -> None:
        """Delete a secret; within a week it can be recovered by putting it again."""
        self.request("DELETE", f"/v1/secrets/{_quoted(name)}", {})

    def put_secret(self, name: str, body: SecretPut) -> Secret:
        """Create or replace a secret. The caller's sandboxes can read it by name; nobody else's can."""
        return self.request("PUT", f"/v1/secrets/{_quoted(name)}", {}, body)

    def end_session(self, body: SessionEnded) -> EndedWorkspaces:
        """End the session of an archived chat: its workspace's data is destroyed after the configured retention."""
        return self.request("POST", "/v1/sessions/ended", {}, body)

    def sign_in(self, *, then: str | None = None) -> None:
        """Start the sign-in of a browser, which comes back to `then`, a path of this host."""
        self.request("GET", "/v1/sign-in", {"then": then})

    def finish_sign_in(self) -> None:
        """Finish the sign-in of a browser that the issuer sent back."""
        self.request("GET", "/v1/sign-in/callback", {})

    def enter_workspace(self, *, host: str | None = None, browser: str | None = None, path: str | None = None) -> None:
        """Send a browser on to a workspace's host, signed in."""
        self.request("GET", "/v1/sign-in/enter", {"host": host, "browser": browser, "path": path})

    def sign_in_with_key(self, *, x_api_key: str | None = None) -> None:
        """Sign in a page of the console by an API key, where the environment has no sign-in of an issuer."""
        self.request("POST", "/v1/sign-in/key", {}, headers={"x-api-key": x_api_key})

    def sign_out(self) -> None:
        """Sign out a browser everywhere. What it has open ends within a minute."""
        self.request("POST", "/v1/sign-out", {})

    def list_swarms(self, *, limit: int | None = None, after: str | None = None) -> SwarmPage:
        """List the caller's swarms by task, a page at a time."""
        return self.request("GET", "/v1/swarms", {"limit": limit, "after": after})

    def create_swarm(self, body: SwarmCreate, *, wait: float | None = None) -> Swarm:
        """Create a swarm: all or nothing, and once per owner and task."""
        return self.request("POST", "/v1/swarms", {"wait": wait}, body)

    def delete_swarm(self, task: str, *, destroy: bool | None = None) -> Swarm:
        """Delete a swarm. The data of its workspaces and their shared volume is retained like that of others."""
        return self.request("DELETE", f"/v1/swarms/{_quoted(task)}", {"destroy": destroy})

    def get_swarm(self, task: str) -> Swarm:
        """Return the status of one of the caller's swarms."""
        return self.request("GET", f"/v1/swarms/{_quoted(task)}", {})

    def get_usage(
        self,
        *,
        owner: str | None = None,
        workspace: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> Usage:
        """Return an owner's usage by workspace and day. The last ten minutes may be missing."""
        return self.request(
            "GET", "/v1/usage", {"owner": owner, "workspace": workspace, "since": since, "until": until}
        )

    def list_workspaces(
        self,
        *,
        owner: str | None = None,
        class_: str | None = None,
        state: Literal[
            "creating", "running", "restarting", "moving", "suspending", "suspended", "failed", "deleting", "deleted"
        ]
        | None = None,
        mode: Literal["user", "session", "agent"] | None = None,
        task: str | None = None,
        label: Sequence[str] | None = None,
        deleted: bool | None = None,
        everybody: bool | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> WorkspacePage:
        """List workspaces by id, a page at a time: the caller's own and shared ones, or everybody's."""
        return self.request(
            "GET",
            "/v1/workspaces",
            {
                "owner": owner,
                "class": class_,
                "state": state,
                "mode": mode,
                "task": task,
                "label": label,
                "deleted": deleted,
                "everybody": everybody,
                "limit": limit,
                "after": after,
            },
        )

    def create_workspace(
        self, body: WorkspaceCreate, *, wait: float | None = None, idempotency_key: str | None = None
    ) -> Workspace:
        """Create a workspace, unless it exists: from a warm sandbox if there is one."""
        return self.request(
            "POST", "/v1/workspaces", {"wait": wait}, body, headers={"idempotency-key": idempotency_key}
        )

    def delete_workspace(self, id_: str, *, destroy: bool | None = None) -> Workspace:
        """Delete a workspace. Its data is retained as the settings say, or destroyed at once."""
        return self.request("DELETE", f"/v1/workspaces/{_quoted(id_)}", {"destroy": destroy})

    def get_workspace(self, id_: str, *, wait: float | None = None) -> Workspace:
        """Read a workspace; with `wait`, once it is neither being created nor being deleted."""
        return self.request("GET", f"/v1/workspaces/{_quoted(id_)}", {"wait": wait})

    def update_workspace(self, id_: str, body: WorkspaceUpdate, *, wait: float | None = None) -> Workspace:
        """Update a workspace: another size resizes its sandbox, another class recreates it cold on the same data."""
        return self.request("PATCH", f"/v1/workspaces/{_quoted(id_)}", {"wait": wait}, body)

    def remove_alias(self, id_: str, *, free: bool | None = None) -> None:
        """Remove the alias of a workspace. It stays its owner's, unless an admin frees it."""
        self.request("DELETE", f"/v1/workspaces/{_quoted(id_)}/alias", {"free": free})

    def set_alias(self, id_: str, body: AliasSettings) -> Alias:
        """Give a workspace an alias. It stays its owner's, also without the workspace, until an admin frees it."""
        return self.request("PUT", f"/v1/workspaces/{_quoted(id_)}/alias", {}, body)

    def break_glass(self, id_: str, body: BreakGlassRequest) -> BreakGlass:
        """Let an operator enter a workspace of another owner for an hour. Its owner sees it, with the reason."""
        return self.request("POST", f"/v1/workspaces/{_quoted(id_)}/break-glass", {}, body)

    def list_entries(self, id_: str, *, day: str | None = None) -> EntryList:
        """List who entered a workspace on a day: for its owner, and for operators."""
        return self.request("GET", f"/v1/workspaces/{_quoted(id_)}/entries", {"day": day})

    def list_events(self, id_: str) -> EventList:
        """List the events of a workspace in the last hour, the latest first."""
        return self.request("GET", f"/v1/workspaces/{_quoted(id_)}/events", {})

    def detach(self, id_: str, holder: str, *, of: str | None = None) -> Workspace:
        """Release a lease. The owner of the workspace and admins may end those of others."""
        return self.request("DELETE", f"/v1/workspaces/{_quoted(id_)}/leases/{_quoted(holder)}", {"of": of})

    def attach(self, id_: str, holder: str, body: LeaseRequest) -> Workspace:
        """Attach to a workspace, or renew the lease: a lease that is not renewed expires."""
        return self.request("PUT", f"/v1/workspaces/{_quoted(id_)}/leases/{_quoted(holder)}", {}, body)

    def list_links(self, id_: str) -> LinkList:
        """List the links of a workspace that are valid."""
        return self.request("GET", f"/v1/workspaces/{_quoted(id_)}/links", {})

    def create_link(self, id_: str, body: LinkCreate) -> NewLink:
        """Create a link to a port that is shared by link."""
        return self.request("POST", f"/v1/workspaces/{_quoted(id_)}/links", {}, body)

    def revoke_link(self, id_: str, link: str) -> Link:
        """Revoke a link. What is open by it ends within a minute."""
        return self.request("DELETE", f"/v1/workspaces/{_quoted(id_)}/links/{_quoted(link)}", {})

    def list_ports(self, id_: str) -> PortList:
        """List the ports of a workspace that are shared."""
        return self.request("GET", f"/v1/workspaces/{_quoted(id_)}/ports", {})

    def share_port(self, id_: str, port: int, body: PortSettings) -> Port:
        """Share a port, or make it private again. What is open by a right that ended ends in a minute."""
        return self.request("PUT", f"/v1/workspaces/{_quoted(id_)}/ports/{_quoted(port)}", {}, body)

    def resume_workspace(self, id_: str, *, wait: float | None = None) -> Workspace:
        """Resume a workspace; one that was deleted is restored on its retained data."""
        return self.request("POST", f"/v1/workspaces/{_quoted(id_)}/resume", {"wait": wait})

    def revoke_access_tokens(self, id_: str) -> Workspace:
        """Revoke the access tokens of a workspace, and all links to files that they signed."""
        return self.request("POST", f"/v1/workspaces/{_quoted(id_)}/revoke-tokens", {})

    def suspend_workspace(self, id_: str) -> Workspace:
        """Suspend a workspace: its processes end, its files are retained."""
        return self.request("POST", f"/v1/workspaces/{_quoted(id_)}/suspend", {})


class AsyncApi:
    """The operations, each in one request, for asynchronous programs."""

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        body: Any = None,
        headers: Mapping[str, Any] | None = None,
    ) -> Any:
        """Send a request and return the document of its response."""
        raise NotImplementedError

    async def list_approvals(self) -> ApprovalList:
        """List what waits for the caller's approval, and what was answered in the last hour."""
        return await self.request("GET", "/v1/approvals", {})

    async def answer_approval(self, id_: str, body: ApprovalAnswer) -> Approval:
        """Approve a call that waits, once or for an hour, or deny it. Only a person answers, never an API key."""
        return await self.request("POST", f"/v1/approvals/{_quoted(id_)}", {}, body)

    async def list_classes(self) -> ClassList:
        """List the classes that the caller may create workspaces of."""
        return await self.request("GET", "/v1/classes", {})

    async def list_keys(self) -> KeyList:
        """List the caller's API keys that are valid, the oldest first."""
        return await self.request("GET", "/v1/keys", {})

    async def create_key(self, body: KeyCreate) -> NewKey:
        """Create an API key of the caller. It may create workspaces of the classes that the caller may have now."""
        return await self.request("POST", "/v1/keys", {}, body)

    async def revoke_key(self, id_: str) -> Key:
        """Revoke an API key of the caller; operators revoke any. It is refused within five seconds."""
        return await self.request("DELETE", f"/v1/keys/{_quoted(id_)}", {})

    async def get_caller(self) -> Caller:
        """Return the caller's owner id and roles, and where workspaces are reached."""
        return await self.request("GET", "/v1/me", {})

    async def get_operations(self) -> Operations:
        """Return the pools, releases and failures of the environment, for operators."""
        return await self.request("GET", "/v1/operations", {})

    async def list_secrets(self) -> SecretList:
        """List the caller's secrets by name."""
        return await self.request("GET", "/v1/secrets", {})

    async def delete_secret(self, name: str) -> None:
        """Delete a secret; within a week it can be recovered by putting it again."""
        await self.request("DELETE", f"/v1/secrets/{_quoted(name)}", {})

    async def put_secret(self, name: str, body: SecretPut) -> Secret:
        """Create or replace a secret. The caller's sandboxes can read it by name; nobody else's can."""
        return await self.request("PUT", f"/v1/secrets/{_quoted(name)}", {}, body)

    async def end_session(self, body: SessionEnded) -> EndedWorkspaces:
        """End the session of an archived chat: its workspace's data is destroyed after the configured retention."""
        return await self.request("POST", "/v1/sessions/ended", {}, body)

    async def sign_in(self, *, then: str | None = None) -> None:
        """Start the sign-in of a browser, which comes back to `then`, a path of this host."""
        await self.request("GET", "/v1/sign-in", {"then": then})

    async def finish_sign_in(self) -> None:
        """Finish the sign-in of a browser that the issuer sent back."""
        await self.request("GET", "/v1/sign-in/callback", {})

    async def enter_workspace(
        self, *, host: str | None = None, browser: str | None = None, path: str | None = None
    ) -> None:
        """Send a browser on to a workspace's host, signed in."""
        await self.request("GET", "/v1/sign-in/enter", {"host": host, "browser": browser, "path": path})

    async def sign_in_with_key(self, *, x_api_key: str | None = None) -> None:
        """Sign in a page of the console by an API key, where the environment has no sign-in of an issuer."""
        await self.request("POST", "/v1/sign-in/key", {}, headers={"x-api-key": x_api_key})

    async def sign_out(self) -> None:
        """Sign out a browser everywhere. What it has open ends within a minute."""
        await self.request("POST", "/v1/sign-out", {})

    async def list_swarms(self, *, limit: int | None = None, after: str | None = None) -> SwarmPage:
        """List the caller's swarms by task, a page at a time."""
        return await self.request("GET", "/v1/swarms", {"limit": limit, "after": after})

    async def create_swarm(self, body: SwarmCreate, *, wait: float | None = None) -> Swarm:
        """Create a swarm: all or nothing, and once per owner and task."""
        return await self.request("POST", "/v1/swarms", {"wait": wait}, body)

    async def delete_swarm(self, task: str, *, destroy: bool | None = None) -> Swarm:
        """Delete a swarm. The data of its workspaces and their shared volume is retained like that of others."""
        return await self.request("DELETE", f"/v1/swarms/{_quoted(task)}", {"destroy": destroy})

    async def get_swarm(self, task: str) -> Swarm:
        """Return the status of one of the caller's swarms."""
        return await self.request("GET", f"/v1/swarms/{_quoted(task)}", {})

    async def get_usage(
        self,
        *,
        owner: str | None = None,
        workspace: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> Usage:
        """Return an owner's usage by workspace and day. The last ten minutes may be missing."""
        return await self.request(
            "GET", "/v1/usage", {"owner": owner, "workspace": workspace, "since": since, "until": until}
        )

    async def list_workspaces(
        self,
        *,
        owner: str | None = None,
        class_: str | None = None,
        state: Literal[
            "creating", "running", "restarting", "moving", "suspending", "suspended", "failed", "deleting", "deleted"
        ]
        | None = None,
        mode: Literal["user", "session", "agent"] | None = None,
        task: str | None = None,
        label: Sequence[str] | None = None,
        deleted: bool | None = None,
        everybody: bool | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> WorkspacePage:
        """List workspaces by id, a page at a time: the caller's own and shared ones, or everybody's."""
        return await self.request(
            "GET",
            "/v1/workspaces",
            {
                "owner": owner,
                "class": class_,
                "state": state,
                "mode": mode,
                "task": task,
                "label": label,
                "deleted": deleted,
                "everybody": everybody,
                "limit": limit,
                "after": after,
            },
        )

    async def create_workspace(
        self, body: WorkspaceCreate, *, wait: float | None = None, idempotency_key: str | None = None
    ) -> Workspace:
        """Create a workspace, unless it exists: from a warm sandbox if there is one."""
        return await self.request(
            "POST", "/v1/workspaces", {"wait": wait}, body, headers={"idempotency-key": idempotency_key}
        )

    async def delete_workspace(self, id_: str, *, destroy: bool | None = None) -> Workspace:
        """Delete a workspace. Its data is retained as the settings say, or destroyed at once."""
        return await self.request("DELETE", f"/v1/workspaces/{_quoted(id_)}", {"destroy": destroy})

    async def get_workspace(self, id_: str, *, wait: float | None = None) -> Workspace:
        """Read a workspace; with `wait`, once it is neither being created nor being deleted."""
        return await self.request("GET", f"/v1/workspaces/{_quoted(id_)}", {"wait": wait})

    async def update_workspace(self, id_: str, body: WorkspaceUpdate, *, wait: float | None = None) -> Workspace:
        """Update a workspace: another size resizes its sandbox, another class recreates it cold on the same data."""
        return await self.request("PATCH", f"/v1/workspaces/{_quoted(id_)}", {"wait": wait}, body)

    async def remove_alias(self, id_: str, *, free: bool | None = None) -> None:
        """Remove the alias of a workspace. It stays its owner's, unless an admin frees it."""
        await self.request("DELETE", f"/v1/workspaces/{_quoted(id_)}/alias", {"free": free})

    async def set_alias(self, id_: str, body: AliasSettings) -> Alias:
        """Give a workspace an alias. It stays its owner's, also without the workspace, until an admin frees it."""
        return await self.request("PUT", f"/v1/workspaces/{_quoted(id_)}/alias", {}, body)

    async def break_glass(self, id_: str, body: BreakGlassRequest) -> BreakGlass:
        """Let an operator enter a workspace of another owner for an hour. Its owner sees it, with the reason."""
        return await self.request("POST", f"/v1/workspaces/{_quoted(id_)}/break-glass", {}, body)

    async def list_entries(self, id_: str, *, day: str | None = None) -> EntryList:
        """List who entered a workspace on a day: for its owner, and for operators."""
        return await self.request("GET", f"/v1/workspaces/{_quoted(id_)}/entries", {"day": day})

    async def list_events(self, id_: str) -> EventList:
        """List the events of a workspace in the last hour, the latest first."""
        return await self.request("GET", f"/v1/workspaces/{_quoted(id_)}/events", {})

    async def detach(self, id_: str, holder: str, *, of: str | None = None) -> Workspace:
        """Release a lease. The owner of the workspace and admins may end those of others."""
        return await self.request("DELETE", f"/v1/workspaces/{_quoted(id_)}/leases/{_quoted(holder)}", {"of": of})

    async def attach(self, id_: str, holder: str, body: LeaseRequest) -> Workspace:
        """Attach to a workspace, or renew the lease: a lease that is not renewed expires."""
        return await self.request("PUT", f"/v1/workspaces/{_quoted(id_)}/leases/{_quoted(holder)}", {}, body)

    async def list_links(self, id_: str) -> LinkList:
        """List the links of a workspace that are valid."""
        return await self.request("GET", f"/v1/workspaces/{_quoted(id_)}/links", {})

    async def create_link(self, id_: str, body: LinkCreate) -> NewLink:
        """Create a link to a port that is shared by link."""
        return await self.request("POST", f"/v1/workspaces/{_quoted(id_)}/links", {}, body)

    async def revoke_link(self, id_: str, link: str) -> Link:
        """Revoke a link. What is open by it ends within a minute."""
        return await self.request("DELETE", f"/v1/workspaces/{_quoted(id_)}/links/{_quoted(link)}", {})

    async def list_ports(self, id_: str) -> PortList:
        """List the ports of a workspace that are shared."""
        return await self.request("GET", f"/v1/workspaces/{_quoted(id_)}/ports", {})

    async def share_port(self, id_: str, port: int, body: PortSettings) -> Port:
        """Share a port, or make it private again. What is open by a right that ended ends in a minute."""
        return await self.request("PUT", f"/v1/workspaces/{_quoted(id_)}/ports/{_quoted(port)}", {}, body)

    async def resume_workspace(self, id_: str, *, wait: float | None = None) -> Workspace:
        """Resume a workspace; one that was deleted is restored on its retained data."""
        return await self.request("POST", f"/v1/workspaces/{_quoted(id_)}/resume", {"wait": wait})

    async def revoke_access_tokens(self, id_: str) -> Workspace:
        """Revoke the access tokens of a workspace, and all links to files that they signed."""
        return await self.request("POST", f"/v1/workspaces/{_quoted(id_)}/revoke-tokens", {})

    async def suspend_workspace(self, id_: str) -> Workspace:
        """Suspend a workspace: its processes end, its files are retained."""
        return await self.request("POST", f"/v1/workspaces/{_quoted(id_)}/suspend", {})
