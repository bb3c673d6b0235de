"""The inputs and outputs of an attribution: charges of a bill, warm time of pools, and entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Literal

HOUR = timedelta(hours=1)


# The owner of costs on days without owners. No owner has this name, because labels start with a letter or a digit.
NOBODY = "-"

# The kinds of charges. `nodes` are divided by the resources held, `storage` and `network` by bytes, `storage_io` by the
# time that homes were mounted (EFS does not report who read), `fixed` by presence.
Kind = Literal["nodes", "storage", "storage_io", "network", "fixed"]
KINDS: tuple[Kind, ...] = ("nodes", "storage", "storage_io", "network", "fixed")

# The parts of an owner's cost. The first three are metered, the others are shares of common costs.
Part = Literal["compute", "storage", "network", "storage_io", "idle", "pool", "fixed"]
PARTS: tuple[Part, ...] = ("compute", "storage", "network", "storage_io", "idle", "pool", "fixed")
METERED: tuple[Part, ...] = ("compute", "storage", "network")
SHARED: tuple[Part, ...] = ("storage_io", "idle", "pool", "fixed")

TITLES: Mapping[Part, str] = {
    "compute": "Compute held",
    "storage": "Files kept",
    "network": "Bytes moved",
    "storage_io": "File access",
    "idle": "Idle nodes",
    "pool": "Warm slots",
    "fixed": "Platform",
}
MEANINGS: Mapping[Part, str] = {
    "compute": "what was set aside or used on nodes while somebody had it, whichever was more",
    "storage": "the bytes of a home, asleep or not, scaled to what file systems and their backups are billed for",
    "network": "NAT, cross-zone and outgoing bytes, by each pod's own bytes",
    "storage_io": "reads and writes of files, by the time that homes were mounted: file systems do not say who read",
    "idle": "what nodes had room for and nobody held, by compute",
    "pool": "sandboxes that waited to be claimed, by compute held of their class",
    "fixed": "control plane, gateways, balancers, controllers, logs: in equal parts by days present",
}

# The weights of a node's price: a core weighs as much as nine gigabytes, as in AWS split cost allocation data.
CORE_WEIGHT, GIB_WEIGHT = 9, 1


def weight_hours(core_hours: Decimal, gib_hours: Decimal) -> Decimal:
    """Return core hours and memory hours as one weight."""
    return CORE_WEIGHT * core_hours + GIB_WEIGHT * gib_hours


@dataclass(frozen=True, kw_only=True, slots=True)
class Charge:
    """A line of a bill, for whole hours.

    For `nodes`, `group` is the node pool, `supply` the node, and `capacity` its weight-hours. The capacity is 0 if the
    billed resources are those held, as on Fargate, where nothing is idle.
    """

    kind: Kind
    began: datetime
    ended: datetime
    amount: Decimal
    group: str = ""
    supply: str = ""
    capacity: Decimal = Decimal(0)
    service: str = ""

    def __post_init__(self) -> None:
        """Reject invalid charges."""
        if self.began.tzinfo is None or self.ended <= self.began:
            raise ValueError("a charge must have an interval with a time zone")
        if any(
            (timestamp.minute, timestamp.second, timestamp.microsecond) != (0, 0, 0)
            for timestamp in (self.began, self.ended)
        ):
            raise ValueError(f"a charge must be for whole hours, and this one is from {self.began} to {self.ended}")
        if self.capacity < 0:
            raise ValueError("the capacity of a charge must not be negative")

    def hours(self) -> range:
        """Return the hours of the charge, counted from 1970."""
        return range(hour_of(self.began), hour_of(self.ended))


@dataclass(frozen=True, kw_only=True, slots=True)
class Warm:
    """The warm time of an unclaimed slot, which belongs to the pool."""

    pod: str
    sandbox_class: str
    began: datetime
    ended: datetime
    cpu_seconds: Decimal
    memory_gib_hours: Decimal


@dataclass(frozen=True, slots=True)
class Places:
    """The placement of pods: the node of a pod if known, and the node group of a class."""

    nodes: Mapping[str, str] = field(default_factory=dict[str, str])
    groups: Mapping[str, str] = field(default_factory=dict[str, str])

    def group(self, sandbox_class: str) -> str:
        """Return the node group of a class; an empty string, which is one for all, by default."""
        return self.groups.get(sandbox_class, "")


@dataclass(frozen=True, slots=True)
class Entry:
    """The key of a cost: owner, day (UTC), class (empty without one) and part."""

    owner: str
    day: str
    sandbox_class: str
    part: Part


def hour_of(timestamp: datetime) -> int:
    """Return the hour of a timestamp, counted from 1970."""
    return int(timestamp.timestamp()) // 3600


def day_of(hour: int) -> str:
    """Return the UTC day of an hour counted from 1970."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + hour * HOUR).strftime("%Y-%m-%d")
