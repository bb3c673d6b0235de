"""Constraints on address ranges, zones, egress and the public API endpoint."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

from agentenv.config.constraints.constraint import Constraint, Finding
from agentenv.config.constraints.isolation import reaches_internet
from agentenv.config.regions import OTHER_PARTITION
from agentenv.core.classes.pools.sizes import max_sandboxes
from agentenv.core.values import addresses

if TYPE_CHECKING:
    from agentenv.config.mistakes import Place
    from agentenv.config.settings import Settings

# Controllers, add-ons and the service, a few of each.
PLATFORM_PODS = 40

# A shorter prefix is no longer a specific range: 0.0.0.0/1 and 128.0.0.0/1 are the whole internet.
SHORTEST_PREFIX = 8

USUAL_SERVICES = (IPv4Network("172.20.0.0/16"), IPv4Network("10.100.0.0/16"))

_CIDR, _ZONES, _SERVICE = ("network", "cidr"), ("network", "zones"), ("cluster", "serviceCidr")
_PEERS, _PUBLIC = ("network", "peers"), ("cluster", "publicAccessCidrs")


def _vpc_range(settings: Settings) -> Iterator[Finding]:
    if settings.network.existing is None and not _valid_vpc(settings.network.cidr):
        yield Finding(_CIDR, str(settings.network.cidr))


def _valid_vpc(cidr: IPv4Network) -> bool:
    """Return whether AWS accepts a range for a VPC and two subnets fit into it."""
    special = cidr.is_loopback or cidr.is_link_local or cidr.is_multicast or cidr.is_reserved or cidr.is_unspecified
    return not special and addresses.LARGEST_VPC <= cidr.prefixlen < addresses.SMALLEST_VPC


def _too_few_zones(settings: Settings) -> Iterator[Finding]:
    network = settings.network
    if network.existing is None and _valid_vpc(network.cidr):
        try:
            addresses.plan(str(network.cidr), network.zone_count)
        except addresses.AddressSpaceError as error:
            yield Finding(_CIDR, error.found, error.hint, (_ZONES,))


def _too_few_pods(settings: Settings) -> Iterator[Finding]:
    network = settings.network
    if network.existing is not None or not _valid_vpc(network.cidr) or any(_too_few_zones(settings)):
        return
    pods = PLATFORM_PODS + settings.capacity.headroom.pods + len(settings.workspaces)
    pods += sum(max_sandboxes(sandbox_class) for sandbox_class in settings.sandbox_classes)
    try:
        addresses.plan(str(network.cidr), network.zone_count).check_capacity(pods, settings.capacity.pods_per_node)
    except addresses.AddressSpaceError as error:
        also = (_ZONES, ("capacity",), ("sandboxClasses",), ("workspaces",))
        hint = f"{error.hint}, or lower capacity.podsPerNode"
        yield Finding(_CIDR, f"{error.found}, and {pods} are needed", hint, also)


def _services_overlap(settings: Settings) -> Iterator[Finding]:
    service = settings.cluster.service_cidr
    vpc = settings.network.cidr
    if settings.network.existing is None and _valid_vpc(vpc) and service.overlaps(vpc):
        apart = next(str(usual) for usual in USUAL_SERVICES if not usual.overlaps(vpc))
        found = f"{service} over the VPC's {vpc}"
        yield Finding(_SERVICE, found, f"change one of them, such as serviceCidr: {apart}", (_CIDR,))


def _service_range(settings: Settings) -> Iterator[Finding]:
    service = settings.cluster.service_cidr
    if not 12 <= service.prefixlen <= 24 or not any(
        service.subnet_of(private) for private in addresses.PRIVATE_NETWORKS
    ):
        yield Finding(_SERVICE, str(service))


def _own_ranges(settings: Settings) -> list[tuple[str, IPv4Network, Place]]:
    """Return the ranges that the settings define; those of existing resources are unknown here."""
    ranges: list[tuple[str, IPv4Network, Place]] = []
    if settings.network.existing is None:
        ranges.append(("the VPC", settings.network.cidr, _CIDR))
    if settings.cluster.existing is None:
        ranges.append(("the service range", settings.cluster.service_cidr, _SERVICE))
    return ranges


def _peers_overlap(settings: Settings) -> Iterator[Finding]:
    ours = _own_ranges(settings)
    for index, peer in enumerate(settings.network.peers):
        for name, ours_range, place in ours:
            if peer.overlaps(ours_range):
                yield Finding(("network", "peers", index), f"{peer} over {name} {ours_range}", also=(place,))


def _zones_of_another_region(settings: Settings) -> Iterator[Finding]:
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
            if public.prefixlen < SHORTEST_PREFIX:
                yield Finding(("cluster", "publicAccessCidrs", index), f"{public} in production")


def _open_to_sandboxes(settings: Settings) -> Iterator[Finding]:
    # A class with the capability api-server is meant to reach it.
    reaching = [
        sandbox_class.name
        for sandbox_class in settings.sandbox_classes
        if reaches_internet(sandbox_class) and "api-server" not in {grant.word for grant in sandbox_class.capabilities}
    ]
    if reaching and not settings.production:
        for index, public in enumerate(settings.cluster.public_access_cidrs):
            if public.prefixlen < SHORTEST_PREFIX:
                also: tuple[Place, ...] = (("sandboxClasses", "*", "capabilities"),)
                place = ("cluster", "publicAccessCidrs", index)
                yield Finding(place, f"{public} with class {reaching[0]} on the internet", also=also)


def _public_is_private(settings: Settings) -> Iterator[Finding]:
    for index, public in enumerate(settings.cluster.public_access_cidrs):
        if any(public.subnet_of(private) for private in (*addresses.PRIVATE_NETWORKS, IPv4Network("100.64.0.0/10"))):
            yield Finding(("cluster", "publicAccessCidrs", index), str(public))


def _peers_not_routed(settings: Settings) -> Iterator[Finding]:
    if settings.network.transit_gateway is not None and not settings.network.peers:
        yield Finding(("network", "transitGateway"), "no peers", also=(_PEERS,))


def _private_access_not_routed(settings: Settings) -> Iterator[Finding]:
    network, ranges = settings.network, settings.cluster.private_access_from or ()
    if network.existing is not None:
        return
    for index, source in enumerate(ranges):
        if not any(source.subnet_of(peer) for peer in network.peers):
            yield Finding(("cluster", "privateAccessFrom", index), f"{source} in no peer", also=(_PEERS,))
        elif network.transit_gateway is None:
            also: tuple[Place, ...] = (("network", "transitGateway"),)
            yield Finding(("cluster", "privateAccessFrom", index), f"{source} without a route", also=also)


def _private_cluster_unreachable(settings: Settings) -> Iterator[Finding]:
    cluster, network = settings.cluster, settings.network
    if cluster.existing is not None or cluster.public_access_cidrs:
        return
    if not settings.private_access:
        yield Finding(_PUBLIC, "no range, public or private", also=(("cluster", "privateAccessFrom"), _PEERS))
    elif network.existing is None and network.transit_gateway is None:
        yield Finding(_PUBLIC, "no range, and no route to peers", also=(("network", "transitGateway"),))


def _metadata_granted(settings: Settings) -> Iterator[Finding]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        for position, grant in enumerate(sandbox_class.capabilities):
            local = (IPv4Network("169.254.0.0/16"),)
            if isinstance(grant.cidr, IPv4Network) and any(grant.cidr.overlaps(network) for network in local):
                yield Finding(("sandboxClasses", index, "capabilities", position, "cidr"), str(grant.cidr))


def _cluster_granted(settings: Settings) -> Iterator[Finding]:
    ours = [(found, place) for _, found, place in _own_ranges(settings)]
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        for position, grant in enumerate(sandbox_class.capabilities):
            for network, place in ours:
                # A range that includes the metadata address has its own constraint.
                if isinstance(grant.cidr, IPv4Network) and grant.cidr.overlaps(network) and grant.cidr.prefixlen > 0:
                    where = ("sandboxClasses", index, "capabilities", position, "cidr")
                    yield Finding(where, f"{grant.cidr} over {network}", also=(place,))


def _domain_without_proxy(settings: Settings) -> Iterator[Finding]:
    if settings.network.egress_proxy is None:
        for index, sandbox_class in enumerate(settings.sandbox_classes):
            for position, grant in enumerate(sandbox_class.capabilities):
                if grant.domain is not None:
                    where = ("sandboxClasses", index, "capabilities", position, "domain")
                    yield Finding(where, grant.domain, also=(("network", "egressProxy"),))


def _another_partition(settings: Settings) -> Iterator[Finding]:
    if re.match(OTHER_PARTITION, settings.region):
        yield Finding(("region",), settings.region)


CONSTRAINTS = (
    Constraint(
        "region-of-another-partition",
        "China, GovCloud, and the isolated and sovereign regions cannot pull the platform's images and charts from ECR"
        " Public, nor have they the cost services that the environment uses",
        "regions of the partition aws",
        "use a commercial region, such as us-east-1",
        _another_partition,
    ),
    Constraint(
        "vpc-range-not-taken",
        "AWS allows VPCs of /16 to /28 outside of special-purpose ranges, and two subnets need a /27",
        "a range of /16 to /27",
        "use a range such as 10.40.0.0/16",
        _vpc_range,
    ),
    Constraint(
        "range-too-small-for-zones",
        "the range is divided for a fixed number of zones, so that adding a zone moves no subnet",
        "a range large enough for the zones",
        "use a larger range or fewer zones",
        _too_few_zones,
    ),
    Constraint(
        "range-too-small-for-pods",
        "every pod has a VPC address, and each node allocates them in blocks of sixteen",
        "a range large enough for all pools, seats and headroom",
        "use a larger range, more zones or smaller pools",
        _too_few_pods,
    ),
    Constraint(
        "service-range-overlaps-vpc",
        "a Kubernetes service with an address of the VPC would hide the resource with that address",
        "a service range that does not overlap the VPC",
        "change one of them",
        _services_overlap,
    ),
    Constraint(
        "service-range-not-taken",
        "EKS allows service ranges within 10/8, 172.16/12 or 192.168/16 only, of /24 to /12",
        "a private range of /24 to /12",
        "use a range such as 172.20.0.0/16",
        _service_range,
    ),
    Constraint(
        "peer-overlaps",
        "overlapping ranges cannot be routed",
        "ranges that do not overlap the VPC or the service range",
        "change the range of the VPC before it has resources; it cannot be changed later",
        _peers_overlap,
    ),
    Constraint(
        "zone-of-another-region",
        "subnets must be in zones of the region",
        "zones of aws:region",
        "use zones of the region, or their number",
        _zones_of_another_region,
    ),
    Constraint(
        "zone-twice",
        "two subnets in the same zone fail together",
        "each zone once",
        "remove the duplicate",
        _zones_twice,
    ),
    Constraint(
        "public-endpoint-open",
        "the API server of a production environment would be open to the internet",
        "ranges of /8 or smaller; an empty list keeps it private",
        "use the ranges of your offices, runners or VPN",
        _open_to_the_world,
    ),
    Constraint(
        "public-endpoint-open-to-sandboxes",
        "a class with internet access would reach the API server through its public endpoint",
        "ranges of /8 or smaller; an empty list keeps it private",
        "use the ranges of your offices, runners or VPN",
        _open_to_sandboxes,
    ),
    Constraint(
        "public-range-is-private",
        "no request from the internet has a private source address, so the range would allow nobody",
        "public ranges; private ones are in privateAccessFrom",
        "use the public addresses of your offices, runners or VPN",
        _public_is_private,
    ),
    Constraint(
        "private-cluster-unreachable",
        "without public access, the API server has addresses of the VPC only, and its security group admits only what"
        " is listed; `pulumi up` could not create anything in it",
        "ranges of publicAccessCidrs, or peers with a route: a transitGateway, or network.existing",
        "set network.peers and network.transitGateway, or publicAccessCidrs",
        _private_cluster_unreachable,
    ),
    Constraint(
        "private-access-not-routed",
        "responses to a range need a route in the VPC",
        "ranges within network.peers, with network.transitGateway",
        "add the range to network.peers and set network.transitGateway",
        _private_access_not_routed,
    ),
    Constraint(
        "transit-gateway-without-peers",
        "only peers are routed to the transit gateway",
        "transitGateway with network.peers",
        "add the ranges behind it to network.peers, or remove transitGateway",
        _peers_not_routed,
    ),
    Constraint(
        "metadata-granted",
        "link-local addresses serve the node's metadata, and with it the node's credentials",
        "ranges that do not overlap 169.254.0.0/16",
        "use the capability web for the internet, which excludes such ranges, or metadata if it is intended",
        _metadata_granted,
    ),
    Constraint(
        "cluster-granted",
        "a range of the VPC or of its services gives a sandbox access to nodes, mount targets and the control plane",
        "ranges outside of the VPC and the service range",
        "use the capability dns or a grant of a class, or vpc if all of it is intended",
        _cluster_granted,
    ),
    Constraint(
        "domain-without-proxy",
        "a network policy matches addresses, not domains",
        "domains with network.egressProxy",
        "set network.egressProxy, or grant ranges or the capability web",
        _domain_without_proxy,
    ),
)
