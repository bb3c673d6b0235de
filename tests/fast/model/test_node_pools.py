"""Node pools, node classes and what a node does when it starts, as plain data."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as some

from model.names import KINDS
from model.node_pools import Demand, NodeLayout, NodePool, duration, node_classes, node_pools
from model.node_settings import demands, node_layout
from model.node_start import user_data
from model.refusals.classes import runtime_class as refused_name
from model.releases import Source, releases
from model.tiers import WALLS, labels, placement, runtime_class, wall_of
from tests.fast.model.stack_samples import fargate, sandbox, settings

LAYOUT: NodeLayout = node_layout(settings({}).capacity)
DEMANDS = some.builds(
    Demand,
    some.sampled_from(["verified", "standard", "untrusted"]),
    some.sampled_from(["kata", "nitro"]),
    some.sampled_from(["spot", "on-demand", "both"]),
    some.booleans(),
)


def one(name: str, *wanted: Demand) -> NodePool:
    return next(pool for pool in node_pools(LAYOUT, wanted) if pool.name == name)


def class_spec(pool: NodePool, layout: NodeLayout = LAYOUT, user: str | None = None) -> dict[str, Any]:
    return pool.node_class.spec(
        layout, cluster="agents", role="nodes", key="arn:aws:kms:key/1", user_data=user, tags={"owner": "platform"}
    )


def operator(spec: dict[str, Any], key: str) -> dict[str, Any]:
    return next(row for row in spec["template"]["spec"]["requirements"] if row["key"] == key)


@given(some.lists(DEMANDS, max_size=6))
def test_every_demand_is_met_by_a_pool_whose_nodes_take_its_sandboxes(wanted: list[Demand]) -> None:
    pools = node_pools(LAYOUT, wanted)
    assert len({pool.name for pool in pools}) == len(pools)
    for pool in pools:
        KINDS["kubernetes-label"].check(pool.name)
        KINDS["kubernetes-label"].check(pool.node_class.name)
    for demand in wanted:
        wall = wall_of(demand.tier, demand.kernel)
        capacities = {"spot", "on-demand"} if demand.capacity == "both" else {demand.capacity}
        for capacity in capacities:
            placed = placement(wall, capacity, gpu=demand.gpu)
            meeting = [pool for pool in pools if pool.capacity == capacity and takes(pool, placed)]
            assert meeting, (demand, capacity)
            assert any(pool.node_class.gpu == demand.gpu for pool in meeting)


def takes(pool: NodePool, placed: dict[str, Any]) -> bool:
    """Whether a pod so placed may run on the pool's nodes, by selector and taints."""
    marks = {**pool.labels(), "karpenter.sh/capacity-type": pool.capacity, "kubernetes.io/arch": pool.architecture}
    tolerated = [(row["key"], row["value"], row["effect"]) for row in placed["tolerations"]]
    return all(marks.get(key) == value for key, value in placed["nodeSelector"].items()) and all(
        (row["key"], row["value"], row["effect"]) in tolerated for row in pool.taints()
    )


@given(some.lists(DEMANDS, max_size=6))
def test_no_sandbox_is_taken_by_another_tiers_nodes(wanted: list[Demand]) -> None:
    for pool in node_pools(LAYOUT, wanted):
        for wall in WALLS:
            if pool.node_class.wall != wall:
                assert not takes(pool, placement(wall, pool.capacity, gpu=True)), (pool.name, wall.word)
        # A pod that says nothing gets to the system's nodes only.
        assert takes(pool, {"nodeSelector": {}, "tolerations": []}) is pool.system


def test_order_and_repetition_of_classes_change_nothing() -> None:
    wanted = [
        Demand("standard", "kata", "spot"),
        Demand("untrusted", "kata", "on-demand"),
        Demand("verified", "kata", "both"),
    ]
    expected = node_pools(LAYOUT, wanted)
    assert all(node_pools(LAYOUT, order) == expected for order in permutations(wanted))
    assert node_pools(LAYOUT, wanted * 2) == expected


def test_another_class_leaves_the_pools_of_the_others_as_they_were() -> None:
    before = node_pools(LAYOUT, [Demand("standard", "kata", "spot")])
    after = node_pools(LAYOUT, [Demand("standard", "kata", "spot"), Demand("untrusted", "nitro", "on-demand")])
    assert [pool for pool in after if pool in before] == before


def test_graviton_comes_first_and_spot_before_on_demand() -> None:
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
    assert [pool.name for pool in pools] == ["system"]
    spec = pools[0].spec(LAYOUT)
    assert operator(spec, "karpenter.sh/capacity-type")["values"] == ["on-demand"]
    assert "taints" not in spec["template"]["spec"]
    assert spec["limits"] == {"cpu": "16", "memory": "64Gi"}


@given(some.lists(DEMANDS, max_size=6))
def test_nodes_end_and_end_in_bounded_time_but_never_to_save_money_under_a_sandbox(wanted: list[Demand]) -> None:
    for pool in node_pools(LAYOUT, wanted):
        spec = pool.spec(LAYOUT)
        assert spec["template"]["spec"]["expireAfter"] == "336h"
        assert spec["template"]["spec"]["terminationGracePeriod"] == "4h"
        assert spec["disruption"]["budgets"] == [{"nodes": "10%"}]
        assert spec["disruption"]["consolidateAfter"] == "5m"
        if not pool.system:
            assert spec["disruption"]["consolidationPolicy"] == "WhenEmpty"
        assert spec["limits"]["cpu"]
        assert spec["limits"]["memory"]


@given(some.lists(DEMANDS, max_size=6))
def test_no_node_can_be_asked_for_credentials_by_a_pod_nor_keeps_data_in_the_clear(wanted: list[Demand]) -> None:
    for node_class in node_classes(node_pools(LAYOUT, wanted)):
        spec = node_class.spec(LAYOUT, cluster="agents", role="nodes", key="k", user_data=None, tags={})
        assert spec["metadataOptions"]["httpTokens"] == "required"
        assert spec["metadataOptions"]["httpPutResponseHopLimit"] == 1
        (disk,) = spec["blockDeviceMappings"]
        assert disk["ebs"]["encrypted"] is True
        assert disk["ebs"]["kmsKeyID"] == "k"
        assert disk["ebs"]["volumeSize"] == "50Gi"
        assert spec["instanceStorePolicy"] == "RAID0"
        assert spec["associatePublicIPAddress"] is False
        assert spec["kubelet"] == {"maxPods": 110}


def test_images_are_pinned_and_that_with_the_nitro_runtime_is_ones_own() -> None:
    assert class_spec(one("system"))["amiSelectorTerms"] == [{"alias": releases().node_image}]
    nitro = class_spec(one("untrusted-nitro-on-demand-arm64", Demand("untrusted", "nitro", "on-demand")))
    assert nitro["amiFamily"] == "AL2023"
    assert nitro["amiSelectorTerms"] == [{"owner": "self", "tags": {"sandbox.users.io/wall": "nitro"}}]


def test_nested_virtualization_is_on_where_a_guest_has_its_own_kernel_and_nowhere_else() -> None:
    kata = one("untrusted-kata-on-demand", Demand("untrusted", "kata", "on-demand"))
    assert class_spec(kata)["cpuOptions"] == {"nestedVirtualization": "enabled"}
    assert operator(kata.spec(LAYOUT), "karpenter.k8s.aws/instance-family")["values"] == ["c8i", "m8i", "r8i"]
    assert "cpuOptions" not in class_spec(one("standard-spot-arm64", Demand("standard", "kata", "spot")))
    metal = replace(LAYOUT, nested_families=("c7i-metal",))
    pool = next(pool for pool in node_pools(metal, [Demand("untrusted", "kata", "on-demand")]) if not pool.system)
    assert "cpuOptions" not in class_spec(pool, metal)
    assert operator(pool.spec(metal), "karpenter.k8s.aws/instance-family")["values"] == ["c7i"]


def test_a_class_that_asks_for_it_gets_a_pool_with_graphics_processors_of_its_own() -> None:
    layout = replace(LAYOUT, gpu_limit=4)
    (pool,) = [pool for pool in node_pools(layout, [Demand("standard", "kata", "spot", gpu=True)]) if not pool.system]
    spec = pool.spec(layout)
    assert (pool.name, spec["limits"]["nvidia.com/gpu"]) == ("standard-gpu-spot", "4")
    assert {row["key"] for row in spec["template"]["spec"]["taints"]} == {"sandbox.users.io/tier", "nvidia.com/gpu"}
    assert not takes(pool, placement(wall_of("standard"), "spot"))


def parts(text: str) -> dict[str, str]:
    """The parts of a MIME document, by kind."""
    from email import message_from_string

    document = message_from_string(text)
    assert document.is_multipart()
    return {part.get_content_type(): str(part.get_payload()) for part in document.walk() if not part.is_multipart()}


@pytest.mark.parametrize(("word", "handler"), [("gvisor", "runsc"), ("kata", "kata")])
@pytest.mark.parametrize("gpu", [False, True])
def test_a_node_tells_containerd_of_its_walls_handler_under_the_name_that_containerd_reads(
    word: str, handler: str, gpu: bool
) -> None:
    wall = next(wall for wall in WALLS if wall.word == word)
    told = parts(user_data(wall, releases().runtimes, gpu=gpu) or "")
    config = yaml.safe_load(told["application/node.eks.aws"])
    assert (config["kind"], config["apiVersion"]) == ("NodeConfig", "node.eks.aws/v1alpha1")
    table = tomllib.loads(config["spec"]["containerd"]["config"])
    assert set(table["plugins"]) == {"io.containerd.cri.v1.runtime"}
    runtimes = table["plugins"]["io.containerd.cri.v1.runtime"]["containerd"]["runtimes"]
    assert set(runtimes) == {handler} == {wall.handler}
    script = told["text/x-shellscript"]
    assert script.startswith("#!/bin/bash")
    assert releases().runtimes[word].version in script
    assert ("nvproxy" in script) is (gpu and word == "gvisor")
    # Karpenter's own part comes on top, and EC2 takes 16 KiB.
    assert len(user_data(wall, releases().runtimes, gpu=gpu) or "") < 8192


def test_what_a_node_fetches_is_checked_where_a_checksum_is_known() -> None:
    gvisor = user_data(wall_of("standard"), releases().runtimes) or ""
    assert gvisor.count("sha512sum --check") == 2
    pinned = {"kata": Source("https://e.example/kata-{package}.tar.zst", "1", sha256={"amd64": "ab" * 32, "arm64": ""})}
    kata = user_data(wall_of("untrusted"), pinned) or ""
    assert f'[ "$package" = amd64 ]; then echo "{"ab" * 32}  kata-$package.tar.zst" | sha256sum --check' in kata
    assert kata.count("sha256sum") == 1


@pytest.mark.parametrize("word", ["runc", "nitro"])
def test_a_wall_that_comes_with_the_image_needs_no_start(word: str) -> None:
    assert user_data(next(wall for wall in WALLS if wall.word == word), releases().runtimes) is None


def test_runtime_classes_bring_their_pods_to_their_own_nodes_and_count_what_they_take() -> None:
    for wall in WALLS:
        made = runtime_class(wall)
        if wall.word == "runc":
            assert made is None
            continue
        assert made is not None
        assert made["scheduling"]["nodeSelector"] == labels(wall)
        assert set(made["overhead"]["podFixed"]) >= {"cpu", "memory"}
        assert made["handler"]


def test_tiers_have_the_runtime_classes_that_the_refusals_know() -> None:
    for tier, kernel in (("verified", "kata"), ("standard", "kata"), ("untrusted", "kata"), ("untrusted", "nitro")):
        told = settings(
            {
                "cluster": {"version": "1.36"},
                "sandboxClasses": [
                    sandbox("one", tier=tier, claimableBy={"roles": ["admin"]})
                    | ({"kernel": kernel} if kernel == "nitro" else {})
                ],
            }
        ).sandbox_classes[0]
        assert wall_of(tier, kernel).runtime_class == refused_name(told)


def test_classes_on_fargate_ask_for_no_nodes() -> None:
    told = settings({"sandboxClasses": [sandbox("people", capacity="both"), fargate("batch", pool={"size": 0})]}, "dev")
    assert demands(told) == [Demand("standard", "kata", "both")]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (30, "30s"), (300, "5m"), (3661, "1h1m1s"), (1209600, "336h")]
)
def test_times_are_written_as_karpenter_reads_them(seconds: int, text: str) -> None:
    assert duration(seconds) == text


def test_every_cluster_version_has_a_build_of_every_addon_that_settings_name() -> None:
    from model.settings.cluster import VERSIONS, AddonVersions

    names = {"efs_csi_driver": "aws-efs-csi-driver", "pod_identity_agent": "eks-pod-identity-agent"}
    wanted = {names.get(name, name.replace("_", "-")) for name in AddonVersions.model_fields}
    assert set(releases().addons) == set(VERSIONS)
    assert all(set(addons) == wanted for addons in releases().addons.values())
