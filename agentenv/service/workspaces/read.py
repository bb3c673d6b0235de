"""Workspaces as they are: read from the API server, with the view only telling where to look and when to look again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from agentenv.core.classes.names import WORKSPACE_LABEL
from agentenv.core.values.timestamps import parse_timestamp
from agentenv.core.workspaces.records import workspace_of_claim, workspace_of_volume
from agentenv.core.workspaces.workspace import DELETED_AT, Workspace
from agentenv.service.catalog import Catalog
from agentenv.service.kube.client import CLAIMS, VOLUMES, Document, KubeClient, section
from agentenv.service.kube.view import ClusterView

# How long a wait goes on before it asks by itself: a watch may have been cut without a word.
LOOK_AGAIN = 2.0
TRANSITIONAL = ("creating", "deleting")


class WorkspaceReader:
    """Finds workspaces by their ids."""

    def __init__(
        self,
        kube: KubeClient,
        view: ClusterView,
        catalog: Catalog,
        clock: Callable[[], float] = time.monotonic,
        *,
        is_watching: Callable[[], bool] = lambda: True,
    ) -> None:
        """`told` says whether the view is being told of claims and volumes just now."""
        self._kube, self._view, self._catalog, self._clock, self._is_watching = kube, view, catalog, clock, is_watching

    async def claim(self, id_: str) -> Document | None:
        """The claim of a workspace, wherever it is."""
        is_watching = self._view.find(id_)
        if is_watching is not None and is_watching.state != "deleted":
            claim = await self._kube.find(CLAIMS, id_, is_watching.namespace)
            if claim is not None:
                return claim
        claims = await self.claims(id_)
        return min(claims, key=lambda document: bool(document["metadata"].get("deletionTimestamp")), default=None)

    async def claims(self, id_: str, *, beside: str = "") -> list[Document]:
        """All claims of that name in all classes but one."""
        namespaces = [
            sandbox_class.namespace
            for sandbox_class in self._catalog.classes.values()
            if sandbox_class.namespace != beside
        ]
        results = await asyncio.gather(*(self._kube.find(CLAIMS, id_, namespace) for namespace in namespaces))
        return [sandbox_class for sandbox_class in results if sandbox_class is not None]

    async def volume(self, id_: str) -> Document | None:
        """The volume that keeps what a deleted workspace had.

        That a view knows of none is believed only of a name that it never heard, and while it is told of changes: else
        somebody would be given an empty home beside their own.
        """
        is_watching = self._view.deleted(id_)
        volume = await self._kube.find(VOLUMES, is_watching.volume) if is_watching and is_watching.volume else None
        if _keeps(volume, id_):
            return volume
        if self._is_watching() and not self._view.recently_known(id_):
            return None
        retained: list[Document] = []
        async for document in self._kube.list(VOLUMES, labels={WORKSPACE_LABEL: id_}):
            retained += [document] if _keeps(document, id_) else []
        return max(retained, key=_deleted_at, default=None)

    async def get(self, id_: str) -> Workspace | None:
        """A workspace as it is."""
        claim = await self.claim(id_)
        if claim is not None:
            return workspace_of_claim(claim)
        volume = await self.volume(id_)
        return workspace_of_volume(volume) if volume else None

    async def settled(self, id_: str, wait: float) -> Workspace | None:
        """The same once it is neither on its way nor going, or after so many seconds."""
        deadline = self._clock() + wait
        workspace = await self.get(id_)
        while workspace is not None and workspace.state in TRANSITIONAL and (left := deadline - self._clock()) > 0:
            is_watching = self._view.find(id_)
            if is_watching is None or is_watching.version == workspace.version or is_watching.state in TRANSITIONAL:
                await self._view.wait_for_change(id_, min(left, LOOK_AGAIN))
            workspace = await self.get(id_)
        return workspace

    async def ready(self, created: Workspace, wait: float) -> Workspace:
        """A workspace that was just made or woken, once it can be used or never will, or as it is after so long."""
        deadline = self._clock() + wait
        last = created
        while True:
            is_watching = self._view.find(created.id)
            if is_watching is not None and is_watching.claim_uid == created.claim_uid and _newer(is_watching, created):
                if is_watching.state in {"running", "failed", "deleting"}:
                    return replace(is_watching, labels=dict(is_watching.labels), shared=dict(is_watching.shared))
                last = is_watching
            left = deadline - self._clock()
            if left <= 0:
                return last
            before = self._clock()
            await self._view.wait_for_change(created.id, min(left, LOOK_AGAIN))
            # Nothing was told for a while, or that it is gone: what is true is asked.
            removed = is_watching is not None and self._view.find(created.id) is None
            if removed or self._clock() - before >= LOOK_AGAIN:
                claim = await self._kube.find(CLAIMS, created.id, created.namespace)
                current = workspace_of_claim(claim) if claim else None
                if current is None or current.claim_uid != created.claim_uid:
                    return replace(last, state="deleting")
                last = current
                if current.state in {"running", "failed", "deleting"}:
                    return current


def _newer(is_watching: Workspace, created: Workspace) -> bool:
    # Versions of one kind of object are numbers that grow; what a view says of before a change is of no use after it.
    try:
        return int(is_watching.version) >= int(created.version)
    except ValueError:
        return True


def _keeps(volume: Document | None, id_: str) -> bool:
    record = workspace_of_volume(volume) if volume else None
    return record is not None and record.id == id_


def _deleted_at(volume: Document) -> datetime:
    return parse_timestamp(section(volume["metadata"], "annotations").get(DELETED_AT)) or datetime.min.replace(
        tzinfo=UTC
    )
