"""IP ranges as text and as spans, and the ranges with a fixed meaning.

The internet is defined as all addresses less those at which a machine of the environment, of a connected network or of
the provider could answer. Documentation ranges are included, because nothing answers there: excluding them would double
the rules of a security group and protect nothing.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network, summarize_address_range
from typing import TYPE_CHECKING

from agentenv.core.capabilities.sets.boxes import ADDRESSES, VERSIONS, Version
from agentenv.core.capabilities.sets.intervals import EMPTY, Intervals

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Spans = dict[Version, Intervals]

# Why a range is not the internet; these texts appear in messages and in the reference.
NOT_INTERNET: dict[str, str] = {
    "0.0.0.0/8": "this host",
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "carrier-grade, and pods of EKS clusters with secondary ranges",
    "127.0.0.0/8": "loopback",
    "169.254.0.0/16": "link-local: instance metadata, Pod Identity, time and DNS of AWS",
    "172.16.0.0/12": "private",
    "192.168.0.0/16": "private",
    "198.18.0.0/15": "benchmarking, and pods of EKS clusters with secondary ranges",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved, with the broadcast address",
    "::/3": "unspecified, loopback, IPv4-mapped and NAT64 (64:ff9b::/96, which leads to IPv4 behind every exception)",
    "2001::/23": "protocol assignments, with Teredo, which leads to IPv4",
    "2002::/16": "6to4, which leads to IPv4",
    "4000::/2": "not assigned",
    "8000::/1": "not assigned, unique local (fc00::/7, with fd00:ec2::254), link-local and multicast",
}

# Endpoints that issue credentials to any caller: instance metadata, Pod Identity, task metadata.
METADATA = ("169.254.169.254", "169.254.170.2", "169.254.170.23", "fd00:ec2::254", "fd00:ec2::23")
# AWS answers on all of these from the host itself; no grant of a range includes them.
PROVIDER = ("169.254.0.0/16", "fd00:ec2::/32", "fe80::/10")

# A range with a shorter prefix than this is open to everybody: whole countries are in it. S3 calls a policy public by
# the same measure (S3 user guide, the meaning of "public").
SHORTEST_PREFIX = {4: 8, 6: 32}
# A quarter of all IPv4 addresses: many narrow ranges that add up to this are open to everybody too.
OPEN_ADDRESS_COUNT = 2**30
# Not routed on the internet, so not open however large they are.
_PRIVATE_IPV6 = (IPv6Network("fc00::/7"), IPv6Network("fe80::/10"))


def spans(ranges: Iterable[str]) -> Spans:
    """Parse CIDR ranges and addresses into spans by version; raise `ValueError` for anything else."""
    by_version: dict[Version, list[tuple[int, int]]] = {}
    for text in ranges:
        network = ip_network(text)
        by_version.setdefault(network.version, []).append((int(network[0]), int(network[-1])))
    return {version: Intervals.of(by_version[version]) for version in VERSIONS if version in by_version}


def union_of_spans(*several: Mapping[Version, Intervals]) -> Spans:
    """Return the union of several sets of addresses."""
    return {version: _version_union(several, version) for version in VERSIONS if _version_union(several, version)}


def subtract_spans(addresses: Mapping[Version, Intervals], taken: Mapping[Version, Intervals]) -> Spans:
    """Return the addresses without `taken`."""
    return {version: left for version, mine in addresses.items() if (left := mine - taken.get(version, EMPTY))}


def of_versions(addresses: Mapping[Version, Intervals], versions: Iterable[Version]) -> Spans:
    """Return only the addresses of these IP versions."""
    chosen = frozenset(versions)
    return {version: mine for version, mine in addresses.items() if version in chosen}


def all_addresses(versions: Iterable[Version] = VERSIONS) -> Spans:
    """Return every address of these IP versions."""
    return {version: Intervals((ADDRESSES[version],)) for version in versions}


def internet() -> Spans:
    """Return the addresses of the internet, as this module defines it."""
    return subtract_spans(all_addresses(), spans(NOT_INTERNET))


def prefixes(version: Version, addresses: Intervals) -> tuple[str, ...]:
    """Return the fewest prefixes that cover exactly those addresses, in ascending order."""
    return tuple(
        str(network)
        for low, high in addresses.spans
        for network in (
            summarize_address_range(IPv4Address(low), IPv4Address(high))
            if version == 4
            else summarize_address_range(IPv6Address(low), IPv6Address(high))
        )
    )


def address_text(version: Version, address: int) -> str:
    """Format an address."""
    return str(IPv4Address(address) if version == 4 else IPv6Address(address))


def version_of(text: str) -> Version:
    """Return the IP version of an address or a range; raise `ValueError` for anything else."""
    return ip_network(text).version


def _version_union(several: tuple[Mapping[Version, Intervals], ...], version: Version) -> Intervals:
    return Intervals.of(span for part in several for span in part.get(version, EMPTY).spans)


def parse_network(value: object) -> IPv4Network | IPv6Network | None:
    """Return the range in a text; None for anything that is not a range."""
    try:
        return ip_network(value, strict=False) if isinstance(value, str) else None
    except ValueError:
        return None


def is_open_range(network: IPv4Network | IPv6Network) -> bool:
    """Return whether a range is so large that it is open to everybody."""
    if isinstance(network, IPv6Network) and any(network.subnet_of(private) for private in _PRIVATE_IPV6):
        return False
    return network.prefixlen < SHORTEST_PREFIX[network.version]
