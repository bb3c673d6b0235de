"""Refusals of addresses, zones, ways out and ways in."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

from agentenv.config.constraints.constraint import Finding, Row
from agentenv.config.constraints.isolation import reaches_internet
from agentenv.core.classes.pools.sizes import most_sandboxes
from agentenv.core.values import addresses

if TYPE_CHECKING:
    from agentenv.config.mistakes import Place
    from agentenv.config.settings import Settings

# Controllers, add-ons and the service, a few of each.
PLATFORM_PODS = 40

# Shorter prefixes are no longer somebody's range: two halves of the internet are the internet.
SMALLEST_NAMED = 8

SERVICE_RANGES = tuple(IPv4Network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))

USUAL_SERVICES = (IPv4Network("172.20.0.0/16"), IPv4Network("10.100.0.0/16"))

_CIDR, _ZONES, _SERVICE = ("network", "cidr"), ("network", "zones"), ("cluster", "serviceCidr")


def _vpc_range(settings: Settings) -> Iterator[Finding]:
    if settings.network.existing is None and not _taken(settings.network.cidr):
        yield Finding(_CIDR, str(settings.network.cidr))


def _taken(cidr: IPv4Network) -> bool:
    """Whether AWS makes a VPC of a range, with room for two subnets in it."""
    special = cidr.is_loopback or cidr.is_link_local or cidr.is_multicast or cidr.is_reserved or cidr.is_unspecified
    return not special and addresses.LARGEST_VPC <= cidr.prefixlen < addresses.SMALLEST_VPC


def _too_few_zones(settings: Settings) -> Iterator[Finding]:
    network = settings.network
    if network.existing is None and _taken(network.cidr):
        try:
            addresses.plan(str(network.cidr), network.zone_count)
        except addresses.NoRoomError as refusal:
            yield Finding(_CIDR, refusal.found, refusal.hint, (_ZONES,))


def _too_few_pods(settings: Settings) -> Iterator[Finding]:
    network = settings.network
    if network.existing is not None or not _taken(network.cidr) or any(_too_few_zones(settings)):
        return
    asked = PLATFORM_PODS + settings.capacity.headroom.pods + len(settings.workspaces)
    asked += sum(most_sandboxes(one) for one in settings.sandbox_classes)
    try:
        addresses.plan(str(network.cidr), network.zone_count).demand(asked, settings.capacity.pods_per_node)
    except addresses.NoRoomError as refusal:
        also = (_ZONES, ("capacity",), ("sandboxClasses",), ("workspaces",))
        hint = f"{refusal.hint}, or lower capacity.podsPerNode"
        yield Finding(_CIDR, f"{refusal.found}, and {asked} are asked for", hint, also)


def _services_overlap(settings: Settings) -> Iterator[Finding]:
    service = settings.cluster.service_cidr
    vpc = settings.network.cidr
    if settings.network.existing is None and _taken(vpc) and service.overlaps(vpc):
        apart = next(str(usual) for usual in USUAL_SERVICES if not usual.overlaps(vpc))
        found = f"{service} over the VPC's {vpc}"
        yield Finding(_SERVICE, found, f"move one of the two, such as serviceCidr: {apart}", (_CIDR,))


def _service_range(settings: Settings) -> Iterator[Finding]:
    service = settings.cluster.service_cidr
    if not 12 <= service.prefixlen <= 24 or not any(service.subnet_of(private) for private in SERVICE_RANGES):
        yield Finding(_SERVICE, str(service))


def _ours(settings: Settings) -> list[tuple[str, IPv4Network, Place]]:
    """The ranges that the settings decide; those of what stands already are not known here."""
    found: list[tuple[str, IPv4Network, Place]] = []
    if settings.network.existing is None:
        found.append(("the VPC", settings.network.cidr, _CIDR))
    if settings.cluster.existing is None:
        found.append(("the service range", settings.cluster.service_cidr, _SERVICE))
    return found


def _peers_overlap(settings: Settings) -> Iterator[Finding]:
    ours = _ours(settings)
    for index, peer in enumerate(settings.network.peers):
        for name, ours_range, place in ours:
            if peer.overlaps(ours_range):
                yield Finding(("network", "peers", index), f"{peer} over {name} {ours_range}", also=(place,))


def _foreign_zones(settings: Settings) -> Iterator[Finding]:
    if isinstance(settings.network.zones, tuple):
        for index, zone in enumerate(settings.network.zones):
            if zone[:-1] != settings.region:
                yield Finding(("network", "zones", index), f"{zone} in {settings.region}", also=(("region",),))


def _zones_twice(settings: Settings) -> Iterator[Finding]:
    if isinstance(settings.network.zones, tuple):
        for index, zone in enumerate(settings.network.zones):
            if zone in settings.network.zones[:index]:
                yield Finding(("network", "zones", index), f"{zone} twice")


def _open_to_the_world(settings: Settings) -> Iterator[Finding]:
    if settings.production:
        for index, public in enumerate(settings.cluster.public_access_cidrs):
            if public.prefixlen < SMALLEST_NAMED:
                yield Finding(("cluster", "publicAccessCidrs", index), f"{public} in production")


def _open_to_sandboxes(settings: Settings) -> Iterator[Finding]:
    # Whoever is granted the API server by its name is meant to reach it.
    reaching = [
        one.name
        for one in settings.sandbox_classes
        if reaches_internet(one) and "api-server" not in {grant.word for grant in one.capabilities}
    ]
    if reaching and not settings.production:
        for index, public in enumerate(settings.cluster.public_access_cidrs):
            if public.prefixlen < SMALLEST_NAMED:
                also: tuple[Place, ...] = (("sandboxClasses", "*", "capabilities"),)
                place = ("cluster", "publicAccessCidrs", index)
                yield Finding(place, f"{public} with class {reaching[0]} on the internet", also=also)


def _public_is_private(settings: Settings) -> Iterator[Finding]:
    for index, public in enumerate(settings.cluster.public_access_cidrs):
        if any(public.subnet_of(private) for private in (*SERVICE_RANGES, IPv4Network("100.64.0.0/10"))):
            yield Finding(("cluster", "publicAccessCidrs", index), str(public))


def _metadata_granted(settings: Settings) -> Iterator[Finding]:
    for index, one in enumerate(settings.sandbox_classes):
        for position, grant in enumerate(one.capabilities):
            local = (IPv4Network("169.254.0.0/16"),)
            if isinstance(grant.cidr, IPv4Network) and any(grant.cidr.overlaps(network) for network in local):
                yield Finding(("sandboxClasses", index, "capabilities", position, "cidr"), str(grant.cidr))


def _cluster_granted(settings: Settings) -> Iterator[Finding]:
    ours = [(found, place) for _, found, place in _ours(settings)]
    for index, one in enumerate(settings.sandbox_classes):
        for position, grant in enumerate(one.capabilities):
            for network, place in ours:
                # A range that holds the metadata address as well has its own message.
                if isinstance(grant.cidr, IPv4Network) and grant.cidr.overlaps(network) and grant.cidr.prefixlen > 0:
                    where = ("sandboxClasses", index, "capabilities", position, "cidr")
                    yield Finding(where, f"{grant.cidr} over {network}", also=(place,))


def _domain_without_proxy(settings: Settings) -> Iterator[Finding]:
    if settings.network.egress_proxy is None:
        for index, one in enumerate(settings.sandbox_classes):
            for position, grant in enumerate(one.capabilities):
                if grant.domain is not None:
                    where = ("sandboxClasses", index, "capabilities", position, "domain")
                    yield Finding(where, grant.domain, also=(("network", "egressProxy"),))


ROWS = (
    Row(
        "vpc-range-not-taken",
        "AWS makes VPCs of /16 to /28 outside the special ranges, and two subnets need a /27",
        "a range of /16 to /27",
        "take 10.40.0.0/16",
        _vpc_range,
    ),
    Row(
        "range-too-small-for-zones",
        "the range is divided for a fixed number of zones, so that one added later moves no subnet",
        "a range with room for the zones",
        "take a larger range or fewer zones",
        _too_few_zones,
    ),
    Row(
        "range-too-small-for-pods",
        "every pod has an address of the VPC, in blocks of sixteen a node",
        "a range with room for all pools, seats and headroom",
        "take a larger range, more zones or smaller pools",
        _too_few_pods,
    ),
    Row(
        "service-range-overlaps-vpc",
        "a service with an address of the VPC hides whatever has that address",
        "a service range apart from the VPC",
        "move one of the two",
        _services_overlap,
    ),
    Row(
        "service-range-not-taken",
        "EKS takes service ranges within 10/8, 172.16/12 or 192.168/16 only, of /24 to /12",
        "a private range of /24 to /12",
        "take 172.20.0.0/16",
        _service_range,
    ),
    Row(
        "peer-overlaps",
        "addresses that mean two things cannot be routed",
        "ranges apart from the VPC and the service range",
        "move the VPC while it is still empty: its range cannot be changed later",
        _peers_overlap,
    ),
    Row(
        "zone-of-another-region",
        "a subnet lies in a zone of its own region",
        "zones of aws:region",
        "name zones of the region, or give their number",
        _foreign_zones,
    ),
    Row(
        "zone-twice", "two subnets of one zone survive nothing more than one", "each zone once", "drop it", _zones_twice
    ),
    Row(
        "public-endpoint-open",
        "the API server of production would answer the whole internet",
        "named ranges of /8 or smaller; none at all keeps it private",
        "name the ranges of your offices, runners or VPN",
        _open_to_the_world,
    ),
    Row(
        "public-endpoint-open-to-sandboxes",
        "a class that reaches the internet would reach the API server by its public endpoint",
        "named ranges of /8 or smaller; none at all keeps it private",
        "name the ranges of your offices, runners or VPN",
        _open_to_sandboxes,
    ),
    Row(
        "public-range-is-private",
        "from the internet nobody comes with a private address, so the range would let nobody in",
        "public ranges; private ones reach the private endpoint without being named",
        "name the public addresses that your offices, runners or VPN are seen with",
        _public_is_private,
    ),
    Row(
        "metadata-granted",
        "link-local addresses hold the node's metadata and with it the node's credentials",
        "ranges apart from 169.254.0.0/16",
        "use the capability web for the internet, which leaves such ranges out, or name metadata if it is meant",
        _metadata_granted,
    ),
    Row(
        "cluster-granted",
        "a range of the VPC or of its services opens nodes, mount targets and the control plane to a sandbox",
        "ranges outside the VPC and the service range",
        "use the capability dns or a grant of a class, or name vpc if all of it is meant",
        _cluster_granted,
    ),
    Row(
        "domain-without-proxy",
        "a network policy knows addresses and no names",
        "domains with network.egressProxy",
        "name a proxy, or grant ranges or the capability web",
        _domain_without_proxy,
    ),
)
