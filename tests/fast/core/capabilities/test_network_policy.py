"""Tests of compiled and existing network policies: they allow exactly what Kubernetes allows."""

from __future__ import annotations

from ipaddress import ip_network
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentenv.core.capabilities.cluster_facts import ClusterFacts
from agentenv.core.capabilities.grants import Named, RefusedGrantError
from agentenv.core.capabilities.policies.effective_policy import effective
from agentenv.core.capabilities.policies.network_policy import dns_settings, network_policy
from agentenv.core.capabilities.policies.selectors import matches
from agentenv.core.capabilities.resolve import reach_of
from agentenv.core.capabilities.sets.address_ranges import all_addresses
from agentenv.core.capabilities.sets.boxes import ADDRESSES, ALL_PORTS, PROTOCOLS, Box, BoxSet, Point, product, union
from agentenv.core.capabilities.sets.intervals import Intervals
from agentenv.core.capabilities.sets.pods import NAMESPACE_NAME, Key, PodPorts, Pods, Values
from agentenv.core.capabilities.sets.reach import EVERYTHING, NOTHING, Reach
from agentenv.core.capabilities.unknown_values import UNKNOWN

laws = settings(deadline=None, max_examples=40)

HERE = ClusterFacts(vpc=("10.40.0.0/16",), services=("172.20.0.0/16",), api=("198.51.100.7",), agent_most_ports=None)
LABELS = {"sandbox.users.io/class": "standard"}

# Few addresses, at the edges of the space and beside one another, so that ranges meet, overlap and leave gaps.
places = st.sampled_from((*range(10), *range(2**31 - 2, 2**31 + 3), *range(2**32 - 4, 2**32)))
some_ports = st.sampled_from((1, 2, 21, 22, 80, 443, 65534, 65535))


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    version = draw(st.sampled_from((4, 6)))
    ends = sorted(draw(st.tuples(places, places)))
    ports = sorted(draw(st.tuples(some_ports, some_ports)))
    return Box(version, draw(st.sampled_from(("TCP", "UDP", "SCTP"))), (ends[0], ends[1]), (ports[0], ports[1]))


NAME: Key = ("namespace", NAMESPACE_NAME)
APP: Key = ("pod", "app")
values = st.builds(Values, st.frozensets(st.sampled_from(("a", "b", None)), min_size=1, max_size=3), st.booleans())
conditions: st.SearchStrategy[dict[Key, Values]] = st.dictionaries(st.sampled_from((NAME, APP)), values, max_size=2)
pods = conditions.map(Pods.of).filter(bool)
pod_ports = st.builds(PodPorts, pods, st.sampled_from(("TCP", "UDP")), some_ports.map(Intervals.single))
everything_there = st.builds(
    lambda version, ends: product((version,), PROTOCOLS, Intervals.single(min(ends), max(ends)), ALL_PORTS),
    st.sampled_from((4, 6)),
    st.tuples(places, places),
)
reaches = st.builds(
    lambda some, all_ports, through: Reach(BoxSet.of(some) | union(all_ports), through),
    st.lists(boxes(), max_size=5),
    st.lists(everything_there, max_size=1),
    st.frozensets(pod_ports, max_size=3),
)


def blocks(policy: dict[str, Any]) -> list[dict[str, Any]]:
    return [peer["ipBlock"] for rule in policy["spec"]["egress"] for peer in rule["to"] if "ipBlock" in peer]


@laws
@given(reaches, reaches)
def test_a_compiled_policy_allows_exactly_what_was_granted(egress: Reach, ingress: Reach) -> None:
    policy = network_policy("standard", egress, HERE, ingress)
    out = effective([policy], "sandbox-standard", LABELS)
    back = effective([policy], "sandbox-standard", LABELS, "Ingress")
    assert out.unknown == back.unknown == ()
    assert out.least.same_as(egress)
    assert out.most.same_as(egress)
    assert back.most.same_as(ingress)


@laws
@given(reaches)
def test_no_block_overlaps_another_or_lies_in_its_exceptions(egress: Reach) -> None:
    networks = [ip_network(block["cidr"]) for block in blocks(network_policy("standard", egress, HERE))]
    assert not any(
        network.overlaps(other) for network, other in combinations(networks, 2) if network.version == other.version
    )


def test_nothing_declared_is_a_policy_that_allows_nothing() -> None:
    policy = network_policy("standard", NOTHING, HERE)
    assert policy["spec"] == {
        "podSelector": {"matchLabels": {"sandbox.users.io/class": "standard"}},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [],
        "egress": [],
    }
    for direction in ("Egress", "Ingress"):
        assert not effective([policy], "sandbox-standard", LABELS, direction).most


def test_dns_and_web_read_as_a_person_would_write_them() -> None:
    policy = network_policy("standard", reach_of([Named("dns"), Named("web")], HERE), HERE)
    resolver, web = policy["spec"]["egress"]
    assert resolver == {
        "to": [
            {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
                "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
            }
        ],
        "ports": [{"protocol": "TCP", "port": 53}, {"protocol": "UDP", "port": 53}],
    }
    assert web["ports"] == [{"protocol": "TCP", "port": 443}]
    assert web["to"] == [
        {
            "ipBlock": {
                "cidr": "0.0.0.0/0",
                "except": [
                    "0.0.0.0/8",
                    "10.0.0.0/8",
                    "100.64.0.0/10",
                    "127.0.0.0/8",
                    "169.254.0.0/16",
                    "172.16.0.0/12",
                    "192.168.0.0/16",
                    "198.18.0.0/15",
                    "198.51.100.7/32",
                    "224.0.0.0/3",
                ],
            }
        }
    ]


def test_an_exception_in_which_something_else_is_allowed_is_written_out() -> None:
    wide = product((4,), ("TCP",), all_addresses()[4] - Intervals.single(0x0A000000, 0x0AFFFFFF), Intervals.single(443))
    narrow = product((4,), ("TCP",), Intervals.single(0x0A050000, 0x0A05FFFF), Intervals.single(5432))
    peers = blocks(network_policy("standard", Reach(wide | narrow), HERE))
    assert {"cidr": "10.5.0.0/16"} in peers
    assert not any("except" in block for block in peers)


def test_more_ports_than_the_agent_keeps_are_refused_with_the_count() -> None:
    cluster = ClusterFacts(vpc=(), services=(), api=())
    odd = Intervals.of((port, port) for port in range(1, 61, 2))
    with pytest.raises(RefusedGrantError, match=r"30 ranges of ports .* allowed: 24"):
        network_policy("standard", Reach(product((4,), ("TCP",), Intervals.single(1), odd)), cluster)


def test_inexpressible_policy_is_refused() -> None:
    only_icmp = Reach(product((4,), ("OTHER",), Intervals.single(1), ALL_PORTS))
    with pytest.raises(RefusedGrantError, match="protocols without ports"):
        network_policy("standard", only_icmp, HERE)
    with pytest.raises(RefusedGrantError, match="does not enforce"):
        network_policy("standard", NOTHING, ClusterFacts(agent_enforces=False))
    with pytest.raises(RefusedGrantError, match="egress proxy"):
        network_policy("standard", Reach(names=EVERYTHING.names), HERE)


def test_the_pods_side_of_dns_is_explicit_either_way() -> None:
    assert dns_settings(granted=False, cluster=HERE)["dnsConfig"]["nameservers"] == ["127.0.0.1"]
    assert dns_settings(granted=True, cluster=HERE) == {
        "dnsPolicy": "ClusterFirst",
        "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
    }
    known = ClusterFacts(resolver_addresses=("172.20.0.10",))
    assert dns_settings(granted=True, cluster=known)["dnsConfig"]["nameservers"] == ["172.20.0.10"]


def policy(spec: object, namespace: object = "here", name: str = "p") -> dict[str, Any]:
    return {"kind": "NetworkPolicy", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def allows(found: Reach, address: int, port: int, protocol: str = "TCP") -> bool:
    return any(Point(4, name, address, port) in found.boxes for name in PROTOCOLS if name == protocol)


FIRST: dict[str, Any] = {"to": [{"ipBlock": {"cidr": "0.0.0.1/32"}}], "ports": [{"port": 1}]}
SECOND: dict[str, Any] = {"to": [{"ipBlock": {"cidr": "0.0.0.2/32"}}], "ports": [{"port": 2}]}


def test_a_pod_that_no_policy_selects_reaches_everything() -> None:
    elsewhere = policy({"podSelector": {}, "policyTypes": ["Egress"]}, "there")
    other_label = policy({"podSelector": {"matchLabels": {"app": "b"}}, "policyTypes": ["Egress"]})
    only_ingress = policy({"podSelector": {}, "policyTypes": ["Ingress"]})
    no_types_no_egress = policy({"podSelector": {}})
    found = effective([elsewhere, other_label, only_ingress, no_types_no_egress], "here", {"app": "a"})
    assert found.least == found.most == EVERYTHING
    assert not effective([no_types_no_egress], "here", {}, "Ingress").most


def test_all_policies_that_select_a_pod_count_together() -> None:
    found = effective(
        [
            policy({"podSelector": {}, "policyTypes": ["Egress"], "egress": [FIRST]}),
            policy({"podSelector": {"matchLabels": {"app": "a"}}, "egress": [SECOND]}),
        ],
        "here",
        {"app": "a"},
    )
    assert found.least.boxes == BoxSet.of([Box(4, "TCP", (1, 1), (1, 1)), Box(4, "TCP", (2, 2), (2, 2))])


@pytest.mark.parametrize(
    ("rule", "least"),
    [
        ({}, EVERYTHING),
        ({"to": [], "ports": []}, EVERYTHING),
        ({"ports": [{"port": 443.0}]}, None),
        ({"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}, None),
    ],
)
def test_a_rule_without_peers_or_ports_is_for_all_of_them(rule: dict[str, Any], least: Reach | None) -> None:
    found = effective([policy({"podSelector": {}, "egress": [rule]})], "here", {})
    assert found.unknown == ()
    assert least is None or found.least == least
    assert allows(found.least, ADDRESSES[4][1], 443)
    assert allows(found.least, 0, 443, "UDP") == ("ports" not in rule or not rule["ports"])
    assert bool(found.least.pod_ports) == ("to" not in rule or not rule["to"])


@pytest.mark.parametrize(
    ("spec", "unknown"),
    [
        (UNKNOWN, "whether NetworkPolicy p selects the pod"),
        ({"podSelector": UNKNOWN, "egress": [FIRST]}, "whether NetworkPolicy p selects the pod"),
        ({"podSelector": {}, "egress": UNKNOWN, "policyTypes": ["Egress"]}, "NetworkPolicy p: spec.egress"),
        ({"podSelector": {}, "egress": [UNKNOWN, FIRST]}, "NetworkPolicy p: spec.egress[0]"),
        ({"podSelector": {}, "egress": [{"to": [{}]}, FIRST]}, "NetworkPolicy p: spec.egress[0].to[0]"),
        (
            {"podSelector": {}, "egress": [{"to": [{"ipBlock": {"cidr": UNKNOWN}}]}, FIRST]},
            "NetworkPolicy p: spec.egress[0].to[0].ipBlock.cidr",
        ),
        (
            {"podSelector": {}, "egress": [{"to": [{"ipBlock": {"cidr": "0.0.0.0/1", "except": ["x"]}}]}, FIRST]},
            "NetworkPolicy p: spec.egress[0].to[0].ipBlock.except[0]",
        ),
        (
            {"podSelector": {}, "egress": [{"ports": [{"port": "https"}]}, FIRST]},
            "NetworkPolicy p: spec.egress[0].ports[0]",
        ),
        (
            {"podSelector": {}, "egress": [{"to": [{"podSelector": {"matchExpressions": [{"key": "a"}]}}]}, FIRST]},
            "NetworkPolicy p: spec.egress[0].to[0]",
        ),
    ],
)
def test_what_is_not_known_is_between_nothing_and_everything_it_could_be(spec: object, unknown: str) -> None:
    found = effective([policy(spec)], "here", {})
    assert unknown in found.unknown
    assert found.least <= found.most
    assert found.least != found.most
    known = BoxSet.of([Box(4, "TCP", (1, 1), (1, 1))])
    surely_selected = not unknown.startswith("whether") and not unknown.endswith("spec.egress")
    assert (found.least.boxes == known) == surely_selected


def test_a_policy_that_might_select_a_pod_adds_only_to_what_is_possible() -> None:
    sure = policy({"podSelector": {}, "egress": [FIRST]})
    maybe = policy({"podSelector": {"matchLabels": {"app": "a"}}, "egress": [SECOND]}, name="q")
    found = effective([sure, maybe], "here", {"app": UNKNOWN})
    assert found.least.boxes == BoxSet.of([Box(4, "TCP", (1, 1), (1, 1))])
    assert found.most.boxes == found.least.boxes | BoxSet.of([Box(4, "TCP", (2, 2), (2, 2))])
    assert found.unknown == ("whether NetworkPolicy q selects the pod",)


def test_where_nothing_enforces_a_policy_is_no_comfort() -> None:
    closed = policy({"podSelector": {}, "policyTypes": ["Egress"]})
    assert effective([closed], "here", {}, enforced=False).least == EVERYTHING
    perhaps = effective([closed], "here", {}, enforced=UNKNOWN)
    assert (perhaps.least, perhaps.most) == (NOTHING, EVERYTHING)
    assert perhaps.unknown == ("whether the cluster enforces NetworkPolicies for the pod",)


@pytest.mark.parametrize(
    ("selector", "verdict"),
    [
        ({}, True),
        (None, True),
        ({"matchLabels": {"app": "a"}}, True),
        ({"matchLabels": {"app": "a", "tier": "x"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["a"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "secret", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "secret", "operator": "In", "values": ["x"]}]}, None),
        ({"matchExpressions": [{"key": "secret", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Matches", "values": ["a"]}]}, None),
        ({"matchLabels": {"app": UNKNOWN}}, None),
        (UNKNOWN, None),
    ],
)
def test_selectors_select_as_kubernetes_does(selector: object, verdict: bool | None) -> None:
    assert matches(selector, {"app": "a", "secret": UNKNOWN}) is verdict
