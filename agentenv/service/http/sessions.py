"""Routes of sessions: the chat archive reports an ended chat, and its workspace ends with it."""

from __future__ import annotations

from fastapi import APIRouter

from agentenv.service.http.dependencies import AuthenticatedRoute, CurrentCaller, RequestDependencies
from agentenv.service.http.problems import Problem
from agentenv.service.http.responses import problems
from agentenv.service.http.schemas import EndedWorkspaces, SessionEnded

router = APIRouter(prefix="/v1/sessions", tags=["sessions"], route_class=AuthenticatedRoute)


@router.post("/ended", operation_id="endSession", responses=problems(401, 403, 422, 429, 503))
async def end(body: SessionEnded, caller: CurrentCaller, dependencies: RequestDependencies) -> EndedWorkspaces:
    """End the session of an archived chat: its workspace's data is destroyed after the configured retention."""
    owner = body.owner or caller.owner
    if not caller.can_see(owner):
        raise Problem("not-allowed", "only operators end sessions of other owners", "leave out `owner`")
    return EndedWorkspaces(workspaces=await dependencies.backend.end_session(owner, body.session))
