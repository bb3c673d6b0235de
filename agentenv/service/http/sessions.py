"""Routes of sessions: the chat archive reports an ended chat, and its workspace ends with it."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter

from agentenv.service.http.caller import CurrentCaller, RequestDependencies
from agentenv.service.http.problems import Problem
from agentenv.service.http.responses import problems
from agentenv.service.http.schemas import Counted, SessionEnded
from agentenv.service.workspaces.archives import end_session

router = APIRouter(prefix="/v1/sessions", tags=["sessions"])


@router.post("/ended", operation_id="endSession", responses=problems(401, 403, 422, 429, 503))
async def end(body: SessionEnded, caller: CurrentCaller, dependencies: RequestDependencies) -> Counted:
    """A chat was archived: the data of its session's workspace is destroyed after the configured retention."""
    if not caller.is_operator:
        raise Problem("not-allowed", "chats are ended by whoever keeps them", "ask with an operator's token")
    if dependencies.cluster is None:
        raise Problem("unavailable", "sessions are not ended here", "delete the workspace")
    return Counted(
        workspaces=await asyncio.to_thread(end_session, dependencies.cluster, body.session, dependencies.now())
    )
