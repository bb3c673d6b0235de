"""The agent-sandbox controller, which runs while its Deployment exists."""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from agentenv.core.metering.exporters import SANDBOXES
from agentenv.local import processes
from agentenv.rehearsal.controlplane.client import Client, until
from agentenv.rehearsal.controlplane.ports import DIRECTLY
from agentenv.rehearsal.scenario import pool_probe
from agentenv.rehearsal.tools.toolbox import Toolbox
from tests.live.conftest import LiveCluster
from tests.live.controlplane.installed import DEPLOYMENT, DOMAIN, EXTENSIONS, SYSTEM, installed
from tests.live.controlplane.objects import TIMEOUT, becomes_ready, condition, create_namespace, runs

Object = dict[str, Any]

SPACE = "raw-standard"
CLAIMS = f"/apis/{EXTENSIONS}/namespaces/{SPACE}/sandboxclaims"


@pytest.fixture(scope="module")
def client(live: LiveCluster, toolbox: Toolbox) -> Client:
    admin = live.plane.client
    installed(admin, toolbox)
    create_namespace(admin, SPACE)
    container = {"name": "main", "image": "registry.example/sandbox"}
    template = {"spec": {"nodeSelector": {"tier": "standard"}, "containers": [container]}}
    metadata = {"name": "standard", "namespace": SPACE}
    admin.apply(
        {"apiVersion": EXTENSIONS, "kind": "SandboxTemplate", "metadata": metadata, "spec": {"podTemplate": template}}
    )
    pool = {"replicas": 10, "sandboxTemplateRef": {"name": "standard"}}
    admin.apply({"apiVersion": EXTENSIONS, "kind": "SandboxWarmPool", "metadata": metadata, "spec": pool})
    assert until(lambda: ready_members(admin) == 10, TIMEOUT)
    return admin


def ready_members(client: Client) -> int:
    pool = client.get(f"/apis/{EXTENSIONS}/namespaces/{SPACE}/sandboxwarmpools/standard")
    return (pool.get("status") or {}).get("readyReplicas", 0)


def claim(name: str, **labels: str) -> Object:
    spec: Object = {"warmPoolRef": {"name": "standard"}}
    if labels:
        spec["additionalPodMetadata"] = {"labels": labels}
    return {
        "apiVersion": EXTENSIONS,
        "kind": "SandboxClaim",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": spec,
    }


def controller(live: LiveCluster) -> psutil.Process:
    """The controller's process."""
    found = until(lambda: controllers(live), TIMEOUT)
    assert found, "no controller runs"
    return found[0]


def controllers(live: LiveCluster) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for process in processes.marked(live.environment[processes.MARK]):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.name().startswith("agent-sandbox"):
                found.append(process)
    return found


def test_claims_adopt_warm_sandboxes_and_the_pool_refills(
    client: Client, record_property: Callable[[str, float], None]
) -> None:
    is_restored: dict[str, float] = {}
    ended = threading.Event()

    def listen() -> None:
        for _, obj in client.watch(CLAIMS, ended):
            if condition(obj, "Ready").get("status") == "True":
                is_restored.setdefault(obj["metadata"]["name"], time.monotonic())

    threading.Thread(target=listen, daemon=True).start()
    sent: dict[str, float] = {}
    for number in range(5):
        name = f"claim-{number}"
        sent[name] = time.monotonic()
        client.create(claim(name))
        assert until(lambda name=name: name in is_restored, TIMEOUT, every=0.002)
    ended.set()
    record_property("claim_to_ready_p50_ms", statistics.median(is_restored[name] - sent[name] for name in sent) * 1000)
    taken = {client.get(f"{CLAIMS}/{name}")["status"]["sandbox"]["name"] for name in sent}
    assert len(taken) == 5
    assert all(name.startswith("standard-") for name in taken), "a claim was not filled from the pool"
    assert until(lambda: ready_members(client) == 10, TIMEOUT)


def test_controller_reads_its_mounted_configmap(client: Client) -> None:
    client.create(claim("labelled", **{f"{DOMAIN}/user": "u-1"}))
    assert becomes_ready(client, f"{CLAIMS}/labelled")
    sandbox = client.get(f"{CLAIMS}/labelled")["status"]["sandbox"]["name"]
    path = f"/api/v1/namespaces/{SPACE}/pods/{sandbox}"
    # The claim is ready a moment before the label of the pod is set.
    assert until(lambda: client.get(path)["metadata"]["labels"].get(f"{DOMAIN}/user") == "u-1", TIMEOUT)


def test_controller_uses_its_service_account_and_restarts(client: Client, live: LiveCluster) -> None:
    listed = client.get(f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases")["items"]
    writers = [row["manager"] for lease in listed for row in lease["metadata"]["managedFields"]]
    assert any(name.startswith("agent-sandbox-controller") for name in writers)
    before, restarts = controller(live), restarted(client)
    before.kill()
    assert until(lambda: restarted(client) > restarts, TIMEOUT)
    assert until(lambda: any(process.pid != before.pid for process in controllers(live)), TIMEOUT)
    # The status of its Deployment may be that of the killed one still: its pod's is the process's own.
    assert until(lambda: all_ready(client), TIMEOUT)
    assert until(lambda: client.get(DEPLOYMENT)["status"].get("readyReplicas") == 1, TIMEOUT)


def all_ready(client: Client) -> bool:
    pods = client.get(f"/api/v1/namespaces/{SYSTEM}/pods")["items"]
    return bool(pods) and all(condition(pod, "Ready").get("status") == "True" for pod in pods)


def restarted(client: Client) -> int:
    """Return the restarts of the pods' containers."""
    pods = client.get(f"/api/v1/namespaces/{SYSTEM}/pods")["items"]
    return sum(row.get("restartCount", 0) for pod in pods for row in pod["status"].get("containerStatuses", ()))


def test_controller_ends_without_its_deployment(client: Client, live: LiveCluster) -> None:
    process = controller(live)
    client.request("PATCH", DEPLOYMENT, {"spec": {"replicas": 0}}, content="application/merge-patch+json")
    assert until(lambda: not runs(process), TIMEOUT)
    assert until(lambda: client.get(f"/api/v1/namespaces/{SYSTEM}/pods")["items"] == [], TIMEOUT)
    # Its status follows a moment later; until then it has the replica that is gone.
    assert until(lambda: not client.get(DEPLOYMENT)["status"].get("replicas"), TIMEOUT)
    client.request("PATCH", DEPLOYMENT, {"spec": {"replicas": 1}}, content="application/merge-patch+json")
    assert until(lambda: client.get(DEPLOYMENT)["status"].get("readyReplicas") == 1, TIMEOUT)


@pytest.mark.parametrize(
    ("word", "quota", "place", "reason"),
    [
        ("over-quota", {"pods": "1"}, {"tier": "standard"}, "exceeded quota"),
        ("nowhere", {}, {"tier": "moon"}, "didn't match Pod's node affinity/selector"),
    ],
)
def test_pool_that_does_not_fill_reports_the_reason(
    client: Client, word: str, quota: Object, place: Object, reason: str
) -> None:
    namespace = create_namespace(client, f"sandbox-{word}")
    about = {"name": word, "namespace": namespace}
    hard = {"hard": quota or {"pods": "9"}}
    client.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": about, "spec": hard})
    quotas = f"/api/v1/namespaces/{namespace}/resourcequotas/{word}"
    assert until(lambda: (client.get(quotas).get("status") or {}).get("used"), TIMEOUT)
    spec = {"nodeSelector": place, "containers": [{"name": "main", "image": "registry.example/sandbox"}]}
    template = {"podTemplate": {"spec": spec}}
    client.apply({"apiVersion": EXTENSIONS, "kind": "SandboxTemplate", "metadata": about, "spec": template})
    pool_spec = {"replicas": 2, "sandboxTemplateRef": {"name": word}}
    pool = client.apply({"apiVersion": EXTENSIONS, "kind": "SandboxWarmPool", "metadata": about, "spec": pool_spec})
    # The lease of a killed controller lasts for a while.
    assert until(lambda: reason in pool_probe._not_ready_reasons(client, pool), TIMEOUT)
    with pytest.raises(pool_probe.ProbeFailed, match=reason):
        pool_probe.wait_until_full(client, pool, timeout=0.1)
    client.merge(client.path(pool), {"spec": {"replicas": 1}})
    assert "its size is 1, written by " in pool_probe._not_ready_reasons(client, pool)
    client.delete(client.path(pool))


def test_controller_exports_the_metered_series_with_their_labels(live: LiveCluster, client: Client) -> None:
    client.create(claim("metered"))
    path = f"{CLAIMS}/metered"
    assert until(lambda: condition(client.get(path), "Ready").get("status") == "True", TIMEOUT)
    flags = [word.partition("=") for word in controller(live).cmdline()]
    address = next(value for flag, _, value in flags if flag == "--metrics-bind-address")

    def labels_by_series() -> dict[str, set[str]]:
        with DIRECTLY.open(f"http://{address}/metrics", timeout=TIMEOUT) as answer:
            families = text_string_to_metric_families(answer.read().decode())
            return {sample.name: set(sample.labels) for family in families for sample in family.samples}

    assert until(lambda: set(SANDBOXES.series()) <= set(labels_by_series()), TIMEOUT), set(SANDBOXES.series()) - set(
        labels_by_series()
    )
    for metric, labels in SANDBOXES.metrics.items():
        series = f"{metric}_bucket" if metric in SANDBOXES.histograms else metric
        assert set(labels) <= labels_by_series()[series], series
