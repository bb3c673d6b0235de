"""How a workspace is made: once for an owner and a key, however many ask, on however many replicas.

Its claim's name follows from owner and key, so the API server lets one of them make it, and the others find it. That
holds within a class. For the one case that it does not cover, the same key for two classes at the same moment, each
looks at the other classes once its own claim stands: whoever sees another takes its own away again. Both may, and are
told so; never do both stay.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from agentenv.core.classes.names import KEPT
from agentenv.core.workspaces import claims
from agentenv.core.workspaces.records import claim_annotations, owner_labels_on_object, workspace_of_claim
from agentenv.core.workspaces.workspace import COLD, CreateRequest, CreateResult, Workspace
from agentenv.service.catalog import Catalog, Class
from agentenv.service.http.problems import Problem
from agentenv.service.kube.client import CLAIMS, Document, KubeApiError, KubeClient
from agentenv.service.kube.view import ClusterView
from agentenv.service.telemetry import traces
from agentenv.service.telemetry.metrics import Metrics
from agentenv.service.workspaces.assigned_sandbox import SandboxAssignments
from agentenv.service.workspaces.capacity_check import check_quota
from agentenv.service.workspaces.eager_retention import EagerVolumeRetention, retain_volume
from agentenv.service.workspaces.pool_selection import WORDS, Choice, Pools
from agentenv.service.workspaces.read import WorkspaceReader

_LOG = logging.getLogger(__name__)
_MARKS = 5
# That a volume is kept is written on the claim so many seconds later, when a rush may be over: of the writes of a claim
# it is the only one that nobody waits for, and it has the controller look at the claim again.
MARK_AFTER = 5.0


class WorkspaceCreator:
    """Makes workspaces."""

    def __init__(
        self,
        wire: KubeClient,
        view: ClusterView,
        catalog: Catalog,
        reading: WorkspaceReader,
        metrics: Metrics,
        *,
        adoptions: SandboxAssignments,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._wire, self._view, self._catalog, self._reading = wire, view, catalog, reading
        self._metrics, self._clock, self._now = metrics, clock, now
        self._adoptions = adoptions
        self.pools = Pools(view)
        self._under_way: set[asyncio.Task[None]] = set()
        self._marking: set[str] = set()  # uids of claims whose mark waits
        self._ending = asyncio.Event()

    async def make(
        self, asked: CreateRequest, wait: float, *, there: Document | None = None, warm_only: bool = False
    ) -> CreateResult:
        """The workspace of a request, as soon as it is ready, or after so many seconds, or `there`, its claim."""
        with traces.span("claim", **{"class": asked.class_name}) as span:
            made = await self._make(asked, wait, there=there, warm_only=warm_only)
            span.set_attributes({"ready": made.ready, "existed": made.existed, "cold": made.cold is not None})
            return made

    async def _make(
        self, asked: CreateRequest, wait: float, *, there: Document | None, warm_only: bool
    ) -> CreateResult:
        began = self._clock()
        of_class = self._catalog.get(asked.class_name)
        named = of_class.release(asked.channel).names
        if there is not None:
            return await self._there(there, asked, wait)
        choice = self.pools.choose(of_class.namespace, asked.channel, named)
        if choice.cold:
            await self._refuse_cold(of_class, choice, warm_only=warm_only)
        document = claim_of(asked, choice.pool, self._now())
        async with EagerVolumeRetention(self._wire, self._view, self._adoptions) as early:
            with self.pools.taking(of_class.namespace, choice.pool):
                claim = await self._claimed(document)
                if claim is None:
                    there = await self._reading.claim(asked.id)
                    if there is None:
                        raise Problem("busy", "it was taken away at the same moment", "ask again", retry_after=1)
                    return await self._there(there, asked, wait)
                made = workspace_of_claim(claim)
                if made is None:
                    raise AssertionError("a claim is made with its owner's name on it")
                if of_class.kept:
                    early.begin(made)
                ready = await self._ready_and_alone(claim, made, wait - (self._clock() - began))
            return await self.hand_over(of_class, ready, choice, began, early)

    async def hand_over(
        self,
        of_class: Class,
        workspace: Workspace,
        choice: Choice,
        began: float,
        early: EagerVolumeRetention | None = None,
    ) -> CreateResult:
        """What is told of one that was made: ready, with its volume kept, or on its way."""
        if workspace.state == "failed":
            self._metrics.claimed(of_class.name, "failed", self._clock() - began)
            return CreateResult(workspace, ready=False, cold=WORDS.get(choice.cold or ""))
        if workspace.state != "running":
            return CreateResult(workspace, ready=False, cold=WORDS.get(choice.cold or "") or workspace.why)
        cold = workspace.sandbox == workspace.id
        why = (choice.cold or "raced") if cold else None
        volume = await self._volume(workspace, early) if of_class.kept else None
        if of_class.kept and volume is None:
            words = "its volume is not there yet"
            return CreateResult(replace(workspace, state="creating", why=words), ready=False, cold=WORDS.get(why or ""))
        if why:
            self._metrics.pool_miss(of_class.name, why)
        else:
            self._metrics.pool_hit(of_class.name)
        self._metrics.claimed(of_class.name, "cold" if cold else "warm", self._clock() - began)
        told = WORDS[why] if why else None
        # Only a mark for others to read: nobody waits for it, and the pass that keeps all makes up for it.
        self._later(self._mark(workspace, told, kept=of_class.kept))
        return CreateResult(replace(workspace, volume=volume, kept=of_class.kept, cold=told), ready=True, cold=told)

    async def _volume(self, workspace: Workspace, early: EagerVolumeRetention | None) -> str | None:
        with traces.span("keep volume", **{"class": workspace.class_name}) as span:
            volume = await early.kept(workspace) if early else None
            volume = volume or await retain_volume(self._wire, self._view, workspace)
            span.set_attribute("kept", volume is not None)
            return volume

    async def kept(self, workspace: Workspace) -> Workspace:
        """One as it is told: that it runs only once its volume is kept, also to who was told to look again later."""
        of_class = self._catalog.classes.get(workspace.class_name)
        if workspace.state != "running" or workspace.kept or of_class is None or not of_class.kept:
            return workspace
        volume = await retain_volume(self._wire, self._view, workspace)
        if volume is None:
            return replace(workspace, state="creating", why="its volume is not there yet")
        self._later(self._mark(workspace, None, kept=True))
        return replace(workspace, volume=volume, kept=True)

    async def finish(self) -> None:
        """Let what is still under way come to its end, and wait no longer with it."""
        self._ending.set()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _there(self, claim: Document, asked: CreateRequest, wait: float) -> CreateResult:
        """One that was made before, for the same request or for another."""
        found = workspace_of_claim(claim)
        if found is None or found.owner != asked.owner:
            raise Problem("key-reused", "what has that name is somebody else's", "ask with another key")
        if found.state == "deleting":
            raise Problem(
                "wrong-state",
                f"{found.id} is being taken away",
                "ask again when it is gone: its data is kept, and comes back with it",
                retry_after=2,
            )
        if found.key != asked.fingerprint:
            raise Problem(
                "key-reused",
                f"{found.id} was made by this key for something else",
                "ask for what was asked for then, change it by PATCH, or ask with another key",
                workspace=found.id,
            )
        if found.state == "creating":
            found = await self._reading.ready(found, wait)
        if found.state == "running":
            of_class = self._catalog.get(found.class_name)
            volume = await retain_volume(self._wire, self._view, found) if of_class.kept else None
            if of_class.kept and volume is None:
                return CreateResult(replace(found, state="creating"), ready=False, existed=True, cold=found.cold)
            return CreateResult(replace(found, volume=volume), ready=True, existed=True, cold=found.cold)
        return CreateResult(found, ready=False, existed=True, cold=found.cold)

    async def _claimed(self, document: Document) -> Document | None:
        try:
            return await self._wire.make(CLAIMS, document)
        except KubeApiError as refusal:
            raise problem_of(refusal) from None

    async def _ready_and_alone(self, claim: Document, made: Workspace, wait: float) -> Workspace:
        waiting = asyncio.ensure_future(self._reading.ready(made, wait))
        looking = asyncio.ensure_future(self._alone(claim, made.namespace))
        try:
            await asyncio.wait({waiting, looking}, return_when=asyncio.FIRST_EXCEPTION)
            await looking
            return await waiting
        finally:
            waiting.cancel()
            looking.cancel()

    async def _alone(self, claim: Document, namespace: str) -> None:
        others = await self._reading.claims(claim["metadata"]["name"], beside=namespace)
        if not others:
            return
        await self._wire.remove(CLAIMS, claim)
        other = others[0]["metadata"]
        raise Problem(
            "key-reused",
            f"{other['name']} was made by this key in another class at the same time",
            "ask again for one of the two classes, or with another key",
            workspace=other["name"],
            retry_after=1,
        )

    async def _refuse_cold(self, of_class: Class, choice: Choice, *, warm_only: bool) -> None:
        if warm_only:
            raise Problem(
                "pool-empty",
                f"{WORDS[choice.cold or 'empty']}, and a cold start was not asked for",
                "ask again in a moment, or without `start: warm`",
                retry_after=5,
            )
        await check_quota(self._wire, of_class)

    async def _mark(self, workspace: Workspace, cold: str | None, *, kept: bool) -> None:
        notes = {**({KEPT: "true"} if kept else {}), **({COLD: cold} if cold else {})}
        if not notes:
            return
        # Whether somebody may have been in a member of a swarm goes by its mark, too.
        if not cold and not workspace.task:
            if workspace.claim_uid in self._marking:
                return
            self._marking.add(workspace.claim_uid)
            try:
                await self._a_while()
            finally:
                self._marking.discard(workspace.claim_uid)
            if self._is_gone(workspace):
                return
        # Of whatever version it is by now, as long as it is the same claim.
        read = {"metadata": {"name": workspace.id, "namespace": workspace.namespace, "uid": workspace.claim_uid}}
        for _ in range(_MARKS):
            if await self._wire.merge(CLAIMS, read, {"metadata": {"annotations": notes}}) is not None:
                return

    async def _a_while(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(MARK_AFTER):
                await self._ending.wait()

    def _is_gone(self, workspace: Workspace) -> bool:
        """Whether a claim that was told of is no more, or is another one's or going."""
        told = self._view.find(workspace.id)
        if told is None:
            return self._view.knew(workspace.id)
        return told.claim_uid != workspace.claim_uid or told.state == "deleting"

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _LOG.warning("a claim was not marked: %r", task.exception())


def claim_of(asked: CreateRequest, pool: str, now: datetime) -> Document:
    """The claim that a request makes."""
    document = claims.claim(
        asked.class_name, pool, asked.id, owner=asked.owner, workspace=asked.id, mode=asked.mode, task=asked.task
    )
    about = document["metadata"]
    about["labels"] |= owner_labels_on_object(asked.labels)
    about["annotations"] = claim_annotations(asked, now)
    return document


def problem_of(refusal: KubeApiError) -> Problem:
    """A refusal of the API server, as whoever asked is told it."""
    if refusal.code == 403 and "exceeded quota" in refusal.message:
        return Problem("no-room", f"the class is full: {refusal.message}", "delete what is not needed", retry_after=30)
    if refusal.code == 404:
        return Problem("unavailable", "the class is not in the cluster yet", "ask again when it is up", retry_after=10)
    return Problem("refused", refusal.message, "ask for something that the class's guardrails allow")
