"""Settings become arguments that the components take, and mean the same there."""

from __future__ import annotations

from typing import Any

import pytest

from agentenv.components._lib.arguments import ArgumentReader
from agentenv.components.platform_arguments import (
    capacity_demands,
    capacity_headroom,
    capacity_layout,
    capacity_mirrors,
    cluster_layout,
    sandbox_controller,
)
from agentenv.components.sandboxes.controller import ControllerFlags, command_line_flags
from tests.fast.components.graph import ACCOUNT, CALLER, Graph, registered
from tests.fast.components.node_shapes import capacity
from tests.fast.components.sandbox_shapes import agent_sandbox
from tests.fast.components.shapes import cluster
from tests.fast.config.stack_samples import sandbox, settings

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
        "expireAfter": "7d",
        "disruptionBudget": "2",
        "driftBudget": "5%",
    },
    "sandboxClasses": [sandbox("people", capacity="spot"), sandbox("kernels", tier="untrusted", kernel="nitro")],
}


@pytest.fixture(scope="module")
def made() -> Graph:
    """What is made of such settings."""
    told = settings(CHOSEN)

    def build() -> None:
        layout: dict[str, Any] = dict(cluster_layout(told.cluster))
        cluster(**layout)
        capacity(layout=capacity_layout(told), demands=capacity_demands(told), headroom=capacity_headroom(told))

    return registered(build)


def test_the_cluster_is_what_the_settings_say(made: Graph) -> None:
    told = made.one("eks:index:Cluster").inputs
    assert (told["version"], told["publicAccessCidrs"]) == ("1.36", ["203.0.113.0/24"])
    assert told["upgradePolicy"] == {"supportType": "EXTENDED"}
    assert told["kubernetesServiceIpAddressRange"] == "172.21.0.0/16"
    assert made.one("LogGroup", "control-plane").inputs["retentionInDays"] == 7
    assert made.one("Addon", "vpc-cni").inputs["addonVersion"] == "v1.22.4-eksbuild.3"
    assert {one.inputs["principalArn"] for one in made.of("AccessEntry") if one.inputs["type"] == "STANDARD"} == {
        CALLER,
        f"arn:aws:iam::{ACCOUNT}:role/everybody",
    }


def test_nodes_are_what_the_settings_say(made: Graph) -> None:
    pools = {one.name: one.inputs["spec"] for one in made.of("NodePool")}
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
    assert made.one("EC2NodeClass", "standard-spot").inputs["spec"]["amiSelectorTerms"] == [
        {"alias": "al2023@v20260101"}
    ]
    holding = made.one("Deployment", "headroom-standard-spot").inputs["spec"]
    assert holding["replicas"] == 2
    (container,) = holding["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "250m", "memory": "512Mi"}


def test_the_controller_is_what_the_settings_say() -> None:
    image = f"registry.example.com/controller@sha256:{'cd' * 32}"
    said = {
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
    layout: dict[str, Any] = dict(sandbox_controller(settings({"cluster": {"sandboxController": said}})))
    made = registered(lambda: agent_sandbox(**layout))
    spec = made.one("Deployment").inputs["spec"]
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
    assert made.one("ConfigMap").inputs["data"] == {"allowed-label-domains": "sandbox.users.io,team.example.com"}
    for one in ("definitions", "roles"):
        assert all(file.startswith("../manifests/") for file in made.one("ConfigGroup", one).inputs["files"])


def test_the_longest_that_the_settings_take_is_taken_by_the_component() -> None:
    most = {"replenishDelay": "1h", "readinessGrace": "1d", "apiConnections": 64, "claimWorkers": 1000}
    flags = sandbox_controller(settings({"cluster": {"sandboxController": {"flags": most}}})).get("flags")
    assert "--sandbox-warm-pool-replenish-delay=3600s" in command_line_flags(
        ArgumentReader.of("flags", flags, ControllerFlags)
    )


def test_a_controller_that_nothing_is_said_of_is_as_released_and_a_copy_where_there_are_copies() -> None:
    layout: dict[str, Any] = dict(sandbox_controller(settings({})))
    told, as_released = (registered(lambda given=given: agent_sandbox(**given)) for given in (layout, {}))
    assert {one.key: one.inputs for one in told.made} == {one.key: one.inputs for one in as_released.made}
    registry = "111122223333.dkr.ecr.us-east-1.amazonaws.com/mirror"
    copied = settings({"network": {"mirrors": {"registry": registry}}})
    assert sandbox_controller(copied).get("image", "").startswith(f"{registry}/agent-sandbox/")
    assert capacity_mirrors(copied) == {"registry": registry}


def test_settings_that_say_nothing_are_taken_too() -> None:
    told = settings({})

    def build() -> None:
        layout: dict[str, Any] = dict(cluster_layout(told.cluster))
        cluster(**layout)
        capacity(layout=capacity_layout(told), demands=capacity_demands(told), headroom=capacity_headroom(told))

    made = registered(build)
    assert made.one("AccessEntry", "creator")
    assert {one.name for one in made.of("NodePool")} == {"nodes-system-arm64"}
    assert made.of("Deployment") == []
