"""A whole month, made from a seed: people, cluster, what ran, what homes held, and what everything cost."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from decimal import Decimal

from bench.month.cluster import Cluster, Node
from bench.month.people import DAY, DAYS, MONTH, Person, people, sessions
from bench.month.use import Use, use

HOUR = 3600
HOURS = MONTH // HOUR
PLACES = Decimal("1e-10")  # as many as a line of a bill has
# Dollars a day that are there whoever comes, by service.
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
    """What happened and what it cost, in dollars as they are before a bill rounds them."""

    everybody: list[Person]
    cluster: Cluster
    uses: list[Use]  # of each pod of the cluster
    homes: dict[str, list[float]]  # GiB, by owner and day; none before they came
    node_hours: dict[tuple[str, int], float]
    stored: list[float]
    moved: list[float]
    files: list[float]


def month(owners: int, seed: int) -> Month:
    """The month of a seed."""
    chance = random.Random(seed)  # noqa: S311 - a simulation, to be had again
    everybody = people(chance, owners)
    cluster = Cluster(chance).run(sessions(chance, everybody))
    uses = [use(chance, pod) for pod in cluster.pods]
    homes = {person.name: _home(chance, person) for person in everybody}
    moved = [0.0] * DAYS
    for one in uses:
        for hour, amount in one.bytes_by_hour.items():
            moved[hour * HOUR // DAY] += amount * MOVED_A_BYTE
    return Month(
        everybody=everybody,
        cluster=cluster,
        uses=uses,
        homes=homes,
        node_hours=_node_hours(cluster),
        stored=[sum(kept(one, homes[one.name], day) for one in everybody) * STORED_A_GIB_DAY for day in range(DAYS)],
        moved=moved,
        files=[FILES_A_DAY * chance.uniform(0.7, 1.3) for _ in range(DAYS)],
    )


def seconds_up(node: Node, hour: int) -> int:
    """How long of an hour a node was there."""
    return max(min(node.gone, (hour + 1) * HOUR) - max(node.born, hour * HOUR), 0)


def _node_hours(cluster: Cluster) -> dict[tuple[str, int], float]:
    """What each node cost in each hour: by the second, and on Spot by the market's price."""
    found: dict[tuple[str, int], float] = {}
    for node in cluster.nodes.values():
        for hour in range(node.born // HOUR, -(-node.gone // HOUR)):
            market = 0.38 + 0.07 * math.sin(hour / 31 + len(node.kind)) + 0.03 * math.sin(hour / 5)
            price = node.price * (market if node.spot else 1)
            found[node.name, hour] = price * seconds_up(node, hour) / HOUR
    return found


def _home(chance: random.Random, person: Person) -> list[float]:
    size, sizes = person.home_gib, [0.0] * DAYS
    for day in range(person.joined // DAY, DAYS):
        sizes[day] = size
        size *= 1 + person.growth * chance.random()
    return sizes


def kept(person: Person, sizes: list[float], day: int) -> float:
    """GiB-days of a home on a day; on the first there is only what is left of it."""
    return sizes[day] * min(max((day + 1) - person.joined / DAY, 0.0), 1.0)


def billed(dollars: float) -> Decimal:
    """An amount as a line of a bill has it."""
    return Decimal(dollars).quantize(PLACES)
