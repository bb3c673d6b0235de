"""Create a workspace once for an owner and a key, however many replicas get the request.

The claim's name follows from owner and key. So within a class the API server accepts one create, and the other requests
find that claim. The same key may be used for two classes at the same time. Events of a watch come in the order of etcd.
So when its claim appears in the view, a request learns whether another class had a claim of that name before, and
deletes its own. Where the view does not know, it reads the claims of all other classes, and both requests may fail. If
a request ends before that, the next one for its claim deletes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agentenv.core.classes.names import VOLUME_RETAINED
from agentenv.core.workspaces import claims
from agentenv.core.workspaces.records import claim_annotations, owner_labels_on_object, workspace_of_claim
from agentenv.core.workspaces.workspace import COLD, CreateRequest, CreateResult, Workspace
from agentenv.service.catalog import Catalog, Class
from agentenv.service.http.problems import Problem
from agentenv.service.kube.client import CLAIMS, Document, KubeApiError, KubeClient, section
from agentenv.service.kube.shared_calls import SharedCalls
from agentenv.service.kube.view import ClusterView
from agentenv.service.kube.workspace_counts import being_created
from agentenv.service.telemetry import traces
from agentenv.service.telemetry.metrics import Metrics
from agentenv.service.workspaces.assigned_sandbox import SandboxAssignments
from agentenv.service.workspaces.capacity_check import check_quota
from agentenv.service.workspaces.eager_retention import EagerVolumeRetention, retain_volume
from agentenv.service.workspaces.owner_limits import OwnerLimits
from agentenv.service.workspaces.pool_selection import COLD_REASONS, Choice, Pools
from agentenv.service.workspaces.read import WorkspaceReader
from agentenv.service.workspaces.refusals import pool_empty, refuse_create_while_deleting, refuse_different_request
from agentenv.service.workspaces.resize import Resizer

if TYPE_CHECKING:
    from agentenv.config.sections.classes import SizeName

_LOG = logging.getLogger(__name__)
# Cold starts of an owner at a time
MAX_COLD_STARTS = 4
_MARKS = 5
# The annotation that the volume is retained is written so many seconds later, when a burst of requests may be over. No
# caller waits for this write, and it makes the controller reconcile the claim again.
MARK_AFTER = 5.0
# How long a caller that polls waits for a node to resize a sandbox; the loop `resizing` goes on.
RESIZE_SECONDS = 1.0


class WorkspaceCreator:
    """Creates workspaces."""

    def __init__(
        self,
        kube: KubeClient,
        view: ClusterView,
        catalog: Catalog,
        reading: WorkspaceReader,
        metrics: Metrics,
        *,
        assignments: SandboxAssignments,
        resizer: Resizer,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._kube, self._view, self._catalog, self._reader = kube, view, catalog, reading
        self._metrics, self._clock, self._now = metrics, clock, now
        self._assignments, self._resizer = assignments, resizer
        self.pools = Pools(view)
        self._background_tasks: set[asyncio.Task[None]] = set()
        self._marking: set[str] = set()  # uids of claims whose annotation is pending
        self.limits = OwnerLimits(kube, view, catalog)
        self._retaining = SharedCalls[str | None]()
        self._ending = asyncio.Event()

    async def create(
        self, request: CreateRequest, wait: float, *, existing: Document | None = None, warm_only: bool = False
    ) -> CreateResult:
        """Return the workspace of a request once it is ready, or after so many seconds; `existing` is its claim."""
        with traces.span("claim", **{"class": request.class_name}) as span:
            result = await self._create(request, wait, existing=existing, warm_only=warm_only)
            span.set_attributes({"ready": result.ready, "existed": result.existed, "cold": result.cold is not None})
            return result

    async def _create(
        self, request: CreateRequest, wait: float, *, existing: Document | None, warm_only: bool
    ) -> CreateResult:
        began = self._clock()
        of_class = self._catalog.get(request.class_name)
        pool_names = of_class.release(request.channel).names
        if existing is not None:
            return await self._existing(existing, request, wait)
        choice = self.pools.choose(of_class.namespace, request.channel, pool_names)
        if choice.cold:
            await self._refuse_cold(of_class, choice, request.size, warm_only=warm_only)
        self.limits.check(_planned(request))
        if choice.cold:
            await self._wait_for_own_cold_starts(request, wait)
        document = claim_of(request, choice.pool, self._now())
        async with EagerVolumeRetention(self._kube, self._view, self._assignments) as early:
            with self.pools.reserving(of_class.namespace, choice.pool):
                claim = await self._claimed(document)
                if claim is None:
                    existing = await self._kube.find(CLAIMS, request.id, of_class.namespace)
                    if existing is None:
                        raise Problem("busy", "it was deleted at the same time", "repeat the request", retry_after=1)
                    return await self._existing(existing, request, wait)
                created = workspace_of_claim(claim)
                if created is None:
                    raise AssertionError("a created claim has its owner's label")
                if of_class.has_homes:
                    early.start(created)
                ready = await self._ready_and_unique(claim, created, wait - (self._clock() - began))
            return await self.report(of_class, ready, choice, began, early)

    async def report(
        self,
        of_class: Class,
        workspace: Workspace,
        choice: Choice,
        began: float,
        early: EagerVolumeRetention | None = None,
    ) -> CreateResult:
        """Return the result of a creation: ready with a retained volume, or still being created."""
        if workspace.state == "failed":
            self._metrics.claimed(of_class.name, "failed", self._clock() - began)
            return CreateResult(workspace, ready=False, cold=COLD_REASONS.get(choice.cold or ""))
        if workspace.state != "running":
            return CreateResult(workspace, ready=False, cold=COLD_REASONS.get(choice.cold or "") or workspace.why)
        if workspace.resizing:
            workspace = await self._resizer.resize(workspace)
        cold = workspace.sandbox == workspace.id
        reason = (choice.cold or "raced") if cold else None
        volume = await self._volume(workspace, early) if of_class.has_homes else None
        if of_class.has_homes and volume is None:
            message = "its volume does not exist yet"
            return CreateResult(
                replace(workspace, state="creating", why=message), ready=False, cold=COLD_REASONS.get(reason or "")
            )
        if reason:
            self._metrics.pool_miss(of_class.name, reason)
        else:
            self._metrics.pool_hit(of_class.name)
        self._metrics.claimed(of_class.name, "cold" if cold else "warm", self._clock() - began)
        cold_reason = COLD_REASONS[reason] if reason else None
        # No caller waits for this annotation; if it fails, the loop that retains all volumes writes it.
        self._in_background(self._mark(workspace, cold_reason, retained=of_class.has_homes))
        return CreateResult(
            replace(workspace, volume=volume, volume_retained=of_class.has_homes, cold=cold_reason),
            ready=True,
            cold=cold_reason,
        )

    async def _volume(self, workspace: Workspace, early: EagerVolumeRetention | None) -> str | None:
        with traces.span("keep volume", **{"class": workspace.class_name}) as span:
            volume = await early.retained_volume(workspace) if early else None
            volume = volume or await retain_volume(self._kube, self._view, workspace)
            span.set_attribute("kept", volume is not None)
            return volume

    async def ensure_retained(self, workspace: Workspace) -> Workspace:
        """Return a workspace as running only once its volume is retained, also to callers that poll for it."""
        of_class = self._catalog.classes.get(workspace.class_name)
        if workspace.state == "running" and workspace.resizing:
            workspace = await self._resizer.resize(workspace, RESIZE_SECONDS)
        if workspace.state != "running" or workspace.volume_retained or of_class is None or not of_class.has_homes:
            return workspace
        volume = await self._retaining.run(
            workspace.claim_uid, lambda: retain_volume(self._kube, self._view, workspace)
        )
        if volume is None:
            return replace(workspace, state="creating", why="its volume does not exist yet")
        self._in_background(self._mark(workspace, None, retained=True))
        return replace(workspace, volume=volume, volume_retained=True)

    async def finish(self) -> None:
        """End the delays of pending annotations, and wait until these are written."""
        self._ending.set()
        await asyncio.gather(*self._background_tasks, return_exceptions=True)

    async def _existing(self, claim: Document, request: CreateRequest, wait: float) -> CreateResult:
        """Return the result for a claim that exists, for the same request or a different one."""
        workspace = workspace_of_claim(claim)
        if workspace is None or workspace.owner != request.owner:
            raise Problem("key-reused", "the claim of that name belongs to another owner", "use another key")
        refuse_create_while_deleting(workspace)
        refuse_different_request(workspace, request)
        if workspace.state == "creating":
            workspace = await self._reader.ready(workspace, wait)
            if workspace.state == "deleting":
                raise Problem("busy", "it was deleted while it was created", "repeat the request", retry_after=1)
        await self._refuse_second_claim(claim, workspace, created=False)
        if workspace.state == "running":
            of_class = self._catalog.get(workspace.class_name)
            volume = await retain_volume(self._kube, self._view, workspace) if of_class.has_homes else None
            if of_class.has_homes and volume is None:
                return CreateResult(
                    replace(workspace, state="creating"), ready=False, existed=True, cold=workspace.cold
                )
            return CreateResult(replace(workspace, volume=volume), ready=True, existed=True, cold=workspace.cold)
        return CreateResult(workspace, ready=False, existed=True, cold=workspace.cold)

    async def _claimed(self, document: Document) -> Document | None:
        try:
            return await self._kube.create(CLAIMS, document)
        except KubeApiError as error:
            raise problem_of(error) from None

    async def _ready_and_unique(self, claim: Document, created: Workspace, wait: float) -> Workspace:
        waiting = asyncio.ensure_future(self._reader.ready(created, wait))
        checking = asyncio.gather(self._refuse_second_claim(claim, created), self.limits.admit(claim))
        try:
            await asyncio.wait({waiting, checking}, return_when=asyncio.FIRST_EXCEPTION)
            await checking
            return await waiting
        finally:
            waiting.cancel()
            checking.cancel()

    async def _refuse_second_claim(self, claim: Document, workspace: Workspace, *, created: bool = True) -> None:
        """Raise a `Problem` where another class had a claim of this name before, and delete this one.

        Unless this request has `created` it, it is deleted only if it is known to be the second.
        """
        ranks = await self.limits.ranks([workspace])
        # Where the order is unknown, a workspace that was handed over stays.
        if not (ranks[0].elsewhere if ranks is not None else created or workspace.state == "creating"):
            return
        others = await self._reader.claims(workspace.id, beside=workspace.namespace)
        # While a workspace moves to another class, its claim in the former one ends.
        if any(created or not section(other, "metadata").get("deletionTimestamp") for other in others):
            if created or ranks is not None:
                await self._kube.delete(CLAIMS, claim, any_version=True)
            raise _two_classes(workspace.id)

    async def _wait_for_own_cold_starts(self, request: CreateRequest, wait: float) -> None:
        """Wait while an owner has many cold starts, so that those of others get the next nodes."""
        deadline = self._clock() + wait
        group = being_created(request.owner)
        while request.task is None and (count := self._view.counts.of(group)) >= MAX_COLD_STARTS:
            left = deadline - self._clock()
            if left <= 0:
                raise Problem(
                    "too-many-requests",
                    f"{count} workspaces of this owner are being created, and no warm sandbox is left",
                    "repeat the request when one of them is ready",
                    retry_after=5,
                )
            await self._view.wait_for_owner(request.owner, left)

    async def _refuse_cold(self, of_class: Class, choice: Choice, size: SizeName, *, warm_only: bool) -> None:
        if warm_only:
            raise pool_empty(COLD_REASONS[choice.cold or "empty"])
        await check_quota(self._kube, of_class, size)

    async def _mark(self, workspace: Workspace, cold: str | None, *, retained: bool) -> None:
        annotations = {**({VOLUME_RETAINED: "true"} if retained else {}), **({COLD: cold} if cold else {})}
        if not annotations:
            return
        # Whether a member of a swarm may have been used is decided by this annotation, so it is written at once.
        if not cold and not workspace.task:
            if workspace.claim_uid in self._marking:
                return
            self._marking.add(workspace.claim_uid)
            try:
                await self._wait_before_mark()
            finally:
                self._marking.discard(workspace.claim_uid)
            if self._is_deleted(workspace):
                return
        # Without a resource version: any version of the same claim.
        claim = {"metadata": {"name": workspace.id, "namespace": workspace.namespace, "uid": workspace.claim_uid}}
        for _ in range(_MARKS):
            if await self._kube.patch(CLAIMS, claim, {"metadata": {"annotations": annotations}}) is not None:
                return

    async def _wait_before_mark(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(MARK_AFTER):
                await self._ending.wait()

    def _is_deleted(self, workspace: Workspace) -> bool:
        """Return whether the claim is gone or being deleted by the cached view, or another claim has its name."""
        known = self._view.find(workspace.id)
        if known is None:
            return self._view.recently_known(workspace.id)
        return known.claim_uid != workspace.claim_uid or known.state == "deleting"

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background_tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._background_tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _LOG.warning("a claim was not annotated: %r", task.exception())


def _planned(request: CreateRequest) -> Workspace:
    return Workspace(
        request.id,
        request.owner,
        request.class_name,
        request.mode,
        "creating",
        task=request.task,
        limited_teams=request.limited_teams,
    )


def claim_of(request: CreateRequest, pool: str, now: datetime) -> Document:
    """Return the claim for a request."""
    document = claims.claim(
        request.class_name,
        pool,
        request.id,
        owner=request.owner,
        workspace=request.id,
        mode=request.mode,
        task=request.task,
    )
    metadata = document["metadata"]
    metadata["labels"] |= owner_labels_on_object(request.labels)
    metadata["annotations"] = claim_annotations(request, now)
    return document


def _two_classes(id_: str) -> Problem:
    return Problem(
        "key-reused",
        f"{id_} was created with this key in another class at the same time",
        "repeat the request for one of the two classes, or use another key",
        workspace=id_,
        retry_after=1,
    )


def problem_of(refusal: KubeApiError) -> Problem:
    """Return the problem that the caller gets for an error of the API server."""
    if refusal.transient:
        seconds = int(refusal.retry_after or 5)
        return Problem("unavailable", refusal.message, "retry in a few seconds; no data was lost", retry_after=seconds)
    if refusal.code == 403 and "exceeded quota" in refusal.message:
        return Problem("no-room", f"the class is full: {refusal.message}", "delete unused workspaces", retry_after=30)
    if refusal.code == 404:
        return Problem(
            "unavailable", "the class does not exist in the cluster yet", "retry when it is deployed", retry_after=10
        )
    return Problem("refused", refusal.message, "change the request so that the guardrails of the class allow it")
