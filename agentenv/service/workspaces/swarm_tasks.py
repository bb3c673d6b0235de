"""Create swarms in the background of requests, for all sandboxes of a swarm start cold.

Only the wait is in memory. A swarm's documents are in Kubernetes, and the reason of a failure is an event. Names follow
from owner and task: a repeated request continues one whose replica was killed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import SANDBOX, TASK_LABEL
from agentenv.core.values.errors import first_of
from agentenv.core.workspaces.swarms import Swarm, member, quota_shortfalls, swarm, task_name
from agentenv.core.workspaces.workspace import Filter, Workspace
from agentenv.service.http.problems import Kind, Problem, not_found
from agentenv.service.kube.client import CLAIMS, QUOTAS, Document, KubeApi, collect, section
from agentenv.service.workspaces import swarm_outcome, swarms
from agentenv.service.workspaces.backend_protocol import Swarms, SwarmState, SwarmStatus
from agentenv.service.workspaces.owner_limits import OwnerLimits
from agentenv.service.workspaces.swarm_outcome import ENDED, FAILED, last_failure, record_swarm_event
from agentenv.service.workspaces.swarms import SwarmError, Why

if TYPE_CHECKING:
    from agentenv.service.catalog import Catalog, Class
    from agentenv.service.kube.view import ClusterView

CREATE_TIMEOUT = 300.0
MAX_SHOWN = 500
# Workspaces of an owner that are searched for swarms, and swarms that are read at once
MAX_LISTED, READ_AT_ONCE = 20_000, 4
# At once, on a replica: of all, and of one owner, who cannot keep the others from theirs.
MAX_CONCURRENT, MAX_PER_OWNER = 32, 4
NOT_REPORTED = "its members run, but its creation has not finished: create it again if this stays so"
BEING_DELETED = "it is being deleted"


@dataclass(frozen=True)
class SwarmCreation:
    """A swarm that this replica is creating."""

    owner: str
    of_class: str
    count: int
    done: asyncio.Future[dict[str, str]]


class SwarmTasks(Swarms):
    """Creates swarms, and reports the status of those it creates."""

    def __init__(
        self,
        api: KubeApi,
        catalog: Catalog,
        view: ClusterView,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api, self._catalog, self._view, self._now = api, catalog, view, now
        self._limits = OwnerLimits(api, view, catalog)
        self._creations: dict[str, SwarmCreation] = {}

    async def create(
        self,
        owner: str,
        of_class: Class,
        task: str,
        count: int,
        *,
        fit: bool,
        channel: str,
        deadline: datetime | None,
        wait: float,
        limited_teams: tuple[str, ...] = (),
    ) -> SwarmStatus:
        """Create all of a swarm, or as many as fit; return its status after at most `wait` seconds."""
        name = task_name(owner, task)

        def planned(number: int) -> Swarm:
            release = of_class.release(channel)
            return swarm(
                of_class.plan, release, name, number, owner=owner, shutdown=deadline, limited_teams=limited_teams
            )

        try:
            plan = planned(count)
        except ValueError as error:
            raise Problem("refused", str(error), "choose a class with `shared` storage, or a smaller count") from None
        creation = self._creations.get(name)
        is_new = creation is None and not self._members(owner, name)
        if is_new and fit:
            plan = planned(_largest_fit(of_class, await self._quota(of_class), planned, count))
            creation = self._creations.get(name)  # another request may have started it meanwhile
        if creation is None:
            self._check_concurrency(owner)
            if is_new:
                first = Workspace(
                    name, owner, of_class.name, "agent", "creating", task=name, limited_teams=limited_teams
                )
                self._limits.check(first, more=len(plan.claims))
            future = asyncio.create_task(self._create(plan, of_class, planned if is_new else None))
            creation = self._creations[name] = SwarmCreation(owner, of_class.name, len(plan.claims), future)
            future.add_done_callback(lambda finished: self._ended(name, finished))
        else:
            _refuse_different_request(creation, of_class, count, fit=fit)
        finished, _ = await asyncio.wait([creation.done], timeout=wait)
        if finished and (failure := creation.done.exception()) is not None:
            problem = _problem(failure)
            if isinstance(problem, Problem) and problem.kind == "no-room":
                problem.facts["fits"] = _fitting_count(await self._quota(of_class), planned, count)
            raise problem from failure
        if finished:
            await self._wait_until_seen(owner, name, creation.count)
        state: SwarmState = "running" if finished else "creating"
        return SwarmStatus(task, of_class.name, creation.count, self._members(owner, name), state)

    async def find(self, owner: str, task: str) -> SwarmStatus:
        """Return the status of a swarm."""
        name = task_name(owner, task)
        members = self._members(owner, name)
        creation = self._creations.get(name)
        if creation is not None:
            return SwarmStatus(task, creation.of_class, creation.count, members, "creating")
        if not members:
            # Another replica may have created it, and this one's watch may be behind.
            return await self._read_status(task, name)
        pool = await swarm_outcome.pool_of(self._api, members[0].namespace, name)
        return _status(task, members, pool)

    async def list(self, owner: str, limit: int, after: str | None) -> list[SwarmStatus]:
        """Return the status of an owner's swarms by task."""
        names = {name for name, creation in self._creations.items() if creation.owner == owner}
        workspaces = self._view.list(Filter(owner=owner), MAX_LISTED, None).workspaces
        names |= {workspace.task for workspace in workspaces if workspace.task}
        tasks = sorted(task for name in names if task_name(owner, task := name.rpartition("-")[0]) == name)
        page = [task for task in tasks if task > (after or "")][:limit]
        slots = asyncio.Semaphore(READ_AT_ONCE)

        async def find(task: str) -> SwarmStatus | None:
            async with slots:
                try:
                    return await self.find(owner, task)
                except Problem as problem:
                    if problem.kind != "not-found":
                        raise
                    return None  # it ended meanwhile

        return [status for status in await asyncio.gather(*map(find, page)) if status is not None]

    async def end(self, owner: str, task: str, *, destroy: bool = False) -> None:
        """Delete a swarm. Its data is retained like that of workspaces, or destroyed."""
        name = task_name(owner, task)
        members = self._members(owner, name)
        await self._end(owner, name, {member.namespace for member in members}, destroy=destroy)

    async def destroy_kept(self, owner: str, task: str) -> bool:
        """Request the destruction of a deleted swarm's retained data; return whether there was any."""
        name = task_name(owner, task)
        return await swarms.destroy_retained_data(self._api, owner, name, self._now()) > 0

    async def _end(self, owner: str, name: str, namespaces: set[str], *, destroy: bool) -> None:
        for pool in await swarm_outcome.pools_of(self._api, name):
            namespaces = {*namespaces, pool["metadata"]["namespace"]}
        keep_for = timedelta(0) if destroy else self._catalog.settings.storage.retain_deleted_for
        for namespace in sorted(namespaces):
            await swarms.delete_swarm(self._api, namespace, name, keep_for, now=self._now)
            await record_swarm_event(self._api, namespace, name, ENDED, "its owner deleted it")
        if destroy:
            # Includes the data of members that were deleted before.
            await swarms.destroy_retained_data(self._api, owner, name, self._now())

    async def _read_status(self, task: str, name: str) -> SwarmStatus:
        """Return the status from the cluster for a swarm without known members."""
        for pool in await swarm_outcome.pools_of(self._api, name):
            if swarm_outcome.is_given_up(pool):
                continue
            metadata = pool["metadata"]
            status = SwarmStatus(
                task,
                section(metadata, "labels").get(CLASS_LABEL, ""),
                swarm_outcome.requested_count(pool),
                (),
                "creating",
            )
            has_claims = bool(await collect(self._api.list(CLAIMS, metadata["namespace"], {TASK_LABEL: name})))
            if has_claims or not swarm_outcome.handed_over_count(pool):
                return status
            return replace(
                status, state="failed", why="all of its workspaces have ended; its shared volume is retained"
            )
        reason = await last_failure(
            self._api, [sandbox_class.namespace for sandbox_class in self._catalog.classes.values()], name
        )
        if reason is None:
            raise not_found("swarm")
        return SwarmStatus(task, "", 0, (), "failed", reason)

    def _check_concurrency(self, owner: str) -> None:
        owner_count = sum(creation.owner == owner for creation in self._creations.values())
        if owner_count >= MAX_PER_OWNER or len(self._creations) >= MAX_CONCURRENT:
            own_limit = owner_count >= MAX_PER_OWNER
            count, scope = (owner_count, "of yours") if own_limit else (len(self._creations), "of all owners")
            detail = f"{count} swarms {scope} are being created already"
            raise Problem("too-many-requests", detail, "retry when one of them is ready", retry_after=10)

    async def _quota(self, of_class: Class) -> Document:
        return await self._api.find(QUOTAS, SANDBOX, of_class.namespace) or {}

    async def _create(self, plan: Swarm, of_class: Class, planned: Callable[[int], Swarm] | None) -> dict[str, str]:
        """Create a swarm. With `planned` it is new, and is refused at once where even an unused quota is too small."""
        try:
            if planned is not None:
                _refuse_beyond_quota(of_class, await self._quota(of_class), planned, len(plan.claims))
            return await swarms.create_swarm(
                self._api, plan, timeout=CREATE_TIMEOUT, now=self._now, exceeded=self._limits.exceeded
            )
        except SwarmError as error:
            if error.kind in {"being-destroyed", "limit-reached", "no-room", "refused", "too-large"}:
                await record_swarm_event(self._api, plan.namespace, plan.task, FAILED, str(error))
            raise

    async def _wait_until_seen(self, owner: str, name: str, count: int) -> None:
        """Wait briefly until the view has the created members."""
        for _ in range(500):
            if sum(member.state == "running" for member in self._members(owner, name)) >= count:
                return
            await asyncio.sleep(0.01)

    def _members(self, owner: str, name: str) -> tuple[Workspace, ...]:
        return self._view.list(Filter(owner=owner, task=name), MAX_SHOWN, None).workspaces

    def _ended(self, name: str, done: asyncio.Future[dict[str, str]]) -> None:
        self._creations.pop(name, None)
        if not done.cancelled():
            done.exception()  # marks it as retrieved, as no request may wait for it any more


def _fitting_count(quota: Document, planned: Callable[[int], Swarm], count: int) -> int:
    """Return the largest count, of `count` at most, that fits a quota."""
    least, most = 0, count
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (least, middle - 1) if quota_shortfalls(quota, planned(middle).needs) else (middle, most)
    return least


def _largest_fit(of_class: Class, quota: Document, planned: Callable[[int], Swarm], count: int) -> int:
    """Return the largest count that fits what is left of the class's quota; raise a `Problem` if none does."""
    fits = _fitting_count(quota, planned, count)
    if fits == 0:
        shortages = "; ".join(quota_shortfalls(quota, planned(1).needs))
        detail = f"the quota of class {of_class.name} is used up: {shortages}"
        raise Problem("no-room", detail, "retry later", retry_after=30)
    return fits


def _refuse_beyond_quota(of_class: Class, quota: Document, planned: Callable[[int], Swarm], count: int) -> None:
    """Raise a `SwarmError` for a swarm that would not even fit an unused quota."""
    unused: Document = {"status": {"hard": section(section(quota, "status"), "hard")}}
    fits = _fitting_count(unused, planned, count)
    if fits < count:
        shortages = "; ".join(quota_shortfalls(unused, planned(count).needs))
        message = f"class {of_class.name} has room for {fits} workspaces of a swarm, not {count}: {shortages}"
        raise SwarmError(message, "too-large")


def _status(task: str, members: tuple[Workspace, ...], pool: Document | None) -> SwarmStatus:
    """Return the status of a swarm that this replica is not creating."""
    # Its pool records the requested count, unless a member was restored alone.
    handed_over_members = swarm_outcome.handed_over_count(pool) if pool else 0
    requested = max(swarm_outcome.requested_count(pool) if pool else 0, handed_over_members) or len(members)
    status = SwarmStatus(task, members[0].class_name, requested, members, "creating")
    if pool is not None and swarm_outcome.is_given_up(pool):
        return replace(status, state="failed", why=BEING_DELETED)
    if len(members) < status.count:
        present = {each.id for each in members}
        missing = [
            name for number in range(status.count) if (name := member(members[0].task or "", number)) not in present
        ]
        which = f"{len(missing)} of {status.count} workspaces ({first_of(missing, ', ')})"
        if handed_over_members < status.count:
            return replace(status, why=f"{which} are being created: create it again if this stays so")
        return replace(status, state="failed", why=f"{which} are missing: create it again to restore them")
    if not_running := [each for each in members if each.state != "running"]:
        return replace(status, why=first_of([_why_not_running(each) for each in not_running]))
    # Until it is handed over, the replica that creates it may still give it up.
    return replace(status, why=NOT_REPORTED) if handed_over_members < status.count else replace(status, state="running")


def _why_not_running(workspace: Workspace) -> str:
    why = workspace.why or workspace.suspended_because
    return f"{workspace.id} is {workspace.state}" + (f": {why}" if why else "")


def _refuse_different_request(creation: SwarmCreation, of_class: Class, count: int, *, fit: bool) -> None:
    """Refuse a request that differs from the creation in progress."""
    if creation.of_class != of_class.name:
        detail = f"the task's swarm is being created in class {creation.of_class}"
        raise Problem("key-reused", detail, "delete it first, or choose another task")
    if creation.count != count and not (fit and creation.count < count):
        detail = f"the task's swarm is being created with {creation.count} workspaces, not {count}"
        raise Problem("busy", detail, "retry when it is ready", retry_after=10)


_PROBLEMS: Mapping[Why, tuple[Kind, str, int | None]] = {
    "being-destroyed": ("wrong-state", "retry when it is gone; the new swarm will not have that data", None),
    "busy": ("busy", "retry when it is gone", 2),
    "key-reused": ("key-reused", "use the class that it has, or another task", None),
    "limit-reached": ("limit-reached", "reduce `count`, or delete a workspace that is not needed", None),
    "no-room": ("no-room", "reduce `count`, or set `fit`", 30),
    "refused": ("refused", "delete it and create it again; tell the platform team", None),
    "too-large": ("no-room", "reduce `count`, set `fit`, or choose another class", None),
    "unavailable": ("unavailable", "retry in a few seconds", 5),
}


def _problem(failure: BaseException) -> BaseException:
    if not isinstance(failure, SwarmError):
        return failure
    kind, way_out, retry_after = _PROBLEMS[failure.kind]
    if failure.gone_in:
        return Problem(kind, str(failure), way_out, retry_after=failure.gone_in, gone_in=failure.gone_in)
    return Problem(kind, str(failure), way_out, retry_after=retry_after)
