"""Create the swarms of a cluster in the background of requests, for all sandboxes of a swarm start cold.

A swarm's documents are in Kubernetes, and the reason of a failure is an event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import SANDBOX, TASK_LABEL
from agentenv.core.workspaces.swarms import MOST, Swarm, SwarmRequest, quota_shortfalls, swarm, task_name
from agentenv.core.workspaces.workspace import Filter, Workspace
from agentenv.service.http.problems import Kind, Problem, not_found
from agentenv.service.kube.client import CLAIMS, QUOTAS, Document, KubeApi, collect, section
from agentenv.service.workspaces import swarm_outcome, swarms
from agentenv.service.workspaces.backend_protocol import SwarmStatus
from agentenv.service.workspaces.owner_limits import OwnerLimits
from agentenv.service.workspaces.swarm_creations import (
    ALL_ENDED,
    CREATE_TIMEOUT,
    SwarmCreations,
    invalid_swarm,
    swarm_status,
)
from agentenv.service.workspaces.swarm_outcome import ENDED, FAILED, last_failure, record_swarm_event
from agentenv.service.workspaces.swarms import SwarmError, Why

if TYPE_CHECKING:
    from agentenv.service.catalog import Catalog, Class
    from agentenv.service.kube.view import ClusterView

# Workspaces of an owner that are searched for swarms
MAX_LISTED = 20_000


class SwarmTasks(SwarmCreations):
    """Creates the swarms of a cluster, and reports their status."""

    def __init__(
        self,
        api: KubeApi,
        catalog: Catalog,
        view: ClusterView,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__()
        self._api, self._catalog, self._view, self._now = api, catalog, view, now
        self._limits = OwnerLimits(api, view, catalog)

    async def create(self, request: SwarmRequest, *, wait: float) -> SwarmStatus:
        """Create all of a swarm, or as many as fit; return its status after at most `wait` seconds."""
        owner, name, of_class = request.owner, request.name, self._catalog.get(request.class_name)

        def planned(count: int) -> Swarm:
            return swarm(
                of_class.plan,
                of_class.release(request.channel),
                name,
                count,
                owner=owner,
                shutdown=request.deadline,
                limited_teams=request.limited_teams,
            )

        try:
            plan = planned(request.count)
        except ValueError as error:
            raise invalid_swarm(error) from None
        creation = self.creation(request)
        is_new = creation is None and not self.members(owner, name)
        if is_new and request.fit:
            plan = planned(_largest_fit(of_class, await self._quota(of_class), planned, request.count))
            creation = self.creation(request)  # another request may have started it meanwhile
        if creation is None:
            self.check_concurrency(owner)
            if is_new:
                self._limits.check(request.workspace, more=len(plan.claims))
            work = self._create(plan, of_class, planned if is_new else None)
            creation = self.begin(replace(request, count=len(plan.claims)), work)
        try:
            return await self.result(creation, wait)
        except SwarmError as error:
            problem = _problem(error)
            if problem.kind == "no-room":
                problem.facts["fits"] = _fitting_count(await self._quota(of_class), planned, request.count)
            raise problem from error

    def members(self, owner: str, name: str | None = None) -> tuple[Workspace, ...]:
        """Return the existing workspaces of a task by its name, or all of an owner's, from the cache."""
        return self._view.list(Filter(owner=owner, task=name), MOST if name else MAX_LISTED, None).workspaces

    async def stored(self, task: str, name: str, members: tuple[Workspace, ...]) -> SwarmStatus:
        """Return the status of a swarm that this replica is not creating."""
        if not members:
            # Another replica may have created it, and this one's watch may be behind.
            return await self._read_status(task, name)
        pool = await swarm_outcome.pool_of(self._api, members[0].namespace, name)
        return swarm_status(task, members, swarm_outcome.record_of(pool))

    async def end(self, owner: str, task: str, *, destroy: bool = False) -> None:
        """Delete a swarm. Its data is retained like that of workspaces, or destroyed."""
        name = task_name(owner, task)
        members = self.members(owner, name)
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
            return replace(status, state="failed", why=ALL_ENDED)
        reason = await last_failure(
            self._api, [sandbox_class.namespace for sandbox_class in self._catalog.classes.values()], name
        )
        if reason is None:
            raise not_found("swarm")
        return SwarmStatus(task, "", 0, (), "failed", reason)

    async def _quota(self, of_class: Class) -> Document:
        return await self._api.find(QUOTAS, SANDBOX, of_class.namespace) or {}

    async def _create(self, plan: Swarm, of_class: Class, planned: Callable[[int], Swarm] | None) -> None:
        """Create a swarm. With `planned` it is new, and is refused at once where even an unused quota is too small."""
        try:
            if planned is not None:
                _refuse_beyond_quota(of_class, await self._quota(of_class), planned, len(plan.claims))
            await swarms.create_swarm(
                self._api, plan, timeout=CREATE_TIMEOUT, now=self._now, exceeded=self._limits.exceeded
            )
        except SwarmError as error:
            if error.kind in {"being-destroyed", "limit-reached", "no-room", "refused", "too-large"}:
                await record_swarm_event(self._api, plan.namespace, plan.task, FAILED, str(error))
            raise
        await self._wait_until_seen(plan)

    async def _wait_until_seen(self, plan: Swarm) -> None:
        """Wait briefly until the view has the created members."""
        for _ in range(500):
            if sum(member.state == "running" for member in self.members(plan.owner, plan.task)) >= len(plan.claims):
                return
            await asyncio.sleep(0.01)


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


def _problem(failure: SwarmError) -> Problem:
    kind, way_out, retry_after = _PROBLEMS[failure.kind]
    if failure.gone_in:
        return Problem(kind, str(failure), way_out, retry_after=failure.gone_in, gone_in=failure.gone_in)
    return Problem(kind, str(failure), way_out, retry_after=retry_after)
