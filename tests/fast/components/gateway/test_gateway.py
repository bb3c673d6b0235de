"""The gateway's graphs: its load balancer with the records of its domains, and the pods of Envoy behind it."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from agentenv.components.gateway.gateway import Gateway
from agentenv.components.gateway.load_balancer import LoadBalancer
from agentenv.core.gateway.documents import REGISTERED
from agentenv.core.plan import GatewayPlan
from tests.fast.components.graph import ACCOUNT, REGION, Graph, registered
from tests.fast.components.shapes import NETWORK, planned

IMAGE = f"registry.example.com/a@sha256:{'0' * 64}"
CERTIFICATE = f"arn:aws:acm:{REGION}:{ACCOUNT}:certificate/c"
REACHED = {"image": IMAGE, "domain": "os.example.com", "certificate": CERTIFICATE}
OPEN = {
    "reach": "internet",
    "issuer": "https://login.example.com",
    "callers": ["203.0.113.0/24"],
    "workspaceDomain": "os.example.net",
}
VPC = dataclasses.replace(NETWORK, public_subnet_ids=["subnet-public"])


def plan(settings: dict[str, Any] | None = None) -> GatewayPlan:
    service = {**REACHED, **(settings or {})}
    network = {"cidr": "10.40.0.0/16", "peers": ["10.0.0.0/16"]}
    gateway = planned({"network": network, "service": service}).gateway
    assert gateway is not None
    return gateway


def balancer(settings: dict[str, Any] | None = None) -> Graph:
    return registered(lambda: LoadBalancer("gateway", plan(settings), VPC))


def envoy(settings: dict[str, Any] | None = None) -> Graph:
    return registered(lambda: Gateway("envoy", plan(settings)))


def test_without_a_domain_there_is_no_gateway() -> None:
    assert planned({"service": {"image": IMAGE}}).gateway is None
    assert planned({"service": {**REACHED, "enabled": False}}).gateway is None


def test_the_balancer_terminates_tls_and_passes_addresses_on() -> None:
    graph = balancer()
    network = graph.resource("LoadBalancer", "-balancer")
    assert (network.inputs["loadBalancerType"], network.inputs["internal"]) == ("network", True)
    assert network.inputs["subnets"] == list(NETWORK.subnet_ids)
    listener = graph.resource("Listener").inputs
    assert (listener["protocol"], listener["port"], listener["alpnPolicy"]) == ("TLS", 443, "HTTP2Preferred")
    assert listener["certificateArn"] == CERTIFICATE
    targets = graph.resource("TargetGroup").inputs
    assert (targets["targetType"], targets["protocol"], targets["port"]) == ("ip", "TCP", 8080)
    assert targets["proxyProtocolV2"] is True
    assert (targets["healthCheck"]["port"], targets["healthCheck"]["path"]) == ("8081", "/ready")
    for resource in (network, graph.resource("Listener"), graph.resource("TargetGroup")):
        assert resource.inputs["tags"]["component"] == "gateway"


@pytest.mark.parametrize(
    ("settings", "ranges", "subnets"),
    [
        ({}, ["10.0.0.0/16", "10.40.0.0/16"], list(NETWORK.subnet_ids)),
        ({"callers": ["10.1.0.0/24"]}, ["10.1.0.0/24"], list(NETWORK.subnet_ids)),
        (OPEN, ["203.0.113.0/24"], ["subnet-public"]),
    ],
)
def test_callers_reach_it_and_it_reaches_envoy_alone(
    settings: dict[str, Any], ranges: list[str], subnets: list[str]
) -> None:
    graph = balancer(settings)
    [group] = graph.of("SecurityGroup")
    ingress = [rule.inputs for rule in graph.of("SecurityGroupIngressRule")]
    callers = [rule for rule in ingress if "cidrIpv4" in rule]
    assert [(rule["cidrIpv4"], rule["fromPort"], rule["toPort"]) for rule in callers] == [
        (cidr, 443, 443) for cidr in ranges
    ]
    on_nodes = {(rule["securityGroupId"], rule["fromPort"]) for rule in ingress if rule not in callers}
    egress = [rule.inputs for rule in graph.of("SecurityGroupEgressRule")]
    assert on_nodes == {(NETWORK.nodes_security_group_id, port) for port in (8080, 8081)}
    assert {(rule["referencedSecurityGroupId"], rule["fromPort"]) for rule in egress} == on_nodes
    assert graph.resource("LoadBalancer", "-balancer").inputs["subnets"] == subnets
    assert group.inputs["vpcId"] == NETWORK.vpc_id


def test_records_are_created_in_the_zones_that_are_named() -> None:
    assert balancer().of("Record") == []
    graph = balancer({"dns": {"zone": "Z1"}})
    assert [(r.inputs["name"], r.inputs["zoneId"], r.inputs["type"]) for r in graph.of("Record")] == [
        ("os.example.com", "Z1", "A"),
        ("*.os.example.com", "Z1", "A"),
    ]
    both = balancer({**OPEN, "dns": {"zone": "Z1", "workspaceZone": "Z2"}})
    assert {(r.inputs["name"], r.inputs["zoneId"]) for r in both.of("Record")} == {
        ("os.example.com", "Z1"),
        ("*.os.example.com", "Z1"),
        ("*.os.example.net", "Z2"),
    }
    assert plan(OPEN).hosts == ("os.example.com", "*.os.example.com", "*.os.example.net")


def test_pods_are_created_after_their_dependencies() -> None:
    graph = envoy()
    [pods] = graph.of("Deployment")
    for kind in ("Namespace", "NetworkPolicy", "ServiceAccount", "ConfigMap", "Role", "RoleBinding"):
        assert graph.comes_before(graph.resource(kind), pods), kind
    assert (
        graph.resource("Namespace").inputs["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    )


def test_its_pods_are_restricted_and_ready_when_they_are_registered() -> None:
    graph = envoy({"gateway": {"replicas": 3, "cpu": "200m", "memory": "512Mi"}})
    spec = graph.resource("Deployment").inputs["spec"]
    pod = spec["template"]["spec"]
    [container] = pod["containers"]
    assert spec["replicas"] == 3
    assert pod["readinessGates"] == [{"conditionType": REGISTERED}]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["requests"] == {"cpu": "200m", "memory": "512Mi"}
    assert pod["terminationGracePeriodSeconds"] > container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert "@sha256:" in container["image"]


def test_a_changed_configuration_rolls_its_pods_out() -> None:
    digests = {
        envoy(settings)
        .resource("Deployment")
        .inputs["spec"]["template"]["metadata"]["annotations"]["sandbox.users.io/settings"]
        for settings in ({}, {"port": 8090}, {"domain": "other.example.com"})
    }
    assert len(digests) == 3


def test_its_network_policy_leads_to_sandboxes_and_the_service_alone() -> None:
    spec = envoy().resource("NetworkPolicy").inputs["spec"]
    assert spec["podSelector"] == {}
    assert [sorted(port["port"] for port in rule["ports"]) for rule in spec["egress"]] == [
        [53, 53],
        [49983],
        [8080, 9191],
    ]
    assert not any("ipBlock" in peer for rule in spec["egress"] for peer in rule["to"])
    [balanced, scraped] = spec["ingress"]
    assert balanced["from"] == [{"ipBlock": {"cidr": "10.40.0.0/16"}}]
    assert [port["port"] for port in scraped["ports"]] == [8081]


def test_the_configuration_has_the_domains_and_the_port_of_the_service() -> None:
    data = envoy({**OPEN, "port": 8090}).resource("ConfigMap").inputs["data"]
    document = json.loads(data["envoy.json"])
    text = json.dumps(document)
    assert "*.os.example.net" in text
    [service] = [each for each in document["static_resources"]["clusters"] if each["name"] == "service"]
    [endpoint] = service["load_assignment"]["endpoints"][0]["lb_endpoints"]
    assert endpoint["endpoint"]["address"]["socket_address"]["port_value"] == 8090
