"""The agent-sandbox controller, running for real behind its Deployment."""

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
from tests.live.conftest import World
from tests.live.controlplane.installed import DEPLOYMENT, DOMAIN, EXTENSIONS, SYSTEM, installed
from tests.live.controlplane.objects import PATIENCE, becomes_ready, condition, namespace, runs

Object = dict[str, Any]

SPACE = "raw-standard"
CLAIMS = f"/apis/{EXTENSIONS}/namespaces/{SPACE}/sandboxclaims"


@pytest.fixture(scope="module")
def client(world: World, toolbox: Toolbox) -> Client:
    admin = world.plane.client
    installed(admin, toolbox)
    namespace(admin, SPACE)
    container = {"name": "main", "image": "registry.example/sandbox"}
    template = {"spec": {"nodeSelector": {"tier": "standard"}, "containers": [container]}}
    metadata = {"name": "standard", "namespace": SPACE}
    admin.apply(
        {"apiVersion": EXTENSIONS, "kind": "SandboxTemplate", "metadata": metadata, "spec": {"podTemplate": template}}
    )
    pool = {"replicas": 10, "sandboxTemplateRef": {"name": "standard"}}
    admin.apply({"apiVersion": EXTENSIONS, "kind": "SandboxWarmPool", "metadata": metadata, "spec": pool})
    assert until(lambda: ready_members(admin) == 10, PATIENCE)
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


def controller(world: World) -> psutil.Process:
    """The controller's process."""
    found = until(lambda: controllers(world), PATIENCE)
    assert found, "no controller runs"
    return found[0]


def controllers(world: World) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for process in processes.marked(world.environment[processes.MARK]):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.name().startswith("agent-sandbox"):
                found.append(process)
    return found


def test_claims_are_filled_from_the_pool_and_the_pool_fills_up_again(
    client: Client, record_property: Callable[[str, float], None]
) -> None:
    came: dict[str, float] = {}
    ended = threading.Event()

    def listen() -> None:
        for _, thing in client.watch(CLAIMS, ended):
            if condition(thing, "Ready").get("status") == "True":
                came.setdefault(thing["metadata"]["name"], time.monotonic())

    threading.Thread(target=listen, daemon=True).start()
    sent: dict[str, float] = {}
    for number in range(5):
        name = f"claim-{number}"
        sent[name] = time.monotonic()
        client.create(claim(name))
        assert until(lambda name=name: name in came, PATIENCE, every=0.002)
    ended.set()
    record_property("claim_to_ready_p50_ms", statistics.median(came[name] - sent[name] for name in sent) * 1000)
    taken = {client.get(f"{CLAIMS}/{name}")["status"]["sandbox"]["name"] for name in sent}
    assert len(taken) == 5
    assert all(name.startswith("standard-") for name in taken), "a claim was not filled from the pool"
    assert until(lambda: ready_members(client) == 10, PATIENCE)


def test_the_controller_reads_the_configmap_that_its_pod_mounts(client: Client) -> None:
    client.create(claim("labelled", **{f"{DOMAIN}/user": "u-1"}))
    assert becomes_ready(client, f"{CLAIMS}/labelled")
    sandbox = client.get(f"{CLAIMS}/labelled")["status"]["sandbox"]["name"]
    path = f"/api/v1/namespaces/{SPACE}/pods/{sandbox}"
    # The claim is ready as soon as it has the sandbox, whose pod is told a moment later.
    assert until(lambda: client.get(path)["metadata"]["labels"].get(f"{DOMAIN}/user") == "u-1", PATIENCE)


def test_the_controller_speaks_as_its_service_account_and_comes_back_when_killed(client: Client, world: World) -> None:
    listed = client.get(f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases")["items"]
    writers = [row["manager"] for lease in listed for row in lease["metadata"]["managedFields"]]
    assert any(name.startswith("agent-sandbox-controller") for name in writers)
    before, restarts = controller(world), restarted(client)
    before.kill()
    assert until(lambda: restarted(client) > restarts, PATIENCE)
    assert until(lambda: any(process.pid != before.pid for process in controllers(world)), PATIENCE)
    # The status of its Deployment may be that of the killed one still: its pod's is the process's own.
    assert until(lambda: all_ready(client), PATIENCE)
    assert until(lambda: client.get(DEPLOYMENT)["status"].get("readyReplicas") == 1, PATIENCE)


def all_ready(client: Client) -> bool:
    pods = client.get(f"/api/v1/namespaces/{SYSTEM}/pods")["items"]
    return bool(pods) and all(condition(pod, "Ready").get("status") == "True" for pod in pods)


def restarted(client: Client) -> int:
    """Return how often the pods' programs were started again."""
    pods = client.get(f"/api/v1/namespaces/{SYSTEM}/pods")["items"]
    return sum(row.get("restartCount", 0) for pod in pods for row in pod["status"].get("containerStatuses", ()))


def test_without_its_deployment_it_ends(client: Client, world: World) -> None:
    process = controller(world)
    client.request("PATCH", DEPLOYMENT, {"spec": {"replicas": 0}}, content="application/merge-patch+json")
    assert until(lambda: not runs(process), PATIENCE)
    assert until(lambda: client.get(f"/api/v1/namespaces/{SYSTEM}/pods")["items"] == [], PATIENCE)
    # Its status follows a moment later; until then it has the replica that is gone.
    assert until(lambda: not client.get(DEPLOYMENT)["status"].get("replicas"), PATIENCE)
    client.request("PATCH", DEPLOYMENT, {"spec": {"replicas": 1}}, content="application/merge-patch+json")
    assert until(lambda: client.get(DEPLOYMENT)["status"].get("readyReplicas") == 1, PATIENCE)


@pytest.mark.parametrize(
    ("word", "quota", "place", "reason"),
    [
        ("over-quota", {"pods": "1"}, {"tier": "standard"}, "exceeded quota"),
        ("nowhere", {}, {"tier": "moon"}, "didn't match Pod's node affinity/selector"),
    ],
)
def test_a_pool_that_does_not_fill_says_why(
    client: Client, word: str, quota: Object, place: Object, reason: str
) -> None:
    space = namespace(client, f"sandbox-{word}")
    about = {"name": word, "namespace": space}
    hard = {"hard": quota or {"pods": "9"}}
    client.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": about, "spec": hard})
    quotas = f"/api/v1/namespaces/{space}/resourcequotas/{word}"
    assert until(lambda: (client.get(quotas).get("status") or {}).get("used"), PATIENCE)
    spec = {"nodeSelector": place, "containers": [{"name": "main", "image": "registry.example/sandbox"}]}
    template = {"podTemplate": {"spec": spec}}
    client.apply({"apiVersion": EXTENSIONS, "kind": "SandboxTemplate", "metadata": about, "spec": template})
    pool_spec = {"replicas": 2, "sandboxTemplateRef": {"name": word}}
    pool = client.apply({"apiVersion": EXTENSIONS, "kind": "SandboxWarmPool", "metadata": about, "spec": pool_spec})
    # A controller that was killed keeps its lease for a while, and the next one and the scheduler take their time.
    assert until(lambda: reason in pool_probe._not_ready_reasons(client, pool), PATIENCE)
    with pytest.raises(pool_probe.ProbeFailed, match=reason):
        pool_probe.wait_until_full(client, pool, timeout=0.1)
    client.delete(client.path(pool))


def test_the_controller_exports_what_is_metered_with_the_labels_that_are_asked_for(
    world: World, client: Client
) -> None:
    client.create(claim("metered"))
    path = f"{CLAIMS}/metered"
    assert until(lambda: condition(client.get(path), "Ready").get("status") == "True", PATIENCE)
    flags = [word.partition("=") for word in controller(world).cmdline()]
    address = next(value for flag, _, value in flags if flag == "--metrics-bind-address")

    def labels_by_series() -> dict[str, set[str]]:
        with DIRECTLY.open(f"http://{address}/metrics", timeout=PATIENCE) as answer:
            families = text_string_to_metric_families(answer.read().decode())
            return {sample.name: set(sample.labels) for family in families for sample in family.samples}

    assert until(lambda: set(SANDBOXES.series()) <= set(labels_by_series()), PATIENCE), set(SANDBOXES.series()) - set(
        labels_by_series()
    )
    for metric, labels in SANDBOXES.metrics.items():
        series = f"{metric}_bucket" if metric in SANDBOXES.histograms else metric
        assert set(labels) <= labels_by_series()[series], series
