"""What the grants of a class amount to in a cluster: one reach, exact in every world that is still possible."""

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
    joined,
    spans,
    within,
    without,
)
from agentenv.core.capabilities.sets.boxes import ALL_PORTS, PROTOCOLS, BoxSet, Protocol, Version, product, union
from agentenv.core.capabilities.sets.domains import Name, pattern
from agentenv.core.capabilities.sets.intervals import Intervals
from agentenv.core.capabilities.sets.pods import doors_of
from agentenv.core.capabilities.sets.reach import NOTHING, Reach, Uncertain, World, together, worlds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

BY_NAME: dict[str, tuple[tuple[str, ...], Intervals]] = {
    "git": (GIT_NAMES, GIT_PORTS),
    "packages": (PACKAGE_NAMES, WEB_PORTS),
}


class UnknownClusterFactsError(ValueError):
    """Something has to be written that depends on a fact nobody knows yet."""

    def __init__(self, facts: Iterable[str]) -> None:
        self.facts = tuple(sorted(facts))
        words = " and ".join(words for fact, words in FACTS.items() if fact in self.facts)
        super().__init__(f"{words} must be known first; give them to the surroundings when the cluster stands")


@dataclass(frozen=True)
class Refused:
    """A grant that cannot be made, by its place in the list."""

    index: int
    error: RefusedGrantError


def resolve(grants: Iterable[Grant], here: ClusterFacts) -> Uncertain:
    """What the grants amount to, in every world that is possible; `RefusedGrantError` for the first that cannot be."""
    every = tuple(grants)
    for grant in every:
        _check(grant, here)
    return Uncertain.over(here.unknown, lambda world: together(_reach(grant, here, world) for grant in every))


def reach_of(grants: Iterable[Grant], here: ClusterFacts) -> Reach:
    """What the grants amount to, where everything they depend on is known; `UnknownSurroundingsError` where not."""
    found = resolve(grants, here)
    first = found.at(frozenset()).least
    differing = [world for world in worlds(found.facts) if not first.same_as(found.at(world).least)]
    if differing:
        raise UnknownClusterFactsError(min(differing, key=len))
    return first


def refusals(grants: Sequence[Grant], here: ClusterFacts) -> tuple[Refused, ...]:
    """Every grant that cannot be made here, so that all mistakes can be told at once."""
    found: list[Refused] = []
    for index, grant in enumerate(grants):
        try:
            _check(grant, here)
        except RefusedGrantError as error:
            found.append(Refused(index, error))
    return tuple(found)


def notes(grants: Iterable[Grant], here: ClusterFacts) -> tuple[str, ...]:
    """What a reader of the settings might not expect of a grant, in plain words."""
    found: list[str] = []
    for grant in grants:
        if isinstance(grant, Named) and grant.word in BY_NAME and here.proxy is None:
            ports = " and ".join(str(low) for low, _ in BY_NAME[grant.word][1].spans)
            found.append(
                f"{grant} opens TCP {ports} to the whole internet: {here.agent} holds addresses, and these hosts have"
                " no addresses of their own; configure an egress proxy to hold it to their names"
            )
        if isinstance(grant, Named) and grant.word == "vpc":
            found.append("vpc includes the pods of every other class: their addresses are the VPC's")
        if isinstance(grant, Addresses):
            cut = without(_range(grant), _free(grant, here, frozenset()))
            if any(cut.values()):
                found.append(f"{grant} is granted without what of it is the cluster's own or the provider's")
    return tuple(found)


def _check(grant: Grant, here: ClusterFacts) -> None:
    if isinstance(grant, Named) and grant.word == "identity" and here.exchange is None:
        raise RefusedGrantError(
            "identity", "where credentials are exchanged", "name the place in the surroundings, or leave it out"
        )
    if isinstance(grant, Domain):
        _check_domain(grant, here)
    if isinstance(grant, OtherClass) and grant.protocol == "OTHER":
        raise RefusedGrantError(f"{grant} on {grant.protocol}", "TCP, UDP or SCTP", "say which ports")
    if isinstance(grant, Addresses):
        _check_addresses(grant, here)


def _check_domain(grant: Domain, here: ClusterFacts) -> None:
    try:
        pattern(grant.pattern)
    except ValueError:
        raise RefusedGrantError(
            str(grant), "a name such as pypi.org, or *.pypi.org", "one wildcard label, at the left"
        ) from None
    if here.proxy is None:
        raise RefusedGrantError(
            str(grant),
            "words, ranges and classes",
            f"{here.agent} holds addresses and no names; configure an egress proxy, or grant web",
        )


def _check_addresses(grant: Addresses, here: ClusterFacts) -> None:
    try:
        wanted = _range(grant)
    except ValueError:
        raise RefusedGrantError(str(grant), "a range such as 203.0.113.0/24", "without host bits") from None
    if grant.protocol in {None, "OTHER"} and grant.ports != ALL_PORTS:
        raise RefusedGrantError(f"{grant} with ports and no protocol", "TCP, UDP or SCTP", "say whose ports they are")
    if grant.protocol == "OTHER":
        raise RefusedGrantError(
            f"{grant} on protocols without ports", "one protocol with ports, or all protocols", "leave the protocol out"
        )
    if not within(wanted, here.versions):
        raise RefusedGrantError(
            str(grant), f"IPv{here.versions[0]} ranges", "the cluster's pods have no addresses of that version"
        )
    if not _free(grant, here, frozenset()):
        raise RefusedGrantError(
            f"{grant} lies within what is the cluster's own or the provider's",
            "ranges outside, or the words vpc, api-server and metadata",
            "name what is meant: a range inside the VPC has to say that it is inside",
        )


def _reach(grant: Grant, here: ClusterFacts, world: World) -> Reach:
    match grant:
        case Named():
            return _named(grant, here, world)
        case Addresses():
            protocols = PROTOCOLS if grant.protocol is None else (grant.protocol,)
            return Reach(_boxes(_free(grant, here, world), protocols, grant.ports))
        case Domain():
            return Reach(names=frozenset({Name(pattern(grant.pattern), grant.ports)}))
        case OtherClass():
            return Reach(doors=doors_of(class_pods(grant.name), (grant.protocol,), grant.ports))


def _named(grant: Named, here: ClusterFacts, world: World) -> Reach:
    match grant.word:
        case "dns":
            found = _service(here.resolver, here)
        case "web":
            found = Reach(_boxes(internet_here(here, world), ("TCP",), WEB_PORTS))
        case "git" | "packages":
            found = _forges(grant.word, here, world)
        case "identity":
            found = _service(here.exchange, here) if here.exchange is not None else NOTHING
        case "metadata":
            found = Reach(_boxes(within(spans(METADATA), here.versions), ("TCP",), Intervals.single(80)))
        case "vpc":
            free = without(without(_inside(here, world), here.addresses("api", world)), _provider())
            found = Reach(_boxes(free, PROTOCOLS, ALL_PORTS))
        case "api-server":
            found = Reach(_boxes(here.addresses("api", world), ("TCP",), WEB_PORTS))
    return found


def _forges(word: str, here: ClusterFacts, world: World) -> Reach:
    patterns, ports = BY_NAME[word]
    if here.proxy is not None:
        return Reach(names=frozenset(Name(one, ports) for one in patterns))
    return Reach(_boxes(internet_here(here, world), ("TCP",), ports))


def internet_here(here: ClusterFacts, world: World) -> Spans:
    """The internet as this cluster's pods see it: less everything that is the cluster's own."""
    return without(within(internet(), here.versions), here.own(world))


def _service(service: Service, here: ClusterFacts) -> Reach:
    addresses = within(spans(service.addresses), here.versions)
    return Reach(_boxes(addresses, service.protocols, service.ports), service.doors)


def _range(grant: Addresses) -> Spans:
    return spans((grant.cidr,))


def _free(grant: Addresses, here: ClusterFacts, world: World) -> Spans:
    """What of the range may be granted: what is reserved is taken out, unless the grant names it."""
    left = within(_range(grant), here.versions)
    for reserved, taken in _reserved(here, world).items():
        if reserved not in grant.inside:
            left = without(left, taken)
    return left


def _reserved(here: ClusterFacts, world: World) -> Mapping[Reserved, Spans]:
    return {
        "vpc": _inside(here, world),
        "api-server": here.addresses("api", world),
        "metadata": _provider(),
    }


def _inside(here: ClusterFacts, world: World) -> Spans:
    return joined(*(here.addresses(fact, world) for fact in ("vpc", "services", "pods")))


def _provider() -> Spans:
    return joined(spans(PROVIDER), spans(METADATA))


def _boxes(addresses: Mapping[Version, Intervals], protocols: Sequence[Protocol], ports: Intervals) -> BoxSet:
    return union([product((version,), protocols, mine, ports) for version, mine in addresses.items()])
