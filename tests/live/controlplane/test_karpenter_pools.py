"""Karpenter's pools: nodes follow their NodePools while the controller runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from lightkube import KubeConfig
from lightkube.config.client_adapter import Client as SyncClient
from lightkube.config.client_adapter import ConnectionParams
from prometheus_client.parser import text_string_to_metric_families

from agentenv.core.iam.principals import SPOT, SPOT_ROLE
from agentenv.rehearsal.controlplane.auth.pod_credentials import AGENT, PODS
from agentenv.rehearsal.controlplane.client import Client, until
from tests.live.conftest import CLUSTER, LiveCluster
from tests.live.controlplane.karpenter_definitions import karpenter_definitions
from tests.live.controlplane.objects import TIMEOUT, becomes_ready, condition, create_namespace, pod

Object = dict[str, Any]

POOL = "/apis/karpenter.sh/v1/nodepools/sandboxes"
CLASS = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses/sandboxes"
SPACE = "karpenter"
LIST = {"verb": "LIST", "scope": "cluster", "resource": "deployments", "code": "200"}
TAINT = {"key": "sandbox", "value": "standard", "effect": "NoSchedule"}


@pytest.fixture(scope="module")
def client(live: LiveCluster) -> Iterator[Client]:
    """Install the CRDs of the chart, a controller role that may create the role for Spot, and subnets in two zones."""
    client = live.plane.client
    create_namespace(client, SPACE)
    subnets = live.aws("ec2").describe_subnets()["Subnets"]
    for zone in ("us-east-1c", "us-east-1d"):
        chosen = [row["SubnetId"] for row in subnets if row["AvailabilityZone"] == zone]
        live.aws("ec2").create_tags(Resources=chosen, Tags=[{"Key": "karpenter.sh/discovery", "Value": "stage"}])
    client.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "karpenter", "namespace": SPACE}})
    eks = live.aws("eks")
    eks.create_addon(clusterName=CLUSTER, addonName=AGENT)
    pair = {"namespace": SPACE, "serviceAccount": "karpenter"}
    arn = controller_role(live)
    association = eks.create_pod_identity_association(clusterName=CLUSTER, roleArn=arn, **pair)["association"]
    with karpenter_definitions(client):
        yield client
    eks.delete_pod_identity_association(clusterName=CLUSTER, associationId=association["associationId"])
    eks.delete_addon(clusterName=CLUSTER, addonName=AGENT)


def controller_role(live: LiveCluster) -> str:
    """Create a role for Pod Identity, which may create the account's role for Spot."""
    trust = {"Effect": "Allow", "Principal": {"Service": PODS}, "Action": ["sts:AssumeRole", "sts:TagSession"]}
    spot = {
        "Effect": "Allow",
        "Action": "iam:CreateServiceLinkedRole",
        "Resource": f"arn:aws:iam::*:role/aws-service-role/{SPOT}/{SPOT_ROLE}",
    }
    trust_policy, policy = (json.dumps({"Version": "2012-10-17", "Statement": [row]}) for row in (trust, spot))
    iam = live.aws("iam")
    arn = iam.create_role(RoleName="karpenter", AssumeRolePolicyDocument=trust_policy)["Role"]["Arn"]
    iam.put_role_policy(RoleName="karpenter", PolicyName="spot", PolicyDocument=policy)
    return arn


def node_class(discovery: str) -> Object:
    terms = [{"tags": {"karpenter.sh/discovery": discovery}}]
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "sandboxes"},
        "spec": {
            "amiSelectorTerms": [{"alias": "al2023@v20261101"}],
            "role": "nodes",
            "subnetSelectorTerms": terms,
            "securityGroupSelectorTerms": terms,
        },
    }


def node_pool() -> Object:
    requirements = [
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]},
        {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m7g"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
    ]
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "sandboxes"}
    template = {
        "metadata": {"labels": {"tier": "gvisor"}},
        "spec": {"requirements": requirements, "nodeClassRef": reference, "taints": [TAINT]},
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "sandboxes"},
        "spec": {"template": template},
    }


def controller(replicas: int) -> Object:
    labels = {"app.kubernetes.io/name": "karpenter"}
    container = {"name": "controller", "image": "registry.example/karpenter"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "karpenter", "namespace": SPACE, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"serviceAccountName": "karpenter", "containers": [container]},
            },
        },
    }


def nodes(client: Client) -> list[Object]:
    return client.get("/api/v1/nodes", labelSelector="karpenter.sh/nodepool=sandboxes")["items"]


def claims(client: Client) -> list[Object]:
    return client.get("/apis/karpenter.sh/v1/nodeclaims")["items"]


def test_nodes_are_created_by_the_controller_and_deleted_with_their_pool(client: Client) -> None:
    client.create(pod(SPACE, "waits", nodeSelector={"tier": "gvisor"}, tolerations=[TAINT]))
    assert until(lambda: client.apply(node_class("stage")) and client.apply(node_pool()), TIMEOUT)
    path = f"/api/v1/namespaces/{SPACE}/pods/waits"
    assert until(lambda: condition(client.get(path), "PodScheduled").get("reason") == "Unschedulable", TIMEOUT)
    assert nodes(client) == []
    client.apply(controller(1))
    assert becomes_ready(client, path)
    zone = "topology.kubernetes.io/zone"
    both = {"us-east-1c", "us-east-1d"}
    assert until(lambda: {row["metadata"]["labels"][zone] for row in nodes(client)} == both, TIMEOUT)
    labels = nodes(client)[0]["metadata"]["labels"]
    assert labels["node.kubernetes.io/instance-type"] == "m7g.2xlarge"
    assert labels["karpenter.sh/capacity-type"] == "spot"
    assert becomes_ready(client, POOL)
    assert becomes_ready(client, CLASS)
    client.delete(POOL)
    assert until(lambda: nodes(client) == [], TIMEOUT)


def test_class_without_subnets_launches_nothing_and_reports_it(client: Client) -> None:
    client.apply(controller(1))
    client.apply(node_class("elsewhere"))
    client.apply(node_pool())
    for path, reason in ((POOL, "NodeClassNotReady"), (CLASS, "SubnetsOrImagesNotFound")):
        assert until(lambda path=path: condition(client.get(path), "Ready").get("status") == "False", TIMEOUT)
        assert condition(client.get(path), "Ready")["reason"] == reason
    assert nodes(client) == []
    client.apply(node_class("stage"))
    assert until(lambda: len(nodes(client)) == 2, TIMEOUT)
    client.delete(POOL)
    assert until(lambda: nodes(client) == [], TIMEOUT)


@pytest.fixture
def passes(live: LiveCluster) -> Iterator[Callable[[], int]]:
    """Count the passes over the pools: each asks the server for the controller's Deployment in all namespaces."""
    config: Any = KubeConfig.from_file(live.plane.kubeconfig())
    with SyncClient(config.get(), ConnectionParams()) as server:

        def count() -> int:
            for family in text_string_to_metric_families(server.get("/metrics").raise_for_status().text):
                for sample in family.samples:
                    if sample.name == "apiserver_request_total" and sample.labels.items() >= LIST.items():
                        return int(sample.value)
            return 0

        yield count


def test_pools_deleted_after_the_controller_leave_their_nodes(client: Client, passes: Callable[[], int]) -> None:
    client.apply(controller(1))
    client.apply(node_class("stage"))
    client.apply(node_pool())
    assert until(lambda: len(nodes(client)) == 2, TIMEOUT)
    client.delete(f"/apis/apps/v1/namespaces/{SPACE}/deployments/karpenter", propagationPolicy="Foreground")
    deployments = f"/apis/apps/v1/namespaces/{SPACE}/deployments/karpenter"
    assert until(lambda: client.find(deployments) is None, TIMEOUT)
    client.delete(POOL)
    assert until(lambda: client.find(POOL) is None, TIMEOUT)
    client.delete(CLASS)
    before = passes()
    assert until(lambda: passes() >= before + 3, TIMEOUT, every=0.5)
    assert len(nodes(client)) == 2
    assert until(lambda: ["deletionTimestamp" in row["metadata"] for row in claims(client)] == [True, True], TIMEOUT)
    client.apply(controller(1))
    assert until(lambda: nodes(client) == [] == claims(client), TIMEOUT)


def test_foreground_deletion_of_a_pool_waits_for_its_nodes(client: Client) -> None:
    client.apply(controller(1))
    client.apply(node_class("stage"))
    client.apply(node_pool())
    assert until(lambda: len(nodes(client)) == len(claims(client)) == 2, TIMEOUT)
    assert {row["spec"]["nodeClassRef"]["name"] for row in claims(client)} == {"sandboxes"}
    client.delete(POOL, propagationPolicy="Foreground")
    assert until(lambda: client.find(POOL) is None, TIMEOUT)
    assert nodes(client) == [] == claims(client)
