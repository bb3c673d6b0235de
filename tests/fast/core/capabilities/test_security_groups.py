"""Tests of security groups: they allow exactly the grants and the platform's needs, within the quota."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import ip_network
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentenv.core.capabilities.cluster_facts import CLUSTER_RESOLVER, ClusterFacts, class_pods
from agentenv.core.capabilities.grants import Addresses, Named, OtherClass, RefusedGrantError
from agentenv.core.capabilities.policies.security_group import Platform, Quota, security_group_policy, security_groups
from agentenv.core.capabilities.policies.security_group_rules import (
    EVERY_PROTOCOL,
    PROTOCOL_NAMES,
    GroupRule,
    group_rules,
)
from agentenv.core.capabilities.resolve import reach_of
from agentenv.core.capabilities.sets.boxes import ALL_PORTS, PROTOCOLS, Box, BoxSet, Point, Protocol, product, union
from agentenv.core.capabilities.sets.intervals import Intervals
from agentenv.core.capabilities.sets.pods import PodPorts, Pods, pod_ports_of
from agentenv.core.capabilities.sets.reach import Reach

laws = settings(deadline=None, max_examples=40)

HERE = ClusterFacts(vpc=("10.40.0.0/16",), services=("172.20.0.0/16",), api=())
assert CLUSTER_RESOLVER.pods is not None
RESOLVER, OTHER = CLUSTER_RESOLVER.pods, class_pods("other")
MEMBERS = {RESOLVER: "sg-resolver", OTHER: "sg-other"}
PLATFORM = Platform("sg-control-plane", probe_ports=(8080,))

places = st.sampled_from((*range(10), *range(2**31 - 2, 2**31 + 3), *range(2**32 - 4, 2**32)))
ports = st.sampled_from((1, 2, 21, 22, 80, 443, 65534, 65535))


def reach_of_rules(rules: Iterable[GroupRule], members: Mapping[Pods, str]) -> Reach:
    """Return the reach that the rules allow together: the inverse of `group_rules`."""
    boxes: list[BoxSet] = []
    pod_ports: frozenset[PodPorts] = frozenset()
    for rule in rules:
        protocols: tuple[Protocol, ...] = tuple(
            protocol for protocol in PROTOCOLS if rule.protocol in {EVERY_PROTOCOL, PROTOCOL_NAMES.get(protocol)}
        )
        ports = ALL_PORTS if rule.ports is None else Intervals((rule.ports,))
        if rule.cidr is not None:
            network = ip_network(rule.cidr)
            addresses = Intervals.single(int(network[0]), int(network[-1]))
            boxes.append(product((network.version,), protocols, addresses, ports))
        for pods, group in members.items():
            if group == rule.group:
                pod_ports |= pod_ports_of(pods, protocols, ports)
    return Reach(union(boxes), pod_ports)


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    ends, span = sorted(draw(st.tuples(places, places))), sorted(draw(st.tuples(ports, ports)))
    return Box(
        draw(st.sampled_from((4, 6))), draw(st.sampled_from(("TCP", "UDP"))), (ends[0], ends[1]), (span[0], span[1])
    )


whole = st.builds(
    lambda protocols, ends: product((4,), protocols, Intervals.single(min(ends), max(ends)), ALL_PORTS),
    st.sampled_from((PROTOCOLS, ("SCTP",))),
    st.tuples(places, places),
)
pod_ports = st.builds(
    lambda pods, protocols, low: pod_ports_of(pods, protocols, Intervals.single(low)),
    st.sampled_from((RESOLVER, OTHER)),
    st.sampled_from((("TCP",), ("TCP", "UDP"))),
    ports,
)
reaches = st.builds(
    lambda some, entire, through: Reach(BoxSet.of(some) | union(entire), through),
    st.lists(boxes(), max_size=5),
    st.lists(whole, max_size=2),
    pod_ports | pod_ports.map(lambda _: pod_ports_of(OTHER, PROTOCOLS, ALL_PORTS)),
)


@laws
@given(reaches)
def test_rules_allow_exactly_what_was_granted(reach: Reach) -> None:
    rules = group_rules(reach, MEMBERS)
    assert reach_of_rules(rules, MEMBERS).same_as(reach)
    assert len(set(rules)) == len(rules)


def spread(rule: GroupRule) -> tuple[str, int, int, int, int, int]:
    network, ports = ip_network(rule.cidr or ""), rule.ports or (1, 65535)
    return rule.protocol, network.version, int(network[0]), int(network[-1]), ports[0], ports[1]


@settings(deadline=None, max_examples=25)
@given(st.lists(boxes(), max_size=3).map(BoxSet.of))
def test_no_rule_can_be_left_out_because_another_covers_it(granted: BoxSet) -> None:
    rules = [spread(rule) for rule in group_rules(Reach(granted), {})]
    for (peer, version, first, last, low, high), other in permutations(rules, 2):
        assert not (
            other[:2] == (peer, version)
            and other[2] <= first
            and last <= other[3]
            and other[4] <= low
            and high <= other[5]
        )


def test_a_port_open_everywhere_is_not_cut_up_by_what_else_is_open() -> None:
    everywhere = product((4,), ("TCP",), Intervals.single(0, 2**32 - 1), Intervals.single(443))
    office = product((4,), ("TCP",), Intervals.single(0x0A000000, 0x0AFFFFFF), ALL_PORTS)
    assert set(group_rules(Reach(everywhere | office), {})) == {
        GroupRule("tcp", (443, 443), cidr="0.0.0.0/0", why="granted"),
        GroupRule("tcp", (1, 65535), cidr="10.0.0.0/8", why="granted"),
    }


def test_what_is_open_entirely_is_one_rule() -> None:
    office = product((4,), PROTOCOLS, Intervals.single(0x0A000000, 0x0AFFFFFF), ALL_PORTS)
    assert group_rules(Reach(office), {}) == (GroupRule("-1", None, cidr="10.0.0.0/8", why="granted"),)


def test_the_groups_of_a_class_hold_the_platforms_rules_and_the_grants() -> None:
    reach = reach_of([Named("dns"), Named("web"), Named("git")], HERE)
    groups = security_groups(reach, HERE, MEMBERS, PLATFORM)
    assert len(groups) == 3
    outward = [rule for group in groups for rule in group.egress]
    assert all(len(group.egress) <= 60 for group in groups)
    assert reach_of_rules(outward, MEMBERS).same_as(reach)
    assert [rule.group for rule in outward if rule.group] == [
        "sg-control-plane",
        "sg-resolver",
        "sg-resolver",
    ]
    assert [(rule.group, rule.ports) for group in groups for rule in group.ingress] == [
        ("sg-control-plane", (10250, 10250)),
        ("sg-control-plane", (8080, 8080)),
    ]


def test_a_class_that_may_reach_nothing_has_the_platforms_rules_alone() -> None:
    (group,) = security_groups(reach_of([], HERE), HERE, {}, Platform("sg-control-plane"))
    assert [rule.plain() for rule in group.egress] == [
        {
            "ip_protocol": "tcp",
            "description": "the kubelet of this sandbox",
            "from_port": 443,
            "to_port": 443,
            "referenced_security_group_id": "sg-control-plane",
        }
    ]


def test_more_rules_than_the_quota_are_refused_with_the_count() -> None:
    reach = reach_of([Named("web"), Named("git")], HERE)
    rules = len(group_rules(reach, {})) + 1
    with pytest.raises(
        RefusedGrantError, match=f"{rules} outbound rules for IPv4; allowed: 60, which is 60 in each of 1"
    ):
        security_groups(reach, HERE, {}, PLATFORM, quota=Quota(groups=1))
    assert len(security_groups(reach, HERE, {}, PLATFORM, quota=Quota(rules=rules, groups=1))) == 1


def test_ipv4_and_ipv6_are_counted_apart_and_groups_in_both() -> None:
    four = [Addresses(f"203.0.113.{number}/32", Intervals.single(443)) for number in range(0, 100, 2)]
    six = [Addresses(f"2600::{number:x}/128", Intervals.single(443)) for number in range(0, 100, 2)]
    cluster = ClusterFacts(versions=(4, 6), vpc=(), services=(), api=())
    assert len(security_groups(reach_of([*four, *six], cluster), cluster, {}, PLATFORM, quota=Quota(rules=51))) == 1
    with pytest.raises(RefusedGrantError, match="51 outbound rules"):
        security_groups(reach_of([*four, *six], cluster), cluster, {}, PLATFORM, quota=Quota(rules=50, groups=1))


def test_pods_without_a_group_of_their_own_cannot_be_reached_from_fargate() -> None:
    reach = reach_of([OtherClass("elsewhere", Intervals.single(80))], HERE)
    with pytest.raises(
        RefusedGrantError, match="pods of sandbox-elsewhere, which are in no security group of their own"
    ):
        group_rules(reach, MEMBERS)


@pytest.mark.parametrize(
    ("protocol", "open_ports", "message"),
    [("SCTP", Intervals.single(80), "some ports of SCTP"), ("OTHER", ALL_PORTS, "protocols without ports")],
)
def test_inexpressible_security_group_is_refused(protocol: Protocol, open_ports: Intervals, message: str) -> None:
    with pytest.raises(RefusedGrantError, match=message):
        group_rules(Reach(product((4,), (protocol,), Intervals.single(1), open_ports)), {})


def test_rules_are_written_in_the_providers_words() -> None:
    assert GroupRule("udp", (1, 65535), cidr="2600::/12", why="granted").plain() == {
        "ip_protocol": "udp",
        "description": "granted",
        "from_port": 0,
        "to_port": 65535,
        "cidr_ipv6": "2600::/12",
    }
    assert GroupRule("-1", None, cidr="10.0.0.0/8").plain() == {
        "ip_protocol": "-1",
        "description": "",
        "cidr_ipv4": "10.0.0.0/8",
    }


def test_the_policy_puts_the_classs_pods_into_its_groups() -> None:
    policy = security_group_policy("edge", ["sg-1", "sg-2"])
    assert policy["metadata"]["namespace"] == "sandbox-edge"
    assert policy["spec"] == {
        "podSelector": {"matchLabels": {"sandbox.users.io/class": "edge"}},
        "securityGroups": {"groupIds": ["sg-1", "sg-2"]},
    }


def test_documentation_ranges_cost_no_rules() -> None:
    reach = reach_of([Named("web")], HERE)
    assert Point(4, "TCP", 0xC0000201, 443) in reach.boxes
    assert len(group_rules(reach, {})) < 60
