"""Tests of capabilities: what each grants, what none grants, and what is refused."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentenv.config.sections.capabilities import WORDS, Word
from agentenv.core.capabilities.cluster_facts import CLUSTER_RESOLVER, ClusterFacts, Proxy, Service, class_pods
from agentenv.core.capabilities.grants import (
    GIT_NAMES,
    RESERVED,
    Addresses,
    Domain,
    Grant,
    Named,
    OtherClass,
    RefusedGrantError,
)
from agentenv.core.capabilities.resolve import UnknownClusterFactsError, notes, reach_of, refusals, resolve
from agentenv.core.capabilities.sets.address_ranges import METADATA, NOT_INTERNET
from agentenv.core.capabilities.sets.boxes import Point, Protocol
from agentenv.core.capabilities.sets.intervals import Intervals
from agentenv.core.capabilities.sets.pods import Pods
from agentenv.core.capabilities.sets.reach import NOTHING, Reach, union_of_reaches, worlds

PROXY = Proxy(Service(Pods.labelled("egress", {"app": "squid"}), Intervals.single(3128)))
EXCHANGE = Service(Pods.labelled("agentenv", {"app": "service"}), Intervals.single(8443))
HERE = ClusterFacts(
    versions=(4, 6),
    vpc=("10.40.0.0/16", "2600:1f13::/56"),
    services=("172.20.0.0/16",),
    api=("54.1.2.3", "10.40.7.7"),
    neighbours=("15.0.0.0/24",),
    exchange=EXCHANGE,
)
UNKNOWN_HERE = ClusterFacts(versions=(4, 6), exchange=EXCHANGE)
ORDINARY: tuple[Word, ...] = ("dns", "web", "git", "packages", "identity")


def allows(reach: Reach, address: str, port: int = 443, protocol: Protocol = "TCP") -> bool:
    found = ip_address(address)
    return Point(found.version, protocol, int(found), port) in reach.boxes


def test_nothing_declared_is_nothing_not_even_dns() -> None:
    assert reach_of([], HERE) == NOTHING
    assert reach_of([], UNKNOWN_HERE) == NOTHING


def test_dns_is_the_resolver_and_no_other() -> None:
    found = reach_of([Named("dns")], HERE)
    assert not found.boxes
    assert {(entry.pods, entry.protocol, entry.ports.spans) for entry in found.pod_ports} == {
        (CLUSTER_RESOLVER.pods, "TCP", ((53, 53),)),
        (CLUSTER_RESOLVER.pods, "UDP", ((53, 53),)),
    }


@pytest.mark.parametrize("address", ["1.1.1.1", "140.82.112.3", "2606:4700::1111", "223.255.255.255", "11.0.0.0"])
def test_web_is_the_internet_on_port_443(address: str) -> None:
    found = reach_of([Named("web")], HERE)
    assert allows(found, address)
    assert not allows(found, address, 80)
    assert not allows(found, address, 443, "UDP")
    assert not found.pod_ports


@pytest.mark.parametrize(
    "address",
    [
        *METADATA,
        "10.40.1.1",
        "10.99.0.1",
        "172.20.0.10",
        "192.168.1.1",
        "100.64.0.1",
        "100.127.255.255",
        "169.254.169.253",
        "127.0.0.1",
        "0.0.0.1",
        "198.19.255.1",
        "224.0.0.1",
        "255.255.255.255",
        "54.1.2.3",
        "15.0.0.9",
        "::1",
        "::ffff:10.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "2002:a00:1::",
        "2001:0:1::1",
        "2600:1f13::1",
        "fd00::1",
        "fe80::1",
        "ff02::1",
    ],
)
def test_no_ordinary_word_reaches_what_is_not_the_internet(address: str) -> None:
    found = reach_of([Named(word) for word in ORDINARY], HERE)
    for port in (22, 53, 80, 443):
        for protocol in ("TCP", "UDP", "OTHER"):
            assert not allows(found, address, port, protocol)


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(sorted(NOT_INTERNET)), st.integers(min_value=0), st.booleans())
def test_every_address_of_an_excepted_range_is_out_of_reach(cidr: str, offset: int, last: bool) -> None:
    network = ip_network(cidr)
    address = network[-1] if last else network[offset % network.num_addresses]
    assert not allows(WEB, str(address))


WEB = reach_of([Named("web")], HERE)


def test_metadata_the_vpc_and_the_api_server_are_reached_only_by_their_words() -> None:
    metadata, vpc, api = (reach_of([Named(word)], HERE) for word in ("metadata", "vpc", "api-server"))
    assert allows(metadata, "169.254.169.254", 80)
    assert allows(metadata, "fd00:ec2::254", 80)
    assert not allows(metadata, "169.254.169.253", 80)
    assert allows(vpc, "10.40.1.1", 5432, "UDP")
    assert allows(vpc, "172.20.0.10", 53, "UDP")
    assert not allows(vpc, "10.40.7.7")
    assert not allows(vpc, "172.20.0.1")
    assert not allows(vpc, "10.41.0.1")
    assert {ip for ip in ("54.1.2.3", "10.40.7.7", "172.20.0.1") if allows(api, ip)} == {
        "54.1.2.3",
        "10.40.7.7",
        "172.20.0.1",
    }
    assert not allows(api, "54.1.2.3", 80)


def test_a_wide_range_is_granted_without_what_is_the_clusters_own() -> None:
    wide = Addresses("0.0.0.0/0", protocol=None)
    found = reach_of([wide], HERE)
    for address in (*METADATA[:3], "169.254.1.1", "10.40.0.1", "172.20.3.4", "54.1.2.3", "10.40.7.7"):
        assert not allows(found, address)
    assert allows(found, "10.99.0.1", 22)
    assert allows(found, "10.99.0.1", 1, "OTHER")
    assert any("without what of it is the cluster's own" in note for note in notes([wide], HERE))


@pytest.mark.parametrize("cidr", ["10.40.3.0/24", "169.254.169.254/32", "172.20.0.1/32", "fd00:ec2::/32"])
def test_range_inside_a_reserved_one_must_be_explicit(cidr: str) -> None:
    with pytest.raises(RefusedGrantError, match="lies within what is the cluster's own"):
        reach_of([Addresses(cidr)], HERE)
    found = reach_of([Addresses(cidr, inside=frozenset(RESERVED))], HERE)
    assert allows(found, str(ip_network(cidr)[0]), 22)


def test_a_range_inside_the_vpc_still_leaves_out_the_api_server() -> None:
    found = reach_of([Addresses("10.40.7.0/24", Intervals.single(443), inside=frozenset({"vpc"}))], HERE)
    assert allows(found, "10.40.7.6")
    assert not allows(found, "10.40.7.7")


def test_git_and_packages_are_names_through_a_proxy_and_the_internet_without() -> None:
    bare = reach_of([Named("git")], HERE)
    assert allows(bare, "1.1.1.1", 22)
    assert allows(bare, "1.1.1.1", 443)
    assert "opens TCP 22 and 443 to the whole internet" in notes([Named("git")], HERE)[0]
    proxied = ClusterFacts(vpc=(), services=(), api=(), proxy=PROXY)
    found = reach_of([Named("git"), Named("packages")], proxied)
    assert not found.boxes
    assert {name.pattern for name in found.names} > set(GIT_NAMES)
    assert notes([Named("git"), Named("packages")], proxied) == ()


def test_another_classs_service_is_its_pods() -> None:
    (entry,) = reach_of([OtherClass("db", Intervals.single(5432))], HERE).pod_ports
    assert (entry.pods, entry.ports) == (class_pods("db"), Intervals.single(5432))
    assert entry.pods.namespace == "sandbox-db"


@pytest.mark.parametrize(
    ("grant", "cluster", "message"),
    [
        (Domain("pypi.org"), HERE, "the VPC CNI holds addresses and no names; configure an egress proxy"),
        (Domain("a.*.org"), ClusterFacts(proxy=PROXY), "one wildcard label, at the left"),
        (Named("identity"), ClusterFacts(), "enable the workspace service"),
        (Addresses("10.0.0.1/8"), HERE, "without host bits"),
        (Addresses("203.0.113.0/24", Intervals.single(1), protocol=None), HERE, "say whose ports"),
        (Addresses("203.0.113.0/24", protocol="OTHER"), HERE, "protocols without ports"),
        (Addresses("2600::/32"), ClusterFacts(), "IPv4 ranges"),
        (OtherClass("db", protocol="OTHER"), HERE, "TCP, UDP or SCTP"),
    ],
)
def test_what_cannot_be_granted_is_refused_with_the_way_out(grant: Grant, cluster: ClusterFacts, message: str) -> None:
    (refused,) = refusals([Named("dns"), grant], cluster)
    assert refused.index == 1
    assert message in str(refused.error)
    with pytest.raises(RefusedGrantError):
        resolve([grant], cluster)


def test_dependence_on_an_unknown_fact_is_named() -> None:
    with pytest.raises(UnknownClusterFactsError) as caught:
        reach_of([Named("web")], ClusterFacts(vpc=("10.40.0.0/16",), services=("172.20.0.0/16",)))
    assert caught.value.facts == ("api",)
    assert "the addresses of the API server must be known first" in str(caught.value)
    assert reach_of([Named("dns")], UNKNOWN_HERE).pod_ports


def test_the_api_server_is_not_known_as_long_as_the_range_of_services_is_not() -> None:
    # Its service has the first address of that range.
    half = ClusterFacts(vpc=("10.40.0.0/16",), api=("54.1.2.3",))
    assert half.unknown == {"services", "api"}
    with pytest.raises(UnknownClusterFactsError):
        reach_of([Named("api-server")], half)


grants = st.lists(
    st.sampled_from(sorted(set(WORDS))).map(Named)
    | st.sampled_from(("203.0.113.0/24", "10.99.0.0/24", "0.0.0.0/0")).map(Addresses),
    max_size=4,
)


@settings(deadline=None, max_examples=12)
@given(grants, grants)
def test_grants_only_add(some: list[Grant], more: list[Grant]) -> None:
    first, second, both = (resolve(each, UNKNOWN_HERE) for each in (some, more, some + more))
    for world in worlds(both.facts):
        assert both.at(world).least.same_as(union_of_reaches([first.at(world).least, second.at(world).least]))


@settings(deadline=None, max_examples=12)
@given(grants, st.sampled_from(((), ("54.1.2.3",), ("10.40.9.9", "54.1.2.3"))))
def test_what_comes_to_be_known_lies_between_the_worlds(some: list[Grant], api: tuple[str, ...]) -> None:
    known = ClusterFacts(
        versions=(4, 6), vpc=("10.40.0.0/16",), services=("172.20.0.0/16",), api=api, exchange=EXCHANGE
    )
    found = reach_of(some, known)
    possible = [resolve(some, UNKNOWN_HERE).at(world).least for world in worlds(UNKNOWN_HERE.unknown)]
    assert found <= union_of_reaches(possible)
    certain = possible[0]
    for each in possible[1:]:
        certain &= each
    assert certain <= found
