"""Settings reach the resources of the components that take their plan."""

from __future__ import annotations

from typing import Any

import pytest

from agentenv.components.capacity.capacity import Capacity
from agentenv.components.cluster.cluster import Cluster
from agentenv.core.nodes.mirrors import Mirrors
from tests.fast.components.graph import ACCOUNT, CALLER, Graph, registered
from tests.fast.components.node_shapes import on_cluster
from tests.fast.components.sandbox_shapes import agent_sandbox
from tests.fast.components.shapes import NETWORK, planned
from tests.fast.config.stack_samples import sandbox

CHOSEN: dict[str, Any] = {
    "cluster": {
        "version": "1.36",
        "publicAccessCidrs": ["203.0.113.0/24"],
        "admins": [CALLER],
        "readers": [f"arn:aws:iam::{ACCOUNT}:role/everybody"],
        "supportPolicy": "extended",
        "logDays": 7,
        "serviceCidr": "172.21.0.0/16",
        "addonVersions": {"vpcCni": "v1.22.4-eksbuild.3", "efsCsiDriver": "v3.4.0-eksbuild.1"},
    },
    "capacity": {
        "families": ["m7g", "m7i"],
        "limits": {"cpu": "12", "memory": "48Gi"},
        "headroom": {"pods": 2, "cpu": "250m", "memory": "512Mi"},
        "ami": "al2023@v20260101",
        "nitroImages": ["ami-0a1b2c3d"],
        "expireAfter": "7d",
        "disruptionBudget": "2",
        "driftBudget": "5%",
        "failedNodesAlarm": 17,
    },
    "sandboxClasses": [sandbox("people", capacity="spot"), sandbox("kernels", tier="untrusted", kernel="nitro")],
}


def build(sections: dict[str, Any]) -> Graph:
    """Return the graph of a cluster and its capacity with such settings."""
    plan = planned(sections)

    def program() -> None:
        Cluster("eks", plan.cluster, NETWORK)
        Capacity("nodes", plan.capacity, on_cluster())

    return registered(program)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return build(CHOSEN)


def test_cluster_follows_the_settings(graph: Graph) -> None:
    inputs = graph.resource("eks:index:Cluster").inputs
    assert (inputs["version"], inputs["publicAccessCidrs"]) == ("1.36", ["203.0.113.0/24"])
    assert inputs["upgradePolicy"] == {"supportType": "EXTENDED"}
    assert inputs["kubernetesServiceIpAddressRange"] == "172.21.0.0/16"
    assert graph.resource("LogGroup", "control-plane").inputs["retentionInDays"] == 7
    assert graph.resource("Addon", "vpc-cni").inputs["addonVersion"] == "v1.22.4-eksbuild.3"
    assert {
        entry.inputs["principalArn"] for entry in graph.of("AccessEntry") if entry.inputs["type"] == "STANDARD"
    } == {
        CALLER,
        f"arn:aws:iam::{ACCOUNT}:role/everybody",
    }


def test_nodes_follow_the_settings(graph: Graph) -> None:
    pools = {pool.name: pool.inputs["spec"] for pool in graph.of("NodePool")}
    assert set(pools) == {
        "nodes-system-arm64",
        "nodes-standard-spot-arm64",
        "nodes-standard-spot-amd64",
        "nodes-untrusted-nitro-on-demand-arm64",
        "nodes-untrusted-nitro-on-demand-amd64",
    }
    people = pools["nodes-standard-spot-arm64"]
    assert people["limits"] == {"cpu": "12", "memory": "48Gi"}
    assert people["template"]["spec"]["expireAfter"] == "168h"
    assert people["disruption"]["budgets"] == [{"nodes": "2"}, {"nodes": "5%", "reasons": ["Drifted"]}]
    assert graph.resource("EC2NodeClass", "standard-spot").inputs["spec"]["amiSelectorTerms"] == [
        {"alias": "al2023@v20260101"}
    ]
    holding = graph.resource("Deployment", "headroom-standard-spot").inputs["spec"]
    assert holding["replicas"] == 2
    (container,) = holding["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "250m", "memory": "512Mi"}


def test_controller_follows_the_settings() -> None:
    image = f"registry.example.com/controller@sha256:{'cd' * 32}"
    settings = {
        "manifests": "../manifests",
        "image": image,
        "replicas": 3,
        "cpu": "1",
        "memory": "2Gi",
        "labelDomains": ["team.example.com"],
        "flags": {
            "claimWorkers": 20,
            "sandboxWorkers": 30,
            "refillRate": 0,
            "replenishDelay": "2m",
            "readinessGrace": "10m",
            "apiConnections": 4,
            "tracing": True,
        },
    }
    graph = registered(lambda: agent_sandbox(**settings))
    spec = graph.resource("Deployment").inputs["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    assert (spec["replicas"], container["image"]) == (3, image)
    assert container["resources"]["limits"] == {"cpu": "1", "memory": "2Gi"}
    assert {
        "--sandbox-claim-concurrent-workers=20",
        "--sandbox-concurrent-workers=30",
        "--sandbox-warm-pool-max-refill-rate=0",
        "--sandbox-warm-pool-replenish-delay=120s",
        "--sandbox-warm-pool-readiness-grace-period=600s",
        "--api-connections=4",
        "--enable-tracing=true",
    } <= set(container["args"])
    assert graph.resource("ConfigMap").inputs["data"] == {"allowed-label-domains": "sandbox.users.io,team.example.com"}
    for group in ("definitions", "roles"):
        assert all(file.startswith("../manifests/") for file in graph.resource("ConfigGroup", group).inputs["files"])


def test_a_copy_of_the_controllers_image_is_taken_where_there_are_copies() -> None:
    registry = "111122223333.dkr.ecr.eu-west-1.amazonaws.com/mirror"
    plan = planned({"network": {"mirrors": {"registry": registry}}})
    assert plan.sandbox_controller.image.startswith(f"{registry}/agent-sandbox/")
    assert plan.capacity.mirrors == Mirrors(registry)


def test_empty_settings_are_accepted() -> None:
    graph = build({})
    assert graph.resource("AccessEntry", "creator")
    assert {pool.name for pool in graph.of("NodePool")} == {"nodes-system-arm64"}
    assert graph.of("Deployment") == []
