"""Simulate a whole month from a seed: owners, cluster, usage, homes and costs."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from decimal import Decimal

from bench.month.cluster import Cluster, Node
from bench.month.people import DAY, DAYS, Person, people, sessions
from bench.month.use import Use, use

HOUR = 3600
PLACES = Decimal("1e-10")  # as in the lines of a bill
# Fixed dollars a day, by service.
FIXED = {
    "Amazon EKS": 24 * 0.10,
    "NAT gateways": 24 * 0.045 * 2,
    "Elastic Load Balancing": 24 * 0.0225 + 0.6,
    "AWS Fargate": 24 * (1.25 * 0.04048 + 2.5 * 0.004445),
    "Amazon CloudWatch": 0.42,
    "AWS KMS, public addresses, the rest": 0.31,
}
STORED_A_GIB_DAY = 0.30 / DAYS
MOVED_A_BYTE = 0.055e-9
FILES_A_DAY = 1.9


@dataclass
class Month:
    """A simulated month, with exact costs before the rounding of the bill."""

    owners: list[Person]
    cluster: Cluster
    uses: list[Use]  # of each pod of the cluster
    homes: dict[str, list[float]]  # GiB, by owner and day; 0 before they joined
    node_hours: dict[tuple[str, int], float]
    stored: list[float]
    moved: list[float]
    files: list[float]


def month(count: int, seed: int) -> Month:
    """Simulate the month of a seed."""
    random_ = random.Random(seed)  # noqa: S311 - a reproducible simulation
    owners = people(random_, count)
    cluster = Cluster(random_).run(sessions(random_, owners))
    uses = [use(random_, pod) for pod in cluster.pods]
    homes = {person.name: _home(random_, person) for person in owners}
    moved = [0.0] * DAYS
    for usage in uses:
        for hour, amount in usage.bytes_by_hour.items():
            moved[hour * HOUR // DAY] += amount * MOVED_A_BYTE
    return Month(
        owners=owners,
        cluster=cluster,
        uses=uses,
        homes=homes,
        node_hours=_node_hours(cluster),
        stored=[
            sum(gib_days(owner, homes[owner.name], day) for owner in owners) * STORED_A_GIB_DAY for day in range(DAYS)
        ],
        moved=moved,
        files=[FILES_A_DAY * random_.uniform(0.7, 1.3) for _ in range(DAYS)],
    )


def seconds_up(node: Node, hour: int) -> int:
    """Return the seconds of an hour in which a node existed."""
    return max(min(node.gone, (hour + 1) * HOUR) - max(node.born, hour * HOUR), 0)


def _node_hours(cluster: Cluster) -> dict[tuple[str, int], float]:
    """Return the cost of each node and hour, by the second, and for Spot by the market price."""
    found: dict[tuple[str, int], float] = {}
    for node in cluster.nodes.values():
        for hour in range(node.born // HOUR, -(-node.gone // HOUR)):
            market = 0.38 + 0.07 * math.sin(hour / 31 + len(node.kind)) + 0.03 * math.sin(hour / 5)
            price = node.price * (market if node.spot else 1)
            found[node.name, hour] = price * seconds_up(node, hour) / HOUR
    return found


def _home(random_: random.Random, person: Person) -> list[float]:
    size, sizes = person.home_gib, [0.0] * DAYS
    for day in range(person.joined // DAY, DAYS):
        sizes[day] = size
        size *= 1 + person.growth * random_.random()
    return sizes


def gib_days(person: Person, sizes: list[float], day: int) -> float:
    """Return the GiB-days of a home on a day: on the first day, only the rest of it."""
    return sizes[day] * min(max((day + 1) - person.joined / DAY, 0.0), 1.0)


def billed(dollars: float) -> Decimal:
    """Round an amount as in a line of a bill."""
    return Decimal(dollars).quantize(PLACES)
