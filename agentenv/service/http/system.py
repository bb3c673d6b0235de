"""Routes about the caller and the classes, and the probes of the replica."""

from __future__ import annotations

from fastapi import APIRouter, Response

from agentenv.core.workspaces.workspace import Mode
from agentenv.service.catalog import Catalog, Class
from agentenv.service.gateway.sharing import sharing_of
from agentenv.service.http.auth.permissions import claimable
from agentenv.service.http.dependencies import AuthenticatedRoute, CurrentCaller, RequestDependencies
from agentenv.service.http.responses import problems
from agentenv.service.http.schemas import CallerShape, ClassList, ClassShape, GatewayShape

router = APIRouter(prefix="/v1", tags=["around"], route_class=AuthenticatedRoute)
health = APIRouter(include_in_schema=False)


@router.get("/me", operation_id="getCaller", responses=problems(401, 403, 429, 503))
async def me(caller: CurrentCaller, dependencies: RequestDependencies) -> CallerShape:
    """Return the caller's owner id and roles, and where workspaces are reached."""
    addresses = dependencies.gateway
    gateway = GatewayShape(sandboxes=addresses.sandboxes, ports=addresses.ports) if addresses else None
    return CallerShape(owner=caller.owner, roles=sorted(caller.roles), gateway=gateway)


@router.get("/classes", operation_id="listClasses", responses=problems(401, 403, 429, 503))
async def classes(caller: CurrentCaller, dependencies: RequestDependencies) -> ClassList:
    """List the classes that the caller may create workspaces of."""
    return ClassList(
        items=[
            ClassShape(
                name=sandbox_class.name,
                tier=sandbox_class.plan.settings.tier,
                modes=list(sandbox_class.modes),
                channels=[release.channel for release in sandbox_class.releases],
                sizes=list(sandbox_class.sizes),
                idle_after=int(sandbox_class.idle_after.total_seconds()),
                max_lifetime=None
                if sandbox_class.max_lifetime is None
                else int(sandbox_class.max_lifetime.total_seconds()),
                budget=sandbox_class.budget,
                kept=sandbox_class.has_homes,
                kept_for={mode: _retention(dependencies.catalog, sandbox_class, mode) for mode in sandbox_class.modes},
                sharing=sorted(set(sharing_of(dependencies.catalog, sandbox_class.name)) - {"private"}),
            )
            for sandbox_class in dependencies.catalog.classes.values()
            if claimable(caller, sandbox_class)
        ]
    )


def _retention(catalog: Catalog, of_class: Class, mode: Mode) -> int:
    return int(catalog.retention(mode).total_seconds()) if of_class.has_homes else 0


@health.get("/healthz")
async def alive() -> Response:
    """Answer the liveness probe."""
    return Response("alive\n", media_type="text/plain")


@health.get("/readyz")
async def ready(dependencies: RequestDependencies) -> Response:
    """Answer the readiness probe: whether the watches of the cluster are synced and fresh."""
    is_synced = dependencies.backend.is_synced()
    text = "ready\n" if is_synced else "the watches of the cluster are not synced, or stale\n"
    return Response(text, 200 if is_synced else 503, media_type="text/plain")
