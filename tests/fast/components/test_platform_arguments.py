"""Settings become arguments that the components take, and mean the same there."""

from __future__ import annotations

from typing import Any

import pytest

from components.platform_arguments import capacity_demands, capacity_headroom, capacity_layout, cluster_layout
from tests.fast.components.graph import ACCOUNT, CALLER, Graph, registered
from tests.fast.components.node_shapes import capacity
from tests.fast.components.shapes import cluster
from tests.fast.model.stack_samples import sandbox, settings

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
        "nodes-system",
        "nodes-standard-spot-arm64",
        "nodes-standard-spot-amd64",
        "nodes-untrusted-nitro-on-demand-arm64",
        "nodes-untrusted-nitro-on-demand-amd64",
    }
    people = pools["nodes-standard-spot-arm64"]
    assert people["limits"] == {"cpu": "12", "memory": "48Gi"}
    assert people["template"]["spec"]["expireAfter"] == "168h"
    assert people["disruption"]["budgets"] == [{"nodes": "2"}]
    assert made.one("EC2NodeClass", "standard-spot").inputs["spec"]["amiSelectorTerms"] == [
        {"alias": "al2023@v20260101"}
    ]
    holding = made.one("Deployment", "headroom-standard-spot").inputs["spec"]
    assert holding["replicas"] == 2
    (container,) = holding["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "250m", "memory": "512Mi"}


def test_settings_that_say_nothing_are_taken_too() -> None:
    told = settings({})

    def build() -> None:
        layout: dict[str, Any] = dict(cluster_layout(told.cluster))
        cluster(**layout)
        capacity(layout=capacity_layout(told), demands=capacity_demands(told), headroom=capacity_headroom(told))

    made = registered(build)
    assert made.one("AccessEntry", "creator")
    assert {one.name for one in made.of("NodePool")} == {"nodes-system"}
    assert made.of("Deployment") == []
