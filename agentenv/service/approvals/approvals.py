"""Approvals: a call of an agent's tool is held until a person has answered, for two minutes at most.

What a call asks for is a record of the table of access, so that the answer may come to any replica. An approval is for
this call, or for an hour for this tool, workspace and caller. It adds no right: those of class and caller still hold.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, Protocol

from agentenv.core.gateway.access_records import Approval
from agentenv.service.http.auth.callers import Caller
from agentenv.service.http.auth.permissions import is_allowed
from agentenv.service.http.problems import Problem, not_found

if TYPE_CHECKING:
    from agentenv.config import Settings
    from agentenv.core.workspaces.workspace import Workspace
    from agentenv.service.gateway.access_cache import AccessCache

_LOG = logging.getLogger(__name__)
HELD_FOR = timedelta(seconds=120)
GRANTED_FOR = timedelta(hours=1)
# Answered ones are listed for so long.
LISTED_FOR = timedelta(hours=1)
LOOK_SECONDS = 0.25
MOST_WAITING_OF_OWNER = 20
LONGEST_TEXT = 2_000
# What asks in a class whose approval is `ask`: the tools that run or change something.
ACTING = frozenset({"run", "send_input", "start_server", "write_file", "edit_file"})

Answer = Literal["approve", "deny"]
Extent = Literal["once", "hour"]


class Directory(Protocol):
    """The workspaces, and the events that their owners see."""

    def cached(self, id_: str) -> Workspace | None:
        """Return a workspace."""
        ...

    async def notify(self, id_: str, reason: str, message: str) -> None:
        """Record an event of a workspace."""
        ...


@dataclass(frozen=True)
class Question:
    """What a tool is about to do, and for whom."""

    tool: str
    text: str
    caller: Caller

    @property
    def requester(self) -> str:
        """Return who asks: an API key, a session, or an owner by a token."""
        return self.caller.session or f"owner:{self.caller.owner}"


def may_need_approval(settings: Settings, tool: str) -> bool:
    """Return whether a tool asks in any class."""
    return tool in settings.service.approvals.tools or any(
        needs_approval(settings, tool, each.name) for each in settings.sandbox_classes
    )


def needs_approval(settings: Settings, tool: str, class_name: str) -> bool:
    """Return whether a tool asks in workspaces of a class."""
    return tool in settings.service.approvals.tools or (class_asks(settings, class_name) and tool in ACTING)


def class_asks(settings: Settings, class_name: str) -> bool:
    """Return whether a class asks, so that programs enter its workspaces by the tools alone."""
    return any(each.name == class_name and each.approval == "ask" for each in settings.sandbox_classes)


class Approvals:
    """The approvals of one replica."""

    def __init__(
        self,
        access: AccessCache,
        directory: Directory,
        send: Callable[[Approval], Awaitable[None]] | None,
        now: Callable[[], datetime],
    ) -> None:
        """`send` tells a webhook of a call that waits."""
        self._access, self._directory, self._now = access, directory, now
        self._send = send
        self._waiting: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()

    async def require(self, workspace: Workspace, question: Question) -> None:
        """Wait for the approval of a call; raise a `Problem` where it is denied, or nobody answers."""
        if self._is_granted(workspace, question):
            return
        owner, now = workspace.owner, self._now()
        if self._waiting[owner] >= MOST_WAITING_OF_OWNER:
            detail = f"{MOST_WAITING_OF_OWNER} calls wait for an approval"
            raise Problem("too-many-requests", detail, "answer them first", retry_after=30)
        request = Approval(
            id=secrets.token_hex(8),
            workspace=workspace.id,
            owner=owner,
            tool=question.tool,
            text=question.text[:LONGEST_TEXT],
            requester=question.requester,
            created=now,
            held_until=now + HELD_FOR,
            expires=now + HELD_FOR + LISTED_FOR,
        )
        self._waiting[owner] += 1
        try:
            await self._access.put(request)
            await self._directory.notify(workspace.id, "ApprovalRequested", f"{request.tool} waits ({request.id})")
            self._notify_webhook(request)
            answered = await self._answer(request)
        except asyncio.CancelledError:
            # Nobody waits any more.
            self._in_background(self._access.put(replace(request, state="expired")))
            raise
        finally:
            self._waiting[owner] -= 1
            if not self._waiting[owner]:
                del self._waiting[owner]
        if answered.state == "denied":
            raise Problem("not-allowed", f"{question.tool} was denied by {answered.by}", "do something else")
        if answered.state != "approved":
            detail = f"nobody approved {question.tool} within {HELD_FOR.total_seconds():.0f} s"
            raise Problem("not-allowed", detail, "ask a person to open the console's approvals, and call again")

    def list(self, caller: Caller) -> list[Approval]:
        """Return what a caller is to answer, and was in the last hour, the latest first."""
        rows = [row for row in self._access.approvals() if self._may_answer(caller, row)]
        return sorted((self._current(row) for row in rows), key=lambda row: row.created, reverse=True)

    async def answer(self, caller: Caller, id_: str, answer: Answer, extent: Extent) -> Approval:
        """Answer a call that waits for a caller, who is a person."""
        row = self._access.approval(id_)
        if row is None or not self._may_answer(caller, row):
            raise not_found("approval")
        if not _is_person(caller):
            raise Problem("not-allowed", "an API key answers no approval", "sign in at the console")
        if self._current(row).state != "asked":
            raise Problem("wrong-state", "it was answered, or nobody waits any more", "see its state")
        now = self._now()
        until = now + GRANTED_FOR if answer == "approve" and extent == "hour" else None
        answered = replace(
            row,
            state="approved" if answer == "approve" else "denied",
            by=caller.owner,
            until=until,
            expires=max(row.expires, until or row.expires),
        )
        reason = "Approved" if answer == "approve" else "ApprovalDenied"
        how = "for an hour" if until else "once"
        # The event is first: nothing runs that is not in it.
        message = f"{row.tool} {how if answer == 'approve' else ''} by {caller.owner} ({row.id})"
        await self._directory.notify(row.workspace, reason, " ".join(message.split()))
        await self._access.put(answered)
        return answered

    def _is_granted(self, workspace: Workspace, question: Question) -> bool:
        now = self._now()
        return any(
            row.state == "approved"
            and row.until is not None
            and row.until > now
            and (row.workspace, row.tool, row.requester) == (workspace.id, question.tool, question.requester)
            for row in self._access.approvals()
        )

    def _may_answer(self, caller: Caller, row: Approval) -> bool:
        workspace = self._directory.cached(row.workspace)
        return workspace is not None and workspace.owner == row.owner and is_allowed(caller, "change", workspace)

    def _current(self, row: Approval) -> Approval:
        is_over = row.state == "asked" and row.held_until <= self._now()
        return replace(row, state="expired") if is_over else row

    async def _answer(self, request: Approval) -> Approval:
        """Return the record once it is answered or expired."""
        while True:
            row = self._current(self._access.approval(request.id) or request)
            if row.state != "asked":
                return row
            await asyncio.sleep(LOOK_SECONDS)

    def _notify_webhook(self, request: Approval) -> None:
        if self._send is not None:
            self._in_background(self._sent(self._send, request))

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _sent(self, send: Callable[[Approval], Awaitable[None]], request: Approval) -> None:
        try:
            await send(request)
        except Exception as failure:  # noqa: BLE001 - the console shows it all the same
            facts = {"why": type(failure).__name__, "approval": request.id}
            _LOG.warning("the webhook of approvals does not answer", extra={"facts": facts})


def _is_person(caller: Caller) -> bool:
    """Return whether a caller is a person: by a token of the issuer, or signed in at the console."""
    return caller.source == "token" or (caller.source == "session" and bool(caller.session))
