"""The region and its zones, and whether the instances of each pool are offered there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentenv.cli.preflight import needs
from agentenv.cli.preflight.aws_calls import Account
from agentenv.cli.preflight.check import Answer, Question
from agentenv.config import Settings
from agentenv.core.nodes.node_pools import NodePool

# Filters of EC2 take so many values at most.
MOST_VALUES = 200


def questions(settings: Settings) -> list[Question]:
    """The region, its zones, and a question a pool."""
    wanted: int | str = settings.network.zone_count
    if isinstance(settings.network.zones, tuple):
        wanted = ", ".join(settings.network.zones)
    pools = needs.pools_of(settings)
    return [
        Question("the region is open", settings.region, lambda account: _region(account, settings.region)),
        *([] if settings.network.existing else [Question("zones", wanted, lambda account: _zones(account, settings))]),
        *(
            Question(f"instances of {pool.name}", ", ".join(pool.families), _asker(settings, pools, pool))
            for pool in pools
        ),
    ]


def zones(account: Account, settings: Settings) -> list[str]:
    """The zones that the environment will be in: those named, those of its subnets, or the first of the region."""
    existing = settings.network.existing
    if existing is not None:
        ids = list(existing.private_subnet_ids)
        found = account.once("subnets", lambda: account.all("ec2", "describe_subnets", "Subnets", SubnetIds=ids))
        return sorted({subnet["AvailabilityZone"] for subnet in found})
    if isinstance(settings.network.zones, tuple):
        return list(settings.network.zones)
    return _available(account)[: settings.network.zone_count]


def _available(account: Account) -> list[str]:
    usual = [
        {"Name": "state", "Values": ["available"]},
        # As the program asks: zones that are opted into cannot hold what it makes.
        {"Name": "opt-in-status", "Values": ["opt-in-not-required"]},
    ]
    found = account.once(
        "zones", lambda: account.all("ec2", "describe_availability_zones", "AvailabilityZones", Filters=usual)
    )
    return sorted(zone["ZoneName"] for zone in found)


def _region(account: Account, region: str) -> Answer:
    found = account.all("ec2", "describe_regions", "Regions", AllRegions=True)
    state = next((one.get("OptInStatus") for one in found if one["RegionName"] == region), None)
    if state is None:
        near = ", ".join(sorted(one["RegionName"] for one in found if one["RegionName"][:3] == region[:3]))
        return Answer(None, ok=False, why=f"there is no such region; near it are {near or 'none'}")
    if state == "not-opted-in":
        return Answer(
            state, ok=False, why=f"the account has not opted in: aws account enable-region --region-name {region}"
        )
    return Answer(state, ok=True, why="")


def _zones(account: Account, settings: Settings) -> Answer:
    there = _available(account)
    if isinstance(settings.network.zones, tuple):
        missing = [zone for zone in settings.network.zones if zone not in there]
        told = ", ".join(there)
        if missing:
            return Answer(told, ok=False, why=f"{', '.join(missing)} cannot be had by this account; name others")
        return Answer(told, ok=True, why="")
    short = settings.network.zone_count - len(there)
    return Answer(len(there), ok=short <= 0, why=f"the region has {', '.join(there)}" if short > 0 else "")


def _asker(settings: Settings, pools: Sequence[NodePool], pool: NodePool) -> Callable[[Account], Answer]:
    def ask(account: Account) -> Answer:
        places = zones(account, settings)
        offered = account.once("offerings", lambda: _offerings(account, list(needs.families(list(pools))), places))
        return judged(pool, places, offered)

    return ask


def judged(pool: NodePool, places: Sequence[str], offered: Sequence[tuple[str, str]]) -> Answer:
    """Whether each zone has one of a pool's families at least; what some zones lack is told all the same."""
    by_zone = {
        zone: [family for family in pool.families if any(has == (zone, family) for has in offered)] for zone in places
    }
    told = "; ".join(f"{zone}: {', '.join(found) or 'none'}" for zone, found in by_zone.items())
    bare = [zone for zone, found in by_zone.items() if not found]
    if bare:
        return Answer(
            told, ok=False, why=f"nothing of it is offered in {', '.join(bare)}; add families, or other zones"
        )
    less = sorted({family for family in pool.families for found in by_zone.values() if family not in found})
    return Answer(told, ok=True, why=f"not in every zone: {', '.join(less)}" if less else "")


def _offerings(account: Account, families: Sequence[str], places: Sequence[str]) -> list[tuple[str, str]]:
    """Zone and family of every type that is offered; a family that ends in `-metal` means those of its types alone."""
    patterns = sorted({f"{family.removesuffix('-metal')}.*" for family in families})
    found: list[dict[str, str]] = []
    for start in range(0, len(patterns), MOST_VALUES):
        found += account.all(
            "ec2",
            "describe_instance_type_offerings",
            "InstanceTypeOfferings",
            LocationType="availability-zone",
            Filters=[
                {"Name": "location", "Values": list(places)},
                {"Name": "instance-type", "Values": patterns[start : start + MOST_VALUES]},
            ],
        )
    pairs: set[tuple[str, str]] = set()
    for one in found:
        family, _, size = one["InstanceType"].partition(".")
        pairs.add((one["Location"], family))
        if size.startswith("metal"):
            pairs.add((one["Location"], f"{family}-metal"))
    return sorted(pairs)
