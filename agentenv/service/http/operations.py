"""What operators watch: the warm pools, the workspaces of each release, and those that failed."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from agentenv.core.workspaces.workspace import Filter, State
from agentenv.service.http.dependencies import AuthenticatedRoute, CurrentCaller, Dependencies, RequestDependencies
from agentenv.service.http.problems import Problem
from agentenv.service.http.responses import problems
from agentenv.service.http.schemas import Shape, WorkspaceShape

router = APIRouter(prefix="/v1/operations", tags=["operations"], route_class=AuthenticatedRoute)
MOST_FAILURES = 100


class PoolShape(Shape):
    """A warm pool."""

    name: str
    class_: Annotated[str, Field(alias="class")]
    channel: str
    size: int
    ready: int
    retiring: Annotated[bool, Field(description="Whether its release is being retired.")]


class ReleaseShape(Shape):
    """A release of a class."""

    class_: Annotated[str, Field(alias="class")]
    channel: Annotated[str, Field(description="`old` for one that the stack does not have any more.")]
    release: str
    workspaces: Annotated[dict[State, int], Field(description="Its workspaces, by state.")]


class OperationsShape(Shape):
    """The state of the environment."""

    pools: list[PoolShape]
    releases: list[ReleaseShape]
    failures: Annotated[list[WorkspaceShape], Field(description=f"At most {MOST_FAILURES}.")]


@router.get("", operation_id="getOperations", responses=problems(401, 403, 429, 503))
async def operations(caller: CurrentCaller, dependencies: RequestDependencies) -> OperationsShape:
    """Return the pools, releases and failures of the environment, for operators."""
    if not caller.is_operator:
        raise Problem("not-allowed", "only operators see the environment", "ask the platform team")
    backend, now = dependencies.backend, dependencies.now()
    failed = await backend.list(Filter(state="failed"), limit=MOST_FAILURES)
    pools = [
        PoolShape(
            name=pool.name,
            class_=pool.class_name,
            channel=pool.channel,
            size=pool.size,
            ready=pool.ready,
            retiring=pool.retiring,
        )
        for pool in backend.pools()
    ]
    failures = [WorkspaceShape.of(workspace, now) for workspace in failed.workspaces]
    return OperationsShape(pools=pools, releases=_releases(dependencies), failures=failures)


def _releases(dependencies: Dependencies) -> list[ReleaseShape]:
    """Return the releases with the numbers of their workspaces: those of the stack first, then older ones."""
    existing = dependencies.backend.existing_workspaces() or ()
    counted: Counter[tuple[str, str, State]] = Counter((row.class_name, row.pool, row.state) for row in existing)
    rows: dict[tuple[str, str, str], dict[State, int]] = {}
    name_of: dict[tuple[str, str], tuple[str, str, str]] = {}
    for of_class in dependencies.catalog.classes.values():
        for release in of_class.releases:
            key = (of_class.name, release.channel, release.hash)
            rows[key] = {}
            name_of |= {(of_class.name, pool): key for pool in release.names}
        stable = of_class.releases[0]
        # Where there is no pool, as on one machine.
        name_of.setdefault((of_class.name, ""), (of_class.name, stable.channel, stable.hash))
    for (class_name, pool, state), number in counted.items():
        row = rows.setdefault(name_of.get((class_name, pool), (class_name, "old", pool)), {})
        row[state] = row.get(state, 0) + number
    return [
        ReleaseShape(class_=class_name, channel=channel, release=release, workspaces=states)
        for (class_name, channel, release), states in rows.items()
    ]
