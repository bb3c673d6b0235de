"""The rows that replicas hold in memory: API keys, links, aliases, sessions that ended, and break-glass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, cast, get_args

from agentenv.core.gateway.api_keys import SCOPES, Scope
from agentenv.core.values.object_fields import is_text
from agentenv.core.values.timestamps import LATEST, format_timestamp, parse_timestamp

# Rows of what ended stay so long, so that every replica has read them.
ENDED_FOR = timedelta(days=1)
# A freed alias is nobody's for so long, in which browsers that look for a newer service worker delete the former one.
RESTS_FOR = timedelta(days=1)
# Browsers are told to delete what they hold of the former owner until so long after it was freed, or taken.
CLEARED_FOR = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key of an owner, by the hash of its secret."""

    id: str
    digest: str
    owner: str
    name: str
    scopes: frozenset[Scope]
    created: datetime
    expires: datetime
    # What its owner was entitled to when it was created: a key has no claims of a token.
    classes: frozenset[str] = frozenset()
    teams: frozenset[str] = frozenset()
    last_used: datetime | None = None
    revoked: bool = False
    workspace: str = ""  # of a link to attach: the only workspace that it admits to


@dataclass(frozen=True, slots=True)
class Link:
    """A link to a port of a workspace, by the hash of its secret."""

    id: str
    digest: str
    workspace: str
    port: int
    wake: bool
    created_by: str
    created: datetime
    expires: datetime
    revoked: bool = False


@dataclass(frozen=True, slots=True)
class EndedSession:
    """A session of a person that ended before its cookie expires."""

    id: str
    owner: str
    expires: datetime
    revoked: bool = True


@dataclass(frozen=True, slots=True)
class Alias:
    """A name of a workspace. It stays its owner's until an admin frees it, and then has no owner."""

    id: str
    owner: str
    workspace: str
    port: int
    created: datetime
    freed: datetime | None = None  # when an admin freed it: browsers may hold data of its former owner
    expires: datetime = LATEST
    revoked: bool = False

    def rests_until(self) -> datetime | None:
        """Return when others may take it; None where it was not freed."""
        return self.freed + RESTS_FOR if self.freed is not None and not self.owner else None

    def cleared_until(self) -> datetime | None:
        """Return until when browsers delete what they hold of it; None where it was not freed."""
        return max(self.freed, self.created) + CLEARED_FOR if self.freed is not None else None


@dataclass(frozen=True, slots=True)
class BreakGlass:
    """The right of an operator to enter a workspace of another owner for a while, with the reason."""

    workspace: str
    operator: str
    reason: str
    created: datetime
    expires: datetime
    revoked: bool = False

    @property
    def id(self) -> str:
        """Return the id of its row."""
        return f"{self.workspace}/{self.operator}"


ApprovalState = Literal["asked", "approved", "denied", "expired"]


@dataclass(frozen=True, slots=True)
class Approval:
    """A call of a tool that waits for a person's approval, and the answer."""

    id: str
    workspace: str
    owner: str
    tool: str
    text: str  # what the tool is about to do
    requester: str  # an API key, a session, or an owner by a token
    created: datetime
    held_until: datetime
    expires: datetime
    state: ApprovalState = "asked"
    by: str = ""  # who answered
    until: datetime | None = None  # of an approval for an hour
    revoked: bool = False


Record = ApiKey | Link | EndedSession | Alias | BreakGlass | Approval
_KINDS: Mapping[type[Record], str] = {
    ApiKey: "key",
    Link: "link",
    EndedSession: "session",
    Alias: "alias",
    BreakGlass: "glass",
    Approval: "approval",
}


def row_of(record: Record) -> str:
    """Return the name of the row of a record."""
    return f"{_KINDS[type(record)]}#{record.id}"


def to_item(record: Record) -> dict[str, Any]:
    """Return the attributes of a record."""
    values = {name: getattr(record, name) for name in record.__slots__}
    return {name: _to_attribute(value) for name, value in values.items() if value is not None}


def record_of(row: str, item: Mapping[str, Any]) -> Record | None:
    """Return the record of a row; None for one of another version that cannot be read."""
    kind, _, id_ = row.partition("#")
    expires, created = parse_timestamp(item.get("expires")), parse_timestamp(item.get("created"))
    if not id_ or expires is None:
        return None
    revoked = item.get("revoked") is not False
    if kind == "session":
        return EndedSession(id_, str(item.get("owner", "")), expires)
    if created is None:
        return None
    if kind == "alias":
        owner, workspace, port = str(item.get("owner", "")), str(item.get("workspace", "")), int(item.get("port", 0))
        return Alias(id_, owner, workspace, port, created, parse_timestamp(item.get("freed")), expires, revoked)
    if kind == "glass":
        workspace, _, operator = id_.partition("/")
        return BreakGlass(workspace, operator, str(item.get("reason", "")), created, expires, revoked)
    read = _approval(id_, item, created, expires) if kind == "approval" else None
    return read or _with_secret(kind, id_, item, created, expires, revoked=revoked)


def _approval(id_: str, item: Mapping[str, Any], created: datetime, expires: datetime) -> Approval | None:
    held_until, state = parse_timestamp(item.get("held_until")), item.get("state")
    # One that cannot be read approves nothing.
    if held_until is None or state not in get_args(ApprovalState):
        return None
    return Approval(
        id_,
        created=created,
        held_until=held_until,
        expires=expires,
        state=cast("ApprovalState", state),
        until=parse_timestamp(item.get("until")),
        workspace=str(item.get("workspace", "")),
        owner=str(item.get("owner", "")),
        tool=str(item.get("tool", "")),
        text=str(item.get("text", "")),
        requester=str(item.get("requester", "")),
        by=str(item.get("by", "")),
    )


def _with_secret(
    kind: str, id_: str, item: Mapping[str, Any], created: datetime, expires: datetime, *, revoked: bool
) -> Record | None:
    if not isinstance(item.get("digest"), str):
        return None
    if kind == "key":
        return ApiKey(
            id_,
            item["digest"],
            str(item.get("owner", "")),
            str(item.get("name", "")),
            frozenset(scope for scope in SCOPES if scope in _texts(item.get("scopes"))),
            created,
            expires,
            classes=_texts(item.get("classes")),
            teams=_texts(item.get("teams")),
            last_used=parse_timestamp(item.get("last_used")),
            revoked=revoked,
            workspace=str(item.get("workspace", "")),
        )
    if kind == "link":
        return Link(
            id_,
            item["digest"],
            str(item.get("workspace", "")),
            int(item.get("port", 0)),
            item.get("wake") is True,
            str(item.get("created_by", "")),
            created,
            expires,
            revoked=revoked,
        )
    return None


def _to_attribute(value: Any) -> Any:
    if isinstance(value, datetime):
        return format_timestamp(value)
    return sorted(cast("frozenset[str]", value)) if isinstance(value, frozenset) else value


def _texts(value: Any) -> frozenset[str]:
    return frozenset(filter(is_text, cast("list[object]", value))) if isinstance(value, list) else frozenset()
