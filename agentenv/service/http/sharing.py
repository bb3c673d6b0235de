"""Routes of sharing: ports, links, aliases and access tokens of a workspace, who entered it, and break-glass."""

from __future__ import annotations

import secrets
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field

from agentenv.core.capabilities.cluster_facts import DAEMON_PORT
from agentenv.core.gateway.access_records import Alias, BreakGlass, Link
from agentenv.core.gateway.api_keys import digest
from agentenv.core.gateway.hosts import is_alias
from agentenv.core.values.timestamps import format_timestamp
from agentenv.core.workspaces.workspace import Changes, PortSharing, Sharing, Workspace
from agentenv.service.gateway.access_cache import AccessCache
from agentenv.service.gateway.entry import OWN_PATHS
from agentenv.service.gateway.sharing import sharing_of
from agentenv.service.http.auth.permissions import require
from agentenv.service.http.dependencies import (
    AuthenticatedRoute,
    CurrentCaller,
    Dependencies,
    GatewayAddresses,
    RequestDependencies,
)
from agentenv.service.http.grants import check_port
from agentenv.service.http.problems import Problem, not_found
from agentenv.service.http.responses import PROBLEMS
from agentenv.service.http.schemas import Shape, WorkspaceShape
from agentenv.service.http.values import ID
from agentenv.service.telemetry.logs import audit

router = APIRouter(prefix="/v1/workspaces/{id}", tags=["sharing"], route_class=AuthenticatedRoute)
Named = Annotated[str, Path(alias="id", pattern=ID, description="The workspace's id.")]
PortNumber = Annotated[int, Path(ge=1, le=65535)]
DEFAULT_PORT = 8080
SHORTEST_LINK, LONGEST_LINK = 30, 30 * 86_400
GLASS_FOR = timedelta(hours=1)
MOST_PORTS, MOST_LINKS = 50, 50
MOST_ALIASES = 20  # of an owner, who keeps them for good


class PortSettings(Shape):
    """The sharing of a port."""

    sharing: Annotated[
        Sharing,
        Field(
            description="`private`: those who may use the workspace. `team`: also `teams`. `link`: also who has a link."
            " `public`: everybody."
        ),
    ]
    teams: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=256)]],
        Field(default_factory=list[str], max_length=20, description="Groups of the issuer's tokens, for `team`."),
    ]
    wake: Annotated[bool, Field(description="Whether they also wake the workspace.")] = False


class PortShape(PortSettings):
    """A port, and where it is opened."""

    port: int
    url: str


class PortList(Shape):
    """The ports of a workspace that are shared."""

    items: list[PortShape]


class LinkCreate(Shape):
    """A request for a link to a port that is shared by link."""

    port: Annotated[int, Field(ge=1, le=65535)]
    expires_in: Annotated[int, Field(ge=SHORTEST_LINK, le=LONGEST_LINK, description="Seconds until it expires.")] = 3600
    wake: Annotated[bool, Field(description="Whether it wakes the workspace, if the port's sharing does.")] = False


class LinkShape(Shape):
    """A link, without its secret."""

    id: str
    port: int
    wake: bool
    created: datetime
    expires: datetime


class NewLinkShape(LinkShape):
    """A new link."""

    url: Annotated[str, Field(repr=False, description="The link itself. It cannot be read again.")]


class LinkList(Shape):
    """The links of a workspace that are valid."""

    items: list[LinkShape]


class AliasSettings(Shape):
    """An alias, which names a host of the workspace."""

    alias: Annotated[str, Field(min_length=3, max_length=41)]
    port: Annotated[int, Field(ge=1, le=65535, description="The port that `<alias>.<domain>` opens.")] = DEFAULT_PORT


class AliasShape(AliasSettings):
    """The alias of a workspace."""

    url: str


class BreakGlassRequest(Shape):
    """Why an operator has to enter a workspace of another owner."""

    reason: Annotated[str, Field(min_length=10, max_length=500)]


class BreakGlassShape(Shape):
    """The right of an operator to enter."""

    workspace: str
    expires: datetime


class EntryShape(Shape):
    """A visitor entered the workspace. A visitor is recorded once an hour."""

    at: datetime
    who: str
    by: Annotated[str, Field(description="The kind of credential, or `break-glass`.")]
    opened: Annotated[str, Field(description="A port, `processes`, `files`, `ssh` or `api`.")]
    source: Annotated[str, Field(description="The address of the client.")]


class EntryList(Shape):
    """The entries into a workspace on a day."""

    items: list[EntryShape]


@router.get("/ports", operation_id="listPorts", responses=PROBLEMS)
async def ports(id_: Named, caller: CurrentCaller, dependencies: RequestDependencies) -> PortList:
    """List the ports of a workspace that are shared."""
    workspace = require(caller, "see", await dependencies.backend.get(id_))
    return PortList(items=[_port(dependencies, workspace, port) for port in sorted(workspace.ports)])


@router.put("/ports/{port}", operation_id="sharePort", responses=PROBLEMS)
async def share_port(
    id_: Named, port: PortNumber, body: PortSettings, caller: CurrentCaller, dependencies: RequestDependencies
) -> PortShape:
    """Share a port, or make it private again. What is open by a right that ended ends in a minute."""
    workspace = require(caller, "change", await dependencies.backend.get(id_))
    allowed = sharing_of(dependencies.catalog, workspace.class_name)
    if port == DAEMON_PORT:
        raise Problem("refused", "this port is workspaced's own", "share the workspace with people or teams instead")
    check_port(workspace, port)
    if body.sharing not in {*allowed, "private"}:
        detail = f"class {workspace.class_name} does not let ports be shared as {body.sharing}"
        raise Problem("refused", detail, f"choose one of: {', '.join(sorted({*allowed, 'private'}))}")
    if (body.sharing == "team") != bool(body.teams):
        raise Problem("malformed", "`teams` goes with sharing `team`, and with that alone", "correct `teams`")
    others = {number: sharing for number, sharing in workspace.ports.items() if number != port}
    shared = PortSharing(body.sharing, tuple(body.teams), body.wake)
    changed = others if body.sharing == "private" else {**others, port: shared}
    if len(changed) > MOST_PORTS:
        raise Problem("refused", f"a workspace shares at most {MOST_PORTS} ports", "make another one private")
    updated = (await dependencies.backend.update(id_, Changes(ports=changed), wait=0)).workspace
    audit("port shared", workspace=id_, owner=workspace.owner, by=caller.owner, port=port, sharing=body.sharing)
    return _port(dependencies, updated, port)


@router.post("/links", operation_id="createLink", status_code=201, responses=PROBLEMS)
async def create_link(
    id_: Named, body: LinkCreate, caller: CurrentCaller, dependencies: RequestDependencies
) -> NewLinkShape:
    """Create a link to a port that is shared by link."""
    workspace, access = require(caller, "change", await dependencies.backend.get(id_)), _access(dependencies)
    shared = workspace.ports.get(body.port)
    if shared is None or shared.sharing != "link":
        raise Problem("refused", f"port {body.port} is not shared by link", f"PUT /v1/workspaces/{id_}/ports first")
    if len(access.links_of(id_)) >= MOST_LINKS:
        raise Problem("refused", f"a workspace has at most {MOST_LINKS} links", "revoke one")
    secret, now = secrets.token_urlsafe(24), dependencies.now()
    link = Link(
        secrets.token_hex(8),
        digest(secret),
        id_,
        body.port,
        body.wake,
        caller.owner,
        now,
        now + timedelta(seconds=body.expires_in),
    )
    await access.put(link)
    audit("link created", workspace=id_, owner=workspace.owner, by=caller.owner, port=body.port, link_id=link.id)
    host = _url(dependencies, body.port, id_)
    return NewLinkShape(**_link(link).model_dump(), url=f"{host}{OWN_PATHS}link?token={link.id}.{secret}")


@router.get("/links", operation_id="listLinks", responses=PROBLEMS)
async def links(id_: Named, caller: CurrentCaller, dependencies: RequestDependencies) -> LinkList:
    """List the links of a workspace that are valid."""
    require(caller, "change", await dependencies.backend.get(id_))
    return LinkList(items=[_link(link) for link in _access(dependencies).links_of(id_)])


@router.delete("/links/{link}", operation_id="revokeLink", responses=PROBLEMS)
async def revoke_link(
    id_: Named,
    link: Annotated[str, Path(pattern=r"^[0-9a-f]{16}$")],
    caller: CurrentCaller,
    dependencies: RequestDependencies,
) -> LinkShape:
    """Revoke a link. What is open by it ends within a minute."""
    workspace, access = require(caller, "change", await dependencies.backend.get(id_)), _access(dependencies)
    existing = access.link(link)
    if existing is None or existing.workspace != id_:
        raise not_found("link")
    await access.put(replace(existing, revoked=True))
    audit("link revoked", workspace=id_, owner=workspace.owner, by=caller.owner, link_id=link)
    return _link(existing)


@router.put("/alias", operation_id="setAlias", responses=PROBLEMS)
async def set_alias(
    id_: Named, body: AliasSettings, caller: CurrentCaller, dependencies: RequestDependencies
) -> AliasShape:
    """Give a workspace an alias. It stays its owner's, also without the workspace, until an admin frees it."""
    workspace, access = require(caller, "change", await dependencies.backend.get(id_)), _access(dependencies)
    if not is_alias(body.alias):
        way_out = "use 3 to 41 lower-case letters, digits and hyphens, beginning with a letter"
        raise Problem("malformed", f"{body.alias!r} cannot be an alias", way_out)
    if body.port == DAEMON_PORT:
        raise Problem("refused", "this port is workspaced's own", "choose the port of your program")
    check_port(workspace, body.port)
    own = access.aliases_of(workspace.owner)
    if len(own) >= MOST_ALIASES and body.alias not in own:
        raise Problem("refused", f"an owner keeps at most {MOST_ALIASES} aliases", "use one of yours, or ask an admin")
    freed = access.freed_at(body.alias)
    alias = Alias(body.alias, workspace.owner, id_, body.port, dependencies.now(), freed)
    rests_until = access.rests_until(body.alias)
    if rests_until is not None and dependencies.now() < rests_until:
        detail = f"the alias {body.alias} was freed, and may be taken from {format_timestamp(rests_until)} on"
        raise Problem("refused", detail, "until then browsers delete what they hold of it; choose another one")
    if not await access.take_alias(alias):
        raise Problem("refused", f"the alias {body.alias} is taken", "choose another one")
    before = access.alias_of(id_)
    if before is not None and before.id != body.alias:
        # It stays its owner's, unless an admin frees it at this moment.
        await access.take_alias(replace(before, workspace=""))
    audit("alias set", workspace=id_, owner=workspace.owner, by=caller.owner, alias=body.alias)
    return AliasShape(alias=body.alias, port=body.port, url=f"https://{body.alias}.{_domain(dependencies)}/")


@router.delete("/alias", operation_id="removeAlias", status_code=204, responses=PROBLEMS)
async def remove_alias(
    id_: Named,
    caller: CurrentCaller,
    dependencies: RequestDependencies,
    *,
    free: Annotated[bool, Query(description="Let others take it; for admins.")] = False,
) -> None:
    """Remove the alias of a workspace. It stays its owner's, unless an admin frees it."""
    workspace, access = require(caller, "change", await dependencies.backend.get(id_)), _access(dependencies)
    if free and not caller.is_admin:
        raise Problem("not-allowed", "only admins free an alias", "leave out `free`")
    alias = access.alias_of(id_)
    if alias is None:
        raise not_found("alias")
    owner, freed = ("", dependencies.now()) if free else (alias.owner, alias.freed)
    await access.put(replace(alias, workspace="", owner=owner, freed=freed))
    audit("alias removed", workspace=id_, owner=workspace.owner, by=caller.owner, alias=alias.id, freed=free)


@router.post("/revoke-tokens", operation_id="revokeAccessTokens", responses=PROBLEMS)
async def revoke_tokens(id_: Named, caller: CurrentCaller, dependencies: RequestDependencies) -> WorkspaceShape:
    """Revoke the access tokens of a workspace, and all links to files that they signed."""
    workspace = require(caller, "change", await dependencies.backend.get(id_))
    generation = workspace.token_generation + 1
    result = await dependencies.backend.update(id_, Changes(token_generation=generation), wait=0)
    audit("access tokens revoked", workspace=id_, owner=workspace.owner, by=caller.owner)
    return WorkspaceShape.of(result.workspace, dependencies.now())


@router.post("/break-glass", operation_id="breakGlass", status_code=201, responses=PROBLEMS)
async def break_glass(
    id_: Named, body: BreakGlassRequest, caller: CurrentCaller, dependencies: RequestDependencies
) -> BreakGlassShape:
    """Let an operator enter a workspace of another owner for an hour. Its owner sees it, with the reason."""
    workspace, access = require(caller, "see", await dependencies.backend.get(id_)), _access(dependencies)
    if not caller.is_operator or caller.scopes is not None:
        raise Problem("not-allowed", "only operators break the glass, and not by an API key", "ask the owner")
    now = dependencies.now()
    glass = BreakGlass(id_, caller.owner, body.reason, now, now + GLASS_FOR)
    # The owner is informed first: nobody enters without.
    await dependencies.backend.notify(id_, "BreakGlass", f"an operator ({caller.owner}) enters: {body.reason}")
    await access.put(glass)
    audit("break-glass", workspace=id_, owner=workspace.owner, by=caller.owner, reason=body.reason)
    return BreakGlassShape(workspace=id_, expires=glass.expires)


@router.get("/entries", operation_id="listEntries", responses=PROBLEMS)
async def entries(
    id_: Named,
    caller: CurrentCaller,
    dependencies: RequestDependencies,
    day: Annotated[date | None, Query(description="A day in UTC; today by default.")] = None,
) -> EntryList:
    """List who entered a workspace on a day: for its owner, and for operators."""
    workspace = require(caller, "see", await dependencies.backend.get(id_))
    if workspace.owner != caller.owner and not caller.is_operator:
        raise Problem("not-allowed", "only its owner sees who entered it", "ask its owner")
    chosen = (day or dependencies.now().date()).isoformat()
    rows = await _access(dependencies).entries(id_, chosen)
    fields = EntryShape.model_fields
    return EntryList(items=[EntryShape(**{name: row[name] for name in fields if name in row}) for row in rows])


def _port(dependencies: Dependencies, workspace: Workspace, port: int) -> PortShape:
    shared = workspace.ports.get(port, PortSharing("private"))
    return PortShape(
        port=port,
        sharing=shared.sharing,
        teams=list(shared.teams),
        wake=shared.wake,
        url=f"{_url(dependencies, port, workspace.id)}/",
    )


def _link(link: Link) -> LinkShape:
    return LinkShape(id=link.id, port=link.port, wake=link.wake, created=link.created, expires=link.expires)


def _url(dependencies: Dependencies, port: int, id_: str) -> str:
    """Return the URL of a port, as callers reach it."""
    _domain(dependencies)
    addresses = dependencies.gateway or GatewayAddresses.of(dependencies.catalog.settings.service)
    return addresses.ports.format(port=port, workspace=id_) if addresses else ""


def _domain(dependencies: Dependencies) -> str:
    domain = dependencies.catalog.settings.service.domain_of_workspaces
    if domain is None:
        raise Problem("refused", "this environment has no gateway", "set `service.domain`")
    return domain


def _access(dependencies: Dependencies) -> AccessCache:
    if dependencies.access_records is None:
        raise Problem("not-found", "this environment has no table of access", "ask the platform team")
    return dependencies.access_records
