"""Approvals: what is held and for how long, who answers, and how far an answer goes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from agentenv.config import Settings
from agentenv.core.gateway.access_records import Approval, record_of, row_of, to_item
from agentenv.core.workspaces.workspace import Workspace
from agentenv.dev.settings import default_settings
from agentenv.service.approvals import approvals as module
from agentenv.service.approvals.approvals import Approvals, Question, class_asks, may_need_approval, needs_approval
from agentenv.service.gateway.access_cache import AccessCache
from agentenv.service.http.auth.callers import Caller, with_implied_roles
from agentenv.service.http.problems import Problem
from agentenv.service.mcp.calls import tool
from tests.fast.service.gateway.entrance import MINE, WORKSPACES, allowed, entrance
from tests.fast.service.gateway.stored import Clock, MemoryStore

START = datetime(2026, 11, 19, 12, tzinfo=UTC)
OWNER = Caller("u-me", with_implied_roles("user"), "session", session="a" * 32)
AGENT = Caller("u-me", with_implied_roles("user"), "key", session="key.000000000001")
QUESTION = Question("run", "command: rm -r build", AGENT)
WORKSPACE = Workspace(MINE, "u-me", "standard", "user", "running", claim_uid="claim")


@dataclass
class Directory:
    """One workspace, and the events that its owner sees."""

    workspace: Workspace | None = WORKSPACE
    events: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def cached(self, id_: str) -> Workspace | None:  # noqa: ARG002 - the backend's
        return self.workspace

    async def notify(self, id_: str, reason: str, message: str) -> None:  # noqa: ARG002 - the backend's
        self.events.append((reason, message))


@dataclass
class Stage:
    """Two replicas over one table."""

    store: MemoryStore
    clock: Clock
    directory: Directory
    caches: list[AccessCache]
    replicas: list[Approvals]
    sent: list[Approval]

    async def waiting(self, replica: int = 0) -> Approval:
        """Return what waits, once it does."""
        while True:
            await self.caches[replica].poll()
            rows = [row for row in self.replicas[replica].list(OWNER) if row.state == "asked"]
            if rows:
                return rows[0]
            await asyncio.sleep(0)


def on_stage(act: Callable[[Stage], Awaitable[None]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.0)
    store, clock, directory, sent = MemoryStore(), Clock(START), Directory(), list[Approval]()
    caches = [AccessCache(store, now=clock.now, monotonic=clock.monotonic) for _ in range(2)]

    async def send(request: Approval) -> None:
        sent.append(request)

    async def run() -> None:
        for cache in caches:
            await cache.poll()
        replicas = [Approvals(cache, directory, send, clock.now) for cache in caches]
        async with asyncio.timeout(30):
            await act(Stage(store, clock, directory, caches, replicas, sent))

    asyncio.run(run())


def test_a_call_is_held_until_a_person_approves_it_at_any_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(stage: Stage) -> None:
        first, second = stage.replicas
        held = asyncio.create_task(first.require(WORKSPACE, QUESTION))
        request = await stage.waiting(1)
        assert (request.tool, request.text, request.workspace) == ("run", "command: rm -r build", MINE)
        assert not held.done()
        while not stage.directory.events:
            await asyncio.sleep(0)
        await second.answer(OWNER, request.id, "approve", "once")
        while not held.done():
            await stage.caches[0].poll()
            await asyncio.sleep(0)
        await held
        assert [reason for reason, _ in stage.directory.events] == ["ApprovalRequested", "Approved"]
        assert f"run once by u-me ({request.id})" in stage.directory.events[1][1]
        assert "rm -r" not in str(stage.directory.events), "what is request may hold secrets"
        assert [row.id for row in stage.sent] == [request.id]
        # It was for that call alone.
        again = asyncio.create_task(first.require(WORKSPACE, QUESTION))
        assert (await stage.waiting()).id != request.id
        again.cancel()

    on_stage(act, monkeypatch)


def test_an_approval_for_an_hour_is_for_the_tool_the_workspace_and_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(stage: Stage) -> None:
        replica = stage.replicas[0]
        held = asyncio.create_task(replica.require(WORKSPACE, QUESTION))
        await replica.answer(OWNER, (await stage.waiting()).id, "approve", "hour")
        await held
        await replica.require(WORKSPACE, Question("run", "command: ls", AGENT))
        other_key = Caller("u-me", AGENT.roles, "key", session="key.000000000002")
        other = Workspace("w-a0" + "d" * 26, "u-me", "standard", "user", "running")
        for workspace, question in (
            (WORKSPACE, Question("write_file", "", AGENT)),
            (WORKSPACE, Question("run", "", other_key)),
            (other, QUESTION),
        ):
            task = asyncio.create_task(replica.require(workspace, question))
            assert (await stage.waiting()).state == "asked"
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            while any(row.state == "asked" for row in replica.list(OWNER)):
                await asyncio.sleep(0)
        stage.clock.seconds = module.GRANTED_FOR.total_seconds() + 1
        await stage.caches[0].poll()
        late = asyncio.create_task(replica.require(WORKSPACE, QUESTION))
        assert (await stage.waiting()).held_until > stage.clock.now()
        late.cancel()

    on_stage(act, monkeypatch)


def test_a_denied_or_unanswered_call_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(stage: Stage) -> None:
        replica = stage.replicas[0]
        held = asyncio.create_task(replica.require(WORKSPACE, QUESTION))
        await replica.answer(OWNER, (await stage.waiting()).id, "deny", "once")
        with pytest.raises(Problem, match="denied by u-me"):
            await held
        held = asyncio.create_task(replica.require(WORKSPACE, QUESTION))
        request = await stage.waiting()
        stage.clock.seconds = 121
        with pytest.raises(Problem, match="nobody approved run within 120 s"):
            await held
        with pytest.raises(Problem, match="nobody waits"):
            await replica.answer(OWNER, request.id, "approve", "hour")
        assert {row.state for row in replica.list(OWNER)} == {"denied", "expired"}

    on_stage(act, monkeypatch)


def test_only_a_person_who_may_change_the_workspace_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(stage: Stage) -> None:
        replica = stage.replicas[0]
        held = asyncio.create_task(replica.require(WORKSPACE, QUESTION))
        request = await stage.waiting()
        stranger = Caller("u-other", OWNER.roles, "session", session="b" * 32)
        operator = Caller("u-ops", with_implied_roles("operator"), "session", session="c" * 32)
        for caller, words in ((stranger, "no such approval"), (operator, "no such approval"), (AGENT, "API key")):
            with pytest.raises(Problem, match=words):
                await replica.answer(caller, request.id, "approve", "once")
        assert replica.list(stranger) == []
        # Another workspace of the same id has another owner.
        stage.directory.workspace = Workspace(MINE, "u-other", "standard", "user", "running")
        with pytest.raises(Problem, match="no such approval"):
            await replica.answer(stranger, request.id, "approve", "once")
        held.cancel()

    on_stage(act, monkeypatch)


def test_a_call_that_ends_withdraws_its_question_and_few_wait_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WAITING_OF_OWNER", 1)

    async def act(stage: Stage) -> None:
        replica = stage.replicas[0]
        held = asyncio.create_task(replica.require(WORKSPACE, QUESTION))
        request = await stage.waiting()
        with pytest.raises(Problem, match="wait for an approval"):
            await replica.require(WORKSPACE, QUESTION)
        held.cancel()
        await asyncio.gather(held, return_exceptions=True)
        while replica.list(OWNER)[0].state == "asked":
            await asyncio.sleep(0)
        with pytest.raises(Problem, match="nobody waits"):
            await replica.answer(OWNER, request.id, "approve", "once")

    on_stage(act, monkeypatch)


def test_a_record_is_read_as_it_was_written_and_an_unknown_state_approves_nothing() -> None:
    record = Approval(
        "0" * 16, MINE, "u-me", "run", "x", "key.1", START, START, START, "approved", "u-me", START + timedelta(hours=1)
    )
    item = to_item(record)
    assert record_of(row_of(record), item) == record
    assert record_of(row_of(record), {**item, "state": "granted"}) is None
    assert record_of(row_of(record), {**item, "held_until": "soon"}) is None


def test_acting_tools_need_approval_in_a_class_and_named_tools_everywhere() -> None:
    settings = default_settings()
    assert not any(may_need_approval(settings, name) for name in ("run", "read_file"))
    standard = settings.sandbox_classes[0]
    settings_with_approval = settings.model_copy(
        update={"sandbox_classes": (standard.model_copy(update={"approval": "ask"}),)}
    )
    assert needs_approval(settings_with_approval, "run", "standard")
    assert not needs_approval(settings_with_approval, "read_file", "standard")
    assert not needs_approval(settings_with_approval, "run", "other")
    named = settings.service.approvals.model_copy(update={"tools": ("read_file",)})
    service = settings.service.model_copy(update={"approvals": named})
    assert needs_approval(settings.model_copy(update={"service": service}), "read_file", "other")


def context_of(stage: Stage, settings: Settings) -> Any:
    """Return the context of a tool's call by the agent at the first replica."""

    async def get(_: str) -> Workspace:
        return WORKSPACE

    dependencies = SimpleNamespace(
        backend=SimpleNamespace(get=get),
        catalog=SimpleNamespace(settings=settings),
        approvals=stage.replicas[0],
        now=stage.clock.now,
    )
    state = SimpleNamespace(caller=AGENT, dependencies=dependencies, source="127.0.0.1")
    request = SimpleNamespace(state=state, client=None, headers={})
    return SimpleNamespace(request_context=SimpleNamespace(request=request))


def test_named_tools_alone_need_approval_in_other_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = default_settings()
    approvals = settings.service.approvals.model_copy(update={"tools": ("run",)})
    settings = settings.model_copy(update={"service": settings.service.model_copy(update={"approvals": approvals})})

    async def run(workspace: str, context: Any) -> str:
        return workspace

    async def read_file(workspace: str, context: Any) -> str:
        return workspace

    async def act(stage: Stage) -> None:
        context = context_of(stage, settings)
        assert await tool(read_file)(MINE, context) == MINE
        call = asyncio.ensure_future(tool(run)(MINE, context))
        request = await stage.waiting()
        assert (request.tool, call.done()) == ("run", False)
        await stage.replicas[0].answer(OWNER, request.id, "approve", "once")
        assert await call == MINE

    on_stage(act, monkeypatch)
    # Other ways of programs into the workspace are closed where its class asks, and only there.
    gate = entrance(needs_approval=lambda name: class_asks(settings, name))
    person = Caller("u-me", with_implied_roles("user"), "token")
    key = asyncio.run(gate.keys.create(person, "k", ("use",), timedelta(hours=1), []))[1]
    allowed(asyncio.run(gate.check(f"49983-{MINE}.{WORKSPACES}", "/process.Process/Start", "POST", x_api_key=key)))


def test_a_tool_runs_only_after_the_approval_and_no_longer_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = default_settings()
    standard = settings.sandbox_classes[0]
    settings_with_approval = settings.model_copy(
        update={"sandbox_classes": (standard.model_copy(update={"approval": "ask"}),)}
    )
    ran: list[float] = []

    async def run(workspace: str, command: str, context: Any, timeout: float = 240) -> str:
        ran.append(timeout)
        return command

    async def act(stage: Stage) -> None:
        replica, context = stage.replicas[0], context_of(stage, settings_with_approval)
        call = asyncio.ensure_future(tool(run)(MINE, "make", context))
        request = await stage.waiting()
        assert request.text == "command: make"
        assert ran == []
        await replica.answer(OWNER, request.id, "approve", "once")
        assert await call == "make"
        assert ran[0] < 240
        stage.clock.seconds = 10
        refused = asyncio.ensure_future(tool(run)(MINE, "make", context))
        await replica.answer(OWNER, (await stage.waiting()).id, "deny", "once")
        with pytest.raises(Exception, match="denied"):
            await refused
        assert len(ran) == 1

    on_stage(act, monkeypatch)
