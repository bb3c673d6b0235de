"""Tests of node pools, node classes and user data."""

from __future__ import annotations

import gzip
import json
from datetime import timedelta
from importlib.resources import files
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from agentenv.config.constraints.classes import runtime_class as refused_name
from agentenv.config.sections.capacity import Capacity
from agentenv.core.nodes.node_pools import (
    Demand,
    NodePool,
    demands,
    duration,
    has_local_disk,
    node_classes,
    node_pools,
)
from agentenv.core.nodes.tiers import WALLS, labels, placement, runtime_class, wall_of
from agentenv.core.pinned_versions import releases
from agentenv.core.values.names import KINDS
from tests.fast.config.stack_samples import fargate, sandbox, settings

LAYOUT = settings({}).capacity
DEMANDS = some.builds(
    Demand,
    some.sampled_from(["verified", "standard", "untrusted"]),
    some.sampled_from(["kata", "nitro"]),
    some.sampled_from(["spot", "on-demand", "both"]),
    some.booleans(),
)


def capacity_with(**changes: Any) -> Capacity:
    return settings({"capacity": changes}).capacity


def pool_named(name: str, *demands: Demand) -> NodePool:
    return next(pool for pool in node_pools(LAYOUT, demands) if pool.name == name)


def class_spec(pool: NodePool, layout: Capacity = LAYOUT, user: str = "") -> dict[str, Any]:
    return pool.node_class.spec(
        layout,
        cluster="agents",
        identity={"role": "nodes"},
        key="arn:aws:kms:key/1",
        user_data=user,
        tags={"owner": "platform"},
    )


def operator(spec: dict[str, Any], key: str) -> dict[str, Any]:
    return next(row for row in spec["template"]["spec"]["requirements"] if row["key"] == key)


@given(some.lists(DEMANDS, max_size=6))
def test_each_demand_has_a_node_pool_for_its_sandboxes(demands: list[Demand]) -> None:
    pools = node_pools(LAYOUT, demands)
    assert len({pool.name for pool in pools}) == len(pools)
    for pool in pools:
        KINDS["kubernetes-label"].check(pool.name)
        KINDS["kubernetes-label"].check(pool.node_class.name)
    for demand in demands:
        wall = wall_of(demand.tier, demand.kernel)
        capacities = {"spot", "on-demand"} if demand.capacity == "both" else {demand.capacity}
        for capacity in capacities:
            placed = placement(wall, capacity, gpu=demand.gpu)
            meeting = [pool for pool in pools if pool.capacity == capacity and takes(pool, placed)]
            assert meeting, (demand, capacity)
            assert any(pool.node_class.gpu == demand.gpu for pool in meeting)


@pytest.mark.parametrize(
    ("capacity", "names"),
    [
        ("on-demand", {"system-arm64": "on-demand"}),
        ("spot", {"system-spot-arm64": "spot"}),
        ("both", {"system-arm64": "on-demand", "system-spot-arm64": "spot"}),
    ],
)
def test_system_nodes_have_the_capacity_type_of_the_settings(capacity: str, names: dict[str, str]) -> None:
    pools = node_pools(capacity_with(system={"capacity": capacity}), [])
    assert {pool.name: pool.capacity for pool in pools} == names
    assert all(pool.system and not pool.taints() for pool in pools)
    by_weight = sorted(pools, key=lambda pool: -pool.weight)
    assert capacity != "both" or by_weight[0].capacity == "spot"


def takes(pool: NodePool, placed: dict[str, Any]) -> bool:
    """Return whether a pod so placed may run on the pool's nodes, by selector and taints."""
    marks = {**pool.labels(), "karpenter.sh/capacity-type": pool.capacity, "kubernetes.io/arch": pool.architecture}
    tolerated = [(row["key"], row["value"], row["effect"]) for row in placed["tolerations"]]
    return all(marks.get(key) == value for key, value in placed["nodeSelector"].items()) and all(
        (row["key"], row["value"], row["effect"]) in tolerated for row in pool.taints()
    )


@given(some.lists(DEMANDS, max_size=6))
def test_sandboxes_do_not_fit_nodes_of_other_tiers(demands: list[Demand]) -> None:
    for pool in node_pools(LAYOUT, demands):
        for wall in WALLS:
            if pool.node_class.wall != wall:
                assert not takes(pool, placement(wall, pool.capacity, gpu=True)), (pool.name, wall.word)
        # A pod that says nothing gets to the system's nodes only.
        assert takes(pool, {"nodeSelector": {}, "tolerations": []}) is pool.system


def test_order_and_repetition_of_classes_change_nothing() -> None:
    demands = [
        Demand("standard", "kata", "spot"),
        Demand("untrusted", "kata", "on-demand"),
        Demand("verified", "kata", "both"),
    ]
    expected = node_pools(LAYOUT, demands)
    assert all(node_pools(LAYOUT, order) == expected for order in permutations(demands))
    assert node_pools(LAYOUT, demands * 2) == expected


def test_another_class_does_not_change_other_pools() -> None:
    before = node_pools(LAYOUT, [Demand("standard", "kata", "spot")])
    after = node_pools(LAYOUT, [Demand("standard", "kata", "spot"), Demand("untrusted", "nitro", "on-demand")])
    assert [pool for pool in after if pool in before] == before


def test_graviton_and_spot_are_preferred() -> None:
    pools = [pool for pool in node_pools(LAYOUT, [Demand("standard", "kata", "both")]) if not pool.system]
    tried = sorted(pools, key=lambda pool: -pool.weight)
    assert [(pool.capacity, pool.architecture) for pool in tried] == [
        ("spot", "arm64"),
        ("spot", "amd64"),
        ("on-demand", "arm64"),
        ("on-demand", "amd64"),
    ]
    for pool in pools:
        assert 1 <= pool.spec(LAYOUT)["weight"] <= 100
    assert {pool.node_class.name for pool in pools} == {"standard-spot", "standard-on-demand"}


def test_the_system_pool_is_on_demand_untainted_and_always_there() -> None:
    pools = node_pools(LAYOUT, [])
    assert [pool.name for pool in pools] == ["system-arm64"]
    spec = pools[0].spec(LAYOUT)
    assert operator(spec, "karpenter.sh/capacity-type")["values"] == ["on-demand"]
    assert "taints" not in spec["template"]["spec"]
    assert spec["limits"] == {"cpu": "16", "memory": "64Gi"}


@given(some.lists(DEMANDS, max_size=6))
def test_nodes_have_a_maximum_lifetime_and_are_consolidated(
    demands: list[Demand],
) -> None:
    for pool in node_pools(LAYOUT, demands):
        spec = pool.spec(LAYOUT)
        assert spec["template"]["spec"]["expireAfter"] == "336h"
        assert spec["template"]["spec"]["terminationGracePeriod"] == "4h"
        everything, *others = spec["disruption"]["budgets"]
        assert everything == {"nodes": "10%"}
        # Karpenter ends even what asks not to be disturbed when a node is replaced for being other than declared.
        assert others == ([] if pool.system else [{"nodes": "0", "reasons": ["Drifted"]}])
        assert spec["disruption"]["consolidateAfter"] == "5m"
        # Slots that nobody has claimed are made anew elsewhere; what somebody has claimed asks not to be disturbed.
        assert spec["disruption"]["consolidationPolicy"] == "WhenEmptyOrUnderutilized"
        assert spec["limits"]["cpu"]
        assert spec["limits"]["memory"]


@given(some.lists(DEMANDS, max_size=6))
def test_nodes_block_instance_metadata_and_encrypt_disks(demands: list[Demand]) -> None:
    for node_class in node_classes(node_pools(LAYOUT, demands)):
        spec = node_class.spec(LAYOUT, cluster="agents", identity={"role": "nodes"}, key="k", user_data="", tags={})
        assert spec["metadataOptions"]["httpTokens"] == "required"
        assert spec["metadataOptions"]["httpPutResponseHopLimit"] == 1
        (disk,) = spec["blockDeviceMappings"]
        assert disk["ebs"]["encrypted"] is True
        assert disk["ebs"]["kmsKeyID"] == "k"
        assert disk["ebs"]["volumeSize"] == "50Gi"
        assert spec["instanceStorePolicy"] == "RAID0"
        assert spec["associatePublicIPAddress"] is False
        assert spec["kubelet"] == {"maxPods": 110}


def test_amis_are_pinned() -> None:
    assert class_spec(pool_named("system-arm64"))["amiSelectorTerms"] == [{"alias": releases().node_image}]
    pool = pool_named("untrusted-nitro-on-demand-arm64", Demand("untrusted", "nitro", "on-demand"))
    nitro = class_spec(pool, LAYOUT.model_copy(update={"nitro_images": ("ami-0a1b2c3d",)}))
    assert nitro["amiFamily"] == "AL2023"
    assert nitro["amiSelectorTerms"] == [{"id": "ami-0a1b2c3d"}]


def test_nested_virtualization_is_enabled_for_kata_only() -> None:
    kata = pool_named("untrusted-kata-on-demand-amd64", Demand("untrusted", "kata", "on-demand"))
    assert class_spec(kata)["cpuOptions"] == {"nestedVirtualization": "enabled"}
    assert operator(kata.spec(LAYOUT), "karpenter.k8s.aws/instance-family")["values"] == ["c8i", "m8i", "r8i"]
    assert "cpuOptions" not in class_spec(pool_named("standard-spot-arm64", Demand("standard", "kata", "spot")))


def bought(pool: NodePool, layout: Capacity, instance: dict[str, str]) -> bool:
    """Return whether Karpenter may buy such an instance for the pool, as far as families and hypervisors decide."""
    rows = {row["key"].rsplit("/", 1)[-1]: row for row in pool.spec(layout)["template"]["spec"]["requirements"]}
    for word, value in instance.items():
        row = rows.get(word)
        if row is not None and (value in row["values"]) != (row["operator"] == "In"):
            return False
    return True


SHARE = {"instance-family": "m7i", "instance-hypervisor": "nitro"}
# Karpenter gives a whole machine the label without a value.
MACHINE = {"instance-family": "m7i", "instance-hypervisor": ""}
NESTED = {"instance-family": "c8i", "instance-hypervisor": "nitro"}
NESTED_MACHINE = {"instance-family": "c8i", "instance-hypervisor": ""}


@pytest.mark.parametrize("families", [("m7i-metal",), ("c8i", "m7i-metal"), ("m7i-metal", "m7g-metal", "c8i")])
def test_metal_instances_have_their_own_pools(families: tuple[str, ...]) -> None:
    layout = capacity_with(nestedFamilies=list(families))
    pools = [
        pool for pool in node_pools(layout, [Demand("untrusted", "kata", "on-demand")]) if pool.name != "system-arm64"
    ]
    metal = next(pool for pool in pools if pool.name == "untrusted-kata-metal-on-demand-amd64")
    assert "cpuOptions" not in class_spec(metal, layout)
    assert bought(metal, layout, MACHINE)
    # Without nested virtualization, which its class does not turn on, it would have no /dev/kvm.
    assert not bought(metal, layout, SHARE)
    shares = [pool for pool in pools if pool.name == "untrusted-kata-on-demand-amd64"]
    assert len(shares) == ("c8i" in families)
    for pool in shares:
        assert pool.node_class != metal.node_class
        assert class_spec(pool, layout)["cpuOptions"] == {"nestedVirtualization": "enabled"}
        assert bought(pool, layout, NESTED)
        assert not bought(pool, layout, NESTED_MACHINE)
        assert pool.weight > metal.weight
    arm = [pool for pool in pools if pool.architecture == "arm64"]
    assert [pool.name for pool in arm] == ["untrusted-kata-metal-on-demand-arm64"] * ("m7g-metal" in families)


def test_a_family_that_is_added_later_renames_no_pool() -> None:
    """A pool of another name is another pool: the first would be drained."""
    demands = [Demand("standard", "kata", "spot")]
    few = capacity_with(families=["m7i"], system={"families": ["t4g"]})
    more = capacity_with(families=["m7i", "m8g", "m7i-metal"], system={"families": ["t4g", "m7i"]})
    before = {pool.name: pool.node_class.name for pool in node_pools(few, demands)}
    after = {pool.name: pool.node_class.name for pool in node_pools(more, demands)}
    assert before == {"system-arm64": "system", "standard-spot-amd64": "standard-spot"}
    assert before.items() < after.items()


def test_a_gpu_class_has_its_own_pool() -> None:
    layout = capacity_with(gpu={"limit": 4, "families": ["g6", "g4ad"]})
    (pool,) = [pool for pool in node_pools(layout, [Demand("verified", "kata", "spot", gpu=True)]) if not pool.system]
    spec = pool.spec(layout)
    assert (pool.name, spec["limits"]["nvidia.com/gpu"]) == ("verified-gpu-spot-amd64", "4")
    assert {row["key"] for row in spec["template"]["spec"]["taints"]} == {"sandbox.users.io/tier", "nvidia.com/gpu"}
    assert not takes(pool, placement(wall_of("verified"), "spot"))
    # What the device plugin looks for, and the only maker whose processors it knows.
    assert spec["template"]["metadata"]["labels"]["sandbox.users.io/gpu"] == "true"
    assert operator(spec, "karpenter.k8s.aws/instance-gpu-manufacturer")["values"] == ["nvidia"]
    plain = pool_named("standard-spot-arm64", Demand("standard", "kata", "spot"))
    assert "sandbox.users.io/gpu" not in plain.labels()


def test_runtime_classes_have_scheduling_and_overhead() -> None:
    for wall in WALLS:
        document = runtime_class(wall)
        if wall.word == "runc":
            assert document is None
            continue
        assert document is not None
        assert document["scheduling"]["nodeSelector"] == labels(wall)
        assert set(document["overhead"]["podFixed"]) >= {"cpu", "memory"}
        assert document["handler"]


def test_runtime_classes_of_tiers_agree_with_the_constraints() -> None:
    for tier, kernel in (("verified", "kata"), ("standard", "kata"), ("untrusted", "kata"), ("untrusted", "nitro")):
        environment = settings(
            {
                "cluster": {"version": "1.36"},
                "capacity": {"nitroImages": ["ami-0a1b2c3d"]},
                "sandboxClasses": [
                    sandbox("one", tier=tier, claimableBy={"roles": ["admin"]})
                    | ({"kernel": kernel} if kernel == "nitro" else {})
                ],
            }
        ).sandbox_classes[0]
        assert wall_of(tier, kernel).runtime_class == refused_name(environment)


def test_fargate_classes_need_no_nodes() -> None:
    environment = settings(
        {"sandboxClasses": [sandbox("people", capacity="both"), fargate("batch", pool={"size": 0})]}, "dev"
    )
    assert demands(environment) == [Demand("standard", "kata", "both")]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (30, "30s"), (300, "5m"), (3661, "1h1m1s"), (1209600, "336h")]
)
def test_durations_are_in_the_format_of_karpenter(seconds: int, text: str) -> None:
    assert duration(timedelta(seconds=seconds)) == text


def test_every_cluster_version_has_a_build_of_every_addon() -> None:
    from agentenv.config.sections.cluster import VERSIONS, AddonVersions

    names = {"efs_csi_driver": "aws-efs-csi-driver", "pod_identity_agent": "eks-pod-identity-agent"}
    demands = {names.get(name, name.replace("_", "-")) for name in AddonVersions.model_fields}
    assert set(releases().addons) == set(VERSIONS)
    assert all(set(addons) == demands for addons in releases().addons.values())


def test_local_disks_of_families_agree_with_ec2() -> None:
    listed = files("moto").joinpath("ec2/resources/instance_types.json.gz").read_bytes()
    types: dict[str, dict[str, Any]] = json.loads(gzip.decompress(listed))
    wrong = {
        name
        for name, row in types.items()
        # No sandbox runs on a Macintosh.
        if not name.startswith("mac")
        and has_local_disk(name.partition(".")[0])
        != (row.get("InstanceStorageInfo", {}).get("NvmeSupport") == "required")
    }
    assert not wrong
    assert len(types) > 500
    assert has_local_disk("i4i-metal")
