"""Ways in and out: gateways, addresses, endpoints and the load balancer, and what users send over them."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

from model.cost.lines import Part, plain
from model.prices.units import Amount, Dollars, total

if TYPE_CHECKING:
    from model.cost.assumptions import Assumptions
    from model.prices.book import PriceBook
    from model.settings.whole import Settings


def ways(settings: Settings, book: PriceBook) -> Iterator[Part]:
    """What is there whoever comes; a network that stands already is somebody else's to pay."""
    network = settings.network
    zones = network.zone_count
    if network.existing is None:
        count = {"none": 0, "single": 1, "per-zone": zones}[network.nat]
        if count:
            each = book.rate("nat.gateway") + book.rate("address.public")
            words = f"{count} ({network.nat}), each with a public address"
            yield Part("NAT gateways", each.all_month() * count, words)
        if network.endpoints:
            count = len(network.endpoints) * zones
            words = f"{', '.join(network.endpoints)} in {zones} zones"
            yield Part("interface endpoints", book.rate("endpoint.interface").all_month() * count, words)
    service = settings.service
    if service.deployed and service.domain is not None:
        addresses = zones if service.reach == "internet" else 0
        cost = book.rate("balancer.network").all_month() + book.rate("address.public").all_month() * addresses
        words = f"1 of the network kind for {service.domain}, {addresses} public addresses"
        yield Part("load balancer", cost, words)


def traffic(
    settings: Settings, hours: Decimal, node_hours: Decimal, book: PriceBook, taken: Assumptions
) -> Iterator[Part]:
    """What a user moves in so many active hours, which take so many hours of nodes."""
    network = settings.network
    down, up = taken.downloads * hours, taken.uploads * hours
    images = node_hours / taken.node_life * taken.node_images
    out = book.rate("traffic.out").of(Amount(up, "GB"))
    yield Part("to the internet", out, f"{plain(up)} GB", "user")
    if network.existing is None and network.nat != "none":
        moved = down + up + images
        gateway = book.rate("nat.traffic").of(Amount(moved, "GB"))
        words = f"{plain(down + up)} GB of users' and {plain(images)} GB of images for new nodes"
        yield Part("through NAT", total((gateway, _across(settings, moved, book))), words, "user")


def _across(settings: Settings, moved: Decimal, book: PriceBook) -> Dollars:
    """With one gateway, what comes from other zones crosses over to it: paid on leaving and on entering."""
    if settings.network.nat != "single":
        return Dollars()
    zones = settings.network.zone_count
    crossing = moved * (zones - 1) / zones
    return book.rate("traffic.cross-zone").of(Amount(crossing * 2, "GB"))
