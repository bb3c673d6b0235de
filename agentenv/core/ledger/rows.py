"""The rows of the ledger: who held which resources, from when to when, and how much was used.

A row is one interval of one claim in one state: with a pod, or suspended with its files only. Its key follows from
facts of the cluster (the claim, the pod, the start), so every replica writes the same row. Writing a row again does
not double it: amounts are those of the whole interval, and are replaced, not added. Intervals are divided at midnight
UTC, so a day and a month are sums of whole rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

from agentenv.core.values.timestamps import format_whole_seconds, parse_whole_second

# The pod of an interval without one: of a suspended workspace, or of retained data.
NO_POD = "-"
# The prefix of the claim in rows of retained data, before the name of the volume.
VOLUME_PREFIX = "volume:"

NOTHING = Decimal(0)
SECONDS_AN_HOUR = Decimal(3600)
BYTES_A_GIB = Decimal(2**30)
# Amounts have six decimal places: a microsecond of a core, a KiB for an hour.
_PLACES = Decimal("0.000001")

# The source of amounts. `requests`: the pod's requests. `prometheus`: for each minute the larger of its usage and its
# requests. Of storage, `metered` is the measured size and `requested` the size of the claim.
Usage = Literal["prometheus", "requests", "none"]
StorageUsage = Literal["metered", "requested", "none"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Amounts:
    """The amounts of an interval and their sources."""

    cpu_seconds: Decimal = NOTHING
    memory_gib_hours: Decimal = NOTHING
    network_bytes: Decimal = NOTHING
    storage_gib_hours: Decimal = NOTHING
    usage: Usage = "none"
    storage: StorageUsage = "none"

    @property
    def source(self) -> str:
        """Return both sources: of CPU, memory and network, and of storage."""
        return f"{self.usage}/{self.storage}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One interval of one claim. An open row has not ended yet."""

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
        """Raise `ValueError` for timestamps without a time zone, an end before the start, or a key with a #."""
        if self.began.tzinfo is None or self.ended.tzinfo is None:
            raise ValueError("the timestamps of a row must have a time zone")
        if self.ended < self.began:
            raise ValueError(f"a row ends at {self.ended}, before it began at {self.began}")
        if not self.owner or "#" in self.claim + self.pod:
            raise ValueError("a row must have an owner, and no # in the uids of its claim and pod")

    @property
    def sort_key(self) -> str:
        """Return the sort key of the row among those of its owner."""
        return f"{self.claim}#{self.pod}#{format_whole_seconds(self.began)}"

    @property
    def seconds(self) -> Decimal:
        """Return the length of the interval in seconds."""
        return seconds_between(self.began, self.ended)

    @property
    def day(self) -> str:
        """Return the UTC day of the whole interval."""
        return self.began.astimezone(UTC).strftime("%Y-%m-%d")

    @property
    def month(self) -> str:
        """Return the UTC month of the whole interval."""
        return self.day[:7]


def row_to_item(row: Row, expires: datetime | None = None) -> dict[str, Any]:
    """Return a row as an item of the table; after `expires` the table may delete it."""
    time_to_live = {} if expires is None else {"expires": int(expires.timestamp())}
    # Only open rows have the attribute, so its index only has open rows.
    open_marker = {} if row.closed else {"open": "1"}
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
        **open_marker,
        **time_to_live,
    }


def row_from_item(item: Mapping[str, Any]) -> Row:
    """Return the row of an item of the table."""
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
    """Return the next midnight in UTC."""
    day = when.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return day + timedelta(days=1)


def month_start(when: datetime) -> datetime:
    """Return the start of a timestamp's month in UTC."""
    return when.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def split_by_day(began: datetime, ended: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Yield the parts of an interval by UTC day; nothing if it is empty."""
    while began < ended:
        end = min(midnight_after(began), ended)
        yield began, end
        began = end


def seconds_between(began: datetime, ended: datetime) -> Decimal:
    """Return the seconds between two timestamps, exactly."""
    duration = ended - began
    return Decimal(duration.days * 86_400 + duration.seconds) + Decimal(duration.microseconds) / 1_000_000


def round_amount(amount: Decimal) -> Decimal:
    """Return an amount rounded to the decimal places of the table."""
    return amount.quantize(_PLACES).normalize() + NOTHING
