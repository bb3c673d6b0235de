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
        "0.60", "share", "how much less Spot costs than on-demand, where the price book has no Spot price"
    )
    spot_share: Decimal = taken("0.90", "share", "of capacity `both`, how much of the time it is had as Spot")
    node_fill: Decimal = taken(
        "0.70", "share", "how full nodes are on average: sandboxes come and go, and what is claimed is not moved"
    )
    node_life: Decimal = taken("12", "hours", "how long a node of sandboxes lives")
    sandbox_image: Decimal = taken("1.2", "GB each", "the image of sandboxes, which each new node takes")
    platform_images: Decimal = taken("0.3", "GB each", "other images from outside of ECR, which each new node takes")
    home: Decimal = taken("2", "GB", "what a user keeps, suspended or not")
    half_touched: Decimal = taken(
        "14", "days", "within how many days half of a home is touched; decides what moves to cheaper classes"
    )
    padding: Decimal = taken(
        "2", "factor", "what small files add in cheaper classes, where each counts as 128 KiB at least"
    )
    tiered: Decimal = taken("0.2", "share", "of a home that moves to or from a cheaper class in a month")
    backup_growth: Decimal = taken("1.5", "factor", "what 35 days of backups hold of a home, changes and all")
    reads: Decimal = taken("0.04", "GB an hour", "read from a home while active, beyond what caches answer")
    writes: Decimal = taken("0.015", "GB an hour", "written to a home while active")
    metadata: Decimal = taken(
        "0.015", "GB an hour", "metadata of a home while active: one operation a second, at 4 KiB each"
    )
    larger: Decimal = taken(
        "0.2", "share", "of active hours that a workspace of a class with sizes spends in the largest one"
    )
    seat_hours: Decimal = taken(
        "160", "hours", "a month in which somebody works in a declared seat, which is awake all of it"
    )
    passing: Decimal = taken(
        "2", "hours", "a day in which a system node more stands, where jobs and rolling updates find no room"
    )
    downloads: Decimal = taken("0.02", "GB an hour", "taken from the internet while active")
    uploads: Decimal = taken("0.004", "GB an hour", "sent to the internet while active")
    starts: Decimal = taken("0.5", "an hour", "claims and wakes while active: a session of two hours")
    start_logs: Decimal = taken("0.0004", "GB each", "what the API server's audit log says of a claim or wake")
    cluster_logs: Decimal = taken(
        "12", "GB a month", "what the control plane logs without any user: nine tenths of it are renewed leases"
    )
    pod_logs: Decimal = taken("0.1", "GB a month", "what a controller on Fargate logs")
    flows: Decimal = taken(
        "3", "GB a month", "flow logs without any user, all traffic recorded, a record a minute for each flow"
    )
    user_flows: Decimal = taken("0.0007", "GB an hour", "flow logs of an active user, all traffic recorded")
    rejected_flows: Decimal = taken("0.05", "share", "of traffic that is rejected")
    compression: Decimal = taken("0.15", "share", "what logs take in CloudWatch once they are compressed")
    ledger_writes: Decimal = taken("180", "an hour", "writes to the ledger while active, indexes counted")
    exported: Decimal = taken("0.05", "GB a month", "cost and usage data that is exported, and queried twice a day")

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
