"""Routes of API keys: create, list and revoke. A key's secret is in the response of its creation alone."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import Field

from agentenv.core.gateway.access_records import ApiKey
from agentenv.core.gateway.api_keys import SCOPES, Scope
from agentenv.core.values.timestamps import format_timestamp
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.gateway.keys import LONGEST, ApiKeys
from agentenv.service.http.auth.callers import Caller
from agentenv.service.http.auth.permissions import classes_for, require
from agentenv.service.http.dependencies import AuthenticatedRoute, CurrentCaller, Dependencies, RequestDependencies
from agentenv.service.http.problems import Problem
from agentenv.service.http.responses import problems
from agentenv.service.http.schemas import Shape
from agentenv.service.http.values import Id, Line
from agentenv.service.telemetry.logs import audit

router = APIRouter(prefix="/v1/keys", tags=["keys"], route_class=AuthenticatedRoute)
_DAY = 86_400
Named = Annotated[str, Path(pattern=r"^[0-9a-f]{12}$", description="The key's id: its first twelve hex digits.")]


class KeyCreate(Shape):
    """A request for an API key."""

    name: Annotated[Line, Field(description="What it is for.")]
    scopes: Annotated[
        list[Scope],
        Field(
            min_length=1,
            max_length=len(SCOPES),
            description="`read`: see workspaces. `use`: enter and suspend them. `create`: create them. `wake`: resume"
            " them. `admin`: all else with the caller's own.",
        ),
    ]
    expires_in: Annotated[
        int, Field(ge=60, le=int(LONGEST.total_seconds()), description="Seconds until it expires.")
    ] = 90 * _DAY
    workspace: Annotated[
        Id | None,
        Field(description="The only workspace that it admits to, for a link to attach: by `read`, `use` and `wake`."),
    ] = None


class KeyShape(Shape):
    """An API key, without its secret."""

    id: str
    name: str
    owner: str
    scopes: list[Scope]
    created: datetime
    expires: datetime
    last_used: Annotated[datetime | None, Field(description="A minute later at the latest.")] = None
    workspace: Annotated[str | None, Field(description="The only workspace that it admits to.")] = None

    @classmethod
    def of(cls, key: ApiKey) -> KeyShape:
        """Return the shape of a key."""
        return cls.model_validate({field: _shaped(key, field) for field in cls.model_fields})


class NewKeyShape(KeyShape):
    """A new API key."""

    key: Annotated[str, Field(repr=False, description="The key itself. It cannot be read again.")]


class KeyList(Shape):
    """The valid keys of an owner."""

    items: list[KeyShape]


@router.post("", operation_id="createKey", status_code=201, responses=problems(401, 403, 404, 409, 422, 429, 503))
async def create(body: KeyCreate, caller: CurrentCaller, dependencies: RequestDependencies) -> NewKeyShape:
    """Create an API key of the caller. It may create workspaces of the classes that the caller may have now."""
    lifetime, keys = timedelta(seconds=body.expires_in), _keys(dependencies)
    if body.workspace is None:
        classes = classes_for(dependencies.catalog, caller)
        record, key = await keys.create(caller, body.name, body.scopes, lifetime, classes)
    else:
        workspace = require(caller, "change", await dependencies.backend.get(body.workspace))
        _check_link(caller, workspace, body.scopes)
        record, key = await keys.create(caller, body.name, body.scopes, lifetime, (), workspace=workspace.id)
        rights = ", ".join(sorted(record.scopes))
        message = f"until {format_timestamp(record.expires)} its holder has: {rights} (key {record.id})"
        await dependencies.backend.notify(workspace.id, "LinkCreated", message)
    audit("key created", owner=caller.owner, key_id=record.id, scopes=sorted(record.scopes))
    return NewKeyShape(**KeyShape.of(record).model_dump(), key=key)


@router.get("", operation_id="listKeys", responses=problems(401, 403, 404, 429, 503))
async def list_(caller: CurrentCaller, dependencies: RequestDependencies) -> KeyList:
    """List the caller's API keys that are valid, the oldest first."""
    return KeyList(items=[KeyShape.of(key) for key in _keys(dependencies).list(caller.owner)])


@router.delete("/{id}", operation_id="revokeKey", responses=problems(401, 403, 404, 422, 429, 503))
async def revoke(
    id_: Annotated[Named, Path(alias="id")], caller: CurrentCaller, dependencies: RequestDependencies
) -> KeyShape:
    """Revoke an API key of the caller; operators revoke any. It is refused within five seconds."""
    revoked = await _keys(dependencies).revoke(caller, id_)
    audit("key revoked", owner=revoked.owner, key_id=revoked.id, by=caller.owner)
    return KeyShape.of(revoked)


def _check_link(caller: Caller, workspace: Workspace, scopes: Collection[Scope]) -> None:
    """Raise a `Problem` for the key of a link that its creator may not give away."""
    if workspace.owner != caller.owner:
        raise Problem("not-allowed", "only its owner creates links to a workspace", "ask its owner")
    if beyond := set(scopes) - {"read", "use", "wake"}:
        detail = f"the key of a link cannot have the scope {min(beyond)!r}"
        raise Problem("malformed", detail, "choose among `read`, `use` and `wake`")


def _shaped(key: ApiKey, field: str) -> object:
    if field == "scopes":
        return [scope for scope in SCOPES if scope in key.scopes]
    return getattr(key, field) or None if field == "workspace" else getattr(key, field)


def _keys(dependencies: Dependencies) -> ApiKeys:
    if dependencies.keys is None:
        raise Problem("not-found", "this environment has no table of API keys", "use a token of the issuer")
    return dependencies.keys
