"""Attribute a month's costs exactly, by independent arithmetic: the result that others are compared with.

Shared costs follow the documented rules (docs/cost-report.md), applied to the simulation and not to its metrics.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from bench.month.people import DAY, DAYS
from bench.month.whole import FIXED, HOUR, MOVED_A_BYTE, STORED_A_GIB_DAY, Month, gib_days, seconds_up

Weights = dict[tuple[str, str], float]  # by owner and class


@dataclass
class Truth:
    """The exact dollars of each owner and part."""

    owed: dict[tuple[str, str], float]

    def owners(self) -> list[str]:
        return sorted({owner for owner, _ in self.owed})

    def total(self, owner: str) -> float:
        return sum(amount for (owner_, _), amount in self.owed.items() if owner_ == owner)

    def part(self, part: str) -> float:
        return sum(amount for (_, of), amount in self.owed.items() if of == part)


def truth(month: Month) -> Truth:
    """Compute the exact costs of each owner."""
    owed: dict[tuple[str, str], float] = defaultdict(float)
    compute: list[Weights] = [defaultdict(float) for _ in range(DAYS)]
    idle = [0.0] * DAYS
    pool: dict[tuple[int, str], float] = defaultdict(float)
    for (node_name, hour), holders in _usage_by_node(month).items():
        dollars, day = month.node_hours[node_name, hour], hour * HOUR // DAY
        node = month.cluster.nodes[node_name]
        capacity = (9 * node.cores + node.gib) * seconds_up(node, hour)
        whole = max(capacity, sum(holders.values()))
        for (owner, kind), weight in holders.items():
            if owner:
                compute[day][owner, kind] += dollars * weight / whole
            else:
                pool[day, kind] += dollars * weight / whole
        idle[day] += dollars * (1 - sum(holders.values()) / whole)
    for day in range(DAYS):
        for (owner, _), amount in compute[day].items():
            owed[owner, "compute"] += amount
        _share(owed, "idle", idle[day], compute[day])
    for (day, kind), amount in pool.items():
        of_class = {key: weight for key, weight in compute[day].items() if key[1] == kind}
        all_days = _ever(compute, kind)
        _share(owed, "pool", amount, of_class or all_days or compute[day])
    _rest(month, owed)
    return Truth(dict(owed))


def _usage_by_node(month: Month) -> dict[tuple[str, int], Weights]:
    """Return for each node and hour the weight-seconds of each owner, with an empty owner for the pool."""
    found: dict[tuple[str, int], Weights] = {key: defaultdict(float) for key in month.node_hours}
    for pod, used in zip(month.cluster.pods, month.uses, strict=True):
        for (hour, claimed), usage in used.by_hour.items():
            owner = pod.session.owner if claimed and pod.session else ""
            found[pod.node, hour][owner, pod.kind] += 9 * usage.cores + usage.gib
    return found


def _rest(month: Month, owed: dict[tuple[str, str], float]) -> None:
    """Add the costs of storage, network, file access and the fixed costs."""
    mounted: list[Weights] = [defaultdict(float) for _ in range(DAYS)]
    present: list[Weights] = [defaultdict(float) for _ in range(DAYS)]
    for pod, used in zip(month.cluster.pods, month.uses, strict=True):
        if pod.session is None or pod.adopted is None:
            continue
        owner = pod.session.owner
        for amount in used.bytes_by_hour.values():
            owed[owner, "network"] += amount * MOVED_A_BYTE
        for day in range(pod.adopted // DAY, -(-pod.ended // DAY)):
            mounted[day][owner, ""] += min(pod.ended, (day + 1) * DAY) - max(pod.adopted, day * DAY)
    for person in month.owners:
        for day in range(DAYS):
            amount = gib_days(person, month.homes[person.name], day)
            owed[person.name, "storage"] += amount * STORED_A_GIB_DAY
            if amount:
                present[day][person.name, ""] = 1
    for day in range(DAYS):
        _share(owed, "storage_io", month.files[day], mounted[day])
        _share(owed, "fixed", sum(FIXED.values()), present[day])


def _ever(compute: list[Weights], kind: str) -> Weights:
    total: Weights = defaultdict(float)
    for day in compute:
        for key, weight in day.items():
            if key[1] == kind:
                total[key] += weight
    return total


def _share(owed: dict[tuple[str, str], float], part: str, amount: float, weights: Weights) -> None:
    whole = sum(weights.values())
    for (owner, _), weight in weights.items():
        owed[owner, part] += amount * weight / whole
