"""Derive what is recorded of a month: the bill's lines, the ledger's rows, the pools' time, and the nodes of pods.

The times of the ledger come from the cluster's objects, in whole seconds and a little late. Amounts come from metrics,
and homes are measured once a day, at night.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from agentenv.core.attribution.types import Charge, Places, Warm, weight_hours
from agentenv.core.ledger.rows import NO_POD, Row
from bench.month.people import DAY, DAYS, MONTH
from bench.month.use import Use
from bench.month.whole import FIXED, HOUR, Month, billed, seconds_up

START = datetime(2026, 10, 1, tzinfo=UTC)
MICRO = Decimal("0.000001")


@dataclass
class Record:
    """The input of an attribution."""

    charges: list[Charge]
    rows: list[Row]
    warm: list[Warm]
    places: Places


def record(month: Month, seed: int) -> Record:
    """Return the records of a month."""
    random_ = random.Random(seed + 1)  # noqa: S311 - a reproducible simulation
    rows, awake = _rows(random_, month)
    return Record(
        charges=_charges(month),
        rows=rows + _asleep(month, awake),
        warm=_warm(month),
        places=Places({pod.name: pod.node for pod in month.cluster.pods}),
    )


def _charges(month: Month) -> list[Charge]:
    found: list[Charge] = []
    for (name, hour), dollars in month.node_hours.items():
        node, began = month.cluster.nodes[name], START + timedelta(hours=hour)
        hours = Decimal(seconds_up(node, hour)) / HOUR
        found.append(
            Charge(
                kind="nodes",
                began=began,
                ended=began + timedelta(hours=1),
                amount=billed(dollars),
                supply=name,
                capacity=weight_hours(Decimal(node.cores) * hours, Decimal(node.gib) * hours),
                service="Amazon EC2",
            )
        )
    for day in range(DAYS):
        began, ended = START + timedelta(days=day), START + timedelta(days=day + 1)
        found += [
            Charge(kind="storage", began=began, ended=ended, amount=billed(month.stored[day]), service="Amazon EFS"),
            Charge(kind="storage_io", began=began, ended=ended, amount=billed(month.files[day]), service="Amazon EFS"),
            Charge(kind="network", began=began, ended=ended, amount=billed(month.moved[day]), service="Amazon VPC"),
        ]
        found += [
            Charge(kind="fixed", began=began, ended=ended, amount=billed(dollars), service=service)
            for service, dollars in FIXED.items()
        ]
    return found


def _rows(random_: random.Random, month: Month) -> tuple[list[Row], dict[str, list[tuple[int, int]]]]:
    """Return the rows of claims with a pod, and when each owner's home was mounted."""
    rows: list[Row] = []
    awake: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for pod, used in zip(month.cluster.pods, month.uses, strict=True):
        if pod.session is None or pod.adopted is None:
            continue
        session = pod.session
        began = pod.adopted + random_.randrange(3)
        ended = max(min(pod.ended + random_.randrange(4), MONTH), began + 1)
        at_home = session.mode != "agent"
        if at_home:
            awake[session.owner].append((began, ended))
        for day in range(began // DAY, (ended - 1) // DAY + 1):
            first, last = max(began, day * DAY), min(ended, (day + 1) * DAY)
            size = _measured(month, session.owner, day) if at_home else 0.0
            rows.append(
                Row(
                    owner=session.owner,
                    claim=session.claim,
                    pod=pod.name,
                    began=_moment(first),
                    ended=_moment(last),
                    sandbox_class=pod.kind,
                    workspace=session.claim,
                    mode=session.mode,
                    task=session.task,
                    cpu_seconds=_rounded(used.metered[day].cores),
                    memory_gib_hours=_rounded(used.metered[day].gib / HOUR),
                    network_bytes=_rounded(used.metered_bytes[day]),
                    storage_gib_hours=_rounded(size * (last - first) / HOUR),
                    source="prometheus/metered",
                    closed=True,
                )
            )
    return rows, awake


def _asleep(month: Month, awake: dict[str, list[tuple[int, int]]]) -> list[Row]:
    """Return the rows without a pod: of homes that are not mounted."""
    rows: list[Row] = []
    for person in month.owners:
        free = person.joined
        for began, ended in [*sorted(awake.get(person.name, [])), (MONTH, MONTH)]:
            for day in range(free // DAY, -(-began // DAY)):
                first, last = max(free, day * DAY), min(began, (day + 1) * DAY)
                if first >= last:
                    continue
                size = _measured(month, person.name, day)
                rows.append(
                    Row(
                        owner=person.name,
                        claim=f"c-{person.name}",
                        pod=NO_POD,
                        began=_moment(first),
                        ended=_moment(last),
                        sandbox_class=person.kind,
                        workspace=f"c-{person.name}",
                        storage_gib_hours=_rounded(size * (last - first) / HOUR),
                        source="none/metered",
                        closed=True,
                    )
                )
            free = max(free, ended)
    return rows


def _measured(month: Month, owner: str, day: int) -> float:
    """Return the last measured size of a home: at night, or on its first day at the end of that day."""
    sizes = month.homes[owner]
    return sizes[day - 1] * 0.6 + sizes[day] * 0.4 if day and sizes[day - 1] else sizes[day]


def _warm(month: Month) -> list[Warm]:
    found: list[Warm] = []
    for pod, used in zip(month.cluster.pods, month.uses, strict=True):
        until = pod.ended if pod.adopted is None else pod.adopted
        if until > pod.born:
            found.append(_slot(pod.name, pod.kind, (pod.born, until), used))
    return found


def _slot(name: str, kind: str, interval: tuple[int, int], used: Use) -> Warm:
    return Warm(
        pod=name,
        sandbox_class=kind,
        began=_moment(interval[0]),
        ended=_moment(interval[1]),
        cpu_seconds=_rounded(used.metered_warm.cores),
        memory_gib_hours=_rounded(used.metered_warm.gib / HOUR),
    )


def _moment(seconds: int) -> datetime:
    return START + timedelta(seconds=seconds)


def _rounded(amount: float) -> Decimal:
    return Decimal(amount).quantize(MICRO)
