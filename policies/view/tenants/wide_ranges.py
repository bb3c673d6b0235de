"""Ranges of addresses that are so wide that they name nobody."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final

from agentenv.policies.view.fields import Field

# A range this wide names nobody: whole countries are in it. S3 calls a policy public by the same measure (S3 user
# guide, the meaning of "public").
WIDEST: Final = {4: 8, 6: 32}
# IPv4 addresses, a quarter of all: what many narrow ranges may not add up to
WORLD: Final = 2**30
# Addresses that nobody has on the internet, however many they are
_PRIVATE: Final = (IPv6Network("fc00::/7"), IPv6Network("fe80::/10"))


def network_of(field: Field) -> IPv4Network | IPv6Network | None:
    """The range in a field; None where there is none that could be read."""
    try:
        return ip_network(field.raw, strict=False) if isinstance(field.raw, str) else None
    except ValueError:
        return None


def for_anybody(network: IPv4Network | IPv6Network) -> bool:
    """Whether a range is as good as everywhere."""
    if isinstance(network, IPv6Network) and any(network.subnet_of(one) for one in _PRIVATE):
        return False
    return network.prefixlen < WIDEST[network.version]
