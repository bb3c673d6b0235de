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
from agentenv.core.values.object_fields import owner_uids
from agentenv.core.values.timestamps import format_timestamp
from agentenv.core.workspaces.leases import LeaseRefused, attach_lease, detach_lease
from agentenv.core.workspaces.records import format_leases, workspace_of_claim, workspace_of_volume, workspace_patch
from agentenv.core.workspaces.workspace import (
    LAST_ACTIVE,
    LEASES,
    SUSPENDED_BECAUSE,
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
from agentenv.service.workspaces.assigned_sandbox import SandboxAssignments
from agentenv.service.workspaces.backend_protocol import RestoreCheck
from agentenv.service.workspaces.create import WorkspaceCreator
from agentenv.service.workspaces.deletion_record import ATTEMPTS, DeletionRecorder
from agentenv.service.workspaces.events import events_of
from agentenv.service.workspaces.read import WorkspaceReader
from agentenv.service.workspaces.restore_protocol import Restorer, refuse_destroyed, restored_class

_LOG = logging.getLogger(__name__)


class KubernetesBackend:
    """Workspaces in one cluster."""

    def __init__(
        self,
        wire: KubeClient,
        catalog: Catalog,
        metrics: Metrics,
        returning: Restorer | None = None,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._wire, self._catalog, self._metrics, self._now = wire, catalog, metrics, now
        self.view = ClusterView()
        self.reading = WorkspaceReader(wire, self.view, catalog, told=self._told_of_all)
        adoptions = SandboxAssignments()
        self.making = WorkspaceCreator(wire, self.view, catalog, self.reading, metrics, adoptions=adoptions, now=now)
        self._returning = returning
        self._leaving = DeletionRecorder(wire, self.reading, now=now)
        view = self.view
        # By these it is known who is there, and whose data is kept.
        self._volumes = Informer(wire, VOLUMES, view.put_volume, view.drop_volume)
        self._telling = [Informer(wire, CLAIMS, view.put_claim, view.drop_claim, labels=USER_LABEL), self._volumes]
        self._informers = [
            *self._telling,
            Informer(wire, SANDBOXES, adoptions.put, adoptions.drop, labels=CLAIM_UID_LABEL, bare=True),
            Informer(wire, POOLS, view.put_pool, view.drop_pool),
            Informer(
                wire,
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
            await self.making.finish()

    def in_step(self) -> bool:
        """Whether everything was listed once, and is known no staler than `informer.STALE_AFTER`."""
        return all(informer.fresh for informer in self._informers)

    def unreadable(self) -> Mapping[str, int]:
        """How many objects cannot be read, by kind."""
        return {informer.kind: len(informer.unreadable) for informer in self._informers}

    def standing(self) -> list[Workspace] | None:
        """All workspaces that stand, as they were told of last; None while it is not told of them."""
        return self.view.standing() if self.in_step() and self._told() else None

    async def create(
        self, asked: CreateRequest, *, wait: float, warm_only: bool = False, before_return: RestoreCheck | None = None
    ) -> CreateResult:
        """The workspace of an owner and a key, made if it is not there."""
        self._refuse_out_of_step()
        told = self.view.find(asked.id)
        there = await self.reading.claim(asked.id) if told is not None else None
        if there is None or section(there, "metadata").get("deletionTimestamp"):
            kept = await self.reading.volume(asked.id)
            if kept is not None:
                refuse_destroyed(kept, asked.id)
            if kept is not None and there is None and self._returning is not None:
                _refuse_different_request(workspace_of_volume(kept), asked)
                return await self._brought_back(kept, wait, before_return)
        return await self.making.make(asked, wait, there=there, warm_only=warm_only)

    async def get(self, id_: str) -> Workspace | None:
        """One workspace as it is now."""
        found = await self.reading.get(id_)
        return await self.making.kept(found) if found else None

    async def settled(self, id_: str, *, wait: float) -> Workspace | None:
        """The same, once it is neither on its way nor going."""
        found = await self.reading.settled(id_, wait)
        return await self.making.kept(found) if found else None

    async def list(self, chosen: Filter, *, limit: int, after: str | None = None) -> Page:
        """A page of workspaces by id."""
        self._refuse_out_of_step()
        return self.view.list(chosen, limit, after)

    async def update(self, id_: str, changes: Changes, *, wait: float) -> CreateResult:
        """Change what is said of it; another class makes it anew on the same data."""

        def asked(read: Workspace) -> Document:
            _refuse_deleting(read)
            return workspace_patch(read, changes)

        read = await self._changed(id_, asked)
        if changes.class_name is UNSET or changes.class_name == read.class_name:
            return CreateResult(read, ready=read.state == "running", existed=True)
        if self._returning is None:
            raise Problem("refused", "classes are not changed here", "make another workspace of that class")
        of_class = self._catalog.get(str(changes.class_name))
        claim = await self._claim(id_)
        began = time.monotonic()
        moved = await self._returning.move(claim, of_class)
        ready = await self.reading.ready(moved, wait - (time.monotonic() - began))
        return await self.making.hand_over(of_class, ready, self._returning.choice("moved"), began)

    async def delete(self, id_: str, *, keep_for: timedelta) -> Workspace:
        """Take it away; its data is kept for so long."""
        claim = await self.reading.claim(id_)
        if claim is None:
            left = await self._leaving.shorten(id_, keep_for)
            # Somebody may have returned before they could see that it is to be destroyed: that goes, too.
            claim = None if keep_for else await self.reading.claim(id_)
            if claim is None:
                return left
        read = workspace_of_claim(claim)
        if read is None:
            raise not_found("workspace")
        # What it had is marked first: killed in between, this is made up for by asking again.
        await self._leaving.record(read, claim, keep_for)
        await self._removed(read, claim)
        if not keep_for:
            await self._leaving.abandon(read)
        return await self.reading.get(id_) or read

    async def suspend(self, id_: str, because: Because) -> Workspace:
        """Let it sleep."""

        def asleep(read: Workspace) -> Document:
            _refuse_deleting(read)
            return {"metadata": {"annotations": {SUSPENDED_BECAUSE: because}}}

        read = await self._changed(id_, asleep)
        if await self._mode(read, "Suspended"):
            self._metrics.suspended(read.class_name, because)
        now = await self.reading.get(id_)
        if now is not None and now.claim_uid == read.claim_uid and now.suspended_because is None:
            # Somebody woke it between the two writes, and found it awake still: they meant it.
            await self._mode(now, "Running")
        return now or read

    async def resume(self, id_: str, *, wait: float, before_return: RestoreCheck | None = None) -> CreateResult:
        """Wake it; one that was deleted is made anew on its data."""
        claim = await self.reading.claim(id_)
        if claim is None:
            volume = await self.reading.volume(id_)
            if volume is None:
                raise not_found("workspace")
            return await self._brought_back(volume, wait, before_return)
        began = time.monotonic()

        def awake(read: Workspace) -> Document:
            _refuse_deleting(read)
            return {"metadata": {"annotations": {SUSPENDED_BECAUSE: None, LAST_ACTIVE: format_timestamp(self._now())}}}

        read = await self._changed(id_, awake)
        woken = await self._mode(read, "Running")
        if read.state == "running" and not woken:
            return CreateResult(read, ready=True, existed=True)
        ready = await self.reading.ready(read, wait - (time.monotonic() - began))
        return CreateResult(ready, ready=ready.state == "running", existed=True)

    async def attach(self, id_: str, lease: Lease) -> Workspace:
        """Take or renew a lease."""

        def leased(read: Workspace) -> Document:
            if read.state != "running":
                raise Problem(
                    "wrong-state",
                    f"{read.id} is {read.state}",
                    "wake it first: POST to its /resume" if read.state == "suspended" else "wait until it is running",
                    retry_after=None if read.state == "suspended" else 2,
                )
            try:
                held = attach_lease(read, lease, self._now())
            except LeaseRefused as why:
                raise Problem("busy", str(why), "wait until it was given back or has run out", retry_after=5) from None
            notes = {LEASES: format_leases(held), LAST_ACTIVE: format_timestamp(self._now())}
            return {"metadata": {"annotations": notes}}

        return await self._changed(id_, leased)

    async def detach(self, id_: str, holder: str) -> Workspace:
        """Give a lease back."""

        def released(read: Workspace) -> Document:
            left = detach_lease(read.leases, holder, self._now())
            if left == read.leases:
                return {}
            return {
                "metadata": {"annotations": {LEASES: format_leases(left), LAST_ACTIVE: format_timestamp(self._now())}}
            }

        return await self._changed(id_, released)

    async def events(self, id_: str) -> Sequence[Event]:
        """What happened to it lately."""
        found = await self.reading.get(id_)
        if found is None:
            raise not_found("workspace")
        return await events_of(self._wire, found)

    def counted(self) -> Mapping[tuple[str, str], int]:
        """How many workspaces there are, by class and state."""
        return self.view.counted()

    def _refuse_out_of_step(self) -> None:
        if not self.in_step():
            why = "this replica has not read the cluster yet, or not lately"
            raise Problem("unavailable", why, "ask again in a moment", retry_after=2)

    def _told(self) -> bool:
        """Whether it is told of workspaces and of what was kept just now."""
        return all(one.watching for one in self._telling)

    def _told_of_all(self) -> bool:
        """Whether a volume that the view does not have is not there: one that cannot be read may be anybody's."""
        return self._told() and not self._volumes.unreadable

    async def _claim(self, id_: str) -> Document:
        claim = await self.reading.claim(id_)
        if claim is None or workspace_of_claim(claim) is None:
            raise not_found("workspace")
        return claim

    async def _changed(self, id_: str, say: Callable[[Workspace], Document]) -> Workspace:
        """Merge what is to be said of a workspace as it is, read again for as often as somebody was quicker."""
        for attempt in range(ATTEMPTS):
            claim = await self._claim(id_)
            read = workspace_of_claim(claim)
            if read is None:
                raise not_found("workspace")
            changes = say(read)
            if not changes:
                return read
            merged = await self._wire.merge(CLAIMS, claim, changes)
            changed = workspace_of_claim(merged) if merged else None
            if changed is not None:
                return changed
            await _back_off(attempt)
        raise Problem("busy", f"{id_} is changed by others all the time", "ask again", retry_after=1)

    async def _removed(self, read: Workspace, claim: Document) -> None:
        """Have a claim go, or be gone."""
        for attempt in range(ATTEMPTS):
            if await self._wire.remove(CLAIMS, claim, policy="Foreground"):
                return
            now = await self._wire.find(CLAIMS, read.id, read.namespace)
            if now is None or now["metadata"]["uid"] != read.claim_uid or now["metadata"].get("deletionTimestamp"):
                return
            await _back_off(attempt)
        raise Problem("busy", f"{read.id} is changed by others all the time", "ask again", retry_after=1)

    async def _mode(self, read: Workspace, mode: str) -> bool:
        """Have a workspace's sandbox run or sleep; whether it did not already."""
        for _ in range(ATTEMPTS):
            sandbox = await self._wire.find(SANDBOXES, read.sandbox, read.namespace) if read.sandbox else None
            if sandbox is None or read.claim_uid not in owner_uids(sandbox):
                raise Problem("wrong-state", f"{read.id} has no sandbox yet", "ask again when it has", retry_after=2)
            if (section(sandbox, "spec").get("operatingMode") or "Running") == mode:
                return False
            if await self._wire.merge(SANDBOXES, sandbox, {"spec": {"operatingMode": mode}}) is not None:
                return True
        raise Problem("busy", f"the sandbox of {read.id} is changed by others all the time", "ask again", retry_after=1)

    async def _brought_back(self, volume: Document, wait: float, before: RestoreCheck | None) -> CreateResult:
        kept = workspace_of_volume(volume)
        if kept is not None:
            refuse_destroyed(volume, kept.id)
        if self._returning is None or kept is None:
            raise Problem(
                "wrong-state",
                "it was deleted, and its data is kept",
                "ask with another key: what was deleted is not brought back here",
            )
        if before is not None:
            await before(replace(kept, class_name=restored_class(volume, kept)))
        began = time.monotonic()
        back = await self._returning.bring_back(volume, kept)
        ready = await self.reading.ready(back, wait - (time.monotonic() - began))
        of_class = self._catalog.get(ready.class_name)
        return await self.making.hand_over(of_class, ready, self._returning.choice("returned"), began)


def _refuse_different_request(kept: Workspace | None, asked: CreateRequest) -> None:
    if kept is not None and kept.key != asked.fingerprint:
        raise Problem(
            "key-reused",
            f"{kept.id} was made by this key for something else; it was deleted, and its data is kept",
            f"have it back by POST to /v1/workspaces/{kept.id}/resume, or ask with another key",
            workspace=kept.id,
        )


async def _back_off(attempt: int) -> None:
    """Let somebody else be done who changes the same."""
    await asyncio.sleep(random.random() * 0.02 * 2**attempt)  # noqa: S311 - no secret


def _refuse_deleting(read: Workspace) -> None:
    if read.state == "deleting":
        raise Problem("wrong-state", f"{read.id} is being taken away", "wait until it is gone", retry_after=2)


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
