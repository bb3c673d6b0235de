"""The ledger: who held what from when to when, and what was used of it.

A row is one claim's one interval in one state: with a pod, or asleep and keeping its files only. Its key follows from
facts that the cluster keeps (the claim, the pod, when it began), so whoever writes it down writes the same row, and
writing it again doubles nothing: amounts are of the whole interval and are put there, never added. Intervals are cut at
midnight UTC, so that a day, and therefore a month, is a sum of whole rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

from agentenv.core.values.timestamps import format_whole_seconds, parse_whole_second

# The pod of an interval in which there was none: a workspace that sleeps, or whose deletion is kept.
NO_POD = "-"
# What stands where a claim does for data that outlived it: the volume it is on.
VOLUME_PREFIX = "volume:"

NOTHING = Decimal(0)
SECONDS_AN_HOUR = Decimal(3600)
BYTES_A_GIB = Decimal(2**30)
# Amounts have as many places as a store keeps and a bill can want: a microsecond of a core, a KiB for an hour.
_PLACES = Decimal("0.000001")

# Where the amounts come from. `requests` is what was set aside for it, which is what is paid for; `prometheus` is what
# it used or what was set aside, whichever is more, a minute at a time. Of storage, `metered` is what was found on it,
# `requested` the size that was asked for.
Usage = Literal["prometheus", "requests", "none"]
StorageUsage = Literal["metered", "requested", "none"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Amounts:
    """What an interval used, and where that is known from."""

    cpu_seconds: Decimal = NOTHING
    memory_gib_hours: Decimal = NOTHING
    network_bytes: Decimal = NOTHING
    storage_gib_hours: Decimal = NOTHING
    usage: Usage = "none"
    storage: StorageUsage = "none"

    @property
    def source(self) -> str:
        """Both, in a word: the first is of processor, memory and network, the second of storage."""
        return f"{self.usage}/{self.storage}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One claim, one interval. An open row is the one that still grows."""

    owner: str
    claim: str  # its uid
    pod: str  # its uid, or NO_POD
    began: datetime
    ended: datetime
    sandbox_class: str
    workspace: str
    mode: str = "user"
    task: str = ""
    cpu_seconds: Decimal = NOTHING
    memory_gib_hours: Decimal = NOTHING
    network_bytes: Decimal = NOTHING
    storage_gib_hours: Decimal = NOTHING
    source: str = "none/none"
    closed: bool = False

    def __post_init__(self) -> None:
        """Refuse what can be no row: a moment without a zone, an end before its beginning, a part with a # in it."""
        if self.began.tzinfo is None or self.ended.tzinfo is None:
            raise ValueError("a row's moments have a time zone")
        if self.ended < self.began:
            raise ValueError(f"a row ends at {self.ended}, before it began at {self.began}")
        if not self.owner or "#" in self.claim + self.pod:
            raise ValueError("a row has an owner, and no # in the uids of its claim and pod")

    @property
    def sort_key(self) -> str:
        """Which of its owner's rows it is."""
        return f"{self.claim}#{self.pod}#{format_whole_seconds(self.began)}"

    @property
    def seconds(self) -> Decimal:
        """How long it is."""
        return seconds_between(self.began, self.ended)

    @property
    def day(self) -> str:
        """The day, in UTC, of which all of it is."""
        return self.began.astimezone(UTC).strftime("%Y-%m-%d")

    @property
    def month(self) -> str:
        """The month, in UTC, of which all of it is."""
        return self.day[:7]


def row_to_item(row: Row, expires: datetime | None = None) -> dict[str, Any]:
    """A row as the table has it; `expires` is when the table may forget it."""
    kept = {} if expires is None else {"expires": int(expires.timestamp())}
    # Of open rows only: an index by it holds those alone.
    still = {} if row.closed else {"open": "1"}
    return {
        "owner": row.owner,
        "row": row.sort_key,
        "claim": row.claim,
        "pod": row.pod,
        "from": format_whole_seconds(row.began),
        "to": format_whole_seconds(row.ended),
        "class": row.sandbox_class,
        "workspace": row.workspace,
        "mode": row.mode,
        "task": row.task,
        "cpu_seconds": row.cpu_seconds,
        "memory_gib_hours": row.memory_gib_hours,
        "network_bytes": row.network_bytes,
        "storage_gib_hours": row.storage_gib_hours,
        "source": row.source,
        "closed": row.closed,
        **still,
        **kept,
    }


def row_from_item(item: Mapping[str, Any]) -> Row:
    """The row that an item of the table is."""
    return Row(
        owner=str(item["owner"]),
        claim=str(item["claim"]),
        pod=str(item["pod"]),
        began=parse_whole_second(str(item["from"])),
        ended=parse_whole_second(str(item["to"])),
        sandbox_class=str(item["class"]),
        workspace=str(item["workspace"]),
        mode=str(item["mode"]),
        task=str(item.get("task", "")),
        cpu_seconds=Decimal(item["cpu_seconds"]),
        memory_gib_hours=Decimal(item["memory_gib_hours"]),
        network_bytes=Decimal(item["network_bytes"]),
        storage_gib_hours=Decimal(item["storage_gib_hours"]),
        source=str(item["source"]),
        closed=bool(item["closed"]),
    )


def midnight_after(when: datetime) -> datetime:
    """The first midnight, in UTC, that is later."""
    day = when.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return day + timedelta(days=1)


def month_start(when: datetime) -> datetime:
    """When the month that a moment is in began, in UTC."""
    return when.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def split_by_day(began: datetime, ended: datetime) -> Iterator[tuple[datetime, datetime]]:
    """An interval as its days; nothing where it is none."""
    while began < ended:
        end = min(midnight_after(began), ended)
        yield began, end
        began = end


def seconds_between(began: datetime, ended: datetime) -> Decimal:
    """How many seconds, exactly."""
    between = ended - began
    return Decimal(between.days * 86_400 + between.seconds) + Decimal(between.microseconds) / 1_000_000


def round_amount(amount: Decimal) -> Decimal:
    """An amount with the places that the table keeps."""
    return amount.quantize(_PLACES).normalize() + NOTHING
