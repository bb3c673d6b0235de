"""Read workspaces from the API server; the cached view only shows where to look, and when to look again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from agentenv.core.classes.names import WORKSPACE_LABEL
from agentenv.core.values.timestamps import parse_timestamp
from agentenv.core.workspaces.records import workspace_of_claim, workspace_of_volume
from agentenv.core.workspaces.workspace import DELETED_AT, TRANSITIONAL, Workspace
from agentenv.service.catalog import Catalog
from agentenv.service.kube.client import CLAIMS, VOLUMES, Document, KubeClient, section
from agentenv.service.kube.shared_calls import SharedCalls
from agentenv.service.kube.view import ClusterView

# A wait reads from the API server after so many seconds without an event: a watch may be broken.
LOOK_AGAIN = 2.0


class WorkspaceReader:
    """Reads workspaces by their ids."""

    def __init__(
        self,
        kube: KubeClient,
        view: ClusterView,
        catalog: Catalog,
        clock: Callable[[], float] = time.monotonic,
        *,
        is_watching: Callable[[], bool] = lambda: True,
    ) -> None:
        """Create a reader; `is_watching` returns whether the view has all current claims and volumes."""
        self._kube, self._view, self._catalog, self._clock, self._is_watching = kube, view, catalog, clock, is_watching
        self._shared_reads = SharedCalls[Workspace | None]()
        self._shared_claims = SharedCalls[Document | None]()

    async def claim(self, id_: str) -> Document | None:
        """Return the claim of a workspace, in any class."""
        cached = self._view.find(id_)
        if cached is not None and cached.state != "deleted":
            claim = await self._kube.find(CLAIMS, id_, cached.namespace)
            if claim is not None:
                return claim
        claims = await self.claims(id_)
        return min(claims, key=lambda document: bool(document["metadata"].get("deletionTimestamp")), default=None)

    async def claims(self, id_: str, *, beside: str = "") -> list[Document]:
        """Return all claims of a name, in all classes except the one of the namespace `beside`."""
        namespaces = [
            sandbox_class.namespace
            for sandbox_class in self._catalog.classes.values()
            if sandbox_class.namespace != beside
        ]
        results = await asyncio.gather(*(self._kube.find(CLAIMS, id_, namespace) for namespace in namespaces))
        return [claim for claim in results if claim is not None]

    async def volume(self, id_: str) -> Document | None:
        """Return the volume with the retained data of a deleted workspace.

        The view is trusted to have no volume only for an id that it has not seen recently, and while its watches are
        open. Otherwise a user would get an empty home although the old one exists.
        """
        cached = self._view.deleted(id_)
        volume = await self._kube.find(VOLUMES, cached.volume) if cached and cached.volume else None
        if _keeps(volume, id_):
            return volume
        if self._is_watching() and not self._view.recently_known(id_):
            return None
        retained: list[Document] = []
        async for document in self._kube.list(VOLUMES, labels={WORKSPACE_LABEL: id_}):
            retained += [document] if _keeps(document, id_) else []
        return max(retained, key=_deleted_at, default=None)

    async def get(self, id_: str) -> Workspace | None:
        """Return a workspace as it is."""
        claim = await self.claim(id_)
        if claim is not None:
            workspace = workspace_of_claim(claim)
            return self._view.reported(workspace) if workspace else None
        volume = await self.volume(id_)
        return workspace_of_volume(volume) if volume else None

    async def settled(self, id_: str, wait: float) -> Workspace | None:
        """Return a workspace once its state is not about to change, or after so many seconds."""
        deadline = self._clock() + wait
        workspace = await self._shared_reads.run(id_, lambda: self.get(id_))
        while workspace is not None and workspace.state in TRANSITIONAL and (left := deadline - self._clock()) > 0:
            began = self._clock()
            cached = self._view.find(id_)
            if cached is None or cached.state in TRANSITIONAL or not _newer(cached, workspace):
                await self._view.wait_for_change(id_, min(left, LOOK_AGAIN))
                cached = self._view.find(id_)
            if cached is None or self._clock() - began >= LOOK_AGAIN:
                # It is gone from the view, or there was no event for a while
                workspace = await self._shared_reads.run(id_, lambda: self.get(id_))
            elif cached.claim_uid != workspace.claim_uid or _newer(cached, workspace):
                workspace = _from_cache(cached)
        return workspace

    async def ready(self, created: Workspace, wait: float) -> Workspace:
        """Return a created or resumed workspace once it is ready or has failed, or as it is after so many seconds."""
        deadline = self._clock() + wait
        last = created
        while True:
            cached = self._view.find(created.id)
            if cached is not None and cached.claim_uid == created.claim_uid and _newer(cached, created):
                if cached.state in {"running", "failed", "deleting"}:
                    return _from_cache(cached)
                last = cached
            left = deadline - self._clock()
            if left <= 0:
                return last
            before = self._clock()
            await self._view.wait_for_change(created.id, min(left, LOOK_AGAIN))
            # No event for a while, or the workspace is gone from the view: read it from the API server.
            removed = cached is not None and self._view.find(created.id) is None
            if removed or self._clock() - before >= LOOK_AGAIN:
                claim = await self._shared_claims.run(
                    (created.id, created.namespace),
                    lambda: self._kube.find(CLAIMS, created.id, created.namespace),
                )
                current = workspace_of_claim(claim) if claim else None
                if current is None or current.claim_uid != created.claim_uid:
                    return replace(last, state="deleting")
                last = current = self._view.reported(current)
                if current.state in {"running", "failed", "deleting"}:
                    return current


def _newer(cached: Workspace, created: Workspace) -> bool:
    # Resource versions of one kind are increasing numbers; a cached version from before the change is outdated.
    try:
        return int(cached.version) >= int(created.version)
    except ValueError:
        return True


def _from_cache(cached: Workspace) -> Workspace:
    return replace(cached, labels=dict(cached.labels), shared=dict(cached.shared))


def _keeps(volume: Document | None, id_: str) -> bool:
    record = workspace_of_volume(volume) if volume else None
    return record is not None and record.id == id_


def _deleted_at(volume: Document) -> datetime:
    return parse_timestamp(section(volume["metadata"], "annotations").get(DELETED_AT)) or datetime.min.replace(
        tzinfo=UTC
    )
