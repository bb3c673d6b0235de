"""Fargate: each pod of a profile gets a node of its own, and other pods get none."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentenv.core.nodes.fargate_profiles import Selector
from agentenv.rehearsal.controlplane.client import until
from agentenv.rehearsal.controlplane.nodes import fargate
from agentenv.service.loops.context import cluster_context
from agentenv.service.loops.fargate_pods import replace_missed_pods
from agentenv.service.loops.scheduler import PassResult
from tests.fast.service.loops.cluster import RecordedMetrics, StubClock
from tests.live.conftest import CLUSTER, LiveCluster
from tests.live.controlplane.objects import TIMEOUT, becomes_ready, condition, create_namespace, pod
from tests.live.service.blocking import Blocking, run

Object = dict[str, Any]

SPACE = "serverless"


@pytest.fixture(scope="module")
def profile(live: LiveCluster) -> Iterator[str]:
    """A namespace with a pod from before its profile was created."""
    client = live.plane.client
    create_namespace(client, SPACE)
    client.create(pod(SPACE, "early", nodeSelector={fargate.COMPUTE: "fargate"}))
    # The webhook does not know the profile in its first moments; they last until these pods are there.
    with pytest.MonkeyPatch.context() as first_moments:
        first_moments.setattr(fargate, "WEBHOOK_SECONDS", math.inf)
        live.aws("eks").create_fargate_profile(
            fargateProfileName="some",
            clusterName=CLUSTER,
            podExecutionRoleArn=live.role,
            selectors=[{"namespace": SPACE, "labels": {"run": "fargate"}}],
        )
        client.create(pod(SPACE, "missed", labels={"run": "fargate"}, nodeSelector={fargate.COMPUTE: "fargate"}))
        marked = {"run": "fargate", fargate.LABEL: "some"}
        client.create(pod(SPACE, "marked", labels=marked, schedulerName=fargate.SCHEDULER))
    tried = pod(SPACE, "tried", labels={"run": "fargate"})
    pods = f"/api/v1/namespaces/{SPACE}/pods?dryRun=All"
    assert until(lambda: fargate.LABEL in client.request("POST", pods, tried)["metadata"]["labels"], TIMEOUT)
    yield "some"
    live.aws("eks").delete_fargate_profile(clusterName=CLUSTER, fargateProfileName="some")


def test_pod_of_a_profile_has_its_own_node_until_its_end(live: LiveCluster, profile: str) -> None:
    client = live.plane.client
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
    assert until(lambda: client.find(f"/api/v1/nodes/{node['metadata']['name']}") is None, TIMEOUT)


def test_unmatched_and_earlier_pods_use_the_default_scheduler(live: LiveCluster, profile: str) -> None:
    client = live.plane.client
    client.create(pod(SPACE, "other", labels={"run": "elsewhere"}))
    assert becomes_ready(client, f"/api/v1/namespaces/{SPACE}/pods/other")
    assert client.get(f"/api/v1/namespaces/{SPACE}/pods/other")["spec"]["nodeName"] in {"n1", "n2"}
    early_claim = client.get(f"/api/v1/namespaces/{SPACE}/pods/early")
    assert early_claim["status"]["phase"] == "Pending"
    assert fargate.LABEL not in early_claim["metadata"].get("labels", {})


def test_pod_that_misses_the_webhook_stays_pending_unless_labeled(live: LiveCluster, profile: str) -> None:
    client = live.plane.client
    assert becomes_ready(client, f"/api/v1/namespaces/{SPACE}/pods/marked")
    missed = client.get(f"/api/v1/namespaces/{SPACE}/pods/missed")
    assert missed["status"]["phase"] == "Pending"
    assert fargate.LABEL not in missed["metadata"]["labels"]


def test_unsupported_pod_stays_pending_with_a_reason(live: LiveCluster, profile: str) -> None:
    client = live.plane.client
    client.create(pod(SPACE, "privileged", labels={"run": "fargate"}, hostNetwork=True))
    path = f"/api/v1/namespaces/{SPACE}/pods/privileged"
    assert until(lambda: condition(client.get(path), "PodScheduled").get("message"), TIMEOUT)
    assert condition(client.get(path), "PodScheduled")["message"] == (
        "Pod not supported on Fargate: fields not supported: hostNetwork"
    )
    assert not client.get(path)["spec"].get("nodeName")


def test_a_missed_pod_of_a_controller_is_replaced_and_runs_on_fargate(live: LiveCluster, profile: str) -> None:
    """Without the loop it waits for ever: its ReplicaSet has its pod, and the webhook marks new pods only."""
    client, eks = live.plane.client, live.aws("eks")
    labels = {"run": "late"}
    spec = pod(SPACE, "any", nodeSelector={fargate.COMPUTE: "fargate"})["spec"]
    template = {"metadata": {"labels": labels}, "spec": spec}
    deployment = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    about = {"name": "late", "namespace": SPACE}
    client.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": about, "spec": deployment})

    def pods() -> list[Object]:
        return client.get(f"/api/v1/namespaces/{SPACE}/pods", labelSelector="run=late")["items"]

    assert until(pods, TIMEOUT)
    (missed,) = pods()
    eks.create_fargate_profile(
        fargateProfileName="late",
        clusterName=CLUSTER,
        podExecutionRoleArn=live.role,
        selectors=[{"namespace": SPACE, "labels": labels}],
    )
    tried, dry = pod(SPACE, "tried", labels=labels), f"/api/v1/namespaces/{SPACE}/pods?dryRun=All"
    assert until(lambda: fargate.LABEL in client.request("POST", dry, tried)["metadata"]["labels"], TIMEOUT)
    assert [row["metadata"]["uid"] for row in pods()] == [missed["metadata"]["uid"]]
    metrics, later = RecordedMetrics(), StubClock(lambda: datetime.now(UTC) + timedelta(minutes=6))
    with closing(Blocking.from_kubeconfig(live.plane.kubeconfig())) as api:
        context = cluster_context(api.api, later, metrics, SPACE, "r1", fargate=[Selector(SPACE)])
        assert run(replace_missed_pods, context, lambda: True) == PassResult(1)
    assert metrics.missed == [SPACE]
    assert until(lambda: [row["status"]["phase"] for row in pods()] == ["Running"], TIMEOUT)
    (replaced,) = pods()
    assert replaced["spec"]["schedulerName"] == fargate.SCHEDULER
    events = client.get(f"/api/v1/namespaces/{SPACE}/events")["items"]
    of = [row["involvedObject"]["uid"] for row in events if row["reason"] == "FargateMissed"]
    assert of == [missed["metadata"]["uid"]]
    # Pods that nobody would create again stay.
    assert client.get(f"/api/v1/namespaces/{SPACE}/pods/missed")["status"]["phase"] == "Pending"
    client.delete(f"/apis/apps/v1/namespaces/{SPACE}/deployments/late")
    eks.delete_fargate_profile(clusterName=CLUSTER, fargateProfileName="late")
