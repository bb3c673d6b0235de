"""Whether one destination is in a reach: an address, or a port of a pod with all its labels."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from agentenv.core.capabilities.cluster_facts import ClusterFacts
from agentenv.core.capabilities.grants import Named
from agentenv.core.capabilities.policies.effective_policy import effective
from agentenv.core.capabilities.policies.network_policy import network_policy
from agentenv.core.capabilities.resolve import reach_of
from agentenv.core.capabilities.sets.intervals import Intervals
from agentenv.core.capabilities.sets.pods import Key, Pods, Values, pod_ports_of
from agentenv.core.capabilities.sets.reach import EVERYTHING, NOTHING, Reach

HERE = ClusterFacts(vpc=("10.40.0.0/16",), services=("172.20.0.0/16",), api=("198.51.100.7",))
RESOLVER: dict[Key, str] = {
    ("pod", "k8s-app"): "kube-dns",
    ("namespace", "kubernetes.io/metadata.name"): "kube-system",
}


@pytest.mark.parametrize(
    ("address", "port", "granted"),
    [
        ("140.82.112.3", 443, True),
        ("140.82.112.3", 444, False),
        ("169.254.169.254", 80, False),
        ("169.254.169.254", 443, False),
        ("10.40.1.1", 443, False),
        ("100.64.0.9", 443, False),
        ("172.20.0.1", 443, False),
        ("198.51.100.7", 443, False),
        ("2606:4700::1", 443, False),
    ],
)
def test_an_address_of_the_web_is_included_and_metadata_and_neighbours_are_not(
    address: str, port: int, granted: bool
) -> None:
    policy = network_policy("a", reach_of([Named("dns"), Named("web")], HERE), HERE)
    reach = effective([policy], "sandbox-a", {"sandbox.users.io/class": "a"}).least
    assert reach.includes_address(ip_address(address), "TCP", port) is granted
    assert not reach.includes_address(ip_address(address), "UDP", port)


def test_a_pod_is_included_by_its_labels_and_those_of_its_namespace() -> None:
    policy = network_policy("a", reach_of([Named("dns")], HERE), HERE)
    reach = effective([policy], "sandbox-a", {"sandbox.users.io/class": "a"}).least
    assert reach.includes_pod(RESOLVER, "UDP", 53)
    assert reach.includes_pod(RESOLVER, "TCP", 53)
    assert not reach.includes_pod(RESOLVER, "UDP", 54)
    assert not reach.includes_pod({**RESOLVER, ("pod", "k8s-app"): "other"}, "UDP", 53)
    assert not reach.includes_pod({("pod", "k8s-app"): "kube-dns"}, "UDP", 53)


def test_a_pod_without_a_label_is_included_where_the_label_must_be_absent() -> None:
    without = Pods.of({("pod", "quarantined"): Values(frozenset({None}))})
    reach = Reach(pod_ports=pod_ports_of(without, ("TCP",), Intervals.single(80)))
    assert reach.includes_pod({("pod", "app"): "x"}, "TCP", 80)
    assert not reach.includes_pod({("pod", "quarantined"): "yes"}, "TCP", 80)


def test_without_a_policy_everything_is_included() -> None:
    assert EVERYTHING.includes_address(ip_address("169.254.169.254"), "TCP", 80)
    assert EVERYTHING.includes_pod({}, "UDP", 1)
    assert not NOTHING.includes_address(ip_address("1.1.1.1"), "TCP", 80)
    assert not NOTHING.includes_pod({}, "UDP", 1)
