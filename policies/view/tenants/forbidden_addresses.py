"""The addresses that no sandbox may reach, and why; and the resolvers, which it may ask for names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    product,
    union,
)
from agentenv.core.capabilities.sets.intervals import Intervals
from agentenv.policies.view.fields import Field
from agentenv.policies.view.graph import Graph, once_per_graph

METADATA: Final = ("169.254.0.0/16", "fd00:ec2::/32")
# Hands a pod the credentials of its own token and no other (EKS documents, Pod Identity); on port 80.
IDENTITY_AGENT: Final = ("169.254.170.23/32", "fd00:ec2::23/128")
PRIVATE: Final = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
SHARED: Final = "100.64.0.0/10"
VPC, PODS = "the VPC", "pods outside the VPC's own range"
DNS, HTTP = Intervals.single(53), Intervals.single(80)


@once_per_graph
def forbidden(graph: Graph) -> Mapping[str, BoxSet]:
    """What no sandbox may reach, by what it is."""
    here = graph.situation
    clusters = [one.at("kubernetesNetworkConfig") for one in graph.of_type("aws:eks/cluster:Cluster")]
    services = [*here.service_ranges, *_texts(one.at(key) for one in clusters for key in _SERVICES)]
    vpcs = graph.of_type("aws:ec2/vpc:Vpc", "aws:ec2/vpcIpv4CidrBlockAssociation:VpcIpv4CidrBlockAssociation")
    vpc = [*here.vpc_ranges, *_texts(one.at("cidrBlock") for one in vpcs)]
    agent = _boxes(IDENTITY_AGENT, HTTP, ("TCP",))
    everything = {
        "instance metadata and its like": _boxes(METADATA) - agent,
        VPC: _boxes(vpc),
        "the cluster's services": _boxes(services),
        PODS: _boxes(here.pod_ranges),
    }
    asked = resolvers(graph)
    return {word: boxes - asked for word, boxes in everything.items() if boxes}


@once_per_graph
def unknown_vpc(graph: Graph) -> tuple[Field | None, BoxSet] | None:
    """What says the range of a VPC that is not known, and all that it could be; no field where nothing speaks of any.

    Every pod is in some VPC: manifests by themselves do not say in which.
    """
    said = [one.at("cidrBlock") for one in graph.of_type("aws:ec2/vpc:Vpc")]
    unsaid = next((one for one in said if not one.known), None)
    if unsaid is None and (said or graph.situation.vpc_ranges):
        return None
    # Of the shared range the platform's own words say whether pods have it
    return unsaid, _boxes(PRIVATE if unsaid is None else (*PRIVATE, SHARED)) - resolvers(graph)


@once_per_graph
def neighbours(graph: Graph) -> Mapping[str, Mapping[int, Intervals]]:
    """The addresses that nodes and other pods have, by what they are."""
    found = forbidden(graph)
    return {word: {one: found[word].addresses(one) for one in VERSIONS} for word in (VPC, PODS) if word in found}


@once_per_graph
def all_forbidden(graph: Graph) -> BoxSet:
    """All of it together: most rules meet none of it, and one look is enough for those."""
    return union(list(forbidden(graph).values())) if forbidden(graph) else NO_BOXES


@once_per_graph
def forbidden_spans(graph: Graph) -> Mapping[int, Intervals]:
    """The addresses among it, by version."""
    return {version: all_forbidden(graph).addresses(version) for version in VERSIONS}


@once_per_graph
def resolvers(graph: Graph) -> BoxSet:
    """Port 53 of the resolvers that are named; EKS gives the cluster's own the tenth address of the services."""
    here = graph.situation
    named = _boxes([f"{one}" for one in here.resolvers], DNS, TCP_AND_UDP)
    clusters = [one.at("kubernetesNetworkConfig") for one in graph.of_type("aws:eks/cluster:Cluster")]
    services = [*here.service_ranges, *_texts(one.at(key) for one in clusters for key in _SERVICES)]
    tenths = [str(found[10]) for text in services if (found := _network(text)) is not None and found.num_addresses > 10]
    return named | _boxes(tenths, DNS, TCP_AND_UDP)


def example(boxes: BoxSet) -> str:
    """A range out of a set, as people write it."""
    for version in (4, 6):
        if found := prefixes(version, boxes.addresses(version)):
            return found[0]
    return "no address"


_SERVICES = ("serviceIpv4Cidr", "serviceIpv6Cidr")


def _boxes(ranges: list[str] | tuple[str, ...], ports: Intervals = ALL_PORTS, protocols: object = PROTOCOLS) -> BoxSet:
    wanted = PROTOCOLS if protocols is PROTOCOLS else TCP_AND_UDP if protocols is TCP_AND_UDP else ("TCP",)
    good = [text for text in ranges if _network(text) is not None]
    found = [product((version,), wanted, addresses, ports) for version, addresses in spans(good).items()]
    return union(found) if found else NO_BOXES


def _texts(fields: Iterator[Field]) -> list[str]:
    return [field.raw for field in fields if isinstance(field.raw, str)]


def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text)
    except ValueError:
        return None
