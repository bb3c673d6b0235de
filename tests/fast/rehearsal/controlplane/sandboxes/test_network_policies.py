"""Connections of sandboxes lead where the policies of their classes let them, as the API server has them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, cast

import pytest

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL, ClusterFacts, class_pods
from agentenv.core.capabilities.grants import Grant, Named, OtherClass
from agentenv.core.capabilities.policies.network_policy import dns_settings, network_policy
from agentenv.core.capabilities.resolve import reach_of
from agentenv.core.capabilities.sets.intervals import Intervals
from agentenv.core.capabilities.sets.pods import pod_ports_of
from agentenv.core.capabilities.sets.reach import NOTHING, Reach
from agentenv.core.gateway.documents import GatewaySettings
from agentenv.core.gateway.documents import deployment as envoy_deployment
from agentenv.core.gateway.envoy import EnvoyPlan
from agentenv.core.service.deployment import ServiceSettings, deployment, loops_deployment
from agentenv.local.sandboxes.way_out import Dial, Enter, Protocol, Refusal, Resolve, Way
from agentenv.rehearsal.controlplane.client import PodApi
from agentenv.rehearsal.controlplane.sandboxes.network_policies import (
    OUTSIDE,
    RESOLVER,
    NetworkPolicies,
    Sandbox,
    resolv_conf,
)

Object = dict[str, Any]

HERE = ClusterFacts(vpc=("10.40.0.0/16",), services=("172.20.0.0/16",), api=("198.51.100.7",))
OWN, NEIGHBOUR, SERVER = "100.64.0.5", "100.64.0.9", "140.82.112.3"


class FakeApi:
    """An API server with these lists."""

    def __init__(self, policies: list[Object], services: list[Object], pods: list[Object]) -> None:
        namespaces = {row["metadata"]["namespace"] for row in (*policies, *services, *pods)}
        self.lists = {
            "networkpolicies": policies,
            "services": services,
            "pods": pods,
            "namespaces": [
                {"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}} for name in namespaces
            ],
        }

    def request(self, method: str, path: str, query: Mapping[str, str] | None = None) -> Object:
        assert method == "GET"
        rows = self.lists[path.rpartition("/")[2]]
        selector_labels = dict(part.split("=") for part in (query or {}).get("labelSelector", "").split(",") if part)
        return {"items": [row for row in rows if selector_labels.items() <= row["metadata"].get("labels", {}).items()]}


def pod(of_class: str) -> Object:
    labels = {CLASS_LABEL: of_class}
    return {"metadata": {"name": "p", "namespace": f"sandbox-{of_class}", "labels": labels}, "spec": {}}


def policy(of_class: str, *grants: Grant, ingress: Reach = NOTHING) -> Object:
    return network_policy(of_class, reach_of(grants, HERE), HERE, ingress)


def policies(
    tmp_path: Path, *documents: Object, services: Sequence[Object] = (), pods: Sequence[Object] = ()
) -> NetworkPolicies:
    outside = {"names": {"git.example.com": SERVER}, "addresses": {f"{SERVER}:443": "127.0.0.1:4430"}}
    (tmp_path / OUTSIDE).write_text(json.dumps(outside), encoding="utf-8")
    client = cast("PodApi", FakeApi(list(documents), list(services), list(pods)))
    found = NetworkPolicies(client, tmp_path, ("127.0.0.1", 6443))
    found.add(NEIGHBOUR, Sandbox(lambda: pod("b"), tmp_path / "inbound"))
    return found


def way(found: NetworkPolicies, address: str, port: int, protocol: Protocol = "TCP", of_class: str = "a") -> Way:
    return found.decide(pod(of_class), OWN, protocol, IPv4Address(address), port)


EVERYWHERE = [(SERVER, 443), ("169.254.169.254", 80), (NEIGHBOUR, 49983), (RESOLVER, 53), ("172.20.0.1", 443)]


@pytest.mark.parametrize(("address", "port"), EVERYWHERE)
def test_a_class_without_capabilities_reaches_nothing(tmp_path: Path, address: str, port: int) -> None:
    found = policies(tmp_path, policy("a"), policy("b"))
    assert way(found, address, port) is Refusal.DROP
    assert way(found, address, port, "UDP") is Refusal.DROP


def test_the_web_is_the_named_server_and_never_metadata_or_a_neighbour(tmp_path: Path) -> None:
    found = policies(tmp_path, policy("a", Named("web")), policy("b"))
    assert way(found, SERVER, 443) == Dial("127.0.0.1", 4430)
    assert way(found, SERVER, 8443) is Refusal.DROP
    assert way(found, "140.82.112.4", 443) is Refusal.REFUSE, "granted, and not here"
    for address, port in EVERYWHERE[1:]:
        assert way(found, address, port) is Refusal.DROP


def test_names_are_resolved_as_far_as_dns_is_granted(tmp_path: Path) -> None:
    service = {"metadata": {"name": "s", "namespace": "n"}, "spec": {"clusterIP": "172.20.3.4"}}
    found = policies(tmp_path, policy("a", Named("dns")), policy("b", Named("web")), services=[service])
    assert way(found, RESOLVER, 53, "UDP", of_class="b") is Refusal.DROP
    for protocol in ("UDP", "TCP"):
        resolver = way(found, RESOLVER, 53, cast("Protocol", protocol))
        assert isinstance(resolver, Resolve)
        answers = {
            name: resolved(resolver, name) for name in ("git.example.com", "s.n.svc.cluster.local", "example.org")
        }
        assert answers == {
            "git.example.com": SERVER, "s.n.svc.cluster.local": "172.20.3.4", "example.org": "",
        }  # fmt: skip
    assert way(found, SERVER, 443) is Refusal.DROP, "a name is no way"


def resolved(resolver: Resolve, name: str) -> str:
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    message = resolver.answer(b"\0\7\1\0\0\1" + b"\0" * 6 + labels + b"\0\0\1\0\1")
    return ".".join(map(str, message[-4:])) if message[7] else ""


def test_another_class_is_reached_at_the_port_that_both_sides_grant(tmp_path: Path) -> None:
    grant = OtherClass("b", Intervals.single(8080))
    let_in = Reach(pod_ports=pod_ports_of(class_pods("a"), ("TCP",), Intervals.single(8080)))
    one_side = policies(tmp_path, policy("a", grant), policy("b"))
    assert way(one_side, NEIGHBOUR, 8080) is Refusal.DROP
    both = policies(tmp_path, policy("a", grant), policy("b", ingress=let_in))
    assert way(both, NEIGHBOUR, 8080) == Enter(tmp_path / "inbound", 8080, OWN)
    assert way(both, NEIGHBOUR, 49983) is Refusal.DROP
    assert way(both, NEIGHBOUR, 8080, of_class="c-without-a-policy") is Refusal.DROP
    both.remove(NEIGHBOUR)
    assert way(both, NEIGHBOUR, 8080) is Refusal.DROP


def test_a_service_is_reached_by_the_labels_of_its_pods(tmp_path: Path) -> None:
    labels = {"app.kubernetes.io/name": "workspace-service"}
    container = {"args": ["--port=8080"], "ports": [{"name": "http", "containerPort": 8080}]}
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    metadata = {"name": "s", "namespace": "workspace-service"}
    service_pod = {"metadata": {**metadata, "uid": "u-1", "labels": labels}, "spec": {"containers": [container]}}
    ports = tmp_path / "residents" / "u-1"
    ports.mkdir(parents=True)
    (ports / "ports.json").write_text('{"--port": 40001}', encoding="utf-8")
    spec = {"clusterIP": "172.20.3.4", "selector": labels, "ports": [{"port": 80, "targetPort": "http"}]}
    selector = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "workspace-service"}},
        "podSelector": {"matchLabels": labels},
    }
    granted = policy("a")
    granted["spec"]["egress"] = [{"to": [selector], "ports": [{"port": 8080, "protocol": "TCP"}]}]
    services = [{"metadata": metadata, "spec": spec}]
    found = policies(tmp_path, granted, policy("b"), services=services, pods=[{**service_pod, "status": ready}])
    assert way(found, "172.20.3.4", 80) == Dial("127.0.0.1", 40001)
    assert way(found, "172.20.3.4", 81) is Refusal.DROP
    assert way(found, "172.20.3.4", 80, of_class="b") is Refusal.DROP


def test_without_a_policy_a_pod_reaches_what_is_here(tmp_path: Path) -> None:
    found = policies(tmp_path, policy("b"))
    assert way(found, "172.20.0.1", 443) == Dial("127.0.0.1", 6443)
    assert way(found, SERVER, 443) == Dial("127.0.0.1", 4430)
    assert way(found, "169.254.169.254", 80) is Refusal.REFUSE
    assert way(found, NEIGHBOUR, 49983) is Refusal.DROP, "its own policy lets nobody in"


def test_a_pods_dns_settings_become_its_resolv_conf() -> None:
    granted, refused = (dns_settings(granted=granted, cluster=HERE) for granted in (True, False))
    assert resolv_conf({**pod("a"), "spec": granted}).splitlines() == [
        f"nameserver {RESOLVER}",
        "search sandbox-a.svc.cluster.local svc.cluster.local cluster.local",
        "options ndots:1",
    ]
    assert resolv_conf({**pod("a"), "spec": refused}).splitlines() == ["nameserver 127.0.0.1", "options ndots:1"]


def queries(conf: str, name: str) -> list[str]:
    """Return the names that a resolver queries, in order, as resolv.conf(5) describes it."""
    words = {line.split()[0]: line.split()[1:] for line in conf.splitlines()}
    within = [f"{name}.{domain}" for domain in words.get("search", [])]
    dots = int(next(option.removeprefix("ndots:") for option in words["options"] if option.startswith("ndots:")))
    return [name, *within] if name.count(".") >= dots else [*within, name]


@pytest.mark.parametrize("name", ["pypi.org", "registry.npmjs.org", "sts.us-east-1.amazonaws.com"])
def test_a_sandbox_queries_names_of_the_internet_without_search_domains(name: str) -> None:
    conf = resolv_conf({**pod("a"), "spec": dns_settings(granted=True, cluster=HERE)})
    assert queries(conf, name)[0] == name
    by_default = resolv_conf({**pod("a"), "spec": {}})
    assert queries(by_default, name).index(name) == 3, "each of the search domains comes first"
    # Services are found still.
    assert queries(conf, "database")[0] == "database.sandbox-a.svc.cluster.local"


def test_pods_of_the_platform_find_names_of_aws_and_services_by_the_first_query() -> None:
    running = ServiceSettings("image", 1, 8080, "100m", "128Mi")
    gateway = GatewaySettings("image", 1, "100m", "128Mi", EnvoyPlan("a.example.com", "b.example.com", 8080))
    for document in (deployment(running, ""), loops_deployment(running, ""), envoy_deployment(gateway)):
        conf = resolv_conf({**pod("a"), "spec": document["spec"]["template"]["spec"]})
        for name in ("sts.us-east-1.amazonaws.com", EnvoyPlan.service_host, EnvoyPlan.authorizer_host):
            assert queries(conf, name)[0] == name
        assert "prometheus.metering.svc.cluster.local" in queries(conf, "prometheus.metering.svc")[:3]
