"""Nodes that a NodePool launches."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentenv.rehearsal.controlplane.nodes import karpenter_launches
from agentenv.rehearsal.controlplane.nodes.karpenter_launches import InstanceType

TYPES = [
    InstanceType("m7g.large", 2, 8192, "arm64"),
    InstanceType("m7g.xlarge", 4, 16384, "arm64"),
    InstanceType("c7g.xlarge", 4, 8192, "arm64"),
    InstanceType("m7i.xlarge", 4, 16384, "amd64"),
    InstanceType("m5.xlarge", 4, 16384, "amd64"),
    InstanceType("m7i-flex.2xlarge", 8, 32768, "amd64"),
    InstanceType("u-6tb1.metal", 448, 6291456, "amd64", ""),
]
ZONES = ["us-east-1a", "us-east-1b"]
FAMILY = "karpenter.k8s.aws/instance-family"


def pool(*requirements: tuple[str, str, list[str]], **spec: Any) -> dict[str, Any]:
    rows = [{"key": key, "operator": operator, "values": values} for key, operator, values in requirements]
    return {
        "metadata": {"name": "standard"},
        "spec": {
            **spec,
            "template": {
                "metadata": {"labels": {"sandbox.users.io/tier": "standard"}},
                "spec": {
                    "requirements": rows,
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gvisor"},
                    "taints": [{"key": "tier", "value": "standard", "effect": "NoSchedule"}],
                },
            },
        },
    }


def names(found: dict[str, Any], cpu: int = 4) -> list[str]:
    return [shape.instance_type for shape in karpenter_launches.launch(found, TYPES, ZONES[:1], cpu=cpu)]


@pytest.mark.parametrize(
    ("requirements", "chosen"),
    [
        ([], "c7g.xlarge"),
        ([(FAMILY, "In", ["m7g", "m7i"])], "m7g.xlarge"),
        ([(FAMILY, "In", ["m7i-flex"])], "m7i-flex.2xlarge"),
        ([("kubernetes.io/arch", "In", ["amd64"])], "m7i.xlarge"),
        ([("node.kubernetes.io/instance-type", "In", ["m5.xlarge", "m5.large"])], "m5.xlarge"),
        (
            [("kubernetes.io/arch", "In", ["amd64"]), ("karpenter.k8s.aws/instance-generation", "Lt", ["7"])],
            "m5.xlarge",
        ),
        ([("karpenter.k8s.aws/instance-category", "NotIn", ["c"])], "m7g.xlarge"),
        ([("karpenter.k8s.aws/instance-cpu", "Lt", ["4"])], "m7g.large"),
        ([(FAMILY, "In", ["p5"])], None),
        ([("topology.kubernetes.io/zone", "In", ["us-east-1b"])], None),
        ([("no.such/label", "Exists", [])], None),
        ([("no.such/label", "DoesNotExist", [])], "c7g.xlarge"),
    ],
)
def test_smallest_allowed_type_is_launched(requirements: list[tuple[str, str, list[str]]], chosen: str | None) -> None:
    assert names(pool(*requirements)) == ([chosen] if chosen else [])


def test_a_node_in_each_zone_as_far_as_the_limits_reach() -> None:
    assert [shape.zone for shape in karpenter_launches.launch(pool(), TYPES, ZONES)] == ZONES
    assert [shape.zone for shape in karpenter_launches.launch(pool(limits={"cpu": "7500m"}), TYPES, ZONES)] == ZONES[:1]
    assert karpenter_launches.launch(pool(limits={"cpu": 3}), TYPES, ZONES) == []


def test_nodes_have_the_labels_and_taints_of_their_pool() -> None:
    found = pool(("karpenter.sh/capacity-type", "In", ["on-demand"]), ("team", "In", ["a"]))
    node = karpenter_launches.launch(found, TYPES, ZONES)[0].node()
    labels = node["metadata"]["labels"]
    assert labels["karpenter.sh/nodepool"] == "standard"
    assert labels["karpenter.k8s.aws/ec2nodeclass"] == "gvisor"
    assert labels["karpenter.sh/capacity-type"] == "on-demand"
    assert labels["sandbox.users.io/tier"] == "standard"
    assert labels["team"] == "a"
    assert labels["kubernetes.io/arch"] == "arm64"
    assert node["spec"]["taints"] == [{"key": "tier", "value": "standard", "effect": "NoSchedule"}]


def test_spot_is_preferred_where_both_are_allowed() -> None:
    both = pool(("karpenter.sh/capacity-type", "In", ["on-demand", "spot"]))
    assert karpenter_launches.launch(both, TYPES, ZONES)[0].labels["karpenter.sh/capacity-type"] == "spot"


def test_pods_may_use_what_the_kubelet_and_the_hypervisor_leave() -> None:
    # 60 + 10 + 10 thousandths of four cores; 16384 less 7.5%, less 11 a pod and 255, less 100
    assert InstanceType("m7i.xlarge", 4, 16384, "amd64").allocatable(58) == ("3920m", "14162Mi")
    assert InstanceType("m7g.large", 2, 8192, "arm64").allocatable(29) == ("1930m", "6844Mi")


@given(cpu=st.integers(1, 448), memory=st.integers(512, 6291456), pods=st.integers(1, 737))
def test_allocatable_memory_never_grows_with_pods(cpu: int, memory: int, pods: int) -> None:
    type_ = InstanceType("x1.large", cpu, memory, "amd64")
    usable, more = type_.allocatable(pods), type_.allocatable(pods + 1)
    assert 0 < int(usable[0].removesuffix("m")) < cpu * 1000
    assert 0 <= int(more[1].removesuffix("Mi")) <= int(usable[1].removesuffix("Mi")) < memory
    assert more[0] == usable[0]


def test_types_have_the_labels_that_pools_require() -> None:
    labels = TYPES[0].labels()
    parts = ("category", "family", "generation", "size", "cpu", "memory")
    assert [labels[f"karpenter.k8s.aws/instance-{part}"] for part in parts] == ["m", "m7g", "7", "large", "2", "8192"]


def test_instance_store_is_a_label_of_the_node() -> None:
    disk = "karpenter.k8s.aws/instance-local-nvme"
    assert InstanceType("m8gd.large", 2, 8192, "arm64", local_disk_gb=118).labels()[disk] == "118"
    assert disk not in InstanceType("m8g.large", 2, 8192, "arm64").labels()


def test_graphics_processors_are_labels_and_capacity_within_the_limit_of_the_pool() -> None:
    maker = {"key": "karpenter.k8s.aws/instance-gpu-manufacturer", "operator": "In", "values": ["nvidia"]}
    types = [*TYPES, InstanceType("g6.xlarge", 4, 16384, "amd64", gpus=1, gpu_maker="nvidia")]
    plain, gpu = pool(), pool()
    gpu["spec"]["template"]["spec"]["requirements"] = [maker]
    gpu["spec"]["limits"] = {"nvidia.com/gpu": "1"}
    [node] = karpenter_launches.launch(gpu, types, ZONES, cpu=4)
    assert node.instance_type == "g6.xlarge"
    assert node.labels["karpenter.k8s.aws/instance-gpu-count"] == "1"
    assert node.node()["status"]["allocatable"]["nvidia.com/gpu"] == "1"
    assert all(
        "nvidia.com/gpu" not in instance.extended for instance in karpenter_launches.launch(plain, TYPES, ZONES, cpu=4)
    )


def test_unknown_operator_is_refused() -> None:
    with pytest.raises(ValueError, match="In, NotIn, Exists"):
        karpenter_launches.allows([{"key": "a", "operator": "Is", "values": ["b"]}], {})


def test_node_for_nitro_sandboxes_has_its_capacity_for_them() -> None:
    plain, nitro = pool(), pool()
    nitro["spec"]["template"]["metadata"]["labels"]["sandbox.users.io/wall"] = "nitro"
    rooms = [
        karpenter_launches.launch(found, TYPES, ZONES[:1], cpu=4)[0].node()["status"]["allocatable"]
        for found in (plain, nitro)
    ]
    slots = "eks.amazonaws.com/nip-slots"
    assert slots not in rooms[0]
    assert int(rooms[1][slots]) == int(rooms[1]["pods"]) > 0
