"""Divides a bill: first what somebody held, kept or moved, then what is everybody's.

Every grain of every charge ends up in an entry, once. What was held of a node is divided by what was held; what nobody
held of it is idle, what waited to be claimed is the pool's. These two and what is fixed are shared out by the day, each
on a line of its own, so that somebody's compute does not grow because others came or went.
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

# Charges that are divided by what somebody had of one thing, and the line that they make.
_BY_USE: Mapping[Kind, Part] = {"storage": "storage", "network": "network", "storage_io": "storage_io"}


def attribute(
    charges: Iterable[Charge], rows: Iterable[Row], warm: Iterable[Warm] = (), places: Places | None = None
) -> Statement:
    """Who owes what of a bill."""
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
    """What each group of nodes costs each hour: the node, its grains, its capacity in millionths."""
    found: defaultdict[tuple[str, int], list[tuple[str, int, int]]] = defaultdict(list)
    for charge in bill:
        if charge.kind == "nodes":
            hours = dict.fromkeys(charge.hours(), 1)
            capacity = int(charge.capacity * MILLION) // len(hours)
            for hour, amount in apportion(grains(charge.amount), hours).items():
                found[charge.group, hour].append((charge.supply, amount, capacity))
    return found


class _Work:
    """An attribution under way: entries that are there to stay, and pots that are still to be shared."""

    def __init__(self, held: Slices) -> None:
        self.held = held
        self.entries: defaultdict[Entry, int] = defaultdict(int)
        self.idle: _Pots = defaultdict(int)
        self.pool: _Pots = defaultdict(int)
        self._all: dict[str, Amounts] = {}

    def nodes(self, group: str, hour: int, charged: Sequence[tuple[str, int, int]]) -> None:
        """One hour of a group of nodes: each by itself where it is known who was on it, else all as one."""
        held = self.held.nodes.get((group, hour), Hour())
        known = {node for node, _, _ in charged}
        if held.unplaced or not held.nodes.keys() <= known:
            total = sum(amount for _, amount, _ in charged), sum(capacity for _, _, capacity in charged)
            self._node(hour, *total, held.merged())
            return
        for node in known:
            amount = sum(one for name, one, _ in charged if name == node)
            capacity = sum(one for name, _, one in charged if name == node)
            self._node(hour, amount, capacity, held.nodes.get(node, {}))

    def _node(self, hour: int, amount: int, capacity: int, held: Mapping[Holder, int]) -> None:
        """One node, one hour: to who held it, and what nobody did to the idle pot."""
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
        """What is divided by what somebody had that day; where nobody had any, by what they had in all the time."""
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
        """What is there for everybody: in equal parts among those who were there that day."""
        for day, amount in self._days(charge):
            self._give(amount, day, "fixed", self._present(day))

    def _present(self, day: str) -> Mapping[Holder, int]:
        """Who was there that day, each alike; where nobody was, whoever was ever there, by days."""
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
        """Divide it: by weights, else among those who were there, else it stays with nobody."""
        weights = weights if any(weights.values()) else self._present(day) or {_IDLE: 1}
        for holder, share in apportion(amount, weights).items():
            if share:
                self.entries[Entry(holder.owner, day, holder.sandbox_class, part)] += share

    def share(self) -> None:
        """Share out the pots: idle by compute, a pool's by the compute of its class; that day's, else all days'."""
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
    """All of them, without those who had nothing."""
    total: Amounts = defaultdict(int)
    for amounts in several:
        for holder, amount in amounts.items():
            if amount:
                total[holder] += amount
    return total


def _of(amounts: Mapping[Holder, int], sandbox_class: str) -> dict[Holder, int]:
    """Those of a class; of no class, all."""
    return {one: amount for one, amount in amounts.items() if sandbox_class in {"", one.sandbox_class}}
