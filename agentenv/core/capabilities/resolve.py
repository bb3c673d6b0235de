"""Resolve the grants of a class in a cluster to one reach, exact for every possible value of the unknown facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentenv.core.capabilities.cluster_facts import FACTS, ClusterFacts, Service, class_pods
from agentenv.core.capabilities.grants import (
    GIT_NAMES,
    GIT_PORTS,
    PACKAGE_NAMES,
    WEB_PORTS,
    Addresses,
    Domain,
    Grant,
    Named,
    OtherClass,
    RefusedGrantError,
    Reserved,
)
from agentenv.core.capabilities.sets.address_ranges import (
    METADATA,
    PROVIDER,
    Spans,
    internet,
    of_versions,
    spans,
    subtract_spans,
    union_of_spans,
)
from agentenv.core.capabilities.sets.boxes import ALL_PORTS, PROTOCOLS, BoxSet, Protocol, Version, product, union
from agentenv.core.capabilities.sets.domains import Name, pattern
from agentenv.core.capabilities.sets.intervals import Intervals
from agentenv.core.capabilities.sets.pods import pod_ports_of
from agentenv.core.capabilities.sets.reach import NOTHING, Reach, Uncertain, World, union_of_reaches, worlds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

BY_NAME: dict[str, tuple[tuple[str, ...], Intervals]] = {
    "git": (GIT_NAMES, GIT_PORTS),
    "packages": (PACKAGE_NAMES, WEB_PORTS),
}


class UnknownClusterFactsError(ValueError):
    """A document depends on a fact of the cluster that is not known yet."""

    def __init__(self, facts: Iterable[str]) -> None:
        self.facts = tuple(sorted(facts))
        words = " and ".join(words for fact, words in FACTS.items() if fact in self.facts)
        super().__init__(f"{words} must be known first; pass them with the facts of the existing cluster")


@dataclass(frozen=True)
class RefusedGrant:
    """A grant that cannot be made, by its index in the list."""

    index: int
    error: RefusedGrantError


def resolve(grants: Iterable[Grant], cluster: ClusterFacts) -> Uncertain:
    """Return the reach of the grants in every possible world; raise `RefusedGrantError` for the first invalid grant."""
    every = tuple(grants)
    for grant in every:
        _check(grant, cluster)
    return Uncertain.over(
        cluster.unknown, lambda world: union_of_reaches(_reach(grant, cluster, world) for grant in every)
    )


def reach_of(grants: Iterable[Grant], cluster: ClusterFacts) -> Reach:
    """Return the reach of the grants; raise `UnknownClusterFactsError` where it depends on unknown facts."""
    reach = resolve(grants, cluster)
    first = reach.at(frozenset()).least
    differing = [world for world in worlds(reach.facts) if not first.same_as(reach.at(world).least)]
    if differing:
        raise UnknownClusterFactsError(min(differing, key=len))
    return first


def refusals(grants: Sequence[Grant], cluster: ClusterFacts) -> tuple[RefusedGrant, ...]:
    """Return every grant that cannot be made in this cluster, so that all mistakes are reported at once."""
    refused: list[RefusedGrant] = []
    for index, grant in enumerate(grants):
        try:
            _check(grant, cluster)
        except RefusedGrantError as error:
            refused.append(RefusedGrant(index, error))
    return tuple(refused)


def notes(grants: Iterable[Grant], cluster: ClusterFacts) -> tuple[str, ...]:
    """Return notes on what a reader of the settings might not expect of a grant."""
    texts: list[str] = []
    for grant in grants:
        if isinstance(grant, Named) and grant.word in BY_NAME and cluster.proxy is None:
            ports = " and ".join(str(low) for low, _ in BY_NAME[grant.word][1].spans)
            texts.append(
                f"{grant} opens TCP {ports} to the whole internet: {cluster.agent} matches addresses, and these hosts"
                " have no addresses of their own; configure an egress proxy to hold it to their names"
            )
        if isinstance(grant, Named) and grant.word == "vpc":
            texts.append("vpc includes the pods of every other class: their addresses are the VPC's")
        if isinstance(grant, Addresses):
            cut = subtract_spans(_range(grant), _free(grant, cluster, frozenset()))
            if any(cut.values()):
                texts.append(f"{grant} is granted without what of it is the cluster's own or the provider's")
    return tuple(texts)


def _check(grant: Grant, cluster: ClusterFacts) -> None:
    if isinstance(grant, Named) and grant.word == "identity" and cluster.exchange is None:
        raise RefusedGrantError(
            "identity", "where credentials are exchanged", "enable the workspace service, or remove the grant"
        )
    if isinstance(grant, Domain):
        _check_domain(grant, cluster)
    if isinstance(grant, OtherClass) and grant.protocol == "OTHER":
        raise RefusedGrantError(f"{grant} on {grant.protocol}", "TCP, UDP or SCTP", "say which ports")
    if isinstance(grant, Addresses):
        _check_addresses(grant, cluster)


def _check_domain(grant: Domain, cluster: ClusterFacts) -> None:
    try:
        pattern(grant.pattern)
    except ValueError:
        raise RefusedGrantError(
            str(grant), "a name such as pypi.org, or *.pypi.org", "one wildcard label, at the left"
        ) from None
    if cluster.proxy is None:
        raise RefusedGrantError(
            str(grant),
            "words, ranges and classes",
            f"{cluster.agent} holds addresses and no names; configure an egress proxy, or grant web",
        )


def _check_addresses(grant: Addresses, cluster: ClusterFacts) -> None:
    try:
        range_spans = _range(grant)
    except ValueError:
        raise RefusedGrantError(str(grant), "a range such as 203.0.113.0/24", "without host bits") from None
    if grant.protocol in {None, "OTHER"} and grant.ports != ALL_PORTS:
        raise RefusedGrantError(f"{grant} with ports and no protocol", "TCP, UDP or SCTP", "say whose ports they are")
    if grant.protocol == "OTHER":
        raise RefusedGrantError(
            f"{grant} on protocols without ports", "one protocol with ports, or all protocols", "leave the protocol out"
        )
    if not of_versions(range_spans, cluster.versions):
        raise RefusedGrantError(
            str(grant), f"IPv{cluster.versions[0]} ranges", "the cluster's pods have no addresses of that version"
        )
    if not _free(grant, cluster, frozenset()):
        raise RefusedGrantError(
            f"{grant} lies within what is the cluster's own or the provider's",
            "ranges outside, or the words vpc, api-server and metadata",
            "name what is meant: a range inside the VPC has to say that it is inside",
        )


def _reach(grant: Grant, cluster: ClusterFacts, world: World) -> Reach:
    match grant:
        case Named():
            return _named(grant, cluster, world)
        case Addresses():
            protocols = PROTOCOLS if grant.protocol is None else (grant.protocol,)
            return Reach(_boxes(_free(grant, cluster, world), protocols, grant.ports))
        case Domain():
            return Reach(names=frozenset({Name(pattern(grant.pattern), grant.ports)}))
        case OtherClass():
            return Reach(pod_ports=pod_ports_of(class_pods(grant.name), (grant.protocol,), grant.ports))


def _named(grant: Named, cluster: ClusterFacts, world: World) -> Reach:
    match grant.word:
        case "dns":
            reach = _service(cluster.resolver, cluster)
        case "web":
            reach = Reach(_boxes(internet_here(cluster, world), ("TCP",), WEB_PORTS))
        case "git" | "packages":
            reach = _named_hosts(grant.word, cluster, world)
        case "identity":
            reach = _service(cluster.exchange, cluster) if cluster.exchange is not None else NOTHING
        case "metadata":
            reach = Reach(_boxes(of_versions(spans(METADATA), cluster.versions), ("TCP",), Intervals.single(80)))
        case "vpc":
            free = subtract_spans(
                subtract_spans(_inside_cluster(cluster, world), cluster.addresses("api", world)), _provider()
            )
            reach = Reach(_boxes(free, PROTOCOLS, ALL_PORTS))
        case "api-server":
            reach = Reach(_boxes(cluster.addresses("api", world), ("TCP",), WEB_PORTS))
    return reach


def _named_hosts(word: str, cluster: ClusterFacts, world: World) -> Reach:
    patterns, ports = BY_NAME[word]
    if cluster.proxy is not None:
        return Reach(names=frozenset(Name(host, ports) for host in patterns))
    return Reach(_boxes(internet_here(cluster, world), ("TCP",), ports))


def internet_here(cluster: ClusterFacts, world: World) -> Spans:
    """Return the addresses of the internet, without everything that belongs to the cluster."""
    return subtract_spans(of_versions(internet(), cluster.versions), cluster.own(world))


def _service(service: Service, cluster: ClusterFacts) -> Reach:
    addresses = of_versions(spans(service.addresses), cluster.versions)
    return Reach(_boxes(addresses, service.protocols, service.ports), service.pod_ports)


def _range(grant: Addresses) -> Spans:
    return spans((grant.cidr,))


def _free(grant: Addresses, cluster: ClusterFacts, world: World) -> Spans:
    """Return the part of the range that may be granted: without reserved ranges, unless the grant names them."""
    left = of_versions(_range(grant), cluster.versions)
    for reserved, taken in _reserved(cluster, world).items():
        if reserved not in grant.inside:
            left = subtract_spans(left, taken)
    return left


def _reserved(cluster: ClusterFacts, world: World) -> Mapping[Reserved, Spans]:
    return {
        "vpc": _inside_cluster(cluster, world),
        "api-server": cluster.addresses("api", world),
        "metadata": _provider(),
    }


def _inside_cluster(cluster: ClusterFacts, world: World) -> Spans:
    return union_of_spans(*(cluster.addresses(fact, world) for fact in ("vpc", "services", "pods")))


def _provider() -> Spans:
    return union_of_spans(spans(PROVIDER), spans(METADATA))


def _boxes(addresses: Mapping[Version, Intervals], protocols: Sequence[Protocol], ports: Intervals) -> BoxSet:
    return union([product((version,), protocols, mine, ports) for version, mine in addresses.items()])
