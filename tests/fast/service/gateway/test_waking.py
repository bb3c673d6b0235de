"""A sleeping workspace is woken once for many, held, fairly queued, and never for somebody who may not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from agentenv.core.workspaces.workspace import CreateResult, PortSharing, Timeout, Workspace
from agentenv.service.gateway import authorize
from agentenv.service.gateway.waking import Waker
from agentenv.service.http.auth.rate_limits import RateLimiter
from agentenv.service.http.problems import Problem
from agentenv.service.kube.client import KubeApiError
from tests.fast.service.gateway.entrance import MINE, THEIRS, WORKSPACES, Entrance, allowed, denied, entrance

PORT = f"3000-{MINE}.{WORKSPACES}"
PAGE = {"sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}


Requested = Callable[[], None]


def run(act: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await act()

    asyncio.run(bounded())


def sleeping(**more: Any) -> tuple[Entrance, dict[str, str]]:
    gate = entrance(**more)
    gate.directory.put(MINE, "u-me", "suspended", suspended_because="idle")
    return gate, dict(gate.bearer("u-me"))


def test_concurrent_requests_resume_a_workspace_once() -> None:
    gate, mine = sleeping()

    async def act() -> None:
        decisions = await asyncio.gather(*(gate.check(PORT, **mine) for _ in range(50)))
        assert all(allowed(decision).headers["x-gateway-destination"] for decision in decisions)
        assert gate.directory.resumed == [MINE]

    run(act)


def test_a_program_is_held_and_a_person_sees_a_page_that_loads_itself_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorize, "PATIENCE_SECONDS", 0.02)
    gate, mine = sleeping()
    gate.directory.wakes_at_once = False
    released = asyncio.Event()
    resume = gate.directory.resume

    async def slow(workspace: Workspace, on_requested: Requested) -> CreateResult:
        await resume(workspace, on_requested)
        await released.wait()
        running = gate.directory.put(workspace.id, workspace.owner)
        return CreateResult(running, ready=True, existed=True)

    gate.authorizer._waker = Waker(slow)

    async def act() -> None:
        program = asyncio.create_task(gate.check(PORT, **mine))
        page = denied(await gate.check(PORT, **mine, **PAGE))
        assert page.status == 503
        assert 'http-equiv="refresh"' in page.body
        assert dict(page.headers)["content-security-policy"].startswith("default-src 'none'")
        assert not program.done()
        released.set()
        assert allowed(await program)
        assert allowed(await gate.check(PORT, **mine, **PAGE))
        assert gate.directory.resumed == [MINE]

    run(act)


def test_request_held_too_long_gets_retry_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorize, "HOLD_SECONDS", 0.02)
    gate, mine = sleeping()
    hung = asyncio.Event()

    async def hanging(_: Workspace, _on_requested: Requested) -> CreateResult:
        await hung.wait()
        raise AssertionError

    async def act() -> None:
        gate.authorizer._waker = Waker(hanging)
        decision = denied(await gate.check(PORT, **mine))
        assert decision.status == 503
        assert dict(decision.headers)["retry-after"] == "2"
        await gate.authorizer._waker.close()

    run(act)


def test_caller_without_the_right_to_resume_gets_the_suspended_state() -> None:
    gate, mine = sleeping()
    gate.directory.put(THEIRS, "u-other", "suspended", ports={3000: PortSharing("public")})
    public = f"3000-{THEIRS}.{WORKSPACES}"

    async def act() -> None:
        assert denied(await gate.check(public)).status == 409
        assert denied(await gate.check(public, **mine)).status == 409
        assert gate.directory.resumed == []
        gate.directory.change(THEIRS, ports={3000: PortSharing("public", wake=True)})
        assert allowed(await gate.check(public))
        assert gate.directory.resumed == [THEIRS]

    run(act)


def test_writers_and_workspace_tokens_resume_it_and_readers_do_not() -> None:
    gate, mine = sleeping()

    def asleep(**more: Any) -> None:
        gate.directory.put(THEIRS, "u-other", "suspended", **more)

    async def act() -> None:
        asleep(shared={"u-me": "ro"})
        assert denied(await gate.check(f"49983-{THEIRS}.{WORKSPACES}", **mine)).status == 409
        asleep(shared={"u-me": "rw"})
        assert allowed(await gate.check(f"49983-{THEIRS}.{WORKSPACES}", **mine))
        asleep()
        assert allowed(await gate.check(f"49983-{THEIRS}.{WORKSPACES}", x_access_token=gate.access_token(THEIRS)))
        assert gate.directory.resumed == [THEIRS, THEIRS]

    run(act)


@pytest.mark.parametrize(("because", "status"), [("deadline", 409), ("budget", 200), ("asked", 200)])
def test_what_suspended_it_decides(because: Any, status: int) -> None:
    gate, mine = sleeping()
    gate.directory.change(MINE, suspended_because=because)

    async def act() -> None:
        decision = await gate.check(PORT, **mine)
        assert (denied(decision).status if status != 200 else bool(allowed(decision))) in {status, True}

    run(act)


def test_a_spent_budget_is_the_answer_to_all_who_wait() -> None:
    gate, mine = sleeping()

    async def spent(_: Workspace, _on_requested: Requested) -> CreateResult:
        raise Problem("budget-spent", "the cost of this month is 3.00", "have it raised")

    gate.authorizer._waker = Waker(spent)

    async def act() -> None:
        decisions = await asyncio.gather(*(gate.check(PORT, **mine) for _ in range(3)))
        assert [denied(decision).status for decision in decisions] == [402] * 3
        page = denied(await gate.check(PORT, **mine, **PAGE))
        assert page.status == 402
        assert "<h1>" in page.body

    run(act)


def test_paused_sandbox_is_not_resumed_by_traffic() -> None:
    gate, mine = sleeping()
    gate.directory.change(MINE, timeout=Timeout(60, "suspend", wakes=False))

    async def act() -> None:
        assert denied(await gate.check(f"49983-{MINE}.{WORKSPACES}", **mine)).status == 502
        assert denied(await gate.check(PORT, **mine)).status == 409
        assert gate.directory.resumed == []

    run(act)


@pytest.mark.parametrize("owner", ["u-me", "u-other"])
def test_who_may_enter_a_workspace_that_its_resume_replaced_is_decided_again(owner: str) -> None:
    gate, mine = sleeping()

    async def replaced(workspace: Workspace, _: Requested) -> CreateResult:
        gate.directory.put(workspace.id, owner)
        gate.directory.change(workspace.id, claim_uid="another")
        gate.directory.endpoints[workspace.id] = replace(gate.directory.endpoints[workspace.id], claim_uid="another")
        return CreateResult(gate.directory.workspaces[workspace.id], ready=True, existed=True)

    gate.authorizer._waker = Waker(replaced)

    async def act() -> None:
        decision = await gate.check(PORT, **mine)
        if owner == "u-me":
            assert "/another/" in allowed(decision).headers["x-workspace-token"]
        else:
            assert denied(decision).status == 404

    run(act)


def test_workspace_that_is_replaced_again_and_again_is_not_entered() -> None:
    gate, mine = sleeping()

    async def replaced(workspace: Workspace, _: Requested) -> CreateResult:
        return CreateResult(replace(workspace, state="running", claim_uid="another"), ready=True, existed=True)

    gate.authorizer._waker = Waker(replaced)

    async def act() -> None:
        assert denied(await gate.check(PORT, **mine)).status == 409

    run(act)


def test_failed_resume_has_its_reason_and_the_next_is_tried() -> None:
    gate, mine = sleeping()
    failures: list[Exception] = [KubeApiError("exceeded quota: pods", 403), KubeApiError("away", 503)]
    resume = gate.directory.resume

    async def failing(workspace: Workspace, on_requested: Requested) -> CreateResult:
        if failures:
            raise failures.pop(0)
        return await resume(workspace, on_requested)

    gate.authorizer._waker = Waker(failing)

    async def act() -> None:
        full = denied(await gate.check(PORT, **mine))
        assert full.status == 503
        assert "no-room" in full.body
        assert "retry-after" in dict(full.headers)
        assert denied(await gate.check(PORT, **mine)).status == 503
        assert allowed(await gate.check(PORT, **mine))

    run(act)


@pytest.mark.parametrize(("state", "word"), [("failed", "PodFailed"), ("deleting", "moved")])
def test_an_owner_learns_why_it_cannot_be_entered(state: Any, word: str) -> None:
    gate, mine = sleeping()
    gate.directory.put(MINE, "u-me", state, why="PodFailed")

    async def act() -> None:
        decision = denied(await gate.check(PORT, **mine))
        assert decision.status == 409
        assert word in decision.body

    run(act)


def test_an_owner_learns_why_a_wake_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorize, "HOLD_SECONDS", 0.01)
    gate, mine = sleeping()
    gate.directory.put(MINE, "u-me", "creating", why="no node has room")
    gate.directory.endpoints.pop(MINE, None)

    async def act() -> None:
        decision = denied(await gate.check(PORT, **mine))
        assert decision.status == 503
        assert "waking up: no node has room" in decision.body

    run(act)


def test_workspace_without_workspaced_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorize, "LAG_SECONDS", 0.01)
    gate, mine = sleeping()
    gate.directory.put(MINE, "u-me")
    del gate.directory.endpoints[MINE]

    async def act() -> None:
        # A pod that this replica does not know yet may have it.
        assert denied(await gate.check(PORT, **mine)).status == 503
        gate.directory.without_workspaced.add(MINE)
        decision = denied(await gate.check(PORT, **mine))
        assert decision.status == 409
        assert "suspend and resume" in decision.body

    run(act)


def test_resumes_of_a_visitor_are_limited() -> None:
    gate, mine = sleeping(wakes=RateLimiter(2))

    async def act() -> None:
        codes: list[Any] = []
        for _ in range(3):
            gate.directory.put(MINE, "u-me", "suspended")
            decision = await gate.check(PORT, **mine)
            codes.append(getattr(decision, "status", 200))
        assert codes == [200, 200, 429]

    run(act)


def test_the_queue_is_fair_by_owner() -> None:
    """One owner with a hundred workspaces does not keep another with one waiting behind all of them."""
    order: list[str] = []
    gates: dict[str, asyncio.Event] = {}

    async def resume(workspace: Workspace, _: Requested) -> CreateResult:
        order.append(workspace.id)
        gates[workspace.id] = asyncio.Event()
        await gates[workspace.id].wait()
        return CreateResult(workspace, ready=True)

    def of(owner: str, number: int) -> Workspace:
        return Workspace(f"{owner}-{number}", owner, "standard", "user", "suspended", claim_uid="c")

    async def act() -> None:
        waker = Waker(resume, at_once=2)
        tasks = [asyncio.create_task(waker.wake(of("many", number))) for number in range(100)]
        await asyncio.sleep(0)
        tasks += [asyncio.create_task(waker.wake(of("few", number))) for number in range(2)]
        ended = 0
        while ended < len(tasks):
            while len(order) <= ended:
                await asyncio.sleep(0)
            gates[order[ended]].set()
            ended += 1
        await asyncio.gather(*tasks)
        assert max(order.index("few-0"), order.index("few-1")) < 8
        assert len(order) == len(set(order)) == 102

    run(act)


def test_queue_waits_for_requests_and_not_for_pods() -> None:
    """Pods of forty workspaces start beside each other, though only two resumes are requested at once."""
    requesting: set[str] = set()
    requested: list[str] = []
    most = 0
    all_requested = asyncio.Event()

    async def resume(workspace: Workspace, on_requested: Requested) -> CreateResult:
        nonlocal most
        requesting.add(workspace.id)
        most = max(most, len(requesting))
        await asyncio.sleep(0)
        requesting.remove(workspace.id)
        requested.append(workspace.id)
        on_requested()
        if len(requested) == 40:
            all_requested.set()
        await all_requested.wait()
        on_requested()
        return CreateResult(workspace, ready=True)

    async def act() -> None:
        waker = Waker(resume, at_once=2)
        suspended = [Workspace(f"w-{n}", f"u-{n}", "standard", "user", "suspended") for n in range(40)]
        assert await asyncio.gather(*(waker.wake(workspace) for workspace in suspended)) == suspended
        assert most == 2

    run(act)


def test_cancelled_wait_releases_its_slot_once() -> None:
    running: list[str] = []
    most = 0
    release = asyncio.Event()

    async def resume(workspace: Workspace, _: Requested) -> CreateResult:
        nonlocal most
        running.append(workspace.id)
        most = max(most, len(running))
        await release.wait()
        running.remove(workspace.id)
        return CreateResult(workspace, ready=True)

    async def act() -> None:
        waker = Waker(resume, at_once=1)
        spaces = [Workspace(f"w-{n}", f"u-{n}", "standard", "user", "suspended") for n in range(5)]
        assert [await waker.wake(workspace, hold=0) for workspace in spaces] == [None] * 5
        release.set()
        assert [(await waker.wake(workspace)) for workspace in spaces] == spaces
        assert most == 1

    run(act)
