"""Warm pools that cannot fill: their controller starts later, or their template fits no node."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from agentenv.rehearsal.controlplane.client import Client, until
from agentenv.rehearsal.tools.toolbox import Toolbox
from tests.live.conftest import LiveCluster
from tests.live.controlplane.installed import DEPLOYMENT, EXTENSIONS, SYSTEM, installed
from tests.live.controlplane.objects import TIMEOUT
from tests.live.kubernetes.engine import Engine
from tests.live.kubernetes.provider_driver import ProviderDriver

PROGRAM = """
import os
import pulumi

made = pulumi.ProviderResource("kubernetes", "cluster", {"kubeconfig": os.environ["PLANE"], "namespace": "PLACE"})
version = "extensions.agents.x-k8s.io/v1beta1"
options = dict(provider=made, custom_timeouts=pulumi.CustomTimeouts(create=os.environ["WAIT"], update="60s"))


def resource(kind, annotations, spec, **more):
    about = {"name": "few", "annotations": annotations}
    inputs = {"apiVersion": version, "kind": kind, "metadata": about, "spec": spec}
    chosen = pulumi.ResourceOptions(**options, **more)
    return pulumi.CustomResource(f"kubernetes:{version}:{kind}", kind, inputs, chosen)


pod = {"nodeSelector": {"tier": os.environ["TIER"]}, "containers": [{"name": "main", "image": "registry.example/one"}]}
template = resource("SandboxTemplate", {}, {"podTemplate": {"spec": pod}})
resource(
    "SandboxWarmPool", {"pulumi.com/waitFor": "jsonpath={.status.readyReplicas}=2"},
    {"replicas": 2, "sandboxTemplateRef": {"name": "few"}}, depends_on=[template],
)
"""


@pytest.fixture(scope="module")
def admin(live: LiveCluster, toolbox: Toolbox) -> Client:
    """Install the controller's definitions and its Deployment; return the administrator's client."""
    client = live.plane.client
    installed(client, toolbox)
    return client


@pytest.fixture
def restored_controller(admin: Client) -> Iterator[None]:
    """Start the controller again after each test."""
    yield
    scale(admin, 1)


def scale(client: Client, replicas: int) -> None:
    client.request("PATCH", DEPLOYMENT, {"spec": {"replicas": replicas}}, content="application/merge-patch+json")
    assert until(lambda: (client.get(DEPLOYMENT)["status"].get("readyReplicas") or 0) == replicas, TIMEOUT)
    assert until(lambda: len(client.get(f"/api/v1/namespaces/{SYSTEM}/pods")["items"]) == replicas, TIMEOUT)


def pool(client: Client, space: str) -> dict[str, object]:
    return client.get(f"/apis/{EXTENSIONS}/namespaces/{space}/sandboxwarmpools/few").get("status") or {}


def test_pool_created_before_its_controller_fills_later(
    admin: Client, restored_controller: None, engine: Engine, driver: ProviderDriver
) -> None:
    engine.set_program(PROGRAM.replace("PLACE", driver.namespace))
    scale(admin, 0)
    output = engine.fails("up", "--yes", "--skip-preview", WAIT="3s", TIER="standard")
    assert "few was created, but" in output
    assert "Traceback" not in output
    deployed = [row["type"] for row in json.loads(engine.run("stack", "export"))["deployment"]["resources"]]
    assert f"kubernetes:{EXTENSIONS}:SandboxWarmPool" in deployed
    scale(admin, 1)
    around = {"WAIT": "60s", "TIER": "standard"}
    engine.run("up", "--yes", "--skip-preview", **around)
    assert pool(admin, driver.namespace).get("readyReplicas") == 2
    assert engine.changes("up", **around) == {}
    assert engine.changes("destroy", **around) == {"delete": 4}
    assert admin.get(f"/apis/{EXTENSIONS}/namespaces/{driver.namespace}/sandboxwarmpools")["items"] == []


def test_pool_that_fits_no_node_reports_it_and_can_be_deleted(
    admin: Client, engine: Engine, driver: ProviderDriver
) -> None:
    engine.set_program(PROGRAM.replace("PLACE", driver.namespace))
    around = {"WAIT": "5s", "TIER": "nowhere"}
    output = engine.fails("up", "--yes", "--skip-preview", **around)
    assert "few was created, but" in output
    assert until(lambda: scheduling_failures(admin, driver.namespace) == ["Pending: Unschedulable"] * 2, TIMEOUT)
    assert engine.changes("destroy", **around) == {"delete": 4}
    assert until(lambda: admin.get(f"/api/v1/namespaces/{driver.namespace}/pods")["items"] == [], TIMEOUT)


def scheduling_failures(admin: Client, space: str) -> list[str]:
    """Return the messages about pods that the scheduler could not place."""
    pods = admin.get(f"/api/v1/namespaces/{space}/pods")["items"]
    return [
        f"{pod['status']['phase']}: {row.get('reason')}"
        for pod in pods
        for row in pod["status"].get("conditions") or ()
        if row["type"] == "PodScheduled"
    ]
