"""Swarms as they are made on behalf of requests: beside them, for all of a swarm comes up cold and takes its time.

What is under way here is only how long somebody waits: a swarm's documents are in Kubernetes, and why there is none, as
an event. Their names follow from its owner and task, and asking again for one whose replica was killed goes on with it.
They wait on threads of their
own: nobody who asks for a workspace waits behind a swarm that does not come up.
"""

from __future__ import annotations

import asyncio
import hashlib
from base64 import b32encode
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import SANDBOX, TASK_LABEL
from agentenv.core.workspaces.swarms import Swarm, quota_shortfalls, swarm
from agentenv.core.workspaces.workspace import Filter, Workspace
from agentenv.service.http.problems import Kind, Problem, not_found
from agentenv.service.kube.sync_client import CLAIMS, QUOTAS, Document, KubeApi, section
from agentenv.service.workspaces import swarm_outcome as swarm_fate
from agentenv.service.workspaces import swarms
from agentenv.service.workspaces.swarm_events import ENDED, FAILED, last_failure, record_event
from agentenv.service.workspaces.swarms import SwarmError, Why

if TYPE_CHECKING:
    from agentenv.service.catalog import Catalog, Class
    from agentenv.service.kube.view import ClusterView

CREATE_TIMEOUT = 300.0
MAX_SHOWN = 500
# At once, on a replica: of all, and of one owner, who cannot keep the others from theirs.
MAX_CONCURRENT, MAX_PER_OWNER = 32, 4
NOT_REPORTED = "all that is there of it is up, and nobody was told yet: ask for it again if it stays so"
BEING_DELETED = "it is on its way out"
State = Literal["creating", "running", "failed"]


@dataclass(frozen=True)
class SwarmStatus:
    """How it stands with a swarm."""

    task: str
    class_name: str
    asked: int
    members: tuple[Workspace, ...]
    state: State
    why: str | None = None


@dataclass(frozen=True)
class SwarmCreation:
    """A swarm that is being made here."""

    owner: str
    of_class: str
    count: int
    done: asyncio.Future[dict[str, str]]


class SwarmTasks:
    """Makes swarms, and knows how those it makes stand."""

    def __init__(
        self,
        api: KubeApi,
        catalog: Catalog,
        view: ClusterView,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api, self._catalog, self._view, self._now = api, catalog, view, now
        self._under_way: dict[str, SwarmCreation] = {}
        self._threads = ThreadPoolExecutor(MAX_CONCURRENT, "swarm")

    async def make(
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
    ) -> SwarmStatus:
        """All of a swarm, or as many as fit; what there is of it after so many seconds."""
        name = task_name(owner, task)

        def planned(number: int) -> Swarm:
            release = of_class.release(channel)
            return swarm(of_class.plan, release, name, number, owner=owner, shutdown=deadline)

        try:
            wanted = planned(count)
        except ValueError as why:
            raise Problem("refused", str(why), "ask a class whose storage is `shared`, for fewer") from None
        making = self._under_way.get(name)
        if making is None and fit and not self._members(owner, name):
            wanted = planned(await asyncio.to_thread(self._fitting, of_class, planned, count))
            making = self._under_way.get(name)  # as somebody else may have begun meanwhile
        if making is None:
            self._refuse_crowd(owner)
            done = asyncio.get_running_loop().run_in_executor(self._threads, self._made, wanted)
            making = self._under_way[name] = SwarmCreation(owner, of_class.name, len(wanted.claims), done)
            done.add_done_callback(lambda ended: self._ended(name, ended))
        else:
            _refuse_different_request(making, of_class, count, fit=fit)
        ended, _ = await asyncio.wait([making.done], timeout=wait)
        if ended and (failure := making.done.exception()) is not None:
            raise _problem(failure) from failure
        if ended:
            await self._seen(owner, name, making.count)
        state: State = "running" if ended else "creating"
        return SwarmStatus(task, of_class.name, making.count, self._members(owner, name), state)

    async def find(self, owner: str, task: str) -> SwarmStatus:
        """How it stands with one."""
        name = task_name(owner, task)
        members = self._members(owner, name)
        making = self._under_way.get(name)
        if making is not None:
            return SwarmStatus(task, making.of_class, making.count, members, "creating")
        if not members:
            # This replica may not have been told of it yet, nor have made it.
            return await asyncio.to_thread(self._noted, task, name)
        pool = await asyncio.to_thread(swarm_fate.pool_of, self._api, members[0].namespace, name)
        return _status(task, members, pool)

    async def end(self, owner: str, task: str, *, destroy: bool = False) -> None:
        """Delete one. Its data is kept as that of workspaces is, or destroyed."""
        name = task_name(owner, task)
        members = self._members(owner, name)
        await asyncio.to_thread(self._end, owner, name, {one.namespace for one in members}, destroy=destroy)

    async def destroy_kept(self, owner: str, task: str) -> bool:
        """Request the destruction of what is kept of one that was deleted; whether there was anything."""
        name = task_name(owner, task)
        return await asyncio.to_thread(swarms.destroy_retained_data, self._api, owner, name, self._now()) > 0

    def _end(self, owner: str, name: str, spaces: set[str], *, destroy: bool) -> None:
        for pool in swarm_fate.pools_of(self._api, name):
            spaces = {*spaces, pool["metadata"]["namespace"]}
        keep_for = timedelta(0) if destroy else self._catalog.settings.storage.retain_deleted_for
        for space in sorted(spaces):
            swarms.delete_swarm(self._api, space, name, keep_for, now=self._now)
            record_event(self._api, space, name, ENDED, "it was taken away by its owner")
        if destroy:
            # Also of members that were deleted before.
            swarms.destroy_retained_data(self._api, owner, name, self._now())

    def _noted(self, task: str, name: str) -> SwarmStatus:
        """What the cluster says of one of which no member is known."""
        for pool in swarm_fate.pools_of(self._api, name):
            if swarm_fate.is_given_up(pool):
                continue
            about = pool["metadata"]
            told = SwarmStatus(
                task, section(about, "labels").get(CLASS_LABEL, ""), swarm_fate.requested_count(pool), (), "creating"
            )
            there = any(True for _ in self._api.list(CLAIMS, about["namespace"], {TASK_LABEL: name}))
            if there or not swarm_fate.handed_over_count(pool):
                return told
            return replace(told, state="failed", why="all of its workspaces have ended; what they shared is there")
        why = last_failure(self._api, [one.namespace for one in self._catalog.classes.values()], name)
        if why is None:
            raise not_found("swarm")
        return SwarmStatus(task, "", 0, (), "failed", why)

    def _refuse_crowd(self, owner: str) -> None:
        own = sum(one.owner == owner for one in self._under_way.values())
        if own >= MAX_PER_OWNER or len(self._under_way) >= MAX_CONCURRENT:
            whose = "of yours" if own >= MAX_PER_OWNER else "of all"
            detail = f"{own if own >= MAX_PER_OWNER else len(self._under_way)} swarms {whose} are on their way already"
            raise Problem("too-many-requests", detail, "ask again when one of them is there", retry_after=10)

    def _made(self, wanted: Swarm) -> dict[str, str]:
        try:
            return swarms.create_swarm(self._api, wanted, patience=CREATE_TIMEOUT, now=self._now)
        except SwarmError as why:
            if why.kind in {"being-destroyed", "no-room", "refused"}:
                record_event(self._api, wanted.namespace, wanted.task, FAILED, str(why))
            raise

    async def _seen(self, owner: str, name: str, count: int) -> None:
        """Give the view a moment to be told of what was just made."""
        for _ in range(500):
            if sum(one.state == "running" for one in self._members(owner, name)) >= count:
                return
            await asyncio.sleep(0.01)

    def _members(self, owner: str, name: str) -> tuple[Workspace, ...]:
        return self._view.list(Filter(owner=owner, task=name), MAX_SHOWN, None).workspaces

    def _fitting(self, of_class: Class, planned: Callable[[int], Swarm], count: int) -> int:
        """The most that a class has room for, of so many."""
        quota = self._api.find(QUOTAS, SANDBOX, of_class.namespace) or {}
        least, most = 0, count
        while least < most:
            middle = (least + most + 1) // 2
            least, most = (least, middle - 1) if quota_shortfalls(quota, planned(middle).needs) else (middle, most)
        if least == 0:
            wrong = "; ".join(quota_shortfalls(quota, planned(1).needs))
            raise Problem("no-room", f"class {of_class.name} is full: {wrong}", "try again later", retry_after=30)
        return least

    def _ended(self, name: str, done: asyncio.Future[dict[str, str]]) -> None:
        self._under_way.pop(name, None)
        if not done.cancelled():
            done.exception()  # whoever still waits is told; nobody may


def _status(task: str, members: tuple[Workspace, ...], pool: Document | None) -> SwarmStatus:
    """How it stands with one that nobody makes here."""
    # What was asked for stands on its pool; of one that a member returned to alone it may not.
    handed_over = swarm_fate.handed_over_count(pool) if pool else 0
    asked = max(swarm_fate.requested_count(pool) if pool else 0, handed_over) or len(members)
    told = SwarmStatus(task, members[0].class_name, asked, members, "creating")
    if pool is not None and swarm_fate.is_given_up(pool):
        return replace(told, state="failed", why=BEING_DELETED)
    missing = told.asked - len(members)
    if missing > 0:
        if handed_over < told.asked:
            return replace(told, why=f"{missing} of {told.asked} are on their way: ask for it again if it stays so")
        why = f"{missing} of {told.asked} workspaces are not there: ask for it again to have them back"
        return replace(told, state="failed", why=why)
    if not all(one.state == "running" for one in members):
        return told
    # Until it is handed over whoever makes it may give it up still.
    return replace(told, why=NOT_REPORTED) if handed_over < told.asked else replace(told, state="running")


def _refuse_different_request(making: SwarmCreation, of_class: Class, count: int, *, fit: bool) -> None:
    """Whoever asks for one that is on its way is told of that one, and so has to have asked for it."""
    if making.of_class != of_class.name:
        detail = f"the task's swarm is of class {making.of_class}, and on its way"
        raise Problem("key-reused", detail, "end that first, or choose another task")
    if making.count != count and not (fit and making.count < count):
        detail = f"the task's swarm is on its way, of {making.count} and not of {count}"
        raise Problem("busy", detail, "ask again when it is there", retry_after=10)


_PROBLEMS: Mapping[Why, tuple[Kind, str, int | None]] = {
    "being-destroyed": ("wrong-state", "ask again when it is gone, for one without that data", None),
    "busy": ("busy", "ask again when it is gone", 2),
    "key-reused": ("key-reused", "ask for the class that it has", None),
    "no-room": ("no-room", "ask for fewer, or with `fit`", 30),
    "refused": ("refused", "end it and ask for it anew; tell whoever runs the platform", None),
    "unavailable": ("unavailable", "ask again in a while", 5),
}


def _problem(failure: BaseException) -> BaseException:
    if not isinstance(failure, SwarmError):
        return failure
    kind, way_out, retry_after = _PROBLEMS[failure.kind]
    if failure.gone_in:
        return Problem(kind, str(failure), way_out, retry_after=failure.gone_in, gone_in=failure.gone_in)
    return Problem(kind, str(failure), way_out, retry_after=retry_after)


def task_name(owner: str, task: str) -> str:
    """What a task is called in the cluster: an owner's own, whatever others call theirs."""
    told = b32encode(hashlib.sha256(f"{len(owner)}:{owner}:{task}".encode()).digest()).decode().lower()
    return f"{task}-{told[:10]}"
