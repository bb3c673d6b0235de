"""The addresses that no sandbox may reach, by reason, and the DNS resolvers that it may query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final

from agentenv.core.capabilities.sets.address_ranges import prefixes, spans
from agentenv.core.capabilities.sets.boxes import (
    ALL_PORTS,
    NO_BOXES,
    PROTOCOLS,
    TCP_AND_UDP,
    VERSIONS,
    BoxSet,
    Protocol,
    product,
    union,
)
from agentenv.core.capabilities.sets.intervals import Intervals
from agentenv.policies.view.fields import Field
from agentenv.policies.view.graph import Graph, once_per_graph

METADATA: Final = ("169.254.0.0/16", "fd00:ec2::/32")
# Gives a pod only the credentials for its own token, on port 80 (EKS documents, Pod Identity).
IDENTITY_AGENT: Final = ("169.254.170.23/32", "fd00:ec2::23/128")
PRIVATE: Final = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
SHARED: Final = "100.64.0.0/10"
VPC, PODS = "the VPC", "pods outside the VPC's own range"
# A set with half of all addresses is any address, less exceptions
_HALF: Final = {4: 2**31, 6: 2**127}
DNS, HTTP = Intervals.single(53), Intervals.single(80)


@once_per_graph
def forbidden_destinations(graph: Graph) -> Mapping[str, BoxSet]:
    """Return the destinations that no sandbox may reach, by description."""
    context = graph.context
    vpcs = graph.of_type("aws:ec2/vpc:Vpc", "aws:ec2/vpcIpv4CidrBlockAssociation:VpcIpv4CidrBlockAssociation")
    vpc = [*context.vpc_ranges, *_texts(resource.at("cidrBlock") for resource in vpcs)]
    agent = _boxes(IDENTITY_AGENT, HTTP, ("TCP",))
    by_description = {
        "link-local addresses such as instance metadata": _boxes(METADATA) - agent,
        VPC: _boxes(vpc),
        "the cluster's services": _boxes(_service_ranges(graph)),
        PODS: _boxes(context.pod_ranges),
    }
    allowed = resolvers(graph)
    return {description: boxes - allowed for description, boxes in by_description.items() if boxes}


@once_per_graph
def possible_vpc(graph: Graph) -> tuple[Field | None, BoxSet] | None:
    """Return the field with the unknown range of a VPC, and every address that it could have; None if it is known.

    Without a VPC in the stack, such as for manifests alone, there is no field: every pod is in some VPC.
    """
    ranges = [vpc.at("cidrBlock") for vpc in graph.of_type("aws:ec2/vpc:Vpc")]
    unknown_range = next((field for field in ranges if not field.known), None)
    if unknown_range is None and (ranges or graph.context.vpc_ranges):
        return None
    # The configuration has the ranges of pods, so the shared range counts only for an unknown VPC of the stack
    return unknown_range, _boxes(PRIVATE if unknown_range is None else (*PRIVATE, SHARED)) - resolvers(graph)


@once_per_graph
def node_and_pod_addresses(graph: Graph) -> Mapping[str, Mapping[int, Intervals]]:
    """Return the addresses of nodes and other pods, by description and IP version."""
    boxes = forbidden_destinations(graph)
    return {
        description: {version: boxes[description].addresses(version) for version in VERSIONS}
        for description in (VPC, PODS)
        if description in boxes
    }


@once_per_graph
def all_forbidden(graph: Graph) -> BoxSet:
    """Return the union of the forbidden destinations, for a quick check: most rules reach none of them."""
    return union(list(forbidden_destinations(graph).values())) if forbidden_destinations(graph) else NO_BOXES


@once_per_graph
def forbidden_spans(graph: Graph) -> Mapping[int, Intervals]:
    """Return the forbidden addresses, by IP version."""
    return {version: all_forbidden(graph).addresses(version) for version in VERSIONS}


@once_per_graph
def resolvers(graph: Graph) -> BoxSet:
    """Return port 53 of the configured resolvers and of the cluster's own, which is the tenth address of services."""
    configured = _boxes(graph.context.resolvers, DNS, TCP_AND_UDP)
    networks = [network for text in _service_ranges(graph) if (network := _network(text)) is not None]
    tenth = [str(network[10]) for network in networks if network.num_addresses > 10]
    return configured | _boxes(tenth, DNS, TCP_AND_UDP)


def forbidden_part(graph: Graph, boxes: BoxSet) -> str:
    """Return a description of the forbidden destinations in a set; empty if there are none."""
    parts = {description: boxes & others for description, others in forbidden_destinations(graph).items()}
    return " and ".join(f"{description} ({example_range(part)})" for description, part in parts.items() if part)


def example_range(boxes: BoxSet) -> str:
    """Return one of the ranges in a set, for messages."""
    for version in (4, 6):
        if sum(last - first + 1 for first, last in boxes.addresses(version).spans) >= _HALF[version]:
            return "any address"
        if ranges := prefixes(version, boxes.addresses(version)):
            return ranges[0]
    return "no address"


def _service_ranges(graph: Graph) -> list[str]:
    clusters = [cluster.at("kubernetesNetworkConfig") for cluster in graph.of_type("aws:eks/cluster:Cluster")]
    keys = ("serviceIpv4Cidr", "serviceIpv6Cidr")
    return [*graph.context.service_ranges, *_texts(cluster.at(key) for cluster in clusters for key in keys)]


def _boxes(ranges: Sequence[str], ports: Intervals = ALL_PORTS, protocols: tuple[Protocol, ...] = PROTOCOLS) -> BoxSet:
    valid = [text for text in ranges if _network(text) is not None]
    boxes = [product((version,), protocols, addresses, ports) for version, addresses in spans(valid).items()]
    return union(boxes) if boxes else NO_BOXES


def _texts(fields: Iterator[Field]) -> list[str]:
    return [field.raw for field in fields if isinstance(field.raw, str)]


def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text)
    except ValueError:
        return None
