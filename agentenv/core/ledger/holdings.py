"""What somebody holds at the moment, by the cluster's own facts, and which rows of the ledger follow from it.

Nothing here remembers: the same facts and the same open rows give the same rows again, so whoever was killed is made up
for by the next, and two who do it at once write the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from agentenv.core.ledger.rows import NO_POD, NOTHING, VOLUME_PREFIX, Row, split_by_day
from agentenv.core.lifecycle.clock_skew import SKEW

# A row whose facts are missing was perhaps only not listed yet. After this long it has surely ended.
SETTLE_TIME = timedelta(minutes=1)
# How often a row that grows is written down: what is lost to a crash together with the facts is no more than this. What
# sleeps costs little, and is not worth more writes.
UPDATE_INTERVAL = timedelta(minutes=5)
SUSPENDED_UPDATE_INTERVAL = timedelta(hours=6)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pod:
    """A pod that somebody held or holds, from when it had a place on a node."""

    uid: str
    began: datetime
    ended: datetime | None = None
    cores: Decimal = NOTHING  # set aside for it
    memory_gib: Decimal = NOTHING


@dataclass(frozen=True, kw_only=True, slots=True)
class Holding:
    """What one claim holds. `asleep_since` says since when it has no pod and keeps its files only."""

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
    storage_gib: Decimal = NOTHING  # that were asked for
    measured_gib: Decimal | None = None  # that were found on it, once somebody has looked
    volume: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """A row to be written, still without amounts, and what they are of. Without a holding only the row is left."""

    row: Row
    holding: Holding | None
    pod: Pod | None
    before: Row | None  # as it was written last


def spans(
    holdings: Iterable[Holding], still_open: Iterable[Row], now: datetime, seen: Mapping[str, datetime] | None = None
) -> list[Span]:
    """All rows that there have to be by now.

    `still_open` has to be read before the holdings: a row of a claim that was made in between would look abandoned.
    `seen` is when each row's pod was last seen, by its sort key, where anybody remembers: it is later than what was
    written down.
    """
    seen = seen or {}
    unclaimed = {(row.claim, row.pod): row for row in sorted(still_open, key=lambda row: row.began)}
    by_claim: dict[str, Holding] = {}
    found: list[Span] = []
    for holding in holdings:
        by_claim[holding.claim] = holding
        for pod, began, ended in _intervals(holding):
            before = unclaimed.pop((holding.claim, pod.uid if pod else NO_POD), None)
            found += _daily_spans(holding, pod, before, (before.began if before else began, ended), now)
    deleted = {(one.owner, one.workspace): one.since for one in by_claim.values() if _is_retained_data(one)}
    for row in unclaimed.values():
        last = max(row.ended, seen.get(row.sort_key, row.ended))
        holding = by_claim.get(row.claim)
        known = deleted.get((row.owner, row.workspace))
        end = _end_of(row, holding, last) if holding is not None else None
        if end is None and known is not None and known >= row.began:
            end = known
        if end is None:
            # Objects are read one after the other: a pod may be gone before its claim is read as being deleted.
            if now - last < SETTLE_TIME:
                continue
            end = last
        if end - now > SKEW:
            # By a clock that nobody can go by. What was written already stays.
            end = min(end, max(now, row.ended))
        found += _close_abandoned(row, end)
    return found


def is_worth_writing(span: Span, now: datetime) -> bool:
    """Whether a row has something new to say: it is new, it ended, or it grew for long enough."""
    before = span.before
    if before is None or span.row.closed or before.sort_key != span.row.sort_key:
        return True
    return now - before.ended >= (SUSPENDED_UPDATE_INTERVAL if span.row.pod == NO_POD else UPDATE_INTERVAL)


def _intervals(holding: Holding) -> Iterator[tuple[Pod | None, datetime, datetime | None]]:
    """What it held: each pod from when it was its own, and the time without one; an end of None is yet to come."""
    for pod in holding.pods:
        end = pod.ended if holding.ended is None else min(pod.ended or holding.ended, holding.ended)
        yield pod, max(holding.since, pod.began), end
    if holding.asleep_since is not None and all(pod.ended is not None for pod in holding.pods):
        yield None, max(holding.since, holding.asleep_since), holding.ended


def _is_retained_data(holding: Holding) -> bool:
    """Whether it is the data of a workspace that was deleted: it says when that was."""
    return holding.claim.startswith(VOLUME_PREFIX)


def _daily_spans(
    holding: Holding, pod: Pod | None, before: Row | None, interval: tuple[datetime, datetime | None], now: datetime
) -> Iterator[Span]:
    """An interval as a row a day; the last one is open while there is no end."""
    began, ended = interval
    over = ended is not None and ended <= now
    until = ended if ended is not None and over else now
    if before is not None:
        # What was written stays: a clock that is behind takes nothing back. Only a known end does.
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
    """A row whose pod, or whose claim, is there no more."""
    for start, stop in [*split_by_day(row.began, end)] or [(row.began, row.began)]:
        ended = replace(row, began=start, ended=stop, closed=True)
        yield Span(ended, None, None, row if start == row.began else None)


def _end_of(row: Row, holding: Holding, last: datetime) -> datetime | None:
    """Return when a row of an existing claim ended, from the claim's other facts; None where they do not tell."""
    later = min((pod.began for pod in holding.pods if pod.began >= row.began), default=None)
    if row.pod == NO_POD:
        # What sleeps does so until its next pod, whether or not anybody looked.
        return later or (max(row.began, holding.ended) if holding.ended is not None else None)
    asleep = holding.asleep_since
    if asleep is not None and asleep >= row.began and (later is None or asleep <= later):
        return asleep
    if later is not None:
        return min(last, later)
    return max(row.began, holding.ended) if holding.ended is not None else None


def _midnight(when: datetime) -> bool:
    return (when.hour, when.minute, when.second) == (0, 0, 0)
