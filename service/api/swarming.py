"""Swarms as they are made on behalf of requests: beside them, for all of a swarm comes up cold and takes its time.

What is under way here is only how long somebody waits: a swarm's documents are in Kubernetes, their names follow from
its owner and task, and asking again for one whose replica was killed goes on with it. They wait on threads of their
own: nobody who asks for a workspace waits behind a swarm that does not come up.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from base64 import b32encode
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from model.classes.names import SANDBOX, TASK_LABEL
from model.swarms import Swarm, short_of, swarm
from model.workspaces import Filter, Workspace
from service import swarms
from service.cluster import CLAIMS, QUOTAS, Api, Document, RefusedError
from service.keeping import keep
from service.problems import Problem, not_found
from service.swarms import SwarmError

if TYPE_CHECKING:
    from service.backend.view import View
    from service.catalog import Catalog, Class

PATIENCE = 300.0
MOST_SHOWN = 500
# At once, on a replica: of all, and of one owner, who cannot keep the others from theirs.
MOST_AT_ONCE, MOST_OF_ONE = 32, 4
MOST_REMEMBERED = 1000
# How often, and how far apart, the volume of one of its sandboxes is made to stay.
KEEPS, BETWEEN = 10, 0.1
State = Literal["creating", "running", "failed"]


@dataclass(frozen=True)
class Told:
    """How it stands with a swarm."""

    task: str
    class_name: str
    asked: int
    members: tuple[Workspace, ...]
    state: State
    why: str | None = None


class Swarming:
    """Makes swarms, and knows how those it makes stand."""

    def __init__(self, api: Api, catalog: Catalog, view: View) -> None:
        self._api, self._catalog, self._view = api, catalog, view
        self._under_way: dict[str, asyncio.Future[dict[str, str]]] = {}
        self._owners: dict[str, str] = {}  # of those under way
        self._failed: OrderedDict[str, str] = OrderedDict()
        self._threads = ThreadPoolExecutor(MOST_AT_ONCE, "swarm")

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
    ) -> Told:
        """All of a swarm, or as many as fit; what there is of it after so many seconds."""
        name = task_name(owner, task)

        def planned(number: int) -> Swarm:
            release = of_class.release(channel)
            return swarm(of_class.plan, release, name, number, owner=owner, shutdown=deadline)

        try:
            wanted = planned(count)
        except ValueError as why:
            raise Problem("refused", str(why), "ask a class whose storage is `shared`, for fewer") from None
        there = len(self._members(owner, name))
        if fit and not there:
            wanted = planned(await asyncio.to_thread(self._fitting, of_class, planned, count))
        making = self._under_way.get(name)
        if making is None:
            self._refuse_crowd(owner)
            self._failed.pop(name, None)
            making = asyncio.get_running_loop().run_in_executor(self._threads, self._made, wanted)
            self._under_way[name], self._owners[name] = making, owner
            making.add_done_callback(lambda done: self._ended(name, done))
        done, _ = await asyncio.wait([making], timeout=wait)
        if done and (failure := making.exception()) is not None:
            if isinstance(failure, SwarmError):
                raise Problem("no-room", str(failure), "ask for fewer, or with `fit`", retry_after=30)
            raise failure
        if done:
            await self._seen(owner, name, len(wanted.claims))
        state: State = "running" if done else "creating"
        return Told(task, of_class.name, len(wanted.claims), self._members(owner, name), state)

    def find(self, owner: str, task: str) -> Told:
        """How it stands with one."""
        name = task_name(owner, task)
        members = self._members(owner, name)
        if not members:
            if name in self._failed:
                return Told(task, "", 0, (), "failed", self._failed[name])
            raise not_found("swarm")
        ready = sum(one.state == "running" for one in members)
        state: State = "running" if ready == len(members) and name not in self._under_way else "creating"
        return Told(task, members[0].class_name, len(members), members, state)

    async def end(self, owner: str, task: str) -> None:
        """Take one away. Volumes that its sandboxes were handed over with stay."""
        told = self.find(owner, task)
        if told.members:
            name = task_name(owner, task)
            await asyncio.to_thread(swarms.end, self._api, told.members[0].namespace, name)

    def _refuse_crowd(self, owner: str) -> None:
        own = sum(one == owner for one in self._owners.values())
        if own >= MOST_OF_ONE or len(self._owners) >= MOST_AT_ONCE:
            whose = "of yours" if own >= MOST_OF_ONE else "of all"
            detail = f"{own if own >= MOST_OF_ONE else len(self._owners)} swarms {whose} are on their way already"
            raise Problem("too-many-requests", detail, "ask again when one of them is there", retry_after=10)

    def _made(self, wanted: Swarm) -> dict[str, str]:
        """Make it, and have the volumes of its sandboxes stay before anybody is told that they are there."""
        ready = swarms.make(self._api, wanted, patience=PATIENCE)
        for claim in [*self._api.list(CLAIMS, wanted.namespace, {TASK_LABEL: wanted.task})]:
            self._keep(claim)
        return ready

    def _keep(self, claim: Document) -> None:
        """Have the volume of one of its sandboxes stay; what is overtaken still is the work of the pass that keeps."""
        about = claim["metadata"]
        for _ in range(KEEPS):
            try:
                if keep(self._api, claim).outcome not in {"overtaken", "waiting"}:
                    return
                time.sleep(BETWEEN)
                claim = self._api.find(CLAIMS, about["name"], about["namespace"]) or claim
            except RefusedError as refusal:
                if not refusal.passes:
                    raise
                time.sleep(BETWEEN)

    async def _seen(self, owner: str, name: str, count: int) -> None:
        """Give the view a moment to be told of what was just made."""
        for _ in range(500):
            if sum(one.state == "running" for one in self._members(owner, name)) >= count:
                return
            await asyncio.sleep(0.01)

    def _members(self, owner: str, name: str) -> tuple[Workspace, ...]:
        return self._view.list(Filter(owner=owner, task=name), MOST_SHOWN, None).workspaces

    def _fitting(self, of_class: Class, planned: Callable[[int], Swarm], count: int) -> int:
        """The most that a class has room for, of so many."""
        quota = self._api.find(QUOTAS, SANDBOX, of_class.namespace) or {}
        least, most = 0, count
        while least < most:
            middle = (least + most + 1) // 2
            least, most = (least, middle - 1) if short_of(quota, planned(middle).needs) else (middle, most)
        if least == 0:
            wrong = "; ".join(short_of(quota, planned(1).needs))
            raise Problem("no-room", f"class {of_class.name} is full: {wrong}", "try again later", retry_after=30)
        return least

    def _ended(self, name: str, done: asyncio.Future[dict[str, str]]) -> None:
        self._under_way.pop(name, None)
        self._owners.pop(name, None)
        failure = None if done.cancelled() else done.exception()
        if failure is not None:
            self._failed[name] = str(failure)
            while len(self._failed) > MOST_REMEMBERED:
                self._failed.popitem(last=False)


def task_name(owner: str, task: str) -> str:
    """What a task is called in the cluster: an owner's own, whatever others call theirs."""
    told = b32encode(hashlib.sha256(f"{len(owner)}:{owner}:{task}".encode()).digest()).decode().lower()
    return f"{task}-{told[:10]}"
