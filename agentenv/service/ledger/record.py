"""Record the ledger: a pass reads who holds what, and writes every row that follows from it.

A pass may be killed anywhere, or run twice at once. When each pod was last seen is kept in memory: it only makes the
end of a vanished pod more exact. Without it, the last written row counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.ledger.holdings import Span, is_worth_writing, spans
from agentenv.core.ledger.rows import Row
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.aws import clients as aws
from agentenv.service.kube.client import (
    CLAIMS,
    PODS,
    SANDBOXES,
    VOLUME_CLAIMS,
    VOLUMES,
    KubeApi,
    KubeApiError,
    section,
)
from agentenv.service.ledger.read_holdings import ListedObjects, holdings, home_of
from agentenv.service.ledger.table import Ledger, LedgerError
from agentenv.service.ledger.usage import Meter
from agentenv.service.telemetry.metrics import Metrics

_LOG = logging.getLogger(__name__)

# Reading ten thousand workspaces takes seconds, and the facts stay until they are read.
RECORD_EVERY = timedelta(minutes=10)
# Errors of a single row: its amounts, an existing row, or a refusal of the table.
_ROW_ERRORS = (aws.AwsRefusedError, LedgerError, ArithmeticError, LookupError, TypeError, ValueError)


@dataclass(frozen=True)
class RecordPass:
    """The result of a pass."""

    holdings: int
    due: int  # rows with news
    rows_written: int
    rows: tuple[Row, ...]  # as they are now
    failures: tuple[str, ...] = ()  # of single rows; the pass continued with the others


class LedgerRecorder:
    """Records the ledger of one cluster."""

    def __init__(
        self,
        cluster: KubeApi,
        ledger: Ledger,
        meter: Meter,
        listing: Callable[[], ListedObjects] | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        """`listing` returns the objects from a cache that is watched already; by default they are listed anew."""
        self._metrics = metrics
        self._cluster = cluster
        self._ledger = ledger
        self._meter = meter
        self._listing = listing or (lambda: listed(cluster))
        self._seen: dict[str, datetime] = {}

    async def record_all(self) -> RecordPass:
        """Write every row that is due."""
        # First, so that the row of a claim created meanwhile does not look like the row of an ended one.
        still_open = await asyncio.to_thread(self._ledger.open_rows)
        current = await holdings(self._listing())
        now = self._ledger.now()
        row_spans = spans(current, still_open, now, self._seen)
        self._seen = {span.row.sort_key: span.row.ended for span in row_spans if not span.row.closed}
        return await asyncio.to_thread(self._write, row_spans, now, len(current))

    async def settle(self, namespace: str, name: str) -> RecordPass | None:
        """Write the rows of one claim as of now, before it is deleted; return None where that fails.

        It only makes the last row exact: otherwise the next pass writes it. So the deletion does not depend on it.
        """
        result, reason = None, ""
        try:
            result = await self._settle(namespace, name)
            reason = "; ".join(result.failures)
        except (aws.AwsUnavailableError, KubeApiError, *_ROW_ERRORS) as failure:
            reason = str(failure)
        if reason:
            facts = {"workspace": name, "why": reason}
            _LOG.warning("a workspace's usage is recorded by the next pass", extra={"facts": facts})
        return result

    async def settle_workspace(self, workspace: Workspace) -> None:
        """Write the rows of a workspace's claim."""
        await self.settle(workspace.namespace, workspace.id)

    async def _settle(self, namespace: str, name: str) -> RecordPass:
        current = await holdings(await self._objects_of(namespace, name))
        still_open = [
            row
            for holding in current
            for row in await self._ledger.calls.run(self._ledger.of_claim, holding.owner, holding.claim)
            if not row.closed
        ]
        now = await self._ledger.calls.run(self._ledger.now)
        rows = spans(current, still_open, now)
        return await self._ledger.calls.run(self._write, rows, now, len(current), everything=True)

    async def _objects_of(self, namespace: str, name: str) -> ListedObjects:
        """Return the objects that the rows of one claim follow from."""
        find = self._cluster.find
        claim = await find(CLAIMS, name, namespace)
        sandbox_name = section(section(claim or {}, "status"), "sandbox").get("name")
        sandbox = await find(SANDBOXES, sandbox_name, namespace) if sandbox_name else None
        pod = await find(PODS, sandbox_name, namespace) if sandbox_name else None
        home = await find(VOLUME_CLAIMS, home_of(sandbox), namespace) if sandbox else None
        bound = section(home or {}, "spec").get("volumeName")
        volume = await find(VOLUMES, bound) if bound else None
        return ListedObjects(*([document] if document else [] for document in (claim, sandbox, pod, home, volume)))

    def _write(self, row_spans: Iterable[Span], now: datetime, count: int, *, everything: bool = False) -> RecordPass:
        due = [span for span in row_spans if everything or is_worth_writing(span, now)]
        written_rows = 0
        rows: list[Row] = []
        failures: list[str] = []
        for span in due:
            try:
                result = self._ledger.put(self._meter.row(span), lambda row, span=span: self._with_amounts(span, row))
            except _ROW_ERRORS as failure:
                failures.append(f"{span.row.owner} {span.row.sort_key}: {type(failure).__name__}: {failure}")
                continue
            written_rows += result.rows_written
            if self._metrics is not None and result.rows_written:
                self._metrics.ledger_rows(result.rows_written)
            rows.append(result.row)
        return RecordPass(count, len(due), written_rows, tuple(rows), tuple(failures))

    def _with_amounts(self, span: Span, row: Row) -> Row:
        return self._meter.row(replace(span, row=row))


def listed(cluster: KubeApi) -> ListedObjects:
    """List the objects that the ledger follows from; an error ends the pass, as a missing object would end its rows."""
    class_labels: dict[str, str | None] = {CLASS_LABEL: None}
    return ListedObjects(
        claims=cluster.list(CLAIMS),
        sandboxes=cluster.list(SANDBOXES),
        pods=cluster.list(PODS, labels=class_labels),
        volume_claims=cluster.list(VOLUME_CLAIMS),
        volumes=cluster.list(VOLUMES),
    )
