"""The needs of settings, as numbers."""

from __future__ import annotations

from typing import Any

import pytest

from agentenv.cli.preflight import needs
from agentenv.cli.preflight.checks import questions
from tests.fast.config.stack_samples import VETTED, fargate, sandbox, settings


def cores(**sections: Any) -> dict[tuple[str, str], int]:
    return {(need.group, need.capacity): need.amount for need in needs.node_cores(settings(sections))}


@pytest.mark.parametrize(
    ("family", "group"),
    [
        ("m8g", needs.STANDARD),
        ("im4gn", needs.STANDARD),
        ("t4g", needs.STANDARD),
        ("g6", "G and VT"),
        ("gr6", "G and VT"),
        ("p5", "P"),
        ("inf2", "Inf"),
        ("trn1", "Trn"),
        ("x8g", "X"),
        ("hpc7a", "HPC"),
        ("u7i-12tb", "High Memory"),
    ],
)
def test_families_are_counted_as_ec2_counts_them(family: str, group: str) -> None:
    assert needs.group_of(family) == group


def test_an_environment_without_classes_needs_its_system_nodes() -> None:
    assert cores() == {(needs.STANDARD, "on-demand"): 4}


def test_cores_include_the_overhead_of_runtimes_and_nodes() -> None:
    # 100 of 520 millicores, on one node of 110 that keeps one core to itself.
    found = cores(sandboxClasses=[sandbox(capacity="spot", resources={"cpu": "500m"}, maxSandboxes=100)])
    assert found == {(needs.STANDARD, "on-demand"): 4, (needs.STANDARD, "spot"): 54}


def test_cores_are_those_of_the_largest_size() -> None:
    small = sandbox(resources={"cpu": "1"}, maxSandboxes=10, pool={"size": 1})
    large = {**small, "sizes": {"large": {"cpu": "4", "memory": "8Gi"}}}
    same = {**small, "resources": {"cpu": "4"}}
    assert cores(sandboxClasses=[large]) == cores(sandboxClasses=[same]) != cores(sandboxClasses=[small])


def test_spot_and_on_demand_each_count_fully() -> None:
    found = cores(sandboxClasses=[sandbox(capacity="both", resources={"cpu": "1"}, maxSandboxes=10)])
    assert found == {(needs.STANDARD, "on-demand"): 4 + 12, (needs.STANDARD, "spot"): 12}


def test_the_need_is_at_most_the_limit_of_the_pools() -> None:
    found = cores(
        capacity={"limits": {"cpu": "20", "memory": "80Gi"}, "families": ["m8g"]},
        sandboxClasses=[sandbox(capacity="spot", resources={"cpu": "1"}, maxSandboxes=1000)],
    )
    assert found[needs.STANDARD, "spot"] == 20


def test_gpus_need_cores_of_their_own_group() -> None:
    found = cores(
        capacity={"gpu": {"limit": 4}},
        sandboxClasses=[sandbox(**VETTED, gpu=1, maxSandboxes=2, resources={"cpu": "1"})],
    )
    assert found["G and VT", "on-demand"] == 10


def test_headroom_needs_cores_too() -> None:
    alone = {"sandboxClasses": [sandbox(capacity="spot", resources={"cpu": "1"}, maxSandboxes=10)]}
    roomy = {**alone, "capacity": {"headroom": {"pods": 10, "cpu": "1", "memory": "1Gi"}}}
    assert cores(**roomy)[needs.STANDARD, "spot"] == cores(**alone)[needs.STANDARD, "spot"] + 10


def test_fargate_counts_in_billed_sizes() -> None:
    parsed = settings({"sandboxClasses": [fargate(resources={"cpu": "600m", "memory": "1Gi"}, maxSandboxes=10)]})
    assert needs.fargate_cores(parsed) == 12
    assert needs.fargate_profiles(parsed) == 4
    assert needs.fargate_cores(settings()) == 2


def test_homes_are_spread_over_the_file_systems() -> None:
    parsed = settings({"storage": {"fileSystems": 3}, "sandboxClasses": [sandbox(maxSandboxes=100)]})
    assert needs.access_points(parsed) == 34


@pytest.mark.parametrize(
    ("network", "count"), [({}, 1), ({"nat": "per-zone", "zones": 3}, 3), ({"nat": "single", "zones": 3}, 1)]
)
def test_each_nat_gateway_has_an_address(network: dict[str, Any], count: int) -> None:
    assert needs.nat_gateways(settings({"network": network})) == count


def test_existing_resources_have_no_quota_questions() -> None:
    existing = {"vpcId": "vpc-01234567", "privateSubnetIds": ["subnet-01234567", "subnet-12345678"]}
    parsed = settings(
        {
            "network": {"existing": existing},
            "cluster": {"existing": "shared"},
            "storage": {"existing": ["fs-01234567"]},
        }
    )
    names = {question.name for question in questions(parsed)}
    assert (
        not {
            "zones",
            "quota: VPCs in the region",
            "quota: elastic addresses",
            "quota: EKS clusters in the region",
            "quota: EFS file systems",
            "the cluster's name",
            "add-on vpc-cni",
        }
        & names
    )
    assert {
        "existing network",
        "existing cluster",
        "add-ons of the existing cluster",
        "existing file system fs-01234567",
        "free addresses of the private subnets",
        "add-on metrics-server",
    } <= names


def test_names_of_questions_are_unique() -> None:
    names = [question.name for question in questions(settings({"sandboxClasses": [sandbox(), fargate()]}))]
    assert len(names) == len(set(names)) > 30
