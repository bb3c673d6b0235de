"""Check the region and its zones, and that they offer the instance families of each pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentenv.cli.preflight import needs
from agentenv.cli.preflight.aws_calls import Account
from agentenv.cli.preflight.check import Answer, Question
from agentenv.config import Settings
from agentenv.core.nodes.node_pools import NodePool

# The most values in one EC2 filter.
MAX_VALUES = 200


def questions(settings: Settings) -> list[Question]:
    """Return the questions about the region, its zones, and each node pool."""
    needed: int | str = settings.network.zone_count
    if isinstance(settings.network.zones, tuple):
        needed = ", ".join(settings.network.zones)
    pools = needs.pools_of(settings)
    return [
        Question("the region is open", settings.region, lambda account: _check_region(account, settings.region)),
        *(
            []
            if settings.network.existing
            else [Question("zones", needed, lambda account: _check_zones(account, settings))]
        ),
        *(
            Question(f"instances of {pool.name}", ", ".join(pool.families), _check_offerings(settings, pools, pool))
            for pool in pools
        ),
    ]


def zones(account: Account, settings: Settings) -> list[str]:
    """Return the zones of the environment: those of its settings, its subnets, or the first of the region."""
    existing = settings.network.existing
    if existing is not None:
        ids = list(existing.private_subnet_ids)
        subnets = account.cached(
            "subnets", lambda: account.list_all("ec2", "describe_subnets", "Subnets", SubnetIds=ids)
        )
        return sorted({subnet["AvailabilityZone"] for subnet in subnets})
    if isinstance(settings.network.zones, tuple):
        return list(settings.network.zones)
    return _available(account)[: settings.network.zone_count]


def _available(account: Account) -> list[str]:
    filters = [
        {"Name": "state", "Values": ["available"]},
        # The same filter as in the program: local and wavelength zones do not have all services.
        {"Name": "opt-in-status", "Values": ["opt-in-not-required"]},
    ]
    available = account.cached(
        "zones", lambda: account.list_all("ec2", "describe_availability_zones", "AvailabilityZones", Filters=filters)
    )
    return sorted(zone["ZoneName"] for zone in available)


def _check_region(account: Account, region: str) -> Answer:
    regions = account.list_all("ec2", "describe_regions", "Regions", AllRegions=True)
    state = next((row.get("OptInStatus") for row in regions if row["RegionName"] == region), None)
    if state is None:
        near = ", ".join(sorted(row["RegionName"] for row in regions if row["RegionName"][:3] == region[:3]))
        return Answer(None, ok=False, why=f"there is no such region; similar regions: {near or 'none'}")
    if state == "not-opted-in":
        return Answer(
            state, ok=False, why=f"the account has not opted in: aws account enable-region --region-name {region}"
        )
    return Answer(state, ok=True, why="")


def _check_zones(account: Account, settings: Settings) -> Answer:
    available = _available(account)
    if isinstance(settings.network.zones, tuple):
        missing = [zone for zone in settings.network.zones if zone not in available]
        why = f"{', '.join(missing)} not available to this account; name other zones" if missing else ""
        return Answer(", ".join(available), ok=not missing, why=why)
    enough = settings.network.zone_count <= len(available)
    return Answer(len(available), ok=enough, why="" if enough else f"the region has {', '.join(available)}")


def _check_offerings(settings: Settings, pools: Sequence[NodePool], pool: NodePool) -> Callable[[Account], Answer]:
    def answer(account: Account) -> Answer:
        zone_names = zones(account, settings)
        offered = account.cached(
            "offerings", lambda: _offerings(account, list(needs.instance_families(list(pools))), zone_names)
        )
        return offering_answer(pool, zone_names, offered)

    return answer


def offering_answer(pool: NodePool, zone_names: Sequence[str], offered: Sequence[tuple[str, str]]) -> Answer:
    """Return whether each zone offers at least one family of a pool, with the families that some zones lack."""
    by_zone = {zone: [family for family in pool.families if (zone, family) in offered] for zone in zone_names}
    text = "; ".join(f"{zone}: {', '.join(families) or 'none'}" for zone, families in by_zone.items())
    if empty := [zone for zone, families in by_zone.items() if not families]:
        why = f"none of these is offered in {', '.join(empty)}; add families, or use other zones"
        return Answer(text, ok=False, why=why)
    partial = sorted({family for family in pool.families for found in by_zone.values() if family not in found})
    return Answer(text, ok=True, why=f"not in every zone: {', '.join(partial)}" if partial else "")


def _offerings(account: Account, families: Sequence[str], zone_names: Sequence[str]) -> list[tuple[str, str]]:
    """Return zone and family of every offered type. A family that ends in `-metal` means its bare-metal types alone."""
    patterns = sorted({f"{family.removesuffix('-metal')}.*" for family in families})
    offerings: list[dict[str, str]] = []
    for start in range(0, len(patterns), MAX_VALUES):
        offerings += account.list_all(
            "ec2",
            "describe_instance_type_offerings",
            "InstanceTypeOfferings",
            LocationType="availability-zone",
            Filters=[
                {"Name": "location", "Values": list(zone_names)},
                {"Name": "instance-type", "Values": patterns[start : start + MAX_VALUES]},
            ],
        )
    pairs: set[tuple[str, str]] = set()
    for offering in offerings:
        family, _, size = offering["InstanceType"].partition(".")
        pairs.add((offering["Location"], family))
        if size.startswith("metal"):
            pairs.add((offering["Location"], f"{family}-metal"))
    return sorted(pairs)
