"""Waits for readiness: they end once an object is ready, report reasons otherwise, and can be cancelled."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from agentenv.rehearsal.controlplane.client import until
from agentenv.rehearsal.providers.kubernetes import objects
from agentenv.rehearsal.providers.kubernetes.client import ApiError
from agentenv.rehearsal.providers.kubernetes.cluster import Cluster
from agentenv.rehearsal.providers.kubernetes.words import InitFailed, InvalidRequest
from tests.live.controlplane.objects import TIMEOUT
from tests.live.kubernetes.provider_driver import Deployed, ProviderDriver

MERGE = "application/merge-patch+json"


def set_status(cluster: Cluster, obj: objects.Object, status: dict[str, Any]) -> None:
    """Write an object's status, as the kubelet or a controller does."""
    path = cluster.kind(obj).path(objects.namespace(obj), objects.name(obj)) + "/status"
    cluster.client.request("PATCH", path, {"fieldManager": "test"}, {"status": status}, content=MERGE)


def on_first_object(cluster: Cluster, api_version: str, kind: str, place: str, then: Any) -> threading.Thread:
    """Call a function with the first object of the kind, in a thread."""

    def watch() -> None:
        result = cluster.discovery.find(api_version, kind)
        for seen in cluster.follow(result, place, {}, time.monotonic() + TIMEOUT):
            if seen:
                then(next(iter(seen.values())))
                return

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def deployment(**annotations: str) -> dict[str, Any]:
    pod = {"containers": [{"name": "c", "image": "example.com/none:1"}], "nodeSelector": {"no": "such-node"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"annotations": annotations} if annotations else {},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "x"}},
            "template": {"metadata": {"labels": {"app": "x"}}, "spec": pod},
        },
    }


def test_create_waits_until_a_deployment_is_available(driver: ProviderDriver, cluster: Cluster) -> None:
    def set_running(pod: objects.Object) -> None:
        ready = [{"type": "Ready", "status": "True"}, {"type": "ContainersReady", "status": "True"}]
        status = {"phase": "Running", "conditions": ready}
        set_status(cluster, pod, status)

    kubelet = on_first_object(cluster, "v1", "Pod", driver.namespace, set_running)
    deployed = driver.up("apps/v1:Deployment", "web", deployment())
    kubelet.join()
    assert objects.condition(deployed.state.values, "Available")["status"] == "True"
    assert any("replicas" in text or "seen" in text for text in driver.messages.statuses)


def test_object_that_is_not_ready_is_recorded_with_its_reasons(driver: ProviderDriver, cluster: Cluster) -> None:
    with pytest.raises(InitFailed, match=r"was created, but Deployment .* was not ready after 1 s") as caught:
        driver.up("apps/v1:Deployment", "slow", deployment(), timeout=1)
    left = caught.value
    assert left.id.startswith(f"{driver.namespace}/slow-")
    assert objects.name(left.state.values) in left.id

    # The scheduler and the controllers report the reason after a while.
    deployed = driver.up("apps/v1:Deployment", "web", deployment(**{"pulumi.com/skipAwait": "true"}))
    pods = cluster.discovery.find("v1", "Pod")

    def has_reasons() -> bool:
        waiting = [
            target for target in cluster.list(pods, driver.namespace) if objects.name(target).startswith(deployed.name)
        ]
        unavailable = objects.condition(driver.live(deployed), "Available").get("status") == "False"
        return unavailable and any(objects.condition(target, "PodScheduled").get("message") for target in waiting)

    assert until(has_reasons, TIMEOUT)
    with pytest.raises(InitFailed, match=r"was updated, but Deployment .* was not ready after 1 s") as caught:
        driver.update(deployed, deployment(), timeout=1)
    records = "\n".join(caught.value.reasons)
    assert "Available=False MinimumReplicasUnavailable" in records
    assert "FailedScheduling" in records or "Unschedulable" in records


def test_skip_await_and_timeout_annotations_are_honored(driver: ProviderDriver) -> None:
    deployed = driver.up("apps/v1:Deployment", "web", deployment(**{"pulumi.com/skipAwait": "true"}))
    assert deployed.id.startswith(driver.namespace)
    with pytest.raises(InitFailed, match="was not ready after 1 s"):
        driver.up("apps/v1:Deployment", "slow", deployment(**{"pulumi.com/timeoutSeconds": "1"}), timeout=0)


def test_refresh_warns_about_an_object_that_is_no_longer_ready(driver: ProviderDriver) -> None:
    deployed = driver.up("apps/v1:Deployment", "web", deployment(**{"pulumi.com/skipAwait": "true"}))
    desired = {k: v for k, v in deployed.inputs.values.items() if k != "metadata"}
    waited = {**desired, "metadata": {**deployed.inputs.values["metadata"], "annotations": {}}}
    with pytest.raises(InitFailed, match="is not ready") as caught:
        driver.provider.read(deployed.resource, deployed.id, deployed.state, type(deployed.inputs)(waited))
    assert caught.value.id == deployed.id


def test_cancel_ends_a_wait_and_records_the_object(driver: ProviderDriver, cluster: Cluster) -> None:
    cancelling = on_first_object(cluster, "apps/v1", "Deployment", driver.namespace, lambda _: driver.provider.cancel())
    began = time.monotonic()
    with pytest.raises(InitFailed, match="was cancelled while it was waited for") as caught:
        driver.up("apps/v1:Deployment", "web", deployment(), timeout=300)
    cancelling.join()
    assert caught.value.id
    # Long before its timeout
    assert time.monotonic() - began < 300


def test_wait_for_annotation_accepts_paths_and_conditions(driver: ProviderDriver, cluster: Cluster) -> None:
    conditions = '["jsonpath={.status.phase}=Running", "condition=Ready"]'
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"annotations": {"pulumi.com/waitFor": conditions}},
        "spec": {"nodeSelector": {"no": "such-node"}, "containers": [{"name": "c", "image": "example.com/none:1"}]},
    }

    def run(seen: objects.Object) -> None:
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        set_status(cluster, seen, status)

    kubelet = on_first_object(cluster, "v1", "Pod", driver.namespace, run)
    deployed = driver.up("core/v1:Pod", "one", pod)
    kubelet.join()
    assert deployed.state.values["status"]["phase"] == "Running"


def test_failed_job_ends_the_wait(driver: ProviderDriver, cluster: Cluster) -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "spec": {
            "backoffLimit": 0,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "nodeSelector": {"no": "such-node"},
                    "containers": [{"name": "c", "image": "example.com/none:1"}],
                }
            },
        },
    }

    def fail(seen: objects.Object) -> None:
        set_status(cluster, seen, {"phase": "Failed"})

    kubelet = on_first_object(cluster, "v1", "Pod", driver.namespace, fail)
    with pytest.raises(InitFailed, match=r"Job .* failed") as caught:
        driver.up("batch/v1:Job", "work", job, timeout=60)
    kubelet.join()
    assert any("BackoffLimitExceeded" in reason for reason in caught.value.reasons)


def test_service_waits_for_an_endpoint_unless_it_is_headless(driver: ProviderDriver, cluster: Cluster) -> None:
    spec: dict[str, Any] = {"selector": {"app": "x"}, "ports": [{"port": 80}]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}
    headless = {**service, "metadata": {"name": "none"}, "spec": {**spec, "clusterIP": "None"}}
    driver.up("core/v1:Service", "none", headless)
    with pytest.raises(InitFailed) as caught:
        driver.up("core/v1:Service", "web", service, timeout=1)
    assert any("no ready endpoint" in reason for reason in caught.value.reasons)


def with_address(cluster: Cluster, obj: objects.Object) -> None:
    set_status(cluster, obj, {"loadBalancer": {"ingress": [{"hostname": "lb.example.com"}]}})


def endpoint_slice(driver: ProviderDriver, service: str) -> objects.Object:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": f"{service}-by-hand",
            "namespace": driver.namespace,
            "labels": {"kubernetes.io/service-name": service},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": True}}],
        "ports": [{"port": 80}],
    }


def test_load_balancers_and_ingresses_wait_for_addresses_and_endpoints(
    driver: ProviderDriver, cluster: Cluster
) -> None:
    cluster.create(endpoint_slice(driver, "web"), "test")
    spec = {"type": "LoadBalancer", "selector": {"app": "x"}, "ports": [{"port": 80}]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}
    cloud = on_first_object(cluster, "v1", "Service", driver.namespace, lambda seen: with_address(cluster, seen))
    deployed = driver.up("core/v1:Service", "web", service)
    cloud.join()
    assert deployed.state.values["status"]["loadBalancer"]["ingress"] == [{"hostname": "lb.example.com"}]

    path = {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"number": 80}}}}
    ingress = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "spec": {"rules": [{"http": {"paths": [path]}}]},
    }
    cloud = on_first_object(
        cluster, "networking.k8s.io/v1", "Ingress", driver.namespace, lambda seen: with_address(cluster, seen)
    )
    deployed = driver.up("networking.k8s.io/v1:Ingress", "door", ingress)
    cloud.join()
    assert driver.refresh(deployed) is not None
    lost = {**ingress, "spec": {"defaultBackend": {"service": {"name": "nobody", "port": {"number": 80}}}}}
    with pytest.raises(InitFailed) as caught:
        driver.up("networking.k8s.io/v1:Ingress", "lost", lost, timeout=1)
    assert any("Service nobody has no ready endpoint" in reason for reason in caught.value.reasons)


def test_token_secret_and_quota_wait_for_their_controllers(driver: ProviderDriver) -> None:
    driver.up(
        "core/v1:ServiceAccount", "robot", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
    )
    annotations = {"kubernetes.io/service-account.name": "robot"}
    deployed = driver.up(
        "core/v1:Secret",
        "token",
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/service-account-token",
            "metadata": {"annotations": annotations},
        },
    )
    assert deployed.state.values["data"]["token"]
    assert ("data",) in deployed.state.secrets
    limit = {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"pods": "3"}}}
    assert driver.up("core/v1:ResourceQuota", "limit", limit).state.values["status"]["hard"] == {"pods": "3"}


def test_unready_job_is_replaced_if_annotated(driver: ProviderDriver) -> None:
    marks = {"pulumi.com/replaceUnready": "true", "pulumi.com/skipAwait": "true"}
    pod = {"restartPolicy": "Never", "nodeSelector": {"no": "such-node"}, "containers": [{"name": "c", "image": "x"}]}
    desired = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"annotations": marks},
        "spec": {"template": {"spec": pod}},
    }
    deployed = driver.up("batch/v1:Job", "work", desired)
    compared, _ = driver.compare(deployed, desired)
    assert [c.path[-1] for c in compared.replaces] == ["pulumi.com/replaceUnready"]


def test_claims_wait_to_be_bound_unless_binding_waits_for_a_pod(driver: ProviderDriver, cluster: Cluster) -> None:
    name = f"late-{uuid.uuid4().hex[:6]}"
    later = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "example.com/none",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    deployed = driver.up("storage.k8s.io/v1:StorageClass", "late", later)
    spec: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": {**spec, "storageClassName": name}}
    bound_later = driver.up("core/v1:PersistentVolumeClaim", "late", claim)
    assert bound_later.state.values["status"]["phase"] == "Pending"
    with pytest.raises(InitFailed, match="was not ready"):
        driver.up(
            "core/v1:PersistentVolumeClaim", "now", {**claim, "spec": {**spec, "storageClassName": ""}}, timeout=1
        )
    driver.down(deployed)


@pytest.fixture
def widgets(driver: ProviderDriver) -> Iterator[Deployed]:
    """Define a kind for this test."""
    group = f"t{uuid.uuid4().hex[:6]}.example.com"
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    deployed = driver.up(
        "apiextensions.k8s.io/v1:CustomResourceDefinition",
        "widgets",
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"widgets.{group}"},
            "spec": {
                "group": group,
                "scope": "Cluster",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                "versions": [version],
            },
        },
    )
    yield deployed
    driver.down(deployed)


def test_objects_follow_their_established_definition(driver: ProviderDriver, widgets: Deployed) -> None:
    version = f"{widgets.inputs.values['spec']['group']}/v1"
    # The garbage collector discovers new kinds every half minute, so no object is deleted in the foreground before.
    at_once = {"annotations": {"pulumi.com/deletionPropagationPolicy": "background"}}
    desired = {"apiVersion": version, "kind": "Widget", "metadata": at_once, "spec": {"size": 1}}
    deployed = driver.up(f"{version}:Widget", "one", desired)
    assert deployed.id == deployed.name  # its kind has no namespace, though the provider has a default one
    deployed = driver.update(deployed, {**desired, "spec": {"size": 2}})
    assert driver.live(deployed)["spec"] == {"size": 2}
    with pytest.raises(InvalidRequest, match=r"expected integer|must be of type integer"):
        driver.up(f"{version}:Widget", "two", {**desired, "spec": {"size": "big"}})
    driver.down(deployed)
    with pytest.raises(ApiError, match="not found"):
        driver.live(deployed)


def test_missing_kind_is_named(driver: ProviderDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    waited = driver.cluster.retry
    monkeypatch.setattr(driver.cluster, "retry", lambda work, records: waited(work, records, 0.5))
    with pytest.raises(InvalidRequest, match=r'no matches for kind "Nothing" in version "never.example.com/v1"'):
        driver.up("never.example.com/v1:Nothing", "x", {"apiVersion": "never.example.com/v1", "kind": "Nothing"})
