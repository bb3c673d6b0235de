"""Determine the usage of an interval: from Prometheus where it has samples of it, otherwise from the pod's requests.

Amounts are always of the whole row. So any pass can determine them again, and nothing is counted twice.
"""

from __future__ import annotations

import json
import logging
import math
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, Protocol

from agentenv.core.ledger.holdings import Holding, Span
from agentenv.core.ledger.rows import (
    BYTES_A_GIB,
    NO_POD,
    NOTHING,
    SECONDS_AN_HOUR,
    Amounts,
    Row,
    StorageUsage,
    Usage,
    round_amount,
)

_LOG = logging.getLogger(__name__)

# The recording rules of the cluster, one sample a minute. A claim has one pod at a time, so the time tells them apart.
CPU, MEMORY, NETWORK = (
    "sandbox:owner_cpu_seconds:rate1m",
    "sandbox:owner_memory_bytes:avg1m",
    "sandbox:owner_network_bytes:rate1m",
)
SECONDS_A_SAMPLE = Decimal(60)
# The share of a row's minutes that needs samples; below it, the pod's requests are closer to the truth.
MIN_COVERAGE = Decimal("0.9")
# Shorter rows may fall between two samples.
SHORTEST_SECONDS = Decimal(180)
# Less than the deadline of the ledger's calls, which may contain a query: a Prometheus that hangs is no failed ledger.
TIMEOUT_SECONDS = 5.0
# A Prometheus that fails, or takes this long for a row, is not queried for a while: a pass has many rows, and a
# deletion waits for the last one. Rows of that time are written from requests.
SLOW_SECONDS, REST_SECONDS = 2.0, 60.0
_UID = re.compile(r"[0-9a-zA-Z-]{1,64}")


class UsageSource(Protocol):
    """A source of measured usage."""

    def used(self, row: Row) -> tuple[Decimal, Decimal, Decimal] | None:
        """Return a row's CPU-seconds, byte-seconds of memory and network bytes; None where samples are missing."""
        ...


class Meter:
    """Adds the amounts to rows."""

    def __init__(self, source: UsageSource | None = None) -> None:
        self._source = source

    def row(self, span: Span) -> Row:
        """Return the row of a span with its amounts."""
        amounts = self._amounts(span) if span.holding is not None else self._last_known(span)
        return replace(
            span.row,
            cpu_seconds=round_amount(amounts.cpu_seconds),
            memory_gib_hours=round_amount(amounts.memory_gib_hours),
            network_bytes=round_amount(amounts.network_bytes),
            storage_gib_hours=round_amount(amounts.storage_gib_hours),
            source=amounts.source,
        )

    def _amounts(self, span: Span) -> Amounts:
        row, holding, pod = span.row, span.holding, span.pod
        hours = row.seconds / SECONDS_AN_HOUR
        gib, storage = _storage(holding) if holding else (NOTHING, "none")
        storage_only = Amounts(storage_gib_hours=gib * hours, storage=storage)
        if pod is None:
            return storage_only
        usage = self._used(row)
        cpu, memory = pod.requested(row.began, row.ended)
        reserved = replace(storage_only, cpu_seconds=cpu, memory_gib_hours=memory / SECONDS_AN_HOUR, usage="requests")
        return reserved if usage is None else _larger_of(reserved, *usage)

    def _last_known(self, span: Span) -> Amounts:
        """Return the amounts of a row whose pod is gone: in proportion to its last version, or as measured."""
        before = span.before or span.row
        factor = span.row.seconds / before.seconds if before.seconds else NOTHING
        usage, _, storage = before.source.partition("/")
        reserved = Amounts(
            cpu_seconds=before.cpu_seconds * factor,
            memory_gib_hours=before.memory_gib_hours * factor,
            network_bytes=before.network_bytes * factor,
            storage_gib_hours=before.storage_gib_hours * factor,
            usage=_USAGES.get(usage, "none"),
            storage=_STORAGES.get(storage, "none"),
        )
        measured = None if span.row.pod == NO_POD else self._used(span.row)
        return reserved if measured is None else _larger_of(reserved, *measured)

    def _used(self, row: Row) -> tuple[Decimal, Decimal, Decimal] | None:
        if self._source is None or row.seconds < SHORTEST_SECONDS:
            return None
        return self._source.used(row)


class Prometheus:
    """A Prometheus with the cluster's recording rules."""

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        if urllib.parse.urlsplit(url).scheme not in {"http", "https"}:
            raise ValueError(f"{url} is not the URL of a Prometheus")
        self._url = f"{url.rstrip('/')}/api/v1/query"
        self._clock = clock
        self._paused_until = -math.inf

    def used(self, row: Row) -> tuple[Decimal, Decimal, Decimal] | None:
        """Return what the rules recorded for a row; None where samples are missing, or it does not answer."""
        began = self._clock()
        if began < self._paused_until or not _UID.fullmatch(row.claim):
            return None
        try:
            return self._used(row)
        except (OSError, HTTPException, ValueError, LookupError, TypeError, ArithmeticError) as failure:
            _LOG.warning("usage cannot be read from Prometheus", extra={"facts": {"why": str(failure)}})
            if _is_outage(failure):
                self._pause()
            return None
        finally:
            if self._clock() - began > SLOW_SECONDS:
                self._pause()

    def _pause(self) -> None:
        self._paused_until = self._clock() + REST_SECONDS

    def _used(self, row: Row) -> tuple[Decimal, Decimal, Decimal] | None:
        window = f'{{claim_uid="{row.claim}"}}[{int(row.seconds)}s]'
        samples = self._query(f"count_over_time({CPU}{window})", row)
        if samples * SECONDS_A_SAMPLE < row.seconds * MIN_COVERAGE:
            return None
        # Missing minutes count like the others.
        seconds_a_sample = row.seconds / samples
        cpu, memory, network = (
            self._query(f"sum_over_time({name}{window})", row) * seconds_a_sample for name in (CPU, MEMORY, NETWORK)
        )
        return cpu, memory, network

    def _query(self, query: str, row: Row) -> Decimal:
        """Return the value of a query at the end of a row."""
        parameters = urllib.parse.urlencode({"query": query, "time": int(row.ended.timestamp())})
        # Prometheus is in the cluster, so the proxies of the environment are ignored.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self._url}?{parameters}", timeout=TIMEOUT_SECONDS) as response:
            document: dict[str, Any] = json.load(response)
        result: list[dict[str, Any]] = document["data"]["result"]
        total = sum((Decimal(series["value"][1]) for series in result), NOTHING)
        if not total.is_finite() or total < 0:
            raise ValueError(f"{total} is not an amount")
        return total


def _is_outage(failure: Exception) -> bool:
    """Return whether a failure is an outage, not an error of the query."""
    if isinstance(failure, urllib.error.HTTPError):
        return failure.code >= HTTPStatus.INTERNAL_SERVER_ERROR
    return isinstance(failure, (OSError, HTTPException))


def _storage(holding: Holding) -> tuple[Decimal, StorageUsage]:
    if not holding.volume:
        return NOTHING, "none"
    measured = holding.measured_gib
    return (holding.storage_gib, "requested") if measured is None else (measured, "metered")


def _larger_of(reserved: Amounts, cpu: Decimal, memory: Decimal, network: Decimal) -> Amounts:
    """Return the larger of requested and measured amounts: both reserve capacity that is paid for."""
    return replace(
        reserved,
        cpu_seconds=max(reserved.cpu_seconds, cpu),
        memory_gib_hours=max(reserved.memory_gib_hours, memory / BYTES_A_GIB / SECONDS_AN_HOUR),
        network_bytes=network,
        usage="prometheus",
    )


_USAGES: dict[str, Usage] = {"prometheus": "prometheus", "requests": "requests", "none": "none"}
_STORAGES: dict[str, StorageUsage] = {"metered": "metered", "requested": "requested", "none": "none"}
