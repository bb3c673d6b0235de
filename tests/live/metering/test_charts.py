"""Tests of the charts rendered by helm: they agree with policies, permissions and rules."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from agentenv.components.cost.cluster_costs import dashboards
from agentenv.components.cost.metering_policies import network_policies
from agentenv.components.cost.metering_values import CONFIGURATION, grafana, opencost, prometheus
from agentenv.core.metering import locations
from agentenv.core.metering.sizes import sizes
from agentenv.core.nodes.mirrors import Mirrors
from agentenv.core.pinned_versions import releases
from agentenv.rehearsal.providers.kubernetes import charts
from agentenv.rehearsal.tools import ensure
from agentenv.rehearsal.tools.progress import Lines

Object = dict[str, Any]
NAMES = (locations.PROMETHEUS, locations.OPENCOST, locations.GRAFANA)
PORTS = {locations.PROMETHEUS: 9090, locations.OPENCOST: 9003, locations.GRAFANA: 3000}


@pytest.fixture(scope="module")
def rendered() -> dict[str, list[Object]]:
    """The objects of each chart."""
    ensure(["helm", *(f"{name}-chart" for name in NAMES)], Lines(sys.stderr))
    charts.known.cache_clear()
    amounts, mirrors = sizes(200), Mirrors()
    values = {
        locations.PROMETHEUS: prometheus(amounts, mirrors),
        locations.OPENCOST: opencost(amounts, mirrors, "one"),
        locations.GRAFANA: grafana(amounts, mirrors),
    }
    found: dict[str, list[Object]] = {}
    for name, chart_values in values.items():
        pinned = releases().charts[name]
        manifests = charts.render(
            charts.find(pinned.address, pinned.version),
            charts.Rendering(name, locations.NAMESPACE, chart_values, "1.35.4"),
        )
        assert (manifests.definitions, manifests.hooks) == ([], [])
        found[name] = manifests.objects
    return found


def _only(objects: list[Object], kind: str) -> Object:
    (found,) = [object_ for object_ in objects if object_["kind"] == kind]
    return found


def _pod(objects: list[Object]) -> Object:
    return _only(objects, "Deployment")["spec"]["template"]


@pytest.mark.parametrize("name", NAMES)
def test_charts_have_no_rbac_and_no_secrets(rendered: dict[str, list[Object]], name: str) -> None:
    kinds = {document["kind"] for document in rendered[name]}
    assert kinds <= {"ServiceAccount", "Service", "Deployment", "ConfigMap"}
    assert _only(rendered[name], "ServiceAccount")["metadata"]["name"] == name


@pytest.mark.parametrize("name", NAMES)
def test_network_policies_select_the_pods_of_the_charts(rendered: dict[str, list[Object]], name: str) -> None:
    selected = network_policies(service=True)[name]["podSelector"]["matchLabels"]
    assert selected.items() <= _pod(rendered[name])["metadata"]["labels"].items()
    # Prometheus's permissions are bound to its account's name, and Grafana has none.
    assert _pod(rendered[name])["spec"]["serviceAccountName"] == name


@pytest.mark.parametrize("name", NAMES)
def test_services_have_the_expected_names_and_ports(rendered: dict[str, list[Object]], name: str) -> None:
    service = _only(rendered[name], "Service")
    assert service["metadata"]["name"] == name
    (port,) = service["spec"]["ports"]
    (container,) = _pod(rendered[name])["spec"]["containers"]
    listening = {port["containerPort"]: port.get("name") for port in container["ports"]}
    assert PORTS[name] in listening
    assert port["targetPort"] in {PORTS[name], listening[PORTS[name]]}
    # Network policies name pods' ports, so a service has to map to them.
    if name != locations.GRAFANA:
        assert port["port"] == PORTS[name]


@pytest.mark.parametrize("name", NAMES)
def test_pods_satisfy_the_restricted_standard(rendered: dict[str, list[Object]], name: str) -> None:
    spec = _pod(rendered[name])["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not spec.get("hostNetwork")
    assert not spec.get("initContainers")
    (container,) = spec["containers"]
    security = container["securityContext"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert container["image"] == releases().images[name]
    assert container["resources"] == getattr(sizes(200), name).resources()
    assert not [volume for volume in spec.get("volumes", []) if {"hostPath", "persistentVolumeClaim"} & volume.keys()]


def test_prometheus_reads_its_configmap_and_has_no_admin_api(rendered: dict[str, list[Object]]) -> None:
    spec = _pod(rendered[locations.PROMETHEUS])["spec"]
    assert {"configMap": {"name": f"prometheus-{CONFIGURATION}"}, "name": "config-volume"} in spec["volumes"]
    (container,) = spec["containers"]
    flags = container["args"]
    assert "--enable-feature=auto-reload-config" in flags
    assert not [flag for flag in flags if flag.startswith(("--web.enable-lifecycle", "--web.enable-admin-api"))]
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    # Mounted as a folder, because the kubelet does not update single files
    assert not mounts["config-volume"].get("subPath")


def test_grafana_has_the_dashboards_and_no_admin(rendered: dict[str, list[Object]]) -> None:
    spec = _pod(rendered[locations.GRAFANA])["spec"]
    (container,) = spec["containers"]
    variables = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert variables["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true"
    assert "GF_SECURITY_ADMIN_PASSWORD" not in variables
    assert not [variable for variable in container["env"] if "secretKeyRef" in variable.get("valueFrom", {})]
    (volume,) = [
        volume for volume in spec["volumes"] if volume.get("configMap", {}).get("name") == locations.DASHBOARDS
    ]
    (mount,) = [mount for mount in container["volumeMounts"] if mount["name"] == volume["name"]]
    ini = _only(rendered[locations.GRAFANA], "ConfigMap")["data"]
    assert f"{mount['mountPath']}/platform.json" in ini["grafana.ini"]
    assert "platform.json" in dashboards()
    assert locations.PROMETHEUS_ADDRESS in ini["datasources.yaml"]
    assert not spec.get("automountServiceAccountToken")


def test_opencost_queries_the_prometheus(rendered: dict[str, list[Object]]) -> None:
    (container,) = _pod(rendered[locations.OPENCOST])["spec"]["containers"]
    variables = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert variables["PROMETHEUS_SERVER_ENDPOINT"].strip() == locations.PROMETHEUS_ADDRESS
    assert variables["CLUSTER_ID"] == "one"
