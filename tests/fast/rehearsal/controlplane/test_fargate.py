"""Selection of pods for Fargate, and their resources there."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from agentenv.rehearsal.controlplane.nodes import fargate

DNS = fargate.parse_profile(
    {"fargateProfileName": "dns", "selectors": [{"namespace": "kube-system", "labels": {"k8s-app": "kube-dns"}}]}
)
TEAMS = fargate.parse_profile(
    {"fargateProfileName": "teams", "selectors": [{"namespace": "team-?*"}, {"namespace": "ops"}]}
)
ALL = fargate.parse_profile({"fargateProfileName": "all", "selectors": [{"namespace": "*"}], "status": "ACTIVE"})


@pytest.mark.parametrize(
    ("namespace", "labels", "name"),
    [
        ("kube-system", {"k8s-app": "kube-dns", "other": "x"}, "dns"),
        ("kube-system", {"k8s-app": "metrics"}, None),
        ("kube-system", {}, None),
        ("team-a", {}, "teams"),
        ("team-", {}, None),
        ("ops", {"any": "thing"}, "teams"),
    ],
)
def test_namespace_and_every_label_have_to_match(namespace: str, labels: dict[str, str], name: str | None) -> None:
    found = fargate.select_profile([DNS, TEAMS], namespace, labels)
    assert (found.name if found else None) == name


def test_first_profile_by_name_matches_unless_the_pod_names_another() -> None:
    both = [TEAMS, ALL]
    assert fargate.select_profile(both, "ops", {}) == ALL
    assert fargate.select_profile(both, "ops", {fargate.LABEL: "teams"}) == TEAMS
    assert fargate.select_profile([ALL], "ops", {fargate.LABEL: "teams"}) is None


def test_profile_that_is_being_created_is_not_active() -> None:
    profile = {"fargateProfileName": "x", "selectors": [{"namespace": "a"}], "status": "CREATING"}
    assert not fargate.parse_profile(profile).active


def test_patch_preserves_the_labels_of_the_pod() -> None:
    changes = {row["path"]: row["value"] for row in fargate.patch({"metadata": {"labels": {"app": "x"}}}, DNS)}
    assert changes == {
        "/metadata/labels": {"app": "x", fargate.LABEL: "dns"},
        "/spec/schedulerName": fargate.SCHEDULER,
    }


def container(**resources: dict[str, str]) -> dict[str, Any]:
    return {"name": "c", "resources": resources}


@pytest.mark.parametrize(
    ("spec", "capacity"),
    [
        ({"containers": [container()]}, "0.25vCPU 0.5GB"),
        ({"containers": [container(requests={"cpu": "250m", "memory": "256Mi"})]}, "0.25vCPU 0.5GB"),
        ({"containers": [container(requests={"cpu": "250m", "memory": "257Mi"})]}, "0.25vCPU 1GB"),
        ({"containers": [container(requests={"cpu": "1", "memory": "1Gi"})] * 2}, "2vCPU 4GB"),
        ({"containers": [container(limits={"cpu": "1", "memory": "1Gi"})]}, "1vCPU 2GB"),
        (
            {
                "containers": [container(requests={"cpu": "100m"})],
                "initContainers": [container(requests={"cpu": "1"}), container(requests={"cpu": "900m"})],
            },
            "1vCPU 2GB",
        ),
        (
            {
                "containers": [container(requests={"cpu": "200m"})],
                "initContainers": [{**container(requests={"cpu": "200m"}), "restartPolicy": "Always"}],
            },
            "0.5vCPU 1GB",
        ),
    ],
)
def test_requests_of_containers_are_added_and_rounded_up(spec: dict[str, Any], capacity: str) -> None:
    size = fargate.size(spec)
    assert size is not None
    assert fargate.capacity(size) == capacity


def test_requests_beyond_the_largest_size_are_refused() -> None:
    assert fargate.size({"containers": [container(requests={"cpu": "17"})]}) is None


def test_features_that_fargate_lacks_are_named() -> None:
    spec = {
        "hostNetwork": True,
        "runtimeClassName": "gvisor",
        "volumes": [{"name": "host", "hostPath": {"path": "/"}}, {"name": "fine", "emptyDir": {}}],
        "containers": [
            {
                "name": "main",
                "securityContext": {"privileged": True},
                "ports": [{"containerPort": 1}, {"containerPort": 2, "hostPort": 2}],
                "resources": {"limits": {"nvidia.com/gpu": "1"}},
            }
        ],
    }
    assert fargate.unsupported(spec) == [
        "hostNetwork",
        "runtimeClassName",
        "volumes host (hostPath)",
        "privileged container main",
        "host port of container main",
        "nvidia.com/gpu of container main",
    ]
    assert fargate.unsupported({"containers": [{"name": "plain"}]}) == []


def test_webhook_ignores_a_profile_shortly_after_its_creation() -> None:
    created = datetime(2026, 11, 1, tzinfo=UTC)
    profile = fargate.parse_profile({"fargateProfileName": "p", "createdAt": created})
    assert not profile.marks_pods(created.timestamp() + 1)
    assert profile.marks_pods(created.timestamp() + fargate.WEBHOOK_SECONDS)
    deleted = fargate.parse_profile({"fargateProfileName": "p", "createdAt": created, "status": "DELETING"})
    assert not deleted.marks_pods(created.timestamp() + 60)
