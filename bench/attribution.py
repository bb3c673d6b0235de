"""How far attribution is from the truth, over a simulated month of which all is known; beside OpenCost's way.

Three hundred and sixty owners, slots that wait and are adopted, workspaces that sleep, Spot nodes that are lost, a
swarm, meters that miss what meters miss. Nothing here is timed but the attribution itself.
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
    """The figures; each repetition is another month, and the worst counts."""
    runs = [compare(OWNERS, SEED + number) for number in range(repeat)]
    worst = max(runs, key=lambda one: one["error_max_percent"])
    return {**worst, "exact_in_all": all(one["gap_dollars"] == 0 for one in runs), "months": repeat}


def compare(owners: int, seed: int) -> dict[str, Any]:
    """One month, divided by us, by OpenCost, and as it was."""
    happened = month(owners, seed)
    true = truth(happened)
    known = record(happened, seed)
    began = time.monotonic()
    statement = attribute(known.charges, known.rows, known.warm, known.places)
    taken = time.monotonic() - began
    ours = {owner: float(amount) for owner, amount in statement.total(lambda entry: entry.owner).items()}
    errors = _errors(ours, true)
    plain, shared = allocated(happened), allocated_with_shares(happened)
    bill = float(statement.bill)
    return {
        **_shape(happened),
        "rows": len(known.rows),
        "bill_dollars": f"{statement.bill:.2f}",
        "attributed_dollars": f"{sum(statement.lines().values()):.2f}",
        "gap_dollars": float(sum(statement.lines().values()) - statement.bill.quantize(Decimal("0.01"))),
        "metered_share_percent": round(float(statement.metered_share()) * 100, 1),
        "error_max_percent": round(errors[-1], 3),
        "error_p50_percent": round(errors[len(errors) // 2], 3),
        "opencost_attributed_percent": round(sum(a for o, a in plain.items() if o) / bill * 100, 1),
        **_spread("opencost_error", _errors(plain, true)),
        **_spread("opencost_shared_error", _errors(shared, true)),
        **_spread("opencost_compute_error", _compute_errors(plain, true)),
        **_spread("opencost_our_weights_error", _compute_errors(allocated(happened, CORE_WEIGHT, GIB_WEIGHT), true)),
        **_spread("metered_error", _metered_errors(statement.total(lambda e: (e.owner, e.part)), true)),
        **_spread("compute_error", _compute_errors(_computed(statement.total(lambda e: (e.owner, e.part))), true)),
        "attribution_s": round(taken, 2),
    }


def _shape(happened: Month) -> dict[str, Any]:
    pods = happened.cluster.pods
    return {
        "owners": len(happened.everybody),
        "pods": len(pods),
        "adopted_slots": sum(pod.adopted is not None and pod.adopted > pod.born for pod in pods),
        "nodes": len(happened.cluster.nodes),
        "nodes_lost": happened.cluster.lost,
    }


def _computed(totals: Mapping[tuple[str, str], Decimal]) -> dict[str, float]:
    return {owner: float(amount) for (owner, part), amount in totals.items() if part == "compute"}


def _errors(found: Mapping[str, float], true: Truth) -> list[float]:
    """Of each owner, how far off in per cent of what is truly owed; ascending."""
    return sorted(abs(found.get(one, 0.0) - true.total(one)) / true.total(one) * 100 for one in true.owners())


def _compute_errors(found: Mapping[str, float], true: Truth) -> list[float]:
    """The same of compute alone, which is all that OpenCost is about; of those who had any."""
    owed = {owner: amount for (owner, part), amount in true.owed.items() if part == "compute"}
    return sorted(abs(found.get(one, 0.0) - amount) / amount * 100 for one, amount in owed.items())


def _metered_errors(totals: Mapping[tuple[str, str], Decimal], true: Truth) -> list[float]:
    """The same of what is metered, without what is shared by a rule, which both sides share by the same one."""
    errors: list[float] = []
    for one in true.owners():
        ours = sum(float(totals.get((one, part), 0)) for part in METERED)
        owed = sum(true.owed.get((one, part), 0.0) for part in METERED)
        errors.append(abs(ours - owed) / owed * 100 if owed else 0.0)
    return sorted(errors)


def _spread(name: str, errors: list[float]) -> dict[str, float]:
    return {f"{name}_p50_percent": round(errors[len(errors) // 2], 2), f"{name}_max_percent": round(errors[-1], 2)}
