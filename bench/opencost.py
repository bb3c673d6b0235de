"""OpenCost's way of allocating, over the same month: its rules as its code has them, on the same samples.

- A container's core-hours are its mean allocation (the larger of request and usage, a sample a minute), or its mean
  request if that is more, times the time that its pod ran in the window; memory alike.
- A node's price is divided into a price of cores and one of memory, by the ratio of its default prices.
- Labels of a pod are gathered over the window, and a pod is its last value's: who adopts a slot gets its warm time.
- By default nothing idle is shared, and what is not a node (files, gateways, control plane) is not allocated. Both can
  be switched on; idle is then shared by cost, and what is named as shared evenly among who had a pod.

Where it is told less than here, it is given the better: the true price of each Spot hour, the exact time of each pod.
"""

from __future__ import annotations

from collections import defaultdict

from bench.month.people import CLASSES
from bench.month.whole import FIXED, HOUR, Month, seconds_up

# Its default dollars an hour of a core and a GiB; of a node's price only their ratio matters.
CORE, GIB = 0.031611, 0.004237


def allocated(month: Month, core: float = CORE, gib: float = GIB) -> dict[str, float]:
    """Dollars by the value of the owner's label; those of pods that never had one under no name.

    Other weights of cores and memory than its own may be given, to see what is a matter of weights and what is not.
    """
    found: dict[str, float] = defaultdict(float)
    rates = _rates(month, core, gib)
    for pod, used in zip(month.cluster.pods, month.uses, strict=True):
        hours = (pod.ended - pod.born) / HOUR
        if hours <= 0:
            continue
        kind = CLASSES[pod.kind]
        cores = (used.seen_warm.cores + sum(held.cores for held in used.seen.values())) / HOUR
        memory = (used.seen_warm.gib + sum(held.gib for held in used.seen.values())) / HOUR
        core_rate, gib_rate = rates[pod.node]
        owner = pod.session.owner if pod.session else ""
        found[owner] += max(cores, kind.cores * hours) * core_rate + max(memory, kind.gib * hours) * gib_rate
    return dict(found)


def allocated_with_shares(month: Month) -> dict[str, float]:
    """The same with idle shared by cost, and everything else of the bill named as shared, evenly."""
    plain = allocated(month)
    nodes = sum(month.node_hours.values())
    rest = sum(month.stored) + sum(month.moved) + sum(month.files) + sum(FIXED.values()) * len(month.stored)
    whole, owners = sum(plain.values()), [owner for owner in plain if owner]
    return {owner: amount * nodes / whole + (rest / len(owners) if owner else 0) for owner, amount in plain.items()}


def _rates(month: Month, core: float, gib: float) -> dict[str, tuple[float, float]]:
    """Of each node, dollars an hour of a core and of a GiB, over its life."""
    dollars: dict[str, float] = defaultdict(float)
    seconds: dict[str, int] = defaultdict(int)
    for (name, hour), amount in month.node_hours.items():
        dollars[name] += amount
        seconds[name] += seconds_up(month.cluster.nodes[name], hour)
    found: dict[str, tuple[float, float]] = {}
    for name, node in month.cluster.nodes.items():
        price = dollars[name] / (seconds[name] / HOUR) if seconds[name] else 0.0
        unit = price / (core * node.cores + gib * node.gib)
        found[name] = core * unit, gib * unit
    return found
