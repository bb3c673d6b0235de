"""Allocate the costs of a month by OpenCost's rules, as in its code, on the same samples.

- A container's core-hours are its mean allocation (the larger of request and usage, sampled each minute), or its mean
  request if that is larger, times the time that its pod ran in the window. Memory is the same.
- A node's price is divided between cores and memory, in the ratio of the default prices.
- A pod belongs to the last value of its label in the window: the owner who adopts a slot gets its warm time.
- By default idle costs are not shared, and costs beside nodes (files, gateways, control plane) are not allocated. With
  both options on, idle costs are shared by cost, and the others evenly among the owners of pods.

Where OpenCost would have less information, it gets the better: the exact price of each Spot hour and the exact time of
each pod.
"""

from __future__ import annotations

from collections import defaultdict

from bench.month.people import CLASSES
from bench.month.whole import FIXED, HOUR, Month, seconds_up

# Its default dollars an hour for a core and a GiB. Only their ratio matters for a node's price.
CORE, GIB = 0.031611, 0.004237


def allocated(month: Month, core: float = CORE, gib: float = GIB) -> dict[str, float]:
    """Return dollars by the owner's label, with an empty name for pods without one.

    Other weights of cores and memory show how much of the error comes from the weights.
    """
    found: dict[str, float] = defaultdict(float)
    rates = _rates(month, core, gib)
    for pod, used in zip(month.cluster.pods, month.uses, strict=True):
        hours = (pod.ended - pod.born) / HOUR
        if hours <= 0:
            continue
        kind = CLASSES[pod.kind]
        cores = (used.metered_warm.cores + sum(amounts.cores for amounts in used.metered.values())) / HOUR
        memory = (used.metered_warm.gib + sum(amounts.gib for amounts in used.metered.values())) / HOUR
        core_rate, gib_rate = rates[pod.node]
        owner = pod.session.owner if pod.session else ""
        found[owner] += max(cores, kind.cores * hours) * core_rate + max(memory, kind.gib * hours) * gib_rate
    return dict(found)


def allocated_with_shares(month: Month) -> dict[str, float]:
    """Return dollars by owner, with idle costs shared by cost and all other costs shared evenly."""
    plain = allocated(month)
    nodes = sum(month.node_hours.values())
    rest = sum(month.stored) + sum(month.moved) + sum(month.files) + sum(FIXED.values()) * len(month.stored)
    whole, owners = sum(plain.values()), [owner for owner in plain if owner]
    return {owner: amount * nodes / whole + (rest / len(owners) if owner else 0) for owner, amount in plain.items()}


def _rates(month: Month, core: float, gib: float) -> dict[str, tuple[float, float]]:
    """Return for each node the dollars an hour of a core and of a GiB, over its life."""
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
