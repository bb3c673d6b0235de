"""Workspaces as claims of sandboxes in Kubernetes: what a backend has to do, put together from its parts.

Kubernetes is the database. A workspace is a claim; deleted, and its data kept, it is what its volume says. What is
written is guarded by the version that was read, and read again where somebody was quicker.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from agentenv.core.classes.names import CLAIM_UID_LABEL, CONSTRAINTS, USER_LABEL
from agentenv.core.values.timestamps import format_timestamp
from agentenv.core.workspaces.leases import LeaseRefused, attach_lease, detach_lease
from agentenv.core.workspaces.records import format_leases, workspace_of_claim, workspace_of_volume, workspace_patch
from agentenv.core.workspaces.workspace import (
    LAST_ACTIVE,
    LEASES,
    UNSET,
    Because,
    Changes,
    CreateRequest,
    CreateResult,
    Event,
    Filter,
    Lease,
    Page,
    Workspace,
)
from agentenv.service.catalog import Catalog
from agentenv.service.http.problems import Problem, not_found
from agentenv.service.kube.client import (
    CLAIMS,
    CONFIGURATIONS,
    POOLS,
    SANDBOXES,
    VOLUMES,
    Document,
    KubeClient,
    section,
)
from agentenv.service.kube.informer import Informer
from agentenv.service.kube.view import ClusterView
from agentenv.service.telemetry.metrics import Metrics
from agentenv.service.workspaces.archives import end_session
from agentenv.service.workspaces.assigned_sandbox import SandboxAssignments
from agentenv.service.workspaces.backend_protocol import Backend, RestoreCheck
from agentenv.service.workspaces.create import WorkspaceCreator
from agentenv.service.workspaces.delete import delete_workspace, shorten_retention
from agentenv.service.workspaces.events import events_of
from agentenv.service.workspaces.read import WorkspaceReader
from agentenv.service.workspaces.restore_protocol import Restorer, refuse_destroyed, restored_class
from agentenv.service.workspaces.suspend import resume, suspend

_LOG = logging.getLogger(__name__)
# Attempts of a request whose object other clients change meanwhile.
ATTEMPTS = 8


class KubernetesBackend(Backend):
    """Workspaces in one cluster."""

    def __init__(
        self,
        kube: KubeClient,
        catalog: Catalog,
        metrics: Metrics,
        restorer: Restorer | None = None,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._kube, self._catalog, self._metrics, self._now = kube, catalog, metrics, now
        self.view = ClusterView()
        self.reader = WorkspaceReader(kube, self.view, catalog, is_watching=self._watches_complete)
        assignments = SandboxAssignments()
        self.creator = WorkspaceCreator(
            kube, self.view, catalog, self.reader, metrics, assignments=assignments, now=now
        )
        self._restorer = restorer
        view = self.view
        # By these it is known who is there, and whose data is kept.
        self._volumes = Informer(kube, VOLUMES, view.put_volume, view.drop_volume)
        self._workspace_informers = [
            Informer(kube, CLAIMS, view.put_claim, view.drop_claim, labels=USER_LABEL),
            self._volumes,
        ]
        self._informers = [
            *self._workspace_informers,
            Informer(kube, SANDBOXES, assignments.put, assignments.drop, labels=CLAIM_UID_LABEL, metadata_only=True),
            Informer(kube, POOLS, view.put_pool, view.drop_pool),
            Informer(
                kube,
                CONFIGURATIONS,
                view.put_constraints,
                view.drop_constraints,
                fields=f"metadata.name={CONSTRAINTS}",
            ),
        ]

    async def run(self) -> None:
        """Watch the cluster until cancelled, or until any of the watches ends, which none should."""
        watches = {asyncio.create_task(informer.run()): informer.kind for informer in self._informers}
        try:
            ended, _ = await asyncio.wait(watches, return_when=asyncio.FIRST_COMPLETED)
            for watch in ended:
                why = asyncio.CancelledError() if watch.cancelled() else watch.exception()
                _LOG.error("a watch ended", extra={"facts": {"kind": watches[watch]}}, exc_info=why)
        finally:
            for watch in watches:
                watch.cancel()
            await asyncio.gather(*watches, return_exceptions=True)
            await self.creator.finish()

    def is_synced(self) -> bool:
        """Whether everything was listed once, and is known no staler than `informer.STALE_AFTER`."""
        return all(informer.fresh for informer in self._informers)

    def unreadable(self) -> Mapping[str, int]:
        """How many objects cannot be read, by kind."""
        return {informer.kind: len(informer.unreadable) for informer in self._informers}

    def existing_workspaces(self) -> list[Workspace] | None:
        """All workspaces that stand, as they were told of last; None while it is not told of them."""
        return self.view.existing_workspaces() if self.is_synced() and self._watching() else None

    async def create(
        self,
        request: CreateRequest,
        *,
        wait: float,
        warm_only: bool = False,
        before_restore: RestoreCheck | None = None,
    ) -> CreateResult:
        """The workspace of an owner and a key, made if it is not there."""
        self._require_synced()
        known = self.view.find(request.id)
        existing = await self.reader.claim(request.id) if known is not None else None
        if existing is None or section(existing, "metadata").get("deletionTimestamp"):
            volume = await self.reader.volume(request.id)
            if volume is not None:
                refuse_destroyed(volume, request.id)
            if volume is not None and existing is None and self._restorer is not None:
                _refuse_different_request(workspace_of_volume(volume), request)
                return await self._restore_deleted(volume, wait, before_restore)
        return await self.creator.create(request, wait, existing=existing, warm_only=warm_only)

    async def get(self, id_: str) -> Workspace | None:
        """One workspace as it is now."""
        workspace = await self.reader.get(id_)
        return await self.creator.ensure_retained(workspace) if workspace else None

    def cached(self, id_: str) -> Workspace | None:
        """Return a workspace from the cache of this replica."""
        return self.view.find(id_)

    async def settled(self, id_: str, *, wait: float) -> Workspace | None:
        """The same, once it is neither on its way nor going."""
        workspace = await self.reader.settled(id_, wait)
        return await self.creator.ensure_retained(workspace) if workspace else None

    async def list(self, chosen: Filter, *, limit: int, after: str | None = None) -> Page:
        """A page of workspaces by id."""
        self._require_synced()
        return self.view.list(chosen, limit, after)

    async def update(self, id_: str, changes: Changes, *, wait: float) -> CreateResult:
        """Change what is said of it; another class makes it anew on the same data."""

        def build_changes(workspace: Workspace) -> Document:
            _refuse_deleting(workspace)
            return workspace_patch(workspace, changes)

        workspace = await self._merge_claim(id_, build_changes)
        if changes.class_name is UNSET or changes.class_name == workspace.class_name:
            return CreateResult(workspace, ready=workspace.state == "running", existed=True)
        if self._restorer is None:
            raise Problem("refused", "classes are not changed here", "make another workspace of that class")
        of_class = self._catalog.get(str(changes.class_name))
        claim = await self._claim(id_)
        began = time.monotonic()
        moved = await self._restorer.change_class(claim, of_class)
        ready = await self.reader.ready(moved, wait - (time.monotonic() - began))
        return await self.creator.report(of_class, ready, self._restorer.choice("moved"), began)

    async def delete(self, id_: str, *, keep_for: timedelta) -> Workspace:
        """Delete a workspace; its data is retained for so long."""
        for attempt in range(ATTEMPTS):
            claim = await self.reader.claim(id_)
            if claim is None:
                shortened = await self._shorten_retention(id_, keep_for)
                # It may have been restored before the request to destroy its data was visible: that is deleted, too.
                claim = None if keep_for or shortened is None else await self.reader.claim(id_)
                if claim is None and shortened is not None:
                    return shortened
            workspace = workspace_of_claim(claim) if claim else None
            if claim is not None and workspace is None:
                raise not_found("workspace")
            if claim is not None and workspace is not None:
                outcome = await delete_workspace(
                    self._kube, claim, keep_for, self._now(), wait_for_volume=False, policy="Foreground"
                )
                if outcome == "done":
                    return await self.reader.get(id_) or workspace
            await _back_off(attempt)
        raise _busy(id_)

    async def _shorten_retention(self, id_: str, keep_for: timedelta) -> Workspace | None:
        """Retain the data of a deleted workspace for less long; None where its volume has changed meanwhile."""
        volume = await self.reader.volume(id_)
        if volume is None or workspace_of_volume(volume) is None:
            raise not_found("workspace")
        shortened = await shorten_retention(self._kube, volume, keep_for, self._now())
        return workspace_of_volume(shortened) if shortened else None

    async def suspend(self, id_: str, because: Because) -> Workspace:
        """Suspend a workspace: its processes end, its files are retained."""
        for attempt in range(ATTEMPTS):
            claim, workspace = await self._existing(id_)
            outcome = await suspend(self._kube, claim, because)
            if outcome == "no-sandbox":
                raise _no_sandbox(id_)
            if outcome != "overtaken":
                if outcome == "done":
                    self._metrics.suspended(workspace.class_name, because)
                return await self.reader.get(id_) or workspace
            await _back_off(attempt)
        raise _busy(id_)

    async def resume(self, id_: str, *, wait: float, before_restore: RestoreCheck | None = None) -> CreateResult:
        """Resume a workspace; a deleted one is restored on its data."""
        if await self.reader.claim(id_) is None:
            volume = await self.reader.volume(id_)
            if volume is None:
                raise not_found("workspace")
            return await self._restore_deleted(volume, wait, before_restore)
        began = time.monotonic()
        for attempt in range(ATTEMPTS):
            claim, workspace = await self._existing(id_)
            outcome = await resume(self._kube, claim, self._now(), requested=True)
            if outcome == "no-sandbox":
                raise _no_sandbox(id_)
            if outcome != "overtaken":
                _, current = await self._existing(id_)
                if workspace.state == "running" and outcome == "already":
                    return CreateResult(current, ready=True, existed=True)
                ready = await self.reader.ready(current, wait - (time.monotonic() - began))
                return CreateResult(ready, ready=ready.state == "running", existed=True)
            await _back_off(attempt)
        raise _busy(id_)

    async def attach(self, id_: str, lease: Lease) -> Workspace:
        """Take or renew a lease."""

        def build_changes(workspace: Workspace) -> Document:
            if workspace.state != "running":
                raise Problem(
                    "wrong-state",
                    f"{workspace.id} is {workspace.state}",
                    "wake it first: POST to its /resume"
                    if workspace.state == "suspended"
                    else "wait until it is running",
                    retry_after=None if workspace.state == "suspended" else 2,
                )
            try:
                leases = attach_lease(workspace, lease, self._now())
            except LeaseRefused as error:
                raise Problem(
                    "busy", str(error), "wait until it was given back or has run out", retry_after=5
                ) from None
            annotations = {LEASES: format_leases(leases), LAST_ACTIVE: format_timestamp(self._now())}
            return {"metadata": {"annotations": annotations}}

        return await self._merge_claim(id_, build_changes)

    async def detach(self, id_: str, holder: str) -> Workspace:
        """Give a lease back."""

        def build_changes(workspace: Workspace) -> Document:
            leases = detach_lease(workspace.leases, holder, self._now())
            if leases == workspace.leases:
                return {}
            return {
                "metadata": {"annotations": {LEASES: format_leases(leases), LAST_ACTIVE: format_timestamp(self._now())}}
            }

        return await self._merge_claim(id_, build_changes)

    async def end_session(self, owner: str, archive: str) -> int:
        """Record that an owner's chat left the archive; return the number of its workspaces, deleted ones included."""
        return await end_session(self._kube, owner, archive, self._now())

    async def events(self, id_: str) -> Sequence[Event]:
        """What happened to it lately."""
        workspace = await self.reader.get(id_)
        if workspace is None:
            raise not_found("workspace")
        return await events_of(self._kube, workspace)

    def count_by_state(self) -> Mapping[tuple[str, str], int]:
        """How many workspaces there are, by class and state."""
        return self.view.count_by_state()

    def _require_synced(self) -> None:
        if not self.is_synced():
            why = "this replica has not read the cluster yet, or not lately"
            raise Problem("unavailable", why, "ask again in a moment", retry_after=2)

    def _watching(self) -> bool:
        """Whether it is told of workspaces and of what was kept just now."""
        return all(informer.watching for informer in self._workspace_informers)

    def _watches_complete(self) -> bool:
        """Whether a volume that the view does not have is not there: one that cannot be read may be anybody's."""
        return self._watching() and not self._volumes.unreadable

    async def _claim(self, id_: str) -> Document:
        claim = await self.reader.claim(id_)
        if claim is None or workspace_of_claim(claim) is None:
            raise not_found("workspace")
        return claim

    async def _existing(self, id_: str) -> tuple[Document, Workspace]:
        """Return the claim and the workspace of an id; a `Problem` where it is being deleted."""
        claim = await self._claim(id_)
        workspace = workspace_of_claim(claim)
        if workspace is None:
            raise not_found("workspace")
        _refuse_deleting(workspace)
        return claim, workspace

    async def _merge_claim(self, id_: str, build_changes: Callable[[Workspace], Document]) -> Workspace:
        """Merge what is to be said of a workspace as it is, read again for as often as somebody was quicker."""
        for attempt in range(ATTEMPTS):
            claim = await self._claim(id_)
            workspace = workspace_of_claim(claim)
            if workspace is None:
                raise not_found("workspace")
            changes = build_changes(workspace)
            if not changes:
                return workspace
            merged = await self._kube.patch(CLAIMS, claim, changes)
            updated = workspace_of_claim(merged) if merged else None
            if updated is not None:
                return updated
            await _back_off(attempt)
        raise _busy(id_)

    async def _restore_deleted(self, volume: Document, wait: float, before: RestoreCheck | None) -> CreateResult:
        deleted = workspace_of_volume(volume)
        if deleted is not None:
            refuse_destroyed(volume, deleted.id)
        if self._restorer is None or deleted is None:
            raise Problem(
                "wrong-state",
                "it was deleted, and its data is kept",
                "ask with another key: what was deleted is not brought back here",
            )
        if before is not None:
            await before(replace(deleted, class_name=restored_class(volume, deleted)))
        began = time.monotonic()
        restored = await self._restorer.restore(volume, deleted)
        ready = await self.reader.ready(restored, wait - (time.monotonic() - began))
        of_class = self._catalog.get(ready.class_name)
        return await self.creator.report(of_class, ready, self._restorer.choice("returned"), began)


def _refuse_different_request(existing: Workspace | None, request: CreateRequest) -> None:
    if existing is not None and existing.key != request.fingerprint:
        raise Problem(
            "key-reused",
            f"{existing.id} was made by this key for something else; it was deleted, and its data is kept",
            f"have it back by POST to /v1/workspaces/{existing.id}/resume, or ask with another key",
            workspace=existing.id,
        )


def _busy(id_: str) -> Problem:
    return Problem("busy", f"other requests change {id_} all the time", "repeat the request", retry_after=1)


def _no_sandbox(id_: str) -> Problem:
    return Problem("wrong-state", f"{id_} has no sandbox yet", "repeat the request when it has one", retry_after=2)


async def _back_off(attempt: int) -> None:
    """Let somebody else be done who changes the same."""
    await asyncio.sleep(random.random() * 0.02 * 2**attempt)  # noqa: S311 - no secret


def _refuse_deleting(workspace: Workspace) -> None:
    if workspace.state == "deleting":
        raise Problem("wrong-state", f"{workspace.id} is being taken away", "wait until it is gone", retry_after=2)


@contextlib.asynccontextmanager
async def running_backend(
    backend: KubernetesBackend, ended: Callable[[], None] = lambda: None
) -> AsyncGenerator[KubernetesBackend]:
    """A backend that keeps up with its cluster for as long as this goes on; `ended` is called if it stops before."""
    task = asyncio.create_task(backend.run())
    task.add_done_callback(lambda task: None if task.cancelled() else ended())
    try:
        yield backend
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
