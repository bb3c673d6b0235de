"""The pass over homes: copy what the cluster knows of each to a place outside of it, for a recovery.

What changed since the last pass is written. A replica that has just become the leader reads the existing digests first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from agentenv.core.classes.names import USER_LABEL, WORKSPACE_LABEL
from agentenv.core.values.object_fields import section, text
from agentenv.core.workspaces.recovery import HomeRecord, home_record
from agentenv.core.workspaces.workspace import OWN_LABEL, RECORD
from agentenv.service.kube.client import CLAIMS, VOLUMES, Document
from agentenv.service.kube.unreadable import readable
from agentenv.service.ledger.home_records import digest_of
from agentenv.service.loops.context import Context
from agentenv.service.loops.scheduler import PassResult, ShouldContinue

MOST = 2_000


class HomeRecords(Protocol):
    """The records of homes outside of the cluster."""

    def digests(self) -> Mapping[str, str]:
        """Return the digest of each record, by the name of its volume."""
        ...

    def put(self, record: HomeRecord) -> None:
        """Write a record."""
        ...

    def put_gone(self, volume: str, now: datetime) -> None:
        """Replace the record of a volume that is gone."""
        ...


class HomeRecorder:
    """Writes the records that have changed."""

    def __init__(self, context: Context, records: HomeRecords) -> None:
        self._context, self._records = context, records
        self._digests: dict[str, str] | None = None

    async def record_all(self, should_continue: ShouldContinue) -> PassResult:
        """Write the record of each home that has changed, and mark those of homes that are gone."""
        try:
            if self._digests is None:
                self._digests = dict(await asyncio.to_thread(self._records.digests))
            return await self._pass(self._digests, should_continue)
        except Exception:
            # What was written is uncertain, so it is read again.
            self._digests = None
            raise

    async def _pass(self, digests: dict[str, str], should_continue: ShouldContinue) -> PassResult:
        failures: list[str] = []
        # Claims are read first: a workspace that is deleted in between has its record on the volume.
        claims = {
            row[0]: row[1]
            async for _, row in readable("SandboxClaim", self._context.api.list(CLAIMS), _claim, failures)
            if row is not None
        }
        existing: set[str] = set()
        steps, unreadable = 0, len(failures)
        volumes = self._context.api.list(VOLUMES, labels={USER_LABEL: None})

        def read(volume: Document) -> HomeRecord | None:
            return home_record(volume, claims.get(_workspace(volume)))

        async for _, record in readable("PersistentVolume", volumes, read, failures):
            if record is None:
                continue
            existing.add(record.volume)
            digest = digest_of(record)
            if digests.get(record.volume) != digest and steps < MOST and should_continue():
                await asyncio.to_thread(self._records.put, record)
                digests[record.volume] = digest
                steps += 1
        if len(failures) == unreadable:
            now = self._context.clock.now()
            for name in [name for name in digests if name not in existing][: MOST - steps]:
                await asyncio.to_thread(self._records.put_gone, name, now)
                del digests[name]
                steps += 1
        return PassResult(steps, steps >= MOST, tuple(failures))


def _claim(claim: Document) -> tuple[tuple[str, str], Document] | None:
    """Return the owner and the id of a claim's workspace, and the fields that a record has of it."""
    metadata = section(claim, "metadata")
    labels, annotations = section(metadata, "labels"), section(metadata, "annotations")
    owner, id_ = _workspace(claim)
    if not id_ or metadata.get("deletionTimestamp"):
        return None
    fields = {
        "labels": {key: value for key, value in labels.items() if key.startswith(OWN_LABEL)},
        "annotations": {key: annotations[key] for key in RECORD if key in annotations},
    }
    return (owner, id_), {"metadata": fields}


def _workspace(document: Document) -> tuple[str, str]:
    """Return the owner and the id of the workspace of a claim or a volume."""
    labels = section(section(document, "metadata"), "labels")
    return text(labels, USER_LABEL), text(labels, WORKSPACE_LABEL)
