"""The backend of workspaces: each is a SandboxClaim, and after its deletion the retained volume with its record.

Kubernetes is the database. Each write requires the version that was read; after a conflict the object is read again.
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
from weakref import WeakValueDictionary

from agentenv.core.classes.names import CLAIM_UID_LABEL, CONSTRAINTS, USER_LABEL, WORKSPACE_LABEL, cold_pool
from agentenv.core.classes.pods.daemon import WORKSPACED
from agentenv.core.classes.sizes import SMALL
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
from agentenv.service.catalog import Catalog, Class
from agentenv.service.http.problems import Problem, not_found
from agentenv.service.kube.client import (
    CLAIMS,
    CONFIGURATIONS,
    EVENTS,
    PODS,
    POOLS,
    SANDBOXES,
    VOLUMES,
    Document,
    KubeClient,
    section,
)
from agentenv.service.kube.informer import Informer
from agentenv.service.kube.record_event import claim_reference, record_event
from agentenv.service.kube.view import ClusterView
from agentenv.service.telemetry.metrics import Metrics
from agentenv.service.workspaced.client import workspaced_port
from agentenv.service.workspaces.archives import end_session
from agentenv.service.workspaces.assigned_sandbox import SandboxAssignments
from agentenv.service.workspaces.backend_protocol import Backend, Endpoint, PoolStatus, RestoreCheck
from agentenv.service.workspaces.create import WorkspaceCreator
from agentenv.service.workspaces.delete import delete_workspace, shorten_retention
from agentenv.service.workspaces.event_log import EventLog
from agentenv.service.workspaces.events import events_of
from agentenv.service.workspaces.make_room import Room
from agentenv.service.workspaces.pool_selection import Choice
from agentenv.service.workspaces.read import WorkspaceReader
from agentenv.service.workspaces.refusals import (
    lease_refused,
    no_room_for_size,
    no_sandbox,
    refuse_attach,
    refuse_deleting,
    refuse_different_request,
)
from agentenv.service.workspaces.resize import Resizer
from agentenv.service.workspaces.restore import refuse_destroyed, target_class
from agentenv.service.workspaces.restore_requests import WorkspaceRestorer
from agentenv.service.workspaces.suspend import is_stopping, resume, sandbox_of, suspend

_LOG = logging.getLogger(__name__)
# Attempts of a request whose object other clients change meanwhile.
ATTEMPTS = 8
# A resume looks again after so many seconds whether the former pod has ended.
STOPPING_SECONDS = 1.0
# Rows of a list between which other requests run: about ten milliseconds.
SCANNED_AT_ONCE = 4_000


class KubernetesBackend(Backend):
    """The workspaces of one cluster."""

    def __init__(
        self,
        kube: KubeClient,
        catalog: Catalog,
        metrics: Metrics,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        more_informers: Sequence[Informer] = (),
    ) -> None:
        """`more_informers` run with those of workspaces."""
        self._kube, self._catalog, self._metrics, self._now = kube, catalog, metrics, now
        self.log = EventLog()
        self.view = ClusterView(on_change=self.log.note_change)
        self.reader = WorkspaceReader(kube, self.view, catalog, is_watching=self._watches_complete)
        assignments = SandboxAssignments()
        self.resizer = Resizer(kube, catalog, now=now)
        self.creator = WorkspaceCreator(
            kube, self.view, catalog, self.reader, metrics, assignments=assignments, resizer=self.resizer, now=now
        )
        self._restorer = WorkspaceRestorer(kube, now=now, limits=self.creator.limits)
        self._room = Room(kube)
        self._turns = WeakValueDictionary[str, asyncio.Lock]()
        view = self.view
        # By these two caches it is known which workspaces exist, and whose data is retained.
        self._volumes = Informer(kube, VOLUMES, view.put_volume, view.drop_volume)
        self._workspace_informers = [
            Informer(kube, CLAIMS, view.put_claim, view.drop_claim, labels=USER_LABEL, on_list=view.set_listing),
            self._volumes,
        ]
        self._informers = [
            *self._workspace_informers,
            Informer(kube, SANDBOXES, assignments.put, assignments.drop, labels=CLAIM_UID_LABEL, metadata_only=True),
            Informer(kube, PODS, view.put_pod, view.drop_pod, labels=WORKSPACE_LABEL),
            Informer(kube, POOLS, view.put_pool, view.drop_pool),
            Informer(
                kube,
                CONFIGURATIONS,
                view.put_constraints,
                view.drop_constraints,
                fields=f"metadata.name={CONSTRAINTS}",
            ),
            *more_informers,
        ]
        # Not among those that readiness depends on: without events workspaces are served all the same.
        self._events = Informer(
            kube,
            EVENTS,
            self.log.put,
            self.log.drop,
            on_list=self.log.set_listing,
            fields="involvedObject.kind=SandboxClaim",
        )

    async def run(self) -> None:
        """Watch the cluster until cancelled, or until a watch ends unexpectedly."""
        informers = (*self._informers, self._events)
        watches = {asyncio.create_task(informer.run()): informer.kind for informer in informers}
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
        """Return whether everything was listed once, and no cache is older than `informer.STALE_AFTER`."""
        return all(informer.fresh for informer in self._informers)

    def unreadable(self) -> Mapping[str, int]:
        """Return the number of objects that cannot be read, by kind."""
        return {informer.kind: len(informer.unreadable) for informer in self._informers}

    def existing_workspaces(self) -> list[Workspace] | None:
        """Return all workspaces that are not deleted from the cache; None while a watch is not open."""
        return self.view.existing_workspaces() if self.is_synced() and self._watching() else None

    async def create(
        self,
        request: CreateRequest,
        *,
        wait: float,
        warm_only: bool = False,
        before_restore: RestoreCheck | None = None,
    ) -> CreateResult:
        """Return the workspace of an owner and a key, created if it does not exist."""
        self._require_synced()
        known = self.view.find(request.id)
        existing = await self.reader.claim(request.id) if known is not None else None
        if existing is None or section(existing, "metadata").get("deletionTimestamp"):
            volume = await self.reader.volume(request.id)
            if volume is not None:
                refuse_destroyed(volume, request.id)
            if volume is not None and existing is None:
                if (deleted := workspace_of_volume(volume)) is not None:
                    refuse_different_request(deleted, request)
                return await self._restore_deleted(volume, wait, before_restore)
        return await self.creator.create(request, wait, existing=existing, warm_only=warm_only)

    async def get(self, id_: str) -> Workspace | None:
        """Return a workspace as it is now."""
        workspace = await self.reader.get(id_)
        return await self.creator.ensure_retained(workspace) if workspace else None

    def cached(self, id_: str) -> Workspace | None:
        """Return a workspace from the cache of this replica."""
        return self.view.find(id_)

    def endpoint(self, id_: str) -> Endpoint | None:
        """Return where the workspaced of a running workspace is reached, from the cache of this replica."""
        return self.view.endpoint(id_)

    def lacks_workspaced(self, id_: str) -> bool:
        """Return whether the ready pod of a workspace has no workspaced."""
        return self.view.lacks_workspaced(id_)

    async def reachable(self, id_: str, *, wait: float) -> Endpoint | None:
        """Return the endpoint of a workspace once it can be reached."""
        deadline = time.monotonic() + wait
        while (endpoint := self.view.endpoint(id_)) is None and (left := deadline - time.monotonic()) > 0:
            await self.view.wait_for_change(id_, left)
        return endpoint

    async def settled(self, id_: str, *, wait: float) -> Workspace | None:
        """Return a workspace once it is neither being created nor being deleted."""
        workspace = await self.reader.settled(id_, wait)
        return await self.creator.ensure_retained(workspace) if workspace else None

    async def list(self, chosen: Filter, *, limit: int, after: str | None = None) -> Page:
        """Return a page of workspaces by id."""
        self._require_synced()
        for page in self.view.scan(chosen, limit, after, SCANNED_AT_ONCE):
            if page is not None:
                return page
            # A filter that matches few of a hundred thousand must not delay other requests.
            await asyncio.sleep(0)
        raise AssertionError("a scan ends with a page")

    async def update(self, id_: str, changes: Changes, *, wait: float) -> CreateResult:
        """Change a workspace's settings; another class creates it again on the same data."""
        return await self.change(id_, lambda _: changes, wait=wait)

    async def change(self, id_: str, build: Callable[[Workspace], Changes], *, wait: float = 0.0) -> CreateResult:
        """Change a workspace by what `build` returns for it, as `update` does."""
        changes = Changes()

        def build_changes(workspace: Workspace) -> Document:
            nonlocal changes
            refuse_deleting(workspace)
            changes = build(workspace)
            return workspace_patch(workspace, changes)

        # Requests of this replica do not overtake each other.
        async with self._turns.setdefault(id_, asyncio.Lock()):
            workspace = await self._merge_claim(id_, build_changes)
        began = time.monotonic()
        if changes.size is not UNSET and changes.class_name in {UNSET, workspace.class_name}:
            workspace = await self.resizer.resize(workspace, wait)
            if workspace.size != (changes.size or SMALL):
                raise no_room_for_size(workspace, changes.size)
        if changes.class_name is UNSET or changes.class_name == workspace.class_name:
            return CreateResult(workspace, ready=workspace.state == "running", existed=True)
        of_class = self._catalog.get(str(changes.class_name))
        self.creator.limits.check_class(workspace, of_class.name)
        claim = await self._claim(id_)
        moved = await self._restorer.change_class(claim, of_class)
        ready = await self.reader.ready(moved, wait - (time.monotonic() - began))
        return await self.creator.report(of_class, ready, Choice(cold_pool(""), "moved"), began)

    async def delete(self, id_: str, *, keep_for: timedelta) -> Workspace:
        """Delete a workspace; its data is retained for the given time."""
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
        """Retain the data of a deleted workspace for less long; None if its volume was changed since it was read."""
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
                raise no_sandbox(id_)
            if outcome != "overtaken":
                if outcome == "done":
                    self._metrics.suspended(workspace.class_name, because)
                return await self.reader.get(id_) or workspace
            await _back_off(attempt)
        raise _busy(id_)

    async def resume(
        self,
        id_: str,
        *,
        wait: float,
        before_restore: RestoreCheck | None = None,
        on_requested: Callable[[], None] | None = None,
    ) -> CreateResult:
        """Resume a workspace; a deleted one is restored on its data."""
        if await self.reader.claim(id_) is None:
            volume = await self.reader.volume(id_)
            if volume is None:
                raise not_found("workspace")
            return await self._restore_deleted(volume, wait, before_restore)
        claim, workspace = await self._existing(id_)
        of_class = self._catalog.classes.get(workspace.class_name)
        if workspace.state == "moving":
            # The loops resume it, once its former pod is gone.
            moved = await self.reader.ready(workspace, wait)
            return CreateResult(moved, ready=moved.state == "running", existed=True)
        if workspace.state != "suspended" or of_class is None:
            return await self._resume(id_, wait, on_requested)
        began = time.monotonic()
        await self._room.make(of_class, workspace.size, wait)
        if await self._lacks_workspaced(claim, workspace, of_class):
            # On the same data in the current release: its sandbox cannot get another template.
            moved = await self._restorer.change_class(claim, of_class)
            ready = await self.reader.ready(moved, wait - (time.monotonic() - began))
            return await self.creator.report(of_class, ready, Choice(cold_pool(""), "moved"), began)
        return await self._resume(id_, wait - (time.monotonic() - began), on_requested)

    async def _lacks_workspaced(self, claim: Document, workspace: Workspace, of_class: Class) -> bool:
        """Return whether a sandbox is of a release before its class had workspaced, and its home can be restored."""
        # A timeout is not part of the record of a deleted workspace.
        if of_class.plan.daemon != WORKSPACED or not of_class.has_homes or workspace.timeout is not None:
            return False
        sandbox = await sandbox_of(self._kube, claim)
        template = section(section(section(sandbox or {}, "spec"), "podTemplate"), "spec")
        return bool(template) and workspaced_port(template) == 0

    async def _resume(self, id_: str, wait: float, on_requested: Callable[[], None] | None) -> CreateResult:
        began = time.monotonic()
        for attempt in range(ATTEMPTS):
            claim, workspace = await self._existing(id_)
            outcome = await resume(self._kube, claim, self._now(), requested=True)
            if on_requested is not None and outcome != "overtaken":
                on_requested()
            while outcome == "stopping" and (left := wait - (time.monotonic() - began)) > 0:
                await self.view.wait_for_change(id_, min(left, STOPPING_SECONDS))
                if not await is_stopping(self._kube, claim):
                    claim, _ = await self._existing(id_)
                    outcome = await resume(self._kube, claim, self._now(), requested=True)
            if outcome == "no-sandbox":
                raise no_sandbox(id_)
            if outcome == "stopping":
                return CreateResult((await self._existing(id_))[1], ready=False, existed=True)
            if outcome != "overtaken":
                _, current = await self._existing(id_)
                if workspace.state == "running" and outcome == "already":
                    return CreateResult(current, ready=True, existed=True)
                ready = await self.reader.ready(current, wait - (time.monotonic() - began))
                return CreateResult(ready, ready=ready.state == "running", existed=True)
            await _back_off(attempt)
        raise _busy(id_)

    async def attach(self, id_: str, lease: Lease) -> Workspace:
        """Add or renew a lease."""

        def build_changes(workspace: Workspace) -> Document:
            refuse_attach(workspace)
            try:
                leases = attach_lease(workspace, lease, self._now())
            except LeaseRefused as error:
                raise lease_refused(error) from None
            annotations = {LEASES: format_leases(leases), LAST_ACTIVE: format_timestamp(self._now())}
            return {"metadata": {"annotations": annotations}}

        return await self._merge_claim(id_, build_changes)

    async def detach(self, id_: str, holder: str) -> Workspace:
        """Release a lease."""

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
        """Return the recent events of a workspace."""
        workspace = await self.reader.get(id_)
        if workspace is None:
            raise not_found("workspace")
        return await events_of(self._kube, workspace)

    async def notify(self, id_: str, reason: str, message: str) -> None:
        """Record an event of a workspace."""
        claim = await self._claim(id_)
        await record_event(self._kube, claim_reference(claim), reason, message, self._now(), warning=True)

    def pools(self) -> Sequence[PoolStatus]:
        """Return the warm pools of all classes, without those of swarms."""
        return [
            PoolStatus(row.name, row.class_name, row.channel, row.replicas, row.ready, row.retiring)
            for row in self.view.all_pools()
            if not row.task
        ]

    def count_by_state(self) -> Mapping[tuple[str, str], int]:
        """Return the number of workspaces by class and state."""
        return self.view.count_by_state()

    def _require_synced(self) -> None:
        if not self.is_synced():
            why = "the cache of this replica is not synced"
            raise Problem("unavailable", why, "retry in a few seconds", retry_after=2)

    def _watching(self) -> bool:
        """Return whether the watches of claims and volumes are open."""
        return all(informer.watching for informer in self._workspace_informers)

    def _watches_complete(self) -> bool:
        """Return whether the cache has every volume: an unreadable one may belong to any workspace."""
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
        refuse_deleting(workspace)
        return claim, workspace

    async def _merge_claim(self, id_: str, build_changes: Callable[[Workspace], Document]) -> Workspace:
        """Patch the claim of a workspace; after a conflict, read it again and build the changes again."""
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
        if deleted is None:
            raise not_found("workspace")
        self.creator.limits.check(replace(deleted, state="creating", class_name=target_class(volume)))
        if before is not None:
            await before(replace(deleted, class_name=target_class(volume)))
        began = time.monotonic()
        restored = await self._restorer.restore(volume, deleted)
        ready = await self.reader.ready(restored, wait - (time.monotonic() - began))
        of_class = self._catalog.get(ready.class_name)
        return await self.creator.report(of_class, ready, Choice(cold_pool(""), "returned"), began)


def _busy(id_: str) -> Problem:
    return Problem("busy", f"other requests keep changing {id_}", "repeat the request", retry_after=1)


async def _back_off(attempt: int) -> None:
    """Wait for a random time, which grows with each attempt, before a retry."""
    await asyncio.sleep(random.random() * 0.02 * 2**attempt)  # noqa: S311 - no secret


@contextlib.asynccontextmanager
async def running_backend(
    backend: KubernetesBackend, ended: Callable[[], None] = lambda: None
) -> AsyncGenerator[KubernetesBackend]:
    """Run the backend's watches within a context; call `ended` if they end before."""
    task = asyncio.create_task(backend.run())
    task.add_done_callback(lambda task: None if task.cancelled() else ended())
    try:
        yield backend
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
