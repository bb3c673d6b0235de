"""What callers ask about themselves and about what there is, and what Kubernetes asks about the replica."""

from __future__ import annotations

from fastapi import APIRouter, Response

from agentenv.service.http.auth.permissions import claimable
from agentenv.service.http.caller import CurrentCaller, RequestDependencies
from agentenv.service.http.responses import problems
from agentenv.service.http.schemas import CallerShape, ClassList, ClassShape

router = APIRouter(prefix="/v1", tags=["around"])
health = APIRouter(include_in_schema=False)


@router.get("/me", operation_id="getCaller", responses=problems(401, 403, 429, 503))
async def me(caller: CurrentCaller) -> CallerShape:
    """Who one is here."""
    return CallerShape(owner=caller.owner, roles=sorted(caller.roles))


@router.get("/classes", operation_id="listClasses", responses=problems(401, 403, 429, 503))
async def classes(caller: CurrentCaller, parts: RequestDependencies) -> ClassList:
    """The classes that one may have workspaces of."""
    return ClassList(
        items=[
            ClassShape(
                name=one.name,
                tier=one.plan.settings.tier,
                modes=list(one.modes),
                channels=[release.channel for release in one.releases],
                idle_after=int(one.idle_after.total_seconds()),
                max_lifetime=None if one.max_lifetime is None else int(one.max_lifetime.total_seconds()),
                budget=one.budget,
                kept=one.kept,
            )
            for one in parts.catalog.classes.values()
            if claimable(caller, one)
        ]
    )


@health.get("/healthz")
async def alive() -> Response:
    """Whether it answers at all."""
    return Response("alive\n", media_type="text/plain")


@health.get("/readyz")
async def ready(parts: RequestDependencies) -> Response:
    """Whether it watches the cluster, and what it lists from is fresh."""
    in_step = parts.backend.in_step()
    said = "ready\n" if in_step else "the cluster has not been read yet, or not lately\n"
    return Response(said, 200 if in_step else 503, media_type="text/plain")
