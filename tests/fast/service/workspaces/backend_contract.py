"""The contract of all backends of workspaces, as coroutines that the tests of each backend run."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from agentenv.core.workspaces.child_budgets import ChildBudget, ChildBudgets
from agentenv.core.workspaces.workspace import Changes, CreateRequest, Filter, Lease, Timeout, Workspace
from agentenv.service.http.problems import Problem
from agentenv.service.workspaces.backend_protocol import Backend

RETENTION = timedelta(days=1)
POLL = 0.01
MISSING = "w-" + "a" * 26


@dataclass
class Subject:
    """A backend with a class, and the owner of one test."""

    backend: Backend
    class_name: str
    wait: float  # enough seconds for a cold start
    owner: str = field(default_factory=lambda: f"u-{uuid.uuid4().hex[:12]}")

    def request(self, key: str = "key/a", **values: Any) -> CreateRequest:
        return CreateRequest(self.owner, key, self.class_name, self.owner, **values)

    async def create(self, key: str = "key/a", **values: Any) -> Workspace:
        result = await self.backend.create(self.request(key, **values), wait=self.wait)
        assert result.ready, result.workspace
        return result.workspace

    async def reach(self, id_: str, *states: str) -> Workspace:
        """Return the workspace once it is in one of the states."""
        async with asyncio.timeout(self.wait):
            while True:
                workspace = await self.backend.settled(id_, wait=1)
                if workspace is not None and workspace.state in states:
                    return workspace
                await asyncio.sleep(POLL)


async def refused(work: Awaitable[object], *kinds: str) -> Problem:
    with pytest.raises(Problem) as raised:
        await work
    assert raised.value.kind in kinds, raised.value
    return raised.value


async def a_repeated_request_returns_the_same_workspace(subject: Subject) -> None:
    created = await subject.create(labels={"team": "a"})
    again = await subject.backend.create(subject.request(labels={"team": "b"}), wait=subject.wait)
    assert (again.workspace.id, again.existed, again.ready) == (created.id, True, True)
    assert again.workspace.labels == {"team": "a"}
    assert (await subject.create("key/b")).id != created.id


async def requests_at_once_create_one_workspace(subject: Subject) -> None:
    creates = (subject.backend.create(subject.request(), wait=subject.wait) for _ in range(8))
    results = await asyncio.gather(*creates, return_exceptions=True)
    ids = {result.workspace.id for result in results if not isinstance(result, BaseException)}
    assert len(ids) == 1
    page = await _listed(subject, Filter(owner=subject.owner), 1, limit=10)
    assert {workspace.id for workspace in page.workspaces} == ids


async def a_different_request_with_the_same_key_is_refused(subject: Subject) -> None:
    created = await subject.create()
    different = subject.request(idle_after=timedelta(hours=1))
    problem = await refused(subject.backend.create(different, wait=0), "key-reused")
    assert problem.facts["workspace"] == created.id


async def a_suspended_workspace_keeps_its_files_and_resumes(subject: Subject) -> None:
    created = await subject.create()
    await subject.backend.suspend(created.id, "asked")
    suspended = await subject.reach(created.id, "suspended")
    assert suspended.suspended_because == "asked"
    assert subject.backend.endpoint(created.id) is None
    await refused(subject.backend.attach(created.id, _lease("one")), "wrong-state")
    resumed = await subject.backend.resume(created.id, wait=subject.wait)
    assert (resumed.ready, resumed.existed, resumed.workspace.state) == (True, True, "running")
    assert resumed.workspace.suspended_because is None
    assert (await subject.backend.resume(created.id, wait=0)).ready


async def a_deleted_workspace_is_restored_on_its_data(subject: Subject) -> None:
    created = await subject.create()
    await subject.backend.delete(created.id, keep_for=RETENTION)
    deleted = await subject.reach(created.id, "deleted")
    assert deleted.deleted_at is not None
    assert deleted.destroy_after is not None
    assert deleted.destroy_after - deleted.deleted_at >= RETENTION - timedelta(seconds=1)
    # A list is of the cache, which follows.
    async with asyncio.timeout(subject.wait):
        while (await subject.backend.list(Filter(owner=subject.owner), limit=10)).workspaces:
            await asyncio.sleep(POLL)
    different = subject.request(mode="agent")
    await refused(subject.backend.create(different, wait=0), "key-reused")
    seen: list[Workspace] = []

    async def before(workspace: Workspace) -> None:
        seen.append(workspace)

    restored = await subject.backend.resume(created.id, wait=subject.wait, before_restore=before)
    assert [workspace.id for workspace in seen] == [created.id]
    assert restored.workspace.id == created.id
    await subject.reach(created.id, "running")


async def a_check_may_refuse_a_restore(subject: Subject) -> None:
    created = await subject.create()
    await subject.backend.delete(created.id, keep_for=RETENTION)
    await subject.reach(created.id, "deleted")

    async def refuse(_: Workspace) -> None:
        raise Problem("class-not-claimable", "no", "none")

    resume = subject.backend.resume(created.id, wait=0, before_restore=refuse)
    await refused(resume, "class-not-claimable")
    assert (await subject.reach(created.id, "deleted")).id == created.id


async def destroyed_data_does_not_return(subject: Subject) -> None:
    created = await subject.create()
    await subject.backend.delete(created.id, keep_for=timedelta(0))
    async with asyncio.timeout(subject.wait):
        while (workspace := await subject.backend.settled(created.id, wait=1)) and workspace.state != "deleted":
            await asyncio.sleep(POLL)
    await refused(subject.backend.resume(created.id, wait=0), "not-found", "wrong-state")


async def an_agent_has_one_lease_at_a_time(subject: Subject) -> None:
    agent = await subject.create("agent/a", mode="agent")
    await subject.backend.attach(agent.id, _lease("one"))
    await refused(subject.backend.attach(agent.id, _lease("two")), "busy")
    renewed = await subject.backend.attach(agent.id, _lease("one", seconds=600))
    assert [lease.holder for lease in renewed.leases] == ["one"]
    await subject.backend.detach(agent.id, "one")
    assert (await subject.backend.detach(agent.id, "never")).leases == ()
    await subject.backend.attach(agent.id, _lease("two"))


async def an_update_sets_and_removes_fields(subject: Subject) -> None:
    created = await subject.create(budget=Decimal(5))
    changes = Changes(labels={"team": "b"}, idle_after=timedelta(hours=1), shared={"u-2": "ro"})
    updated = (await subject.backend.update(created.id, changes, wait=0)).workspace
    assert (updated.labels, updated.idle_after, updated.shared) == ({"team": "b"}, timedelta(hours=1), {"u-2": "ro"})
    assert updated.budget == Decimal(5)
    removed = (await subject.backend.update(created.id, Changes(budget=None, idle_after=None), wait=0)).workspace
    assert (removed.budget, removed.idle_after, removed.labels) == (None, None, {"team": "b"})


async def a_list_is_in_order_and_filtered(subject: Subject) -> None:
    created = [await subject.create(f"key/{name}", labels={"name": name}) for name in "abc"]
    ids = sorted(workspace.id for workspace in created)
    await _listed(subject, Filter(owner=subject.owner, state="running"), 3, limit=3)
    first = await subject.backend.list(Filter(owner=subject.owner), limit=2)
    assert ([workspace.id for workspace in first.workspaces], first.after) == (ids[:2], ids[1])
    rest = await subject.backend.list(Filter(owner=subject.owner), limit=2, after=first.after)
    assert ([workspace.id for workspace in rest.workspaces], rest.after) == (ids[2:], None)
    named = Filter(owner=subject.owner, labels={"name": "b"}, state="running")
    assert [row.id for row in (await subject.backend.list(named, limit=9)).workspaces] == [created[1].id]
    reader = Filter(reader=f"{subject.owner}-other")
    assert not (await subject.backend.list(reader, limit=9)).workspaces
    for workspace in created:
        assert subject.backend.cached(workspace.id) is not None
    counts = subject.backend.count_by_state()
    assert counts[subject.class_name, "running"] >= 3


async def the_end_of_a_chat_is_recorded_once(subject: Subject) -> None:
    await subject.create("session/s-1", mode="session", archive="s-1")
    await subject.create("session/s-2", mode="session", archive="s-2")
    assert await subject.backend.end_session(subject.owner, "s-1") == 1
    assert await subject.backend.end_session(subject.owner, "s-1") == 0


async def a_timeout_starts_anew_once_it_is_over(subject: Subject) -> None:
    past = (datetime.now(UTC) - timedelta(seconds=5)).replace(microsecond=0)
    timeout, metadata = Timeout(600, "suspend", wakes=True), {"Any name": "any text"}
    later = past + timedelta(hours=1)
    created = await subject.create(mode="session", archive="s", deadline=later, timeout=timeout, metadata=metadata)
    assert (created.timeout, created.metadata, created.deadline) == (timeout, metadata, later)
    await subject.backend.update(created.id, Changes(deadline=past), wait=0)
    await subject.backend.suspend(created.id, "deadline")
    await subject.reach(created.id, "suspended")
    resumed = (await subject.backend.resume(created.id, wait=subject.wait)).workspace
    assert resumed.deadline is not None
    assert timedelta(seconds=500) < resumed.deadline - past
    retained = await subject.backend.resume(created.id, wait=subject.wait)
    assert retained.workspace.deadline == resumed.deadline
    changed = await subject.backend.update(created.id, Changes(timeout=Timeout(5, "delete")), wait=0)
    assert changed.workspace.timeout == Timeout(5, "delete")


async def changes_at_once_are_all_made(subject: Subject) -> None:
    created = await subject.create(labels={"first": "yes"})

    def adding(name: str) -> Callable[[Workspace], Changes]:
        return lambda workspace: Changes(labels={**workspace.labels, name: "yes"})

    names = [f"label-{number}" for number in range(10)]
    await asyncio.gather(*(subject.backend.change(created.id, adding(name)) for name in names))
    changed = await subject.backend.get(created.id)
    assert changed is not None
    assert changed.labels == dict.fromkeys(["first", *names], "yes")


async def a_change_that_is_refused_for_what_it_finds_is_not_made(subject: Subject) -> None:
    created = await subject.create(budget=Decimal(5))
    held = {MISSING: ChildBudget(subject.owner, Decimal(2), datetime.now(UTC).replace(microsecond=0), "a")}
    taken = Changes(budget=Decimal(3), child_budgets=ChildBudgets(held))
    await subject.backend.change(created.id, lambda _: taken)

    def setting(budget: Decimal, *, was: Decimal) -> Callable[[Workspace], Changes]:
        def build(workspace: Workspace) -> Changes:
            if workspace.budget != was:
                raise Problem("busy", "it was changed meanwhile", "repeat the request")
            return Changes(budget=budget)

        return build

    await refused(subject.backend.change(created.id, setting(Decimal(5), was=Decimal(5))), "busy")
    workspace = (await subject.backend.change(created.id, setting(Decimal(1), was=Decimal(3)))).workspace
    assert (workspace.budget, workspace.child_budgets) == (Decimal(1), ChildBudgets(held))


async def a_missing_workspace_is_not_found(subject: Subject) -> None:
    backend = subject.backend
    assert await backend.get(MISSING) is None
    assert backend.cached(MISSING) is None
    assert backend.endpoint(MISSING) is None
    for work in (
        backend.suspend(MISSING, "asked"),
        backend.resume(MISSING, wait=0),
        backend.delete(MISSING, keep_for=RETENTION),
        backend.attach(MISSING, _lease("one")),
        backend.detach(MISSING, "one"),
        backend.update(MISSING, Changes(labels={}), wait=0),
        backend.change(MISSING, lambda _: Changes(labels={})),
        backend.events(MISSING),
    ):
        await refused(work, "not-found")


async def a_running_workspace_has_events_and_an_address_of_its_claim(subject: Subject) -> None:
    created = await subject.create()
    for event in await subject.backend.events(created.id):
        assert event.at <= datetime.now(UTC) + timedelta(minutes=1)
    endpoint = subject.backend.endpoint(created.id)
    if endpoint is not None:
        assert endpoint.claim_uid == created.claim_uid
        assert endpoint.address in created.addresses


async def _listed(subject: Subject, selector: Filter, count: int, *, limit: int) -> Any:
    """Return a page once the cache has so many workspaces."""
    async with asyncio.timeout(subject.wait):
        while len((await subject.backend.list(replace(selector), limit=count)).workspaces) < count:
            await asyncio.sleep(POLL)
    return await subject.backend.list(selector, limit=limit)


def _lease(holder: str, seconds: int = 60) -> Lease:
    return Lease(holder, "rw", (datetime.now(UTC) + timedelta(seconds=seconds)).replace(microsecond=0))


CONTRACT: tuple[Callable[[Subject], Awaitable[None]], ...] = (
    a_repeated_request_returns_the_same_workspace,
    requests_at_once_create_one_workspace,
    a_different_request_with_the_same_key_is_refused,
    a_suspended_workspace_keeps_its_files_and_resumes,
    a_deleted_workspace_is_restored_on_its_data,
    a_check_may_refuse_a_restore,
    destroyed_data_does_not_return,
    an_agent_has_one_lease_at_a_time,
    an_update_sets_and_removes_fields,
    a_list_is_in_order_and_filtered,
    the_end_of_a_chat_is_recorded_once,
    a_timeout_starts_anew_once_it_is_over,
    changes_at_once_are_all_made,
    a_change_that_is_refused_for_what_it_finds_is_not_made,
    a_missing_workspace_is_not_found,
    a_running_workspace_has_events_and_an_address_of_its_claim,
)
