"""Fargate: pods of a profile get a node each, others none."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from agentenv.rehearsal.controlplane.client import until
from agentenv.rehearsal.controlplane.nodes import fargate
from tests.live.conftest import CLUSTER, World
from tests.live.controlplane.objects import PATIENCE, becomes_ready, condition, namespace, pod

SPACE = "serverless"


@pytest.fixture(scope="module")
def profile(world: World) -> Iterator[str]:
    """A namespace with a pod in it from before there was a profile for it."""
    client = world.plane.client
    namespace(client, SPACE)
    client.create(pod(SPACE, "early", nodeSelector={fargate.COMPUTE: "fargate"}))
    # The webhook does not know the profile in its first moments; they last until these pods are there.
    with pytest.MonkeyPatch.context() as first_moments:
        first_moments.setattr(fargate, "WEBHOOK_SECONDS", math.inf)
        world.aws("eks").create_fargate_profile(
            fargateProfileName="some",
            clusterName=CLUSTER,
            podExecutionRoleArn=world.role,
            selectors=[{"namespace": SPACE, "labels": {"run": "fargate"}}],
        )
        client.create(pod(SPACE, "missed", labels={"run": "fargate"}, nodeSelector={fargate.COMPUTE: "fargate"}))
        marked = {"run": "fargate", fargate.LABEL: "some"}
        client.create(pod(SPACE, "marked", labels=marked, schedulerName=fargate.SCHEDULER))
    tried = pod(SPACE, "tried", labels={"run": "fargate"})
    pods = f"/api/v1/namespaces/{SPACE}/pods?dryRun=All"
    assert until(lambda: fargate.LABEL in client.request("POST", pods, tried)["metadata"]["labels"], PATIENCE)
    yield "some"
    world.aws("eks").delete_fargate_profile(clusterName=CLUSTER, fargateProfileName="some")


def test_a_pod_of_the_profile_has_a_node_of_its_own_as_long_as_it_lives(world: World, profile: str) -> None:
    client = world.plane.client
    requests = {"resources": {"requests": {"cpu": "500m", "memory": "700Mi"}}}
    client.create(pod(SPACE, "runs", labels={"run": "fargate"}, container=requests))
    path = f"/api/v1/namespaces/{SPACE}/pods/runs"
    assert becomes_ready(client, path)
    created = client.get(path)
    assert created["metadata"]["labels"][fargate.LABEL] == profile
    assert created["metadata"]["annotations"]["CapacityProvisioned"] == "0.5vCPU 1GB"
    node = client.get(f"/api/v1/nodes/{created['spec']['nodeName']}")
    assert node["metadata"]["labels"][fargate.COMPUTE] == "fargate"
    assert {"key": fargate.COMPUTE, "value": "fargate", "effect": "NoSchedule"} in node["spec"]["taints"]
    client.delete(path)
    assert until(lambda: client.find(f"/api/v1/nodes/{node['metadata']['name']}") is None, PATIENCE)


def test_pods_that_no_selector_matches_or_that_came_before_are_left_to_the_other_scheduler(
    world: World, profile: str
) -> None:
    client = world.plane.client
    client.create(pod(SPACE, "other", labels={"run": "elsewhere"}))
    assert becomes_ready(client, f"/api/v1/namespaces/{SPACE}/pods/other")
    assert client.get(f"/api/v1/namespaces/{SPACE}/pods/other")["spec"]["nodeName"] in {"n1", "n2"}
    early = client.get(f"/api/v1/namespaces/{SPACE}/pods/early")
    assert early["status"]["phase"] == "Pending"
    assert fargate.LABEL not in early["metadata"].get("labels", {})


def test_a_pod_that_misses_the_webhook_waits_unless_it_has_the_marks_itself(world: World, profile: str) -> None:
    client = world.plane.client
    assert becomes_ready(client, f"/api/v1/namespaces/{SPACE}/pods/marked")
    missed = client.get(f"/api/v1/namespaces/{SPACE}/pods/missed")
    assert missed["status"]["phase"] == "Pending"
    assert fargate.LABEL not in missed["metadata"]["labels"]


def test_what_fargate_does_not_take_waits_and_says_why(world: World, profile: str) -> None:
    client = world.plane.client
    client.create(pod(SPACE, "privileged", labels={"run": "fargate"}, hostNetwork=True))
    path = f"/api/v1/namespaces/{SPACE}/pods/privileged"
    assert until(lambda: condition(client.get(path), "PodScheduled").get("message"), PATIENCE)
    assert condition(client.get(path), "PodScheduled")["message"] == (
        "Pod not supported on Fargate: fields not supported: hostNetwork"
    )
    assert not client.get(path)["spec"].get("nodeName")
