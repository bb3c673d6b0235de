"""A workspace as the service knows it: its name, its states, what of it stands on objects, and what may be asked of it.

All of it is kept in Kubernetes: a claim and its annotations while it is there, its volume's labels and annotations once
it was deleted and its data is kept. How documents are read and written is in `workspace_records`.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b32encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Final, Literal, get_args

State = Literal["creating", "running", "suspended", "failed", "deleting", "deleted"]
Mode = Literal["user", "session", "agent"]
Access = Literal["rw", "ro"]
Because = Literal["idle", "budget", "asked", "deadline"]
STATES: tuple[State, ...] = get_args(State)
MODES: tuple[Mode, ...] = get_args(Mode)

# Annotations of claims, and of the volumes of deleted workspaces.
DOMAIN = "sandbox.users.io/"
KEY = f"{DOMAIN}key"  # hash of what was asked for when it was made: the same key for something else is refused
CREATED_BY = f"{DOMAIN}created-by"
SHARED = f"{DOMAIN}shared"  # JSON: owner -> rw or ro
LEASES = f"{DOMAIN}leases"  # JSON: list of {holder, mode, until}
LAST_ACTIVE = f"{DOMAIN}last-active"
BUSY_UNTIL = f"{DOMAIN}busy-until"
WAKE_AT = f"{DOMAIN}wake-at"
IDLE_AFTER = f"{DOMAIN}idle-after"  # seconds
DEADLINE = f"{DOMAIN}deadline"
BUDGET = f"{DOMAIN}budget"  # dollars a month
SUSPENDED_BECAUSE = f"{DOMAIN}suspended-because"
DELETED_AT = f"{DOMAIN}deleted-at"
DESTROY_AFTER = f"{DOMAIN}destroy-after"
# A label of a deleted one's volume: its destruction was requested, so nobody returns to it.
DESTROY_REQUESTED = f"{DOMAIN}destroy-requested"
ARCHIVE = f"{DOMAIN}archive"  # of a session: its chat
ARCHIVE_ENDED = f"{DOMAIN}archive-ended"  # when that was taken out of the archive; of a deleted one's volume, too
PARENT_WORKSPACE = f"{DOMAIN}parent-workspace"  # whose capabilities it may not exceed
COLD = f"{DOMAIN}cold"  # why it was not warm, where it was not
# What users call a workspace by; apart from ours, so that nobody writes one of ours.
OWN_LABEL = "label.sandbox.users.io/"

# What goes to the volume when a workspace is deleted, so that it comes back as it was.
RECORD = (KEY, CREATED_BY, SHARED, IDLE_AFTER, DEADLINE, BUDGET, ARCHIVE, PARENT_WORKSPACE)

_PREFIX = "w-"
_ID_LENGTH = 26  # of base 32: 130 bits, so that none is guessed and no two are alike
ID: Final = re.compile(rf"{_PREFIX}[a-z2-7]{{{_ID_LENGTH}}}")


def workspace_id(owner: str, key: str) -> str:
    """The id of the workspace that an owner asks for by a key: always the same, so that it is made once."""
    told = f"{len(owner)}:{owner}:{key}".encode("utf-8", "surrogatepass")
    return _PREFIX + b32encode(hashlib.sha256(told).digest()).decode().lower()[:_ID_LENGTH]


def claim_name(owner: str, key: str) -> str:
    """The name of its claim, which is its id: whoever is second to make it finds it there."""
    return workspace_id(owner, key)


class Unset(Enum):
    """What a change says nothing about; None takes a thing away."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET


@dataclass(frozen=True, slots=True)
class Lease:
    """An agent's hold on a workspace, until it is renewed no more."""

    holder: str
    mode: Access
    until: datetime


@dataclass(frozen=True, slots=True)
class Workspace:
    """One workspace as it was read."""

    id: str
    owner: str
    class_name: str
    mode: Mode
    state: State
    created: datetime | None = None
    claim_uid: str = ""  # also what its ledger goes by
    version: str = ""  # of what was read
    pool: str = ""
    sandbox: str | None = None
    addresses: tuple[str, ...] = ()
    volume: str | None = None  # known of deleted ones, and of those just handed over
    task: str | None = None
    key: str = ""
    created_by: str = ""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    shared: Mapping[str, Access] = field(default_factory=dict[str, Access])
    leases: tuple[Lease, ...] = ()
    last_active: datetime | None = None
    busy_until: datetime | None = None
    wake_at: datetime | None = None
    idle_after: timedelta | None = None  # its class's when it has none of its own
    deadline: datetime | None = None
    budget: Decimal | None = None
    suspended_because: Because | None = None
    deleted_at: datetime | None = None
    destroy_after: datetime | None = None
    archive: str | None = None
    parent: str | None = None
    kept: bool = False
    cold: str | None = None
    why: str = ""  # what its conditions say, where it is not running
    turned: datetime | None = field(default=None, compare=False)  # when it last became ready, or ceased to be
    archive_ended: datetime | None = None  # of a session whose chat has ended

    @property
    def namespace(self) -> str:
        """The namespace of its class."""
        return f"sandbox-{self.class_name}"

    def held(self, now: datetime) -> tuple[Lease, ...]:
        """The leases that have not run out."""
        return tuple(lease for lease in self.leases if lease.until > now)


@dataclass(frozen=True)
class CreateRequest:
    """What a workspace is asked for with."""

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

    @property
    def id(self) -> str:
        """The id of what it makes."""
        return workspace_id(self.owner, self.key)

    @property
    def fingerprint(self) -> str:
        """Return a digest of what two requests with the same key have to agree on, whoever sends them.

        Labels and deadline are not part of it: a repeated request often has later ones, and means the same workspace.
        """
        told = (
            self.class_name,
            self.mode,
            self.task,
            self.channel,
            sorted(self.shared.items()),
            self.idle_after,
            None if self.budget is None else str(self.budget.normalize()),
            self.archive,
            self.parent,
        )
        return hashlib.sha256(repr(told).encode("utf-8", "surrogatepass")).hexdigest()[:32]


@dataclass(frozen=True)
class Changes:
    """What of a workspace is to be changed."""

    class_name: str | Unset = UNSET
    labels: Mapping[str, str] | Unset = UNSET
    shared: Mapping[str, Access] | Unset = UNSET
    idle_after: timedelta | Unset | None = UNSET
    deadline: datetime | Unset | None = UNSET
    budget: Decimal | Unset | None = UNSET
    archive: str | Unset | None = UNSET
    busy_until: datetime | Unset | None = UNSET
    wake_at: datetime | Unset | None = UNSET
    last_active: datetime | Unset | None = UNSET


@dataclass(frozen=True)
class CreateResult:
    """What became of a request to make, wake or move one."""

    workspace: Workspace
    ready: bool  # it may be used; else there is a place to watch
    existed: bool = False
    cold: str | None = None  # why it was not taken from a pool


@dataclass(frozen=True)
class Filter:
    """Which workspaces are meant; what is None is not asked for. `reader` sees their own and what is shared."""

    reader: str | None = None
    owner: str | None = None
    class_name: str | None = None
    state: State | None = None
    mode: Mode | None = None
    task: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    deleted: bool = False  # also those of which only the data is there


@dataclass(frozen=True)
class Page:
    """A part of a list, and where the next begins."""

    workspaces: tuple[Workspace, ...]
    after: str | None = None


@dataclass(frozen=True)
class Event:
    """Something that happened to a workspace, as Kubernetes tells it."""

    at: datetime
    about: str  # kind/name
    reason: str
    message: str
    count: int = 1
    warning: bool = False
