"""Read a bill: lines of the hourly AWS export (CUR 2.0 with split cost data) as charges, pod placement and warm time.

The line of an instance is the charge. The lines of its pods are not charged again; they show where each pod ran, and
which slots were warm. The time of a slot that no ledger row covers belongs to the pool, until it was claimed.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from agentenv.core.attribution.types import HOUR, Charge, Kind, Places, Warm, weight_hours
from agentenv.core.classes.names import namespace
from agentenv.core.ledger.rows import NO_POD, Row
from agentenv.core.nodes.node_pools import SYSTEM
from agentenv.core.usage_export import usage_types
from agentenv.core.usage_export.columns import tag_key

Line = Mapping[str, Any]
Sizes = Mapping[str, tuple[int, Decimal]]  # of types of instances: cores and GiB

_ROOM = namespace("")
_POD = re.compile(r":pod/(?P<cluster>[^/]+)/(?P<namespace>[^/]+)/(?P<name>[^/]+)/(?P<uid>[^/]+)$")
_INSTANCE = re.compile(r"i-[0-9a-f]+")
_RUNNING = re.compile(r"(?:BoxUsage|SpotUsage|DedicatedUsage)(?::(?P<type>[a-z0-9.-]+))?$")
_MOVED, _STORED, _COPIED = (
    re.compile(pattern) for pattern in (usage_types.MOVED, usage_types.STORED, usage_types.COPIED)
)
# A commitment is counted where it was used, and not again where it was paid.
_FEES = frozenset({"RIFee", "SavingsPlanRecurringFee", "SavingsPlanUpfrontFee", "SavingsPlanNegation"})
_COVERED = {
    "SavingsPlanCoveredUsage": "savings_plan_savings_plan_effective_cost",
    "DiscountedUsage": "reservation_effective_cost",
}
_POOL_TAG, _ENVIRONMENT_TAG = tag_key("karpenter.sh/nodepool"), tag_key("environment")


@dataclass(frozen=True)
class BillScope:
    """The lines that belong to an environment: those with its tag, and pods of its cluster; all without an environment.

    Lines of pods have no environment tag, so they are included only if the cluster is set.
    """

    environment: str | None = None
    cluster: str | None = None


@dataclass
class Bill:
    """A bill as charges, pod placement and warm time."""

    charges: list[Charge] = field(default_factory=list[Charge])
    places: Places = field(default_factory=Places)
    warm: list[Warm] = field(default_factory=list[Warm])
    left_out: Decimal = Decimal(0)  # dollars of lines that are not the environment's
    unknown_types: set[str] = field(default_factory=set[str])  # of instances: nothing of them counts as idle


@dataclass
class _Waiting:
    """The resources of a slot in an hour."""

    cores: Decimal = Decimal(0)
    gib: Decimal = Decimal(0)


def read_bill(lines: Iterable[Line], rows: Sequence[Row], sizes: Sizes, scope: BillScope | None = None) -> Bill:
    """Return the charges of an environment, the placement of its pods, and the warm time of slots."""
    bill, scope = Bill(), scope or BillScope()
    nodes: dict[str, str] = {}
    namespaces: defaultdict[str, set[str]] = defaultdict(set)  # by instance: the namespaces of what ran there
    slots: defaultdict[tuple[str, str, datetime], _Waiting] = defaultdict(_Waiting)
    running: list[tuple[Line, str, str]] = []
    for line in lines:
        if text(line, "line_item_line_item_type") in _FEES:
            continue
        pod = _POD.search(text(line, "line_item_resource_id"))
        if not _is(line, pod, scope):
            bill.left_out += _cost(line)
        elif parent := text(line, "split_line_item_parent_resource_id"):
            instance = _INSTANCE.search(parent)
            if pod and instance:
                nodes[pod["uid"]] = instance[0]
                namespaces[instance[0]].add(pod["namespace"])
                _wait(slots, line, pod)
        elif pod and pod["namespace"].startswith(_ROOM):
            nodes[pod["uid"]] = pod["uid"]
            bill.charges.append(_charge("nodes", line, supply=pod["uid"]))
        elif (kind := _RUNNING.search(text(line, "line_item_usage_type"))) and not pod:
            running.append((line, text(line, "line_item_resource_id"), kind["type"] or "m1.small"))
        else:
            bill.charges.append(_charge(_kind(line), line))
    for line, instance, kind in running:
        if kind not in sizes:
            bill.unknown_types.add(kind)
        platform = _is_platform(line, namespaces.get(instance, set()))
        bill.charges.append(_charge("fixed", line) if platform else _machine(line, instance, sizes.get(kind)))
    bill.places = Places(nodes)
    bill.warm = _warm(slots, rows)
    return bill


def _is(line: Line, pod: re.Match[str] | None, scope: BillScope) -> bool:
    """Return whether a line belongs to the environment."""
    if scope.environment is None:
        return True
    if pod and scope.cluster is not None:
        return pod["cluster"] == scope.cluster
    return tags(line).get(_ENVIRONMENT_TAG) == scope.environment


def _is_platform(line: Line, namespaces: set[str]) -> bool:
    """Return whether an instance is a system node: by its node pool, else by the namespaces of its pods."""
    pool = tags(line).get(_POOL_TAG, "")
    return (
        pool.split("-")[0] == SYSTEM
        if pool
        else bool(namespaces) and not any(name.startswith(_ROOM) for name in namespaces)
    )


def _machine(line: Line, instance: str, size: tuple[int, Decimal] | None) -> Charge:
    """Return the charge of a sandbox node with its capacity; an unknown instance type has none."""
    hours = number(line, "line_item_usage_amount")
    cores, gib = size or (0, Decimal(0))
    return _charge("nodes", line, supply=instance, capacity=weight_hours(cores * hours, gib * hours))


def _kind(line: Line) -> Kind:
    """Return the kind of a line that is not an instance."""
    if text(line, "line_item_line_item_type") in {"Tax", "Credit", "Refund"}:
        return "fixed"
    product, called = text(line, "line_item_product_code"), text(line, "line_item_usage_type")
    if product == usage_types.FILES:
        return "storage" if _STORED.search(called) else "storage_io"
    if product == usage_types.BACKUPS:
        return "storage" if _COPIED.search(called) else "fixed"
    return "network" if product != usage_types.LOGS and _MOVED.search(called) else "fixed"


def _charge(kind: Kind, line: Line, supply: str = "", capacity: Decimal = Decimal(0)) -> Charge:
    began, ended = moment(line, "line_item_usage_start_date"), moment(line, "line_item_usage_end_date")
    began = began.replace(minute=0, second=0, microsecond=0)
    if ended != (whole := ended.replace(minute=0, second=0, microsecond=0)):
        ended = whole + HOUR
    return Charge(
        kind=kind, began=began, ended=max(ended, began + HOUR), amount=_cost(line), supply=supply, capacity=capacity,
        service=text(line, "line_item_product_code"),
    )  # fmt: skip


def _cost(line: Line) -> Decimal:
    """Return the dollars of a line; 0 for the line of a pod, which is part of its instance."""
    if text(line, "split_line_item_parent_resource_id"):
        return Decimal(0)
    return number(line, _COVERED.get(text(line, "line_item_line_item_type"), "line_item_unblended_cost"))


def _wait(slots: defaultdict[tuple[str, str, datetime], _Waiting], line: Line, pod: re.Match[str]) -> None:
    """Record the resources of a sandbox's line, in case it was a warm slot."""
    if not pod["namespace"].startswith(_ROOM):
        return
    hour = moment(line, "line_item_usage_start_date").replace(minute=0, second=0, microsecond=0)
    usage_ = slots[pod["uid"], pod["namespace"].removeprefix(_ROOM), hour]
    amount = number(line, "split_line_item_split_usage")
    if "vCPU" in text(line, "line_item_usage_type"):
        usage_.cores += amount
    else:
        usage_.gib += amount


def _warm(slots: Mapping[tuple[str, str, datetime], _Waiting], rows: Sequence[Row]) -> list[Warm]:
    """Return the warm time of slots: the time of their pods that no row covers."""
    rows_by_pod: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.pod != NO_POD:
            rows_by_pod[row.pod].append(row)
    warm: list[Warm] = []
    for (uid, sandbox_class, hour), usage_ in sorted(slots.items()):
        first = min((row.began for row in rows_by_pod[uid]), default=hour + HOUR) if uid in rows_by_pod else hour + HOUR
        until = min(first, hour + HOUR)
        if until <= hour:
            continue
        share = _share_before(rows_by_pod.get(uid, []), hour, until)
        warm.append(
            Warm(
                pod=uid,
                sandbox_class=sandbox_class,
                began=hour,
                ended=until,
                cpu_seconds=usage_.cores * 3600 * share,
                memory_gib_hours=usage_.gib * share,
            )
        )
    return warm


def _share_before(rows: Sequence[Row], hour: datetime, until: datetime) -> Decimal:
    """Of a slot's hour, the share before somebody had it; an hour that it did not live to the end counts to its end."""
    end = max((min(row.ended, hour + HOUR) for row in rows), default=until)
    lived = max(end - hour, until - hour)
    return Decimal((until - hour) // timedelta(seconds=1)) / Decimal(max(lived // timedelta(seconds=1), 1))


def text(line: Line, name: str) -> str:
    """Return a value as text; an empty string without one."""
    value = line.get(name)
    return "" if value is None else str(value)


def number(line: Line, name: str) -> Decimal:
    """Return a value as a number, from its text."""
    value = text(line, name)
    return Decimal(value) if value else Decimal(0)


def moment(line: Line, name: str) -> datetime:
    """Return a value as a timestamp in UTC; AWS omits the time zone in some formats."""
    value = line.get(name)
    found = value if isinstance(value, datetime) else datetime.fromisoformat(text(line, name).replace(" UTC", ""))
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def tags(line: Line) -> dict[str, str]:
    """Return the tags of a line, from a mapping, JSON, or pairs as in Parquet."""
    value: Any = line.get("resource_tags") or {}
    if isinstance(value, str):
        value = json.loads(value)
    return {str(key): str(held) for key, held in dict[Any, Any](value).items()}
