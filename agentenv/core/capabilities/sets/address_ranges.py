"""Addresses as text and as spans, and the ranges that mean something everywhere.

What the internet is, for a sandbox, is a definition and not a registry: all addresses less those at which a machine of
ours, of a neighbour's or of the provider's could answer. The documentation ranges stay in, because nobody answers
there; leaving them out would double the rules of a security group and protect nothing.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_network, summarize_address_range
from typing import TYPE_CHECKING

from agentenv.core.capabilities.sets.boxes import ADDRESSES, VERSIONS, Version
from agentenv.core.capabilities.sets.intervals import EMPTY, Intervals

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Spans = dict[Version, Intervals]

# Why a range is not the internet; the words appear in messages and in the reference.
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

# Where credentials are handed out to whoever asks: instance metadata, Pod Identity, task metadata.
METADATA = ("169.254.169.254", "169.254.170.2", "169.254.170.23", "fd00:ec2::254", "fd00:ec2::23")
# AWS answers on all of these from the host itself; no grant of a range includes them.
PROVIDER = ("169.254.0.0/16", "fd00:ec2::/32", "fe80::/10")


def spans(ranges: Iterable[str]) -> Spans:
    """Ranges and single addresses as spans by version; `ValueError` for what is neither."""
    found: dict[Version, list[tuple[int, int]]] = {}
    for text in ranges:
        network = ip_network(text)
        found.setdefault(network.version, []).append((int(network[0]), int(network[-1])))
    return {version: Intervals.of(found[version]) for version in VERSIONS if version in found}


def joined(*several: Mapping[Version, Intervals]) -> Spans:
    """The union of several sets of addresses."""
    return {version: _of(several, version) for version in VERSIONS if _of(several, version)}


def without(addresses: Mapping[Version, Intervals], taken: Mapping[Version, Intervals]) -> Spans:
    """The addresses less those taken."""
    return {version: left for version, mine in addresses.items() if (left := mine - taken.get(version, EMPTY))}


def within(addresses: Mapping[Version, Intervals], versions: Iterable[Version]) -> Spans:
    """The addresses of those versions."""
    wanted = frozenset(versions)
    return {version: mine for version, mine in addresses.items() if version in wanted}


def whole(versions: Iterable[Version] = VERSIONS) -> Spans:
    """Every address of those versions."""
    return {version: Intervals((ADDRESSES[version],)) for version in versions}


def internet() -> Spans:
    """All addresses less those at which a machine of ours, a neighbour's or the provider's could answer."""
    return without(whole(), spans(NOT_INTERNET))


def prefixes(version: Version, addresses: Intervals) -> tuple[str, ...]:
    """The fewest prefixes whose union those addresses are, in ascending order."""
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
    """An address as people write it."""
    return str(IPv4Address(address) if version == 4 else IPv6Address(address))


def version_of(text: str) -> Version:
    """The version of an address or a range; `ValueError` for what is neither."""
    return ip_network(text).version


def _of(several: tuple[Mapping[Version, Intervals], ...], version: Version) -> Intervals:
    return Intervals.of(span for one in several for span in one.get(version, EMPTY).spans)
