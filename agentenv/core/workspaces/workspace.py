"""The types of workspaces: their ids, states, annotations, requests and results.

All data of a workspace is in Kubernetes: on its claim while it exists, and on its volume after it was deleted.
`records.py` reads and writes these objects.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b32encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Final, Literal, get_args

from agentenv.config.sections.classes import SizeName
from agentenv.core.classes.sizes import SMALL
from agentenv.core.workspaces.child_budgets import ChildBudgets
from agentenv.core.workspaces.grants import EVERYTHING, Grants, format_grants

# `restarting`: its pod or its processes ended, and are started again. `moving`: its node goes away.
State = Literal[
    "creating", "running", "restarting", "moving", "suspending", "suspended", "failed", "deleting", "deleted"
]
Mode = Literal["user", "session", "agent"]
Access = Literal["rw", "ro"]
# How a port is shared besides with those who may use the workspace.
Sharing = Literal["private", "team", "link", "public"]
Because = Literal["idle", "budget", "asked", "deadline", "failed", "moving"]
# The prefix of a team among those with whom a workspace is shared; owners' ids have no colon.
TEAM: Final = "team:"
STATES: tuple[State, ...] = get_args(State)
MODES: tuple[Mode, ...] = get_args(Mode)
# States that end by themselves, so that a caller waits. A workspace that restarts may do so for ever.
TRANSITIONAL: Final[frozenset[State]] = frozenset({"creating", "restarting", "moving", "suspending", "deleting"})

# Annotations of claims, and of the volumes of deleted workspaces.
DOMAIN = "sandbox.users.io/"
KEY = f"{DOMAIN}key"  # hash of the create request: another request with the same key is refused
CREATED_BY = f"{DOMAIN}created-by"
SHARED = f"{DOMAIN}shared"  # JSON: owner -> rw or ro
LEASES = f"{DOMAIN}leases"  # JSON: list of {holder, mode, until}
LAST_ACTIVE = f"{DOMAIN}last-active"
BUSY_UNTIL = f"{DOMAIN}busy-until"
WAKE_AT = f"{DOMAIN}wake-at"
IDLE_AFTER = f"{DOMAIN}idle-after"  # seconds
DEADLINE = f"{DOMAIN}deadline"
BUDGET = f"{DOMAIN}budget"  # dollars a month
CHILD_BUDGETS = f"{DOMAIN}child-budgets"  # JSON: what its children hold of its budget
BUDGET_NOTICED = f"{DOMAIN}budget-noticed"  # the month in which its owner was last notified
PORTS = f"{DOMAIN}ports"  # JSON: port -> {sharing, teams, wake}
TOKEN_GENERATION = f"{DOMAIN}token-generation"  # raised to revoke its access tokens
SHARE_GENERATION = f"{DOMAIN}share-generation"  # raised when a share ends, to revoke the tokens of sharers
TIMEOUT = f"{DOMAIN}timeout"  # JSON: {seconds, then, wakes}
METADATA = f"{DOMAIN}metadata"  # JSON: texts by name, of a client of the sandbox API
SUSPENDED_BECAUSE = f"{DOMAIN}suspended-because"
DELETED_AT = f"{DOMAIN}deleted-at"
DESTROY_AFTER = f"{DOMAIN}destroy-after"
# When the volume of a workspace was created again in another cluster; the workspace is restored when it is used.
RECOVERED_AT = f"{DOMAIN}recovered-at"
# A label of a deleted workspace's volume: its destruction was requested, so it cannot be restored.
DESTROY_REQUESTED = f"{DOMAIN}destroy-requested"
TEAMS = f"{DOMAIN}limited-teams"  # JSON: teams of its creator that may have a limited number of workspaces
ARCHIVE = f"{DOMAIN}archive"  # of a session: its chat
ARCHIVE_ENDED = f"{DOMAIN}archive-ended"  # when the chat left the archive; also on the volume of a deleted session
PARENT_WORKSPACE = f"{DOMAIN}parent-workspace"  # the workspace whose capabilities it may not exceed
GRANTS = f"{DOMAIN}grants"  # JSON: {ports, capabilities, size, ends}, below what its class gives
SIZE = f"{DOMAIN}size"  # as requested; none is `small`
CURRENT_SIZE = f"{DOMAIN}current-size"  # of its sandbox
REPLACED_AT = f"{DOMAIN}replaced-at"  # when its failed pod was replaced last
SIZE_PENDING = f"{DOMAIN}size-pending"  # why its sandbox does not have the requested size yet
RESIZES = f"{DOMAIN}resizes"  # JSON: list of {until, cpu, memory}, what its pod requested before, for the ledger
COLD = f"{DOMAIN}cold"  # why it started cold, if it did
# The prefix of owners' own labels, so that they cannot set those of the service.
OWN_LABEL = "label.sandbox.users.io/"

# Annotations that are copied to the volume when a workspace is deleted, so that it is restored unchanged.
# A timeout is not: a restored workspace has no client that would extend it.
RECORD = (
    KEY,
    CREATED_BY,
    SHARED,
    IDLE_AFTER,
    DEADLINE,
    BUDGET,
    CHILD_BUDGETS,
    ARCHIVE,
    PARENT_WORKSPACE,
    TEAMS,
    METADATA,
    GRANTS,
    SIZE,
    PORTS,
    TOKEN_GENERATION,
)

# The value of `SIZE_PENDING` until the node has answered.
RESIZING = "its sandbox is being resized"

_PREFIX = "w-"
_ID_LENGTH = 26  # of base 32: 130 bits, so that ids are unique and cannot be guessed
# Ids of workspaces that are older than cells have none.
ID: Final = re.compile(rf"{_PREFIX}([a-z][0-9])?[a-z2-7]{{{_ID_LENGTH}}}")


def workspace_id(owner: str, key: str, cell: str = "") -> str:
    """Return the id of an owner's workspace for a key: always the same, so that it is created once."""
    text = f"{len(owner)}:{owner}:{key}".encode("utf-8", "surrogatepass")
    return _PREFIX + cell + b32encode(hashlib.sha256(text).digest()).decode().lower()[:_ID_LENGTH]


class Unset(Enum):
    """The value of a field that a change leaves unchanged; None removes the field."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease on a workspace, until it expires."""

    holder: str
    mode: Access
    until: datetime


@dataclass(frozen=True, slots=True)
class Timeout:
    """The life of a workspace from its creation or resumption, and what ends it; the deadline is its end."""

    seconds: int
    then: Literal["delete", "suspend"]  # delete: at once, with its data
    wakes: bool = False  # whether traffic resumes it once it is suspended


@dataclass(frozen=True, slots=True)
class PortSharing:
    """The people who may open a port of a workspace besides those who may use it."""

    sharing: Sharing
    teams: tuple[str, ...] = ()
    wake: bool = False  # whether they may also wake it


@dataclass(frozen=True, slots=True)
class LastEnd:
    """How the processes of a workspace last ended in its current pod."""

    reason: str  # Kubernetes' own, such as OOMKilled
    exit_code: int
    at: datetime | None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Workspace:
    """One workspace, as it was read."""

    id: str
    owner: str
    class_name: str
    mode: Mode
    state: State
    created: datetime | None = None
    claim_uid: str = ""  # also in the ledger
    version: str = ""  # the resourceVersion of the object
    pool: str = ""
    sandbox: str | None = None
    addresses: tuple[str, ...] = ()
    volume: str | None = None  # known for deleted workspaces, and for those just claimed
    task: str | None = None
    key: str = ""
    created_by: str = ""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    shared: Mapping[str, Access] = field(default_factory=dict[str, Access])
    leases: tuple[Lease, ...] = ()
    last_active: datetime | None = None
    busy_until: datetime | None = None
    wake_at: datetime | None = None
    idle_after: timedelta | None = None  # None: that of its class
    deadline: datetime | None = None
    timeout: Timeout | None = None
    ports: Mapping[int, PortSharing] = field(default_factory=dict[int, PortSharing])
    token_generation: int = 0
    share_generation: int = 0
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    budget: Decimal | None = None  # without what its children hold
    child_budgets: ChildBudgets = field(default_factory=ChildBudgets)
    grants: Grants = EVERYTHING
    suspended_because: Because | None = None
    deleted_at: datetime | None = None
    destroy_after: datetime | None = None
    archive: str | None = None
    parent: str | None = None
    limited_teams: tuple[str, ...] = ()  # teams of its creator that may have a limited number
    size: SizeName = SMALL
    current_size: SizeName = SMALL
    size_pending: str | None = None
    volume_retained: bool = False
    cold: str | None = None
    why: str = ""  # the message of its conditions or of its pod, if it is not running
    restarts: int = 0  # of the processes of its current pod
    last_end: LastEnd | None = None
    turned: datetime | None = field(default=None, compare=False)  # the last transition of its Ready condition
    archive_ended: datetime | None = None  # of a session whose chat has ended

    @property
    def namespace(self) -> str:
        """Return the namespace of its class."""
        return f"sandbox-{self.class_name}"

    @property
    def resizing(self) -> bool:
        """Return whether its sandbox is still to be resized; a node that refused is not asked again."""
        return self.size_pending == RESIZING or (self.size_pending is None and self.size != self.current_size)

    def held(self, now: datetime) -> tuple[Lease, ...]:
        """Return the leases that have not expired."""
        return tuple(lease for lease in self.leases if lease.until > now)


@dataclass(frozen=True)
class CreateRequest:
    """A request to create a workspace."""

    owner: str
    key: str
    class_name: str
    created_by: str
    mode: Mode = "user"
    task: str | None = None
    channel: str = "stable"
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    shared: Mapping[str, Access] = field(default_factory=dict[str, Access])
    idle_after: timedelta | None = None
    deadline: datetime | None = None
    budget: Decimal | None = None
    archive: str | None = None
    parent: str | None = None
    limited_teams: tuple[str, ...] = ()
    timeout: Timeout | None = None
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    size: SizeName = SMALL
    grants: Grants = EVERYTHING
    cell: str = ""  # none for a workspace that is older than cells

    @property
    def id(self) -> str:
        """Return the id of the workspace that it creates."""
        return workspace_id(self.owner, self.key, self.cell)

    @property
    def fingerprint(self) -> str:
        """Return a digest of the fields that must be equal in two requests with the same key, whoever sends them.

        Labels, metadata, deadline, timeout and the end of its grants are not part of it: a repeated request often has
        later ones, and means the same workspace.
        """
        content = (
            self.class_name,
            self.mode,
            self.task,
            self.channel,
            sorted(self.shared.items()),
            self.idle_after,
            None if self.budget is None else str(self.budget.normalize()),
            self.archive,
            self.parent,
            # Only of larger ones: workspaces of older versions have none.
            *([self.size] if self.size != SMALL else []),
            # Only of narrowed ones, for the same reason.
            *([format_grants(lasting)] if (lasting := replace(self.grants, ends=None)) != EVERYTHING else []),
        )
        return hashlib.sha256(repr(content).encode("utf-8", "surrogatepass")).hexdigest()[:32]


@dataclass(frozen=True)
class Changes:
    """Changes of a workspace."""

    class_name: str | Unset = UNSET
    labels: Mapping[str, str] | Unset = UNSET
    shared: Mapping[str, Access] | Unset = UNSET
    idle_after: timedelta | Unset | None = UNSET
    deadline: datetime | Unset | None = UNSET
    timeout: Timeout | Unset | None = UNSET
    budget: Decimal | Unset | None = UNSET
    child_budgets: ChildBudgets | Unset = UNSET
    archive: str | Unset | None = UNSET
    size: SizeName | Unset | None = UNSET
    busy_until: datetime | Unset | None = UNSET
    wake_at: datetime | Unset | None = UNSET
    last_active: datetime | Unset | None = UNSET
    ports: Mapping[int, PortSharing] | Unset = UNSET
    token_generation: int | Unset = UNSET


@dataclass(frozen=True)
class CreateResult:
    """The result of a request to create, resume or move a workspace."""

    workspace: Workspace
    ready: bool  # whether it can be used now
    existed: bool = False
    cold: str | None = None  # why it does not come from a pool


@dataclass(frozen=True)
class Filter:
    """A filter of workspaces; None matches all. A `reader` sees their own workspaces and those shared with them."""

    reader: str | None = None
    owner: str | None = None
    class_name: str | None = None
    state: State | None = None
    mode: Mode | None = None
    task: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    deleted: bool = False  # whether to include deleted workspaces with retained data

    def matches(self, row: Workspace) -> bool:
        """Return whether a workspace is one of these."""
        if row.state == "deleted" and not self.deleted and self.state != "deleted":
            return False
        return (
            (self.reader is None or row.owner == self.reader or (self.reader in row.shared and row.state != "deleted"))
            and (self.owner is None or row.owner == self.owner)
            and (self.class_name is None or row.class_name == self.class_name)
            and (self.state is None or row.state == self.state)
            and (self.mode is None or row.mode == self.mode)
            and (self.task is None or row.task == self.task)
            and all(row.labels.get(key) == value for key, value in self.labels.items())
        )


@dataclass(frozen=True)
class Page:
    """A page of a list, and the last id before the next page."""

    workspaces: tuple[Workspace, ...]
    after: str | None = None


@dataclass(frozen=True)
class Event:
    """A Kubernetes event of a workspace."""

    at: datetime
    about: str  # kind/name
    reason: str
    message: str
    count: int = 1
    warning: bool = False
