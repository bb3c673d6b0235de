"""The assumptions of an estimate: values that are not settings, each with its unit and description.

They are printed with every estimate, and each can be overridden.
"""

# ruff: noqa: RUF009 - `taken` makes a dataclass field, which the linter cannot see

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

Kind = Literal["share", "GB", "GB an hour", "an hour", "hours", "GB a month", "factor", "days", "GB each", "a month"]


def taken(value: str, kind: Kind, words: str) -> Any:
    """Return a dataclass field with its unit and description."""
    return field(default=Decimal(value), metadata={"kind": kind, "says": words})


@dataclass(frozen=True)
class Assumption:
    """An assumption, as it is printed."""

    name: str
    value: Decimal
    kind: str
    meaning: str


@dataclass(frozen=True)
class Assumptions:
    """All assumptions of an estimate."""

    spot_discount: Decimal = taken(
        "0.60", "share", "discount of Spot against on-demand, where the price book has no Spot price"
    )
    spot_share: Decimal = taken("0.90", "share", "of the time in which capacity `both` gets Spot")
    node_fill: Decimal = taken(
        "0.70", "share", "average utilization of nodes: sandboxes start and end, and claimed ones are not moved"
    )
    node_life: Decimal = taken("12", "hours", "lifetime of a node with sandboxes")
    sandbox_image: Decimal = taken("1.2", "GB each", "size of a sandbox image, which each new node pulls")
    platform_images: Decimal = taken(
        "0.3", "GB each", "size of other images from outside of ECR, which each new node pulls"
    )
    runtime: Decimal = taken(
        "0.5", "GB each", "size of a runtime for one processor in the stack's bucket; gVisor has 0.13"
    )
    home: Decimal = taken("2", "GB", "size of a user's home, which is billed while suspended, too")
    half_touched: Decimal = taken(
        "14", "days", "period in which half of a home is accessed; decides what moves to colder storage classes"
    )
    padding: Decimal = taken(
        "2", "factor", "growth of small files in colder storage classes, which bill 128 KiB at least for each"
    )
    tiered: Decimal = taken("0.2", "share", "of a home that moves to or from a colder storage class in a month")
    backup_growth: Decimal = taken("1.5", "factor", "size of 35 days of incremental backups against the home")
    reads: Decimal = taken("0.04", "GB an hour", "read from a home while active, without what is cached")
    writes: Decimal = taken("0.015", "GB an hour", "written to a home while active")
    metadata: Decimal = taken(
        "0.015", "GB an hour", "metadata of a home while active: one operation a second, each billed as 4 KiB"
    )
    larger: Decimal = taken(
        "0.2", "share", "of active hours that a workspace of a class with sizes spends in the largest one"
    )
    seat_hours: Decimal = taken("160", "hours", "active hours of a declared seat in a month")
    passing: Decimal = taken("2", "hours", "a day in which jobs and rolling updates need one more system node")
    downloads: Decimal = taken("0.02", "GB an hour", "downloaded from the internet while active")
    uploads: Decimal = taken("0.004", "GB an hour", "uploaded to the internet while active")
    starts: Decimal = taken("0.5", "an hour", "claims and resumes while active: a session lasts two hours")
    start_logs: Decimal = taken("0.0004", "GB each", "audit log of the API server for a claim or resume")
    cluster_logs: Decimal = taken(
        "12", "GB a month", "logs of the control plane without any user; nine tenths are renewed leases"
    )
    pod_logs: Decimal = taken("0.1", "GB a month", "logs of a controller on Fargate")
    flows: Decimal = taken(
        "3", "GB a month", "flow logs without any user, if all traffic is recorded: one record a minute for each flow"
    )
    user_flows: Decimal = taken("0.0007", "GB an hour", "flow logs of an active user, if all traffic is recorded")
    rejected_flows: Decimal = taken("0.05", "share", "of traffic that is rejected")
    compression: Decimal = taken("0.15", "share", "compressed size of logs in CloudWatch")
    ledger_writes: Decimal = taken("180", "an hour", "writes to the ledger while active, with its indexes")
    exported: Decimal = taken("0.05", "GB a month", "exported cost and usage data, which is queried twice a day")

    def rows(self) -> list[Assumption]:
        """Return all assumptions, as they are printed."""
        return [
            Assumption(
                assumption.name.replace("_", "-"),
                getattr(self, assumption.name),
                assumption.metadata["kind"],
                assumption.metadata["says"],
            )
            for assumption in fields(self)
        ]

    def but(self, overrides: Mapping[str, str]) -> Assumptions:
        """Return a copy with some values overridden, by their printed names; raise `ValueError` for invalid ones."""
        kinds = {row.name: row.kind for row in self.rows()}
        changed: dict[str, Any] = {}
        for name, text in overrides.items():
            if name not in kinds:
                raise ValueError(f"there is no assumption '{name}'; there are {', '.join(kinds)}")
            try:
                value = Decimal(text)
            except InvalidOperation:
                raise ValueError(f"{name} is '{text}', which is no number") from None
            if value == 0 and name in DIVISORS:
                raise ValueError(f"{name} is 0; nothing can be divided by it")
            least, most = bounds(name, kinds[name])
            if not value.is_finite() or not least <= value <= most:
                allowed = f"nothing below {least} and {most} at most" if most == MOST else f"{least} to {most}"
                raise ValueError(f"{name} is {text}; allowed is {allowed}")
            changed[name.replace("-", "_")] = value
        return replace(self, **changed)


DIVISORS = ("node-fill", "node-life")
# The limits of assumptions.
LEAST_DIVISOR, MOST = Decimal("0.001"), Decimal(1_000_000)


def bounds(name: str, kind: str) -> tuple[Decimal, Decimal]:
    """Return the minimum and maximum of an assumption."""
    return LEAST_DIVISOR if name in DIVISORS else Decimal(0), Decimal(1) if kind == "share" else MOST
