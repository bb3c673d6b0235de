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
        wire: KubeClient,
        view: ClusterView,
        catalog: Catalog,
        clock: Callable[[], float] = time.monotonic,
        *,
        told: Callable[[], bool] = lambda: True,
    ) -> None:
        """`told` says whether the view is being told of claims and volumes just now."""
        self._wire, self._view, self._catalog, self._clock, self._told = wire, view, catalog, clock, told

    async def claim(self, id_: str) -> Document | None:
        """The claim of a workspace, wherever it is."""
        told = self._view.find(id_)
        if told is not None and told.state != "deleted":
            found = await self._wire.find(CLAIMS, id_, told.namespace)
            if found is not None:
                return found
        claims = await self.claims(id_)
        return min(claims, key=lambda one: bool(one["metadata"].get("deletionTimestamp")), default=None)

    async def claims(self, id_: str, *, beside: str = "") -> list[Document]:
        """All claims of that name in all classes but one."""
        spaces = [one.namespace for one in self._catalog.classes.values() if one.namespace != beside]
        found = await asyncio.gather(*(self._wire.find(CLAIMS, id_, space) for space in spaces))
        return [one for one in found if one is not None]

    async def volume(self, id_: str) -> Document | None:
        """The volume that keeps what a deleted workspace had.

        That a view knows of none is believed only of a name that it never heard, and while it is told of changes: else
        somebody would be given an empty home beside their own.
        """
        told = self._view.deleted(id_)
        found = await self._wire.find(VOLUMES, told.volume) if told and told.volume else None
        if _keeps(found, id_):
            return found
        if self._told() and not self._view.knew(id_):
            return None
        kept: list[Document] = []
        async for page, _ in self._wire.list(VOLUMES, labels=f"{WORKSPACE_LABEL}={id_}"):
            kept += [one for one in page if _keeps(one, id_)]
        return max(kept, key=_deleted_at, default=None)

    async def get(self, id_: str) -> Workspace | None:
        """A workspace as it is."""
        claim = await self.claim(id_)
        if claim is not None:
            return workspace_of_claim(claim)
        volume = await self.volume(id_)
        return workspace_of_volume(volume) if volume else None

    async def settled(self, id_: str, wait: float) -> Workspace | None:
        """The same once it is neither on its way nor going, or after so many seconds."""
        until = self._clock() + wait
        found = await self.get(id_)
        while found is not None and found.state in TRANSITIONAL and (left := until - self._clock()) > 0:
            told = self._view.find(id_)
            if told is None or told.version == found.version or told.state in TRANSITIONAL:
                await self._view.change(id_, min(left, LOOK_AGAIN))
            found = await self.get(id_)
        return found

    async def ready(self, made: Workspace, wait: float) -> Workspace:
        """A workspace that was just made or woken, once it can be used or never will, or as it is after so long."""
        until = self._clock() + wait
        last = made
        while True:
            told = self._view.find(made.id)
            if told is not None and told.claim_uid == made.claim_uid and _newer(told, made):
                if told.state in {"running", "failed", "deleting"}:
                    return replace(told, labels=dict(told.labels), shared=dict(told.shared))
                last = told
            left = until - self._clock()
            if left <= 0:
                return last
            before = self._clock()
            await self._view.change(made.id, min(left, LOOK_AGAIN))
            # Nothing was told for a while, or that it is gone: what is true is asked.
            seen = told is not None and self._view.find(made.id) is None
            if seen or self._clock() - before >= LOOK_AGAIN:
                claim = await self._wire.find(CLAIMS, made.id, made.namespace)
                now = workspace_of_claim(claim) if claim else None
                if now is None or now.claim_uid != made.claim_uid:
                    return replace(last, state="deleting")
                last = now
                if now.state in {"running", "failed", "deleting"}:
                    return now


def _newer(told: Workspace, made: Workspace) -> bool:
    # Versions of one kind of object are numbers that grow; what a view says of before a change is of no use after it.
    try:
        return int(told.version) >= int(made.version)
    except ValueError:
        return True


def _keeps(volume: Document | None, id_: str) -> bool:
    record = workspace_of_volume(volume) if volume else None
    return record is not None and record.id == id_


def _deleted_at(volume: Document) -> datetime:
    return parse_timestamp(section(volume["metadata"], "annotations").get(DELETED_AT)) or datetime.min.replace(
        tzinfo=UTC
    )
