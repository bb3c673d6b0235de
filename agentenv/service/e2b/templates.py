"""Routes of templates, which are the classes of the environment, and of what is not offered."""

from __future__ import annotations

import re

from fastapi import APIRouter, Request

from agentenv.service.e2b.create import templates_by_mode
from agentenv.service.e2b.errors import NotOfferedError
from agentenv.service.e2b.not_offered import why_not_offered
from agentenv.service.e2b.operations import find_sandbox
from agentenv.service.e2b.sandboxes import Document, template_document
from agentenv.service.http.auth.permissions import claimable
from agentenv.service.http.dependencies import AuthenticatedRoute, CurrentCaller, RequestDependencies
from agentenv.service.http.problems import Problem
from agentenv.service.http.values import ID

_OF_SANDBOX = re.compile(rf"(?:v[0-9]+/)?sandboxes/({ID[1:-1]})/")

router = APIRouter(route_class=AuthenticatedRoute)


@router.get("/templates")
@router.get("/v2/templates")
async def templates(caller: CurrentCaller, dependencies: RequestDependencies) -> list[Document]:
    """List the releases of the classes that the caller may use, as templates."""
    return [
        template_document(of_class, release.channel)
        for of_class in dependencies.catalog.classes.values()
        if claimable(caller, of_class)
        for release in of_class.releases
    ]


@router.get("/templates/aliases/{alias}")
async def alias(alias: str, caller: CurrentCaller, dependencies: RequestDependencies) -> Document:
    """Return the template that a name stands for, as a creation would take it."""
    name = templates_by_mode(dependencies.catalog, caller, alias).get("session", alias)
    for document in await templates(caller, dependencies):
        if document["templateID"] == name:
            return {"templateID": name, "public": False}
    raise Problem("class-unknown", f"there is no template {alias!r}", "choose one that GET /e2b/templates lists")


@router.api_route("/{path:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
async def others(path: str, request: Request, caller: CurrentCaller, dependencies: RequestDependencies) -> None:
    """Refuse what is not offered, with the reason; of a sandbox that is gone, say that."""
    why = why_not_offered(path)
    if why is not None:
        of_sandbox = _OF_SANDBOX.match(path)
        if of_sandbox is not None:
            await find_sandbox(dependencies, caller, "see", of_sandbox[1])
        raise NotOfferedError(why)
    raise Problem("not-found", f"there is no {request.method} /{path}", "see docs/e2b.md for what is offered")
