"""Measure the error of cost attribution on a simulated month, compared with the exact result and with OpenCost.

The month has 360 owners, warm slots that are adopted, suspended workspaces, lost Spot nodes, a swarm, and metrics with
gaps. Only the attribution itself is timed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from agentenv.core.attribution.attribute import attribute
from agentenv.core.attribution.types import CORE_WEIGHT, GIB_WEIGHT, METERED
from bench.month.record import record
from bench.month.truth import Truth, truth
from bench.month.whole import Month, month
from bench.opencost import allocated, allocated_with_shares

OWNERS, SEED = 360, 20261001


def measure(repeat: int) -> dict[str, Any]:
    """Return the figures of the worst month: each repetition simulates another one."""
    runs = [compare(OWNERS, SEED + number) for number in range(repeat)]
    worst = max(runs, key=lambda run: run["error_max_percent"])
    return {**worst, "exact_in_all": all(run["gap_dollars"] == 0 for run in runs), "months": repeat}


def compare(owners: int, seed: int) -> dict[str, Any]:
    """Attribute one month by this project and by OpenCost, and compare both with the exact result."""
    simulated = month(owners, seed)
    truth_ = truth(simulated)
    observed = record(simulated, seed)
    began = time.monotonic()
    statement = attribute(observed.charges, observed.rows, observed.warm, observed.places)
    seconds = time.monotonic() - began
    ours = {owner: float(amount) for owner, amount in statement.total(lambda entry: entry.owner).items()}
    errors = _errors(ours, truth_)
    plain, shared = allocated(simulated), allocated_with_shares(simulated)
    bill = float(statement.bill)
    return {
        **_shape(simulated),
        "rows": len(observed.rows),
        "bill_dollars": f"{statement.bill:.2f}",
        "attributed_dollars": f"{sum(statement.lines().values()):.2f}",
        "gap_dollars": float(sum(statement.lines().values()) - statement.bill.quantize(Decimal("0.01"))),
        "metered_share_percent": round(float(statement.metered_share()) * 100, 1),
        "error_max_percent": round(errors[-1], 3),
        "error_p50_percent": round(errors[len(errors) // 2], 3),
        "opencost_attributed_percent": round(sum(a for o, a in plain.items() if o) / bill * 100, 1),
        **_spread("opencost_error", _errors(plain, truth_)),
        **_spread("opencost_shared_error", _errors(shared, truth_)),
        **_spread("opencost_compute_error", _compute_errors(plain, truth_)),
        **_spread("opencost_our_weights_error", _compute_errors(allocated(simulated, CORE_WEIGHT, GIB_WEIGHT), truth_)),
        **_spread("metered_error", _metered_errors(statement.total(lambda e: (e.owner, e.part)), truth_)),
        **_spread("compute_error", _compute_errors(_computed(statement.total(lambda e: (e.owner, e.part))), truth_)),
        "attribution_s": round(seconds, 2),
    }


def _shape(simulated: Month) -> dict[str, Any]:
    pods = simulated.cluster.pods
    return {
        "owners": len(simulated.owners),
        "pods": len(pods),
        "adopted_slots": sum(pod.adopted is not None and pod.adopted > pod.born for pod in pods),
        "nodes": len(simulated.cluster.nodes),
        "nodes_lost": simulated.cluster.lost,
    }


def _computed(totals: Mapping[tuple[str, str], Decimal]) -> dict[str, float]:
    return {owner: float(amount) for (owner, part), amount in totals.items() if part == "compute"}


def _errors(found: Mapping[str, float], truth_: Truth) -> list[float]:
    """Return the error of each owner in percent of the exact amount, ascending."""
    return sorted(
        abs(found.get(owner, 0.0) - truth_.total(owner)) / truth_.total(owner) * 100 for owner in truth_.owners()
    )


def _compute_errors(found: Mapping[str, float], truth_: Truth) -> list[float]:
    """Return the errors of compute alone, which is what OpenCost allocates, of the owners with compute."""
    owed = {owner: amount for (owner, part), amount in truth_.owed.items() if part == "compute"}
    return sorted(abs(found.get(owner, 0.0) - amount) / amount * 100 for owner, amount in owed.items())


def _metered_errors(totals: Mapping[tuple[str, str], Decimal], truth_: Truth) -> list[float]:
    """Return the errors of the metered parts alone: the shared parts use the same rules on both sides."""
    errors: list[float] = []
    for owner in truth_.owners():
        ours = sum(float(totals.get((owner, part), 0)) for part in METERED)
        owed = sum(truth_.owed.get((owner, part), 0.0) for part in METERED)
        errors.append(abs(ours - owed) / owed * 100 if owed else 0.0)
    return sorted(errors)


def _spread(name: str, errors: list[float]) -> dict[str, float]:
    return {f"{name}_p50_percent": round(errors[len(errors) // 2], 2), f"{name}_max_percent": round(errors[-1], 2)}
