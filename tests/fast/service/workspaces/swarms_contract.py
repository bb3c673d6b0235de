"""The contract of the swarms of all backends, as coroutines that the tests of each backend run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from agentenv.core.workspaces.swarms import SwarmRequest, member, task_name
from agentenv.core.workspaces.workspace import Filter
from agentenv.service.http.problems import Problem
from agentenv.service.workspaces.backend_protocol import Swarms, SwarmStatus
from tests.fast.service.workspaces.backend_contract import POLL, RETENTION, Subject, refused


def _ignore(_: bool) -> None:
    return


@dataclass
class SwarmSubject(Subject):
    """A backend with its swarms, a class with shared volumes, and another class."""

    swarms: Swarms = field(kw_only=True)
    other_class: str = field(kw_only=True)
    set_ready: Callable[[bool], None] = _ignore  # whether sandboxes that start from now on become ready

    async def swarm(self, task: str = "crawl", count: int = 2, **values: Any) -> SwarmStatus:
        """Create a swarm; wait until it runs, and until what is being deleted of an earlier one is gone."""
        while True:
            try:
                return await self.request_swarm(task, count, wait=self.wait, **values)
            except Problem as problem:
                if problem.kind != "busy":
                    raise
            await asyncio.sleep(POLL)

    async def request_swarm(
        self, task: str = "crawl", count: int = 2, *, wait: float = 0, class_name: str = "", **values: Any
    ) -> SwarmStatus:
        request = SwarmRequest(self.owner, class_name or self.class_name, task, count, **values)
        return await self.swarms.create(request, wait=wait)

    async def reach_state(self, state: str, task: str = "crawl") -> SwarmStatus:
        """Return the status of a swarm once it has a state: the cache follows."""
        async with asyncio.timeout(self.wait):
            while (status := await self.swarms.find(self.owner, task)).state != state:
                await asyncio.sleep(POLL)
        return status

    async def reach_end(self, task: str = "crawl") -> None:
        """Wait until a swarm is gone."""
        async with asyncio.timeout(self.wait):
            while True:
                try:
                    await self.swarms.find(self.owner, task)
                except Problem as problem:
                    if problem.kind == "not-found":
                        return
                    raise
                await asyncio.sleep(POLL)

    def names(self, count: int, task: str = "crawl") -> list[str]:
        return [member(task_name(self.owner, task), number) for number in range(count)]


async def a_swarm_runs_as_a_whole(subject: SwarmSubject) -> None:
    created = await subject.swarm(count=3)
    names = subject.names(3)
    assert (created.task, created.class_name, created.count, created.state) == (
        "crawl",
        subject.class_name,
        3,
        "running",
    )
    status = await subject.reach_state("running")
    assert [workspace.id for workspace in status.members] == names
    assert (status.count, status.why) == (3, None)
    for workspace in status.members:
        expected = (subject.owner, "agent", task_name(subject.owner, "crawl"), "running", True)
        found = (workspace.owner, workspace.mode, workspace.task, workspace.state, workspace.volume_retained)
        assert found == expected
    listed = await subject.backend.list(Filter(owner=subject.owner, task=task_name(subject.owner, "crawl")), limit=9)
    assert [workspace.id for workspace in listed.workspaces] == names


async def a_repeated_swarm_is_the_same(subject: SwarmSubject) -> None:
    creates = [subject.request_swarm(wait=subject.wait) for _ in range(3)]
    results = await asyncio.gather(*creates)
    assert {(status.state, status.count) for status in results} == {("running", 2)}
    claims = {workspace.claim_uid for workspace in (await subject.reach_state("running")).members}
    again = await subject.swarm()
    assert {workspace.claim_uid for workspace in again.members} == claims
    larger = await subject.swarm(count=3)
    assert claims < {workspace.claim_uid for workspace in larger.members}
    assert len(larger.members) == 3


async def a_request_that_does_not_wait_reports_a_creation(subject: SwarmSubject) -> None:
    subject.set_ready(False)
    status = await subject.request_swarm()
    assert (status.state, status.count) == ("creating", 2)
    assert [row.task for row in await subject.swarms.list(subject.owner, 9, None)] == ["crawl"]
    await refused(subject.request_swarm(count=3), "busy")
    assert (await subject.request_swarm(count=3, fit=True)).count == 2
    await refused(subject.request_swarm(class_name=subject.other_class), "key-reused")
    subject.set_ready(True)
    assert (await subject.reach_state("running")).count == 2


async def a_task_has_one_swarm_of_one_class(subject: SwarmSubject) -> None:
    await subject.swarm()
    await subject.reach_state("running")
    await refused(subject.request_swarm(class_name=subject.other_class, wait=subject.wait), "key-reused")
    await refused(subject.request_swarm(count=501), "refused")


async def swarms_are_listed_by_task_and_owner(subject: SwarmSubject) -> None:
    assert await subject.swarms.list(subject.owner, 9, None) == []
    for task in ("b", "a"):
        await subject.swarm(task, count=1)
    for task in ("b", "a"):
        await subject.reach_state("running", task)
    assert [row.task for row in await subject.swarms.list(subject.owner, 1, None)] == ["a"]
    assert [row.task for row in await subject.swarms.list(subject.owner, 9, "a")] == ["b"]
    assert await subject.swarms.list(f"{subject.owner}-other", 9, None) == []
    await refused(subject.swarms.find(f"{subject.owner}-other", "a"), "not-found")


async def a_deleted_swarm_is_created_again_on_its_data(subject: SwarmSubject) -> None:
    await subject.swarm()
    names = subject.names(2)
    await subject.swarms.end(subject.owner, "crawl")
    await subject.reach_end()
    for name in names:
        deleted = await subject.reach(name, "deleted")
        assert deleted.deleted_at is not None
        assert deleted.destroy_after is not None
        assert deleted.destroy_after - deleted.deleted_at >= RETENTION
    restored = await subject.swarm()
    assert (restored.state, restored.count) == ("running", 2)
    status = await subject.reach_state("running")
    assert [(workspace.id, workspace.deleted_at) for workspace in status.members] == [(name, None) for name in names]


async def a_swarm_without_a_member_has_failed_until_it_is_created_again(subject: SwarmSubject) -> None:
    await subject.swarm(count=3)
    lost = subject.names(3)[1]
    await subject.backend.delete(lost, keep_for=RETENTION)
    await subject.reach(lost, "deleted")
    failed = await subject.reach_state("failed")
    assert failed.why == f"1 of 3 workspaces ({lost}) are missing: create it again to restore them"
    assert (failed.count, [row.id for row in failed.members]) == (3, [subject.names(3)[0], subject.names(3)[2]])
    await subject.swarm(count=3)
    assert [row.id for row in (await subject.reach_state("running")).members] == subject.names(3)


async def a_suspended_member_is_named(subject: SwarmSubject) -> None:
    await subject.swarm()
    first = subject.names(2)[0]
    await subject.backend.suspend(first, "asked")
    await subject.reach(first, "suspended")
    assert (await subject.reach_state("creating")).why == f"{first} is suspended: asked"
    await subject.backend.resume(first, wait=subject.wait)
    await subject.reach_state("running")


async def a_swarm_whose_workspaces_ended_retains_its_shared_volume(subject: SwarmSubject) -> None:
    await subject.swarm(count=1)
    (name,) = subject.names(1)
    await subject.backend.delete(name, keep_for=RETENTION)
    await subject.reach(name, "deleted")
    failed = await subject.reach_state("failed")
    assert (failed.why, failed.members) == ("all of its workspaces have ended; its shared volume is retained", ())
    await subject.swarms.end(subject.owner, "crawl")
    await subject.reach_end()


async def destroyed_data_of_a_swarm_does_not_return(subject: SwarmSubject) -> None:
    assert not await subject.swarms.destroy_kept(subject.owner, "crawl")
    await subject.swarm()
    await subject.swarms.end(subject.owner, "crawl")
    await subject.reach_end()
    for name in subject.names(2):
        await subject.reach(name, "deleted")
    assert not await subject.swarms.destroy_kept(f"{subject.owner}-other", "crawl")
    assert await subject.swarms.destroy_kept(subject.owner, "crawl")
    await refused(subject.request_swarm(wait=subject.wait), "wrong-state")


async def a_missing_swarm_is_not_found(subject: SwarmSubject) -> None:
    await refused(subject.swarms.find(subject.owner, "crawl"), "not-found")
    await subject.swarms.end(subject.owner, "crawl")
    await refused(subject.swarms.find(subject.owner, "crawl"), "not-found")


async def a_swarm_that_is_deleted_while_it_is_created_does_not_run(subject: SwarmSubject) -> None:
    subject.set_ready(False)
    await subject.request_swarm()
    async with asyncio.timeout(subject.wait):
        while len((await subject.swarms.find(subject.owner, "crawl")).members) < 2:
            await asyncio.sleep(POLL)
    await subject.swarms.end(subject.owner, "crawl")
    subject.set_ready(True)
    await subject.reach_end()
    assert await subject.swarms.list(subject.owner, 9, None) == []


CONTRACT: tuple[Callable[[SwarmSubject], Awaitable[None]], ...] = (
    a_swarm_runs_as_a_whole,
    a_repeated_swarm_is_the_same,
    a_request_that_does_not_wait_reports_a_creation,
    a_task_has_one_swarm_of_one_class,
    swarms_are_listed_by_task_and_owner,
    a_swarm_whose_workspaces_ended_retains_its_shared_volume,
    destroyed_data_of_a_swarm_does_not_return,
    a_missing_swarm_is_not_found,
    a_swarm_that_is_deleted_while_it_is_created_does_not_run,
)
# In a cluster these need its controllers.
LIFECYCLE: tuple[Callable[[SwarmSubject], Awaitable[None]], ...] = (
    a_deleted_swarm_is_created_again_on_its_data,
    a_swarm_without_a_member_has_failed_until_it_is_created_again,
    a_suspended_member_is_named,
)


async def a_swarm_that_does_not_become_ready_is_deleted(subject: SwarmSubject) -> None:
    """Runs with a short `CREATE_TIMEOUT`."""
    subject.set_ready(False)
    problem = await refused(subject.request_swarm(wait=subject.wait), "no-room")
    assert "0 of 2 sandboxes became ready" in problem.detail
    failed = await subject.reach_state("failed")
    assert (failed.count, failed.members) == (0, ())
    assert "0 of 2 sandboxes became ready" in (failed.why or "")
    subject.set_ready(True)
    assert (await subject.swarm()).state == "running"


async def a_member_that_does_not_become_ready_leaves_the_others(subject: SwarmSubject) -> None:
    """Runs with a short `CREATE_TIMEOUT`."""
    created = await subject.swarm()
    claims = {workspace.claim_uid for workspace in created.members}
    subject.set_ready(False)
    await refused(subject.request_swarm(count=3, wait=subject.wait), "no-room")
    status = await subject.reach_state("running")
    assert (status.count, {workspace.claim_uid for workspace in status.members}) == (2, claims)


async def a_swarm_that_is_not_restored_stays_deleted(subject: SwarmSubject) -> None:
    """Runs with a short `CREATE_TIMEOUT`."""
    await subject.swarm()
    await subject.swarms.end(subject.owner, "crawl")
    deleted = [await subject.reach(name, "deleted") for name in subject.names(2)]
    subject.set_ready(False)
    await refused(subject.request_swarm(wait=subject.wait), "no-room")
    again = [await subject.reach(name, "deleted") for name in subject.names(2)]
    dates = [[(row.deleted_at, row.destroy_after) for row in rows] for rows in (deleted, again)]
    assert dates[0] == dates[1]
    subject.set_ready(True)
    assert (await subject.swarm()).state == "running"


FAILURES: tuple[Callable[[SwarmSubject], Awaitable[None]], ...] = (
    a_swarm_that_does_not_become_ready_is_deleted,
    a_member_that_does_not_become_ready_leaves_the_others,
)
