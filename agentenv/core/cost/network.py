"""The cost of the network: gateways, addresses, endpoints, the load balancer, and traffic."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

from agentenv.core.cost.lines import Part, plain
from agentenv.core.prices.units import Dollars, total

if TYPE_CHECKING:
    from agentenv.core.cost.context import EstimateContext


def gateways_and_endpoints(context: EstimateContext) -> Iterator[Part]:
    """Yield the fixed cost of gateways, endpoints and the load balancer; an existing network is not included."""
    network, service = context.settings.network, context.settings.service
    zones = network.zone_count
    if network.existing is None:
        gateways = {"none": 0, "single": 1, "per-zone": zones}[network.nat]
        if gateways:
            gateway = context.rate("nat.gateway") + context.rate("address.public")
            words = f"{gateways} ({network.nat}), each with a public address"
            yield Part("NAT gateways", gateway.all_month() * gateways, words)
        if network.transit_gateway is not None:
            attachment = context.rate("transit.attachment").all_month()
            yield Part("transit gateway", attachment, "1 attachment; traffic to the peers is not included")
        if network.endpoints:
            cost = context.rate("endpoint.interface").all_month() * (len(network.endpoints) * zones)
            yield Part("interface endpoints", cost, f"{', '.join(network.endpoints)} in {zones} zones")
    if service.deployed and service.domain is not None:
        addresses = zones if service.reach == "internet" else 0
        balancer = context.rate("balancer.network").all_month() + context.rate("address.public").all_month() * addresses
        yield Part("load balancer", balancer, f"1 for {service.domain}, with {addresses} public addresses")


def zone_failure(context: EstimateContext) -> str:
    """Return what the failure of the single NAT gateway's zone ends, and the prices of preventing it; else ""."""
    network = context.settings.network
    if not (lost := network.lost_with_nat):
        return ""
    zones = network.zone_count
    gateways = (context.rate("nat.gateway") + context.rate("address.public")).all_month() * (zones - 1)
    endpoints = context.rate("endpoint.interface").all_month() * (len(lost) * zones)
    return (
        f"If the zone of the only NAT gateway fails, the other zones lose the internet, and {', '.join(lost)}: no pod"
        f" gets credentials, and no node or image comes. `nat: per-zone` prevents that for ${gateways.value:.2f} more a"
        f" month; `endpoints: [data-plane]`, for ${endpoints.value:.2f}, all but the loss of the internet."
    )


def traffic(context: EstimateContext, hours: Decimal, node_hours: Decimal) -> Iterator[Part]:
    """Yield the traffic of a user in a number of active hours, which need a number of node hours."""
    network, taken = context.settings.network, context.taken
    down, up = taken.downloads * hours, taken.uploads * hours
    yield Part("to the internet", context.cost("traffic.out", up, "GB"), f"{plain(up)} GB", "user")
    if network.existing is None and network.nat != "none":
        images = node_hours / taken.node_life * pulled(context)
        moved = down + up + images
        words = f"{plain(down + up)} GB of users' and {plain(images)} GB of images for new nodes"
        cost = total((context.cost("nat.traffic", moved, "GB"), _across(context, moved)))
        yield Part("through NAT", cost, words, "user")


def images(context: EstimateContext, node_hours: Decimal) -> Iterator[Part]:
    """Yield the cost of image pulls through NAT by nodes for warm sandboxes and seats."""
    network, taken = context.settings.network, context.taken
    moved = node_hours / taken.node_life * pulled(context)
    if network.existing is None and network.nat != "none" and moved:
        cost = total((context.cost("nat.traffic", moved, "GB"), _across(context, moved)))
        words = f"{plain(moved)} GB through NAT: a node lives for {plain(taken.node_life)} h"
        yield Part("images for nodes", cost, words)


def pulled(context: EstimateContext) -> Decimal:
    """Return the gigabytes of images that a new node pulls through NAT. Images in ECR of the region use the free S3
    endpoint."""
    taken, near = context.taken, f".dkr.ecr.{context.settings.region}.amazonaws.com"
    on_nodes = [
        sandbox_class for sandbox_class in context.settings.sandbox_classes if sandbox_class.compute == "karpenter"
    ]
    far = [sandbox_class for sandbox_class in on_nodes if near not in sandbox_class.image.partition("/")[0]]
    return (Decimal(0) if context.settings.network.mirrors.registry else taken.platform_images) + (
        taken.sandbox_image if far else Decimal(0)
    )


def _across(context: EstimateContext, moved: Decimal) -> Dollars:
    """Return the cost of cross-zone traffic to a single NAT gateway, which is billed in both zones."""
    if context.settings.network.nat != "single":
        return Dollars()
    zones = context.settings.network.zone_count
    return context.cost("traffic.cross-zone", moved * (zones - 1) / zones * 2, "GB")
