"""The rows of the ledger that follow from the current objects of the cluster.

These functions keep no state: the same objects and the same open rows give the same rows. So a replica continues after
another one was killed, and two at the same time write the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from agentenv.core.ledger.rows import NO_POD, NOTHING, VOLUME_PREFIX, Row, seconds_between, split_by_day
from agentenv.core.lifecycle.clock_skew import SKEW

# The objects of a row may only not be listed yet. After this time without them it has ended.
SETTLE_TIME = timedelta(minutes=1)
# The interval at which open rows are updated, which bounds what a crash loses together with the cluster's objects.
# Suspended workspaces cost little, so their rows are updated less often.
UPDATE_INTERVAL = timedelta(minutes=5)
SUSPENDED_UPDATE_INTERVAL = timedelta(hours=6)


@dataclass(frozen=True, slots=True)
class EarlierRequests:
    """The resources that a pod requested until it was resized."""

    until: datetime
    cores: Decimal
    memory_gib: Decimal


@dataclass(frozen=True, kw_only=True, slots=True)
class Pod:
    """A pod of a claim, from when it was scheduled to a node."""

    uid: str
    began: datetime
    ended: datetime | None = None
    cores: Decimal = NOTHING  # its CPU request
    memory_gib: Decimal = NOTHING
    earlier: tuple[EarlierRequests, ...] = ()  # by time

    def requested(self, began: datetime, ended: datetime) -> tuple[Decimal, Decimal]:
        """Return the CPU-seconds and GiB-seconds that it requested in an interval."""
        cpu, memory = NOTHING, NOTHING
        for row in (*self.earlier, EarlierRequests(ended, self.cores, self.memory_gib)):
            end = min(max(row.until, began), ended)
            seconds = seconds_between(began, end)
            cpu, memory, began = cpu + row.cores * seconds, memory + row.memory_gib * seconds, end
        return cpu, memory


@dataclass(frozen=True, kw_only=True, slots=True)
class Holding:
    """The resources of one claim. Since `asleep_since` it has no pod and only its files."""

    owner: str
    claim: str
    sandbox_class: str
    workspace: str
    since: datetime
    mode: str = "user"
    task: str = ""
    pods: tuple[Pod, ...] = ()
    asleep_since: datetime | None = None
    ended: datetime | None = None
    storage_gib: Decimal = NOTHING  # requested
    measured_gib: Decimal | None = None  # as metered, once it was
    volume: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """A row to write, without amounts yet. Its holding and pod are None if they no longer exist."""

    row: Row
    holding: Holding | None
    pod: Pod | None
    before: Row | None  # as it was last written


def spans(
    holdings: Iterable[Holding], still_open: Iterable[Row], now: datetime, seen: Mapping[str, datetime] | None = None
) -> list[Span]:
    """Return all rows that the table must have by now.

    `still_open` must be read before the holdings: a row of a claim that is created in between would look abandoned.
    `seen` has when the pod of a row was last seen, by the row's sort key, which may be later than the row's end.
    """
    seen = seen or {}
    unclaimed = {(row.claim, row.pod): row for row in sorted(still_open, key=lambda row: row.began)}
    by_claim: dict[str, Holding] = {}
    rows: list[Span] = []
    for holding in holdings:
        by_claim[holding.claim] = holding
        for pod, began, ended in _intervals(holding):
            before = unclaimed.pop((holding.claim, pod.uid if pod else NO_POD), None)
            rows += _daily_spans(holding, pod, before, (before.began if before else began, ended), now)
    deleted = {
        (holding.owner, holding.workspace): holding.since for holding in by_claim.values() if _is_retained_data(holding)
    }
    for row in unclaimed.values():
        last = max(row.ended, seen.get(row.sort_key, row.ended))
        holding = by_claim.get(row.claim)
        deleted_at = deleted.get((row.owner, row.workspace))
        end = _end_of(row, holding, last) if holding is not None else None
        if end is None and deleted_at is not None and deleted_at >= row.began:
            end = deleted_at
        if end is None:
            # Objects are read one after the other: a pod may be gone before its claim is read as being deleted.
            if now - last < SETTLE_TIME:
                continue
            end = last
        if end - now > SKEW:
            # The clock that wrote it is wrong. A row never becomes shorter.
            end = min(end, max(now, row.ended))
        rows += _close_abandoned(row, end)
    return rows


def is_worth_writing(span: Span, now: datetime) -> bool:
    """Return whether to write a row: it is new, it ended, or its last update is old enough."""
    before = span.before
    if before is None or span.row.closed or before.sort_key != span.row.sort_key:
        return True
    return now - before.ended >= (SUSPENDED_UPDATE_INTERVAL if span.row.pod == NO_POD else UPDATE_INTERVAL)


def _intervals(holding: Holding) -> Iterator[tuple[Pod | None, datetime, datetime | None]]:
    """Yield the intervals of a holding: one per pod, and one without a pod. An end of None is in the future."""
    for pod in holding.pods:
        end = pod.ended if holding.ended is None else min(pod.ended or holding.ended, holding.ended)
        yield pod, max(holding.since, pod.began), end
    if holding.asleep_since is not None and all(pod.ended is not None for pod in holding.pods):
        yield None, max(holding.since, holding.asleep_since), holding.ended


def _is_retained_data(holding: Holding) -> bool:
    """Return whether a holding is the retained data of a deleted workspace; it then has the time of the deletion."""
    return holding.claim.startswith(VOLUME_PREFIX)


def _daily_spans(
    holding: Holding, pod: Pod | None, before: Row | None, interval: tuple[datetime, datetime | None], now: datetime
) -> Iterator[Span]:
    """Yield an interval as one row per day; the last one is open while there is no end."""
    began, ended = interval
    over = ended is not None and ended <= now
    until = ended if ended is not None and over else now
    if before is not None:
        # A row never becomes shorter because of a clock that is behind, only because of a known end.
        until = max(until, before.began if over else before.ended)
    blank = Row(
        owner=holding.owner,
        claim=holding.claim,
        pod=pod.uid if pod else NO_POD,
        began=began,
        ended=began,
        sandbox_class=holding.sandbox_class,
        workspace=holding.workspace,
        mode=holding.mode,
        task=holding.task,
    )
    days = [*split_by_day(began, until)]
    if not days and before is not None and over:
        days = [(began, began)]
    for start, end in days:
        row = replace(blank, began=start, ended=end, closed=end != until or over or _midnight(end))
        yield Span(row, holding, pod, before if start == began else None)


def _close_abandoned(row: Row, end: datetime) -> Iterator[Span]:
    """Yield the closed rows of a pod or claim that no longer exists."""
    for start, stop in [*split_by_day(row.began, end)] or [(row.began, row.began)]:
        ended = replace(row, began=start, ended=stop, closed=True)
        yield Span(ended, None, None, row if start == row.began else None)


def _end_of(row: Row, holding: Holding, last: datetime) -> datetime | None:
    """Return when a row of an existing claim ended, from what the claim holds now; None if that is unknown."""
    later = min((pod.began for pod in holding.pods if pod.began >= row.began), default=None)
    if row.pod == NO_POD:
        # A suspended interval lasts until the next pod, whether or not it was seen.
        return later or (max(row.began, holding.ended) if holding.ended is not None else None)
    asleep = holding.asleep_since
    if asleep is not None and asleep >= row.began and (later is None or asleep <= later):
        return asleep
    if later is not None:
        return min(last, later)
    return max(row.began, holding.ended) if holding.ended is not None else None


def _midnight(when: datetime) -> bool:
    return (when.hour, when.minute, when.second) == (0, 0, 0)
