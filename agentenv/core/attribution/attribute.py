"""Attribute a bill to owners: first metered usage, then shared costs.

Every charge is attributed exactly once. The cost of a node is divided by the resources held on it. Unused resources are
idle, and warm sandboxes belong to the pool. Idle, pool and fixed costs are shared by day, on separate lines, so that
the compute cost of an owner does not depend on others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from agentenv.core.attribution.apportion import apportion, grains
from agentenv.core.attribution.slices import MILLION, Amounts, Holder, Hour, Slices, slices
from agentenv.core.attribution.statement import Statement
from agentenv.core.attribution.types import NOBODY, Charge, Entry, Kind, Part, Places, Warm, day_of
from agentenv.core.ledger.rows import Row

_IDLE = Holder(NOBODY, "")
_Pots = defaultdict[tuple[str, str], int]  # by day and class

# The kinds of charges that are divided by usage, and their part of the statement.
_BY_USE: Mapping[Kind, Part] = {"storage": "storage", "network": "network", "storage_io": "storage_io"}


def attribute(
    charges: Iterable[Charge], rows: Iterable[Row], warm: Iterable[Warm] = (), places: Places | None = None
) -> Statement:
    """Return the statement of a bill: the cost of each owner."""
    bill = list(charges)
    work = _Work(slices(rows, warm, places or Places()))
    for (group, hour), charged in _node_hours(bill).items():
        work.nodes(group, hour, charged)
    for charge in bill:
        if charge.kind in _BY_USE:
            work.use(charge)
        elif charge.kind == "fixed":
            work.fixed(charge)
    work.share()
    return Statement(work.entries, sum((charge.amount for charge in bill), Decimal(0)), len(bill))


def _node_hours(bill: Sequence[Charge]) -> dict[tuple[str, int], list[tuple[str, int, int]]]:
    """Return the cost of each group of nodes and hour: node, grains, and capacity in millionths."""
    costs: defaultdict[tuple[str, int], list[tuple[str, int, int]]] = defaultdict(list)
    for charge in bill:
        if charge.kind == "nodes":
            hours = dict.fromkeys(charge.hours(), 1)
            capacity = int(charge.capacity * MILLION) // len(hours)
            for hour, amount in apportion(grains(charge.amount), hours).items():
                costs[charge.group, hour].append((charge.supply, amount, capacity))
    return costs


class _Work:
    """The state of an attribution: final entries, and costs that remain to be shared."""

    def __init__(self, held: Slices) -> None:
        self.held = held
        self.entries: defaultdict[Entry, int] = defaultdict(int)
        self.idle: _Pots = defaultdict(int)
        self.pool: _Pots = defaultdict(int)
        self._all: dict[str, Amounts] = {}

    def nodes(self, group: str, hour: int, charged: Sequence[tuple[str, int, int]]) -> None:
        """Attribute an hour of a group of nodes: each node if its pods are known, else all nodes together."""
        held = self.held.nodes.get((group, hour), Hour())
        known = {node for node, _, _ in charged}
        if held.unplaced or not held.nodes.keys() <= known:
            total = sum(amount for _, amount, _ in charged), sum(capacity for _, _, capacity in charged)
            self._node(hour, *total, held.merged())
            return
        for node in known:
            amount = sum(value for name, value, _ in charged if name == node)
            capacity = sum(value for name, _, value in charged if name == node)
            self._node(hour, amount, capacity, held.nodes.get(node, {}))

    def _node(self, hour: int, amount: int, capacity: int, held: Mapping[Holder, int]) -> None:
        """Attribute an hour of a node to its holders, and the unused part to idle."""
        free = max(capacity - sum(held.values()), 0)
        weights = {**held, _IDLE: free}
        if not any(weights.values()):
            weights = {_IDLE: 1}
        day = day_of(hour)
        for holder, part in apportion(amount, weights).items():
            if not part:
                continue
            if holder is _IDLE:
                self.idle[day, ""] += part
            elif holder.is_pool:
                self.pool[day, holder.sandbox_class] += part
            else:
                self.entries[Entry(holder.owner, day, holder.sandbox_class, "compute")] += part

    def use(self, charge: Charge) -> None:
        """Attribute a charge by the usage of the day; without usage on that day, by the usage of the whole period."""
        by_hour = {"storage": self.held.stored, "network": self.held.moved, "storage_io": self.held.mounted}
        amounts = by_hour[charge.kind]
        part = _BY_USE[charge.kind]
        for day, amount in self._days(charge):
            hours = [hour for hour in charge.hours() if day_of(hour) == day]
            weights = _sum(amounts[hour] for hour in hours if hour in amounts) or self._ever(part, amounts)
            self._give(amount, day, part, weights)

    def _ever(self, part: str, amounts: Mapping[int, Amounts]) -> Amounts:
        if part not in self._all:
            self._all[part] = _sum(amounts.values())
        return self._all[part]

    def fixed(self, charge: Charge) -> None:
        """Attribute a fixed charge in equal parts to the owners who were present that day."""
        for day, amount in self._days(charge):
            self._give(amount, day, "fixed", self._present(day))

    def _present(self, day: str) -> Mapping[Holder, int]:
        """Return equal weights of the owners of a day; without any, all owners weighted by days."""
        days = [those] if (those := self.held.present.get(day)) else self.held.present.values()
        weights: defaultdict[Holder, int] = defaultdict(int)
        for owners in days:
            for owner in owners:
                weights[Holder(owner, "")] += 1
        return weights

    def _days(self, charge: Charge) -> list[tuple[str, int]]:
        hours: defaultdict[str, int] = defaultdict(int)
        for hour in charge.hours():
            hours[day_of(hour)] += 1
        return sorted(apportion(grains(charge.amount), hours).items())

    def _give(self, amount: int, day: str, part: Part, weights: Mapping[Holder, int]) -> None:
        """Divide an amount by weights, else among the owners who were present, else to nobody."""
        weights = weights if any(weights.values()) else self._present(day) or {_IDLE: 1}
        for holder, share in apportion(amount, weights).items():
            if share:
                self.entries[Entry(holder.owner, day, holder.sandbox_class, part)] += share

    def share(self) -> None:
        """Share idle costs by compute, and pool costs by the compute of the class: of that day, else of all days."""
        daily: defaultdict[str, Amounts] = defaultdict(lambda: defaultdict(int))
        for entry, amount in self.entries.items():
            # A credit may turn a day's compute around; it must not turn the shares around too.
            if entry.part == "compute" and amount > 0:
                daily[entry.day][Holder(entry.owner, entry.sandbox_class)] += amount
        month = _sum(daily.values())
        pots: tuple[tuple[Part, _Pots], ...] = (("pool", self.pool), ("idle", self.idle))
        for part, pot in pots:
            for (day, sandbox_class), amount in sorted(pot.items()):
                those: Mapping[Holder, int] = daily.get(day) or {}
                weights = _of(those, sandbox_class) or _of(month, sandbox_class) or those or month
                self._give(amount, day, part, weights)


def _sum(several: Iterable[Mapping[Holder, int]]) -> Amounts:
    """Return the sum of amounts by holder, without zeros."""
    total: Amounts = defaultdict(int)
    for amounts in several:
        for holder, amount in amounts.items():
            if amount:
                total[holder] += amount
    return total


def _of(amounts: Mapping[Holder, int], sandbox_class: str) -> dict[Holder, int]:
    """Return the amounts of a class; of all classes if it is empty."""
    return {holder: amount for holder, amount in amounts.items() if sandbox_class in {"", holder.sandbox_class}}
