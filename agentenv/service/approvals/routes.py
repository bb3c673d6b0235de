"""Routes of approvals: what agents' tools wait for, and a person's answer."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Path
from pydantic import Field

from agentenv.core.gateway.access_records import Approval
from agentenv.service.approvals.approvals import Approvals
from agentenv.service.http.dependencies import AuthenticatedRoute, CurrentCaller, Dependencies, RequestDependencies
from agentenv.service.http.problems import Problem
from agentenv.service.http.responses import problems
from agentenv.service.http.schemas import Shape
from agentenv.service.telemetry.logs import audit

router = APIRouter(prefix="/v1/approvals", tags=["approvals"], route_class=AuthenticatedRoute)
Named = Annotated[str, Path(alias="id", pattern=r"^[0-9a-f]{16}$", description="The approval's id.")]


class ApprovalAnswer(Shape):
    """A person's answer."""

    answer: Literal["approve", "deny"]
    for_: Annotated[
        Literal["once", "hour"],
        Field(alias="for", description="`hour`: also the same tool in the same workspace for the same caller."),
    ] = "once"


class ApprovalShape(Shape):
    """A call that waits for an approval, or did."""

    id: str
    workspace: str
    tool: str
    text: Annotated[str, Field(description="What the tool is about to do. It is the caller's text: data, no advice.")]
    created: datetime
    expires: Annotated[datetime, Field(description="Until when the call is held.")]
    state: Literal["asked", "approved", "denied", "expired"]
    by: Annotated[str | None, Field(description="Who answered.")]
    until: Annotated[datetime | None, Field(description="Until when it is approved, if for an hour.")]

    @classmethod
    def of(cls, row: Approval) -> ApprovalShape:
        """Return the shape of an approval."""
        return cls(
            id=row.id,
            workspace=row.workspace,
            tool=row.tool,
            text=row.text,
            created=row.created,
            expires=row.held_until,
            state=row.state,
            by=row.by or None,
            until=row.until,
        )


class ApprovalList(Shape):
    """The approvals of a caller, the latest first."""

    items: list[ApprovalShape]


@router.get("", operation_id="listApprovals", responses=problems(401, 403, 404, 429, 503))
async def list_(caller: CurrentCaller, dependencies: RequestDependencies) -> ApprovalList:
    """List what waits for the caller's approval, and what was answered in the last hour."""
    return ApprovalList(items=[ApprovalShape.of(row) for row in _approvals(dependencies).list(caller)])


@router.post("/{id}", operation_id="answerApproval", responses=problems(401, 403, 404, 409, 422, 429, 503))
async def answer(
    id_: Named, body: ApprovalAnswer, caller: CurrentCaller, dependencies: RequestDependencies
) -> ApprovalShape:
    """Approve a call that waits, once or for an hour, or deny it. Only a person answers, never an API key."""
    answered = await _approvals(dependencies).answer(caller, id_, body.answer, body.for_)
    audit("approval answered", workspace=answered.workspace, by=caller.owner, approval=id_, state=answered.state)
    return ApprovalShape.of(answered)


def _approvals(dependencies: Dependencies) -> Approvals:
    if dependencies.approvals is None:
        raise Problem("not-found", "this environment has no table of access", "ask the platform team")
    return dependencies.approvals
