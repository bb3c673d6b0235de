"""Releases: charts rendered by helm, their objects in the cluster, invalid values, and unavailable charts."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from agentenv.rehearsal.providers.common import unsimulated
from agentenv.rehearsal.providers.kubernetes import charts, components, functions, objects
from agentenv.rehearsal.providers.kubernetes.checking import Naming
from agentenv.rehearsal.providers.kubernetes.client import ApiError
from agentenv.rehearsal.providers.kubernetes.cluster import Cluster
from agentenv.rehearsal.providers.kubernetes.releases import TOKEN, Releases
from agentenv.rehearsal.providers.kubernetes.urns import Resource, resource
from agentenv.rehearsal.providers.kubernetes.values import UNKNOWN, PropertyMap
from agentenv.rehearsal.providers.kubernetes.words import InitFailed, InvalidRequest
from agentenv.rehearsal.tools import catalog, ensure, terminal_progress
from tests.live.controlplane.objects import TIMEOUT
from tests.live.kubernetes.provider_driver import Deployed, ProviderDriver

FILES = {
    "Chart.yaml": "{apiVersion: v2, name: small, version: 1.2.3, appVersion: '9'}",
    "values.yaml": "{word: default, extra: false, replicas: 0}",
    "values.schema.json": json.dumps({"properties": {"replicas": {"type": "integer"}}}),
    "templates/objects.yaml": """
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: "{{ .Release.Name }}-settings"}
        data: {word: "{{ .Values.word }}", place: "{{ .Release.Namespace }}"}
        ---
        {{ if .Values.extra }}
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: "{{ .Release.Name }}-extra"}
        ---
        {{ end }}
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: "{{ .Release.Name }}"}
        spec:
          replicas: {{ .Values.replicas }}
          selector: {matchLabels: {app: x}}
          template:
            metadata: {labels: {app: x}}
            spec: {nodeSelector: {no: such-node}, containers: [{name: c, image: "example.com/none:1"}]}
        ---
        apiVersion: batch/v1
        kind: Job
        metadata: {name: hooked, annotations: {helm.sh/hook: pre-install}}
        spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: x}]}}}
        """,
}


@pytest.fixture(scope="session", autouse=True)
def helm() -> Path:
    return ensure(["helm"], terminal_progress()).path("helm")


@pytest.fixture
def chart(tmp_path: Path) -> str:
    for name, text in FILES.items():
        path = tmp_path / "small" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    return str(tmp_path / "small")


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which the rehearsal collects what it does not simulate."""
    path = tmp_path / "not-simulated.jsonl"
    monkeypatch.setenv(unsimulated.FILE_VARIABLE, str(path))
    return path


def release(name: str) -> Resource:
    return resource(f"urn:pulumi:test::test::{TOKEN}::{name}")


def checked(driver: ProviderDriver, inputs: dict[str, Any], old: Deployed | None = None) -> PropertyMap:
    deployed, problems = Releases(driver.provider).check(
        release("app"), PropertyMap(inputs), old.inputs if old else PropertyMap(), Naming(seed=b"seed")
    )
    assert problems == []
    return deployed


def install(driver: ProviderDriver, inputs: dict[str, Any], timeout: float = TIMEOUT) -> Deployed:
    bag = checked(driver, inputs)
    id_, state = Releases(driver.provider).create(release("app"), bag, timeout)
    return Deployed(release("app"), id_, bag, state)


def maps(driver: ProviderDriver) -> dict[str, objects.Object]:
    kind = driver.cluster.discovery.find("v1", "ConfigMap")
    return {m["metadata"]["name"]: m for m in driver.cluster.list(kind, driver.namespace)}


def test_release_is_installed_upgraded_and_uninstalled(driver: ProviderDriver, chart: str) -> None:
    deployed = install(driver, {"chart": chart, "values": {"word": "given", "extra": True}})
    name = deployed.name
    assert name.startswith("app-")
    assert deployed.inputs.values["version"] == "1.2.3"
    assert deployed.state.values["status"]["status"] == "deployed"
    assert deployed.state.values["resourceNames"] == {
        "ConfigMap/v1": [f"{driver.namespace}/{name}-extra", f"{driver.namespace}/{name}-settings"],
        "Deployment.apps/apps/v1": [f"{driver.namespace}/{name}"],
    }
    settings = maps(driver)[f"{name}-settings"]
    assert settings["data"] == {"word": "given", "place": driver.namespace}
    assert settings["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "Helm"}
    assert any("Job hooked" in text for text in driver.messages.warnings)

    again = checked(driver, {"chart": chart, "values": {"word": "given", "extra": True}}, deployed)
    assert Releases(driver.provider).diff(deployed.resource, deployed.state, deployed.inputs, again).changes == []

    changed = checked(driver, {"chart": chart, "values": {"word": "other"}}, deployed)
    compared = Releases(driver.provider).diff(deployed.resource, deployed.state, deployed.inputs, changed)
    assert compared.changes
    assert not compared.replaces
    id_, state = Releases(driver.provider).update(deployed.resource, deployed.state, changed)
    assert (id_, state.values["status"]["revision"]) == (deployed.id, 2)
    assert maps(driver)[f"{name}-settings"]["data"]["word"] == "other"
    assert f"{name}-extra" not in maps(driver)

    Releases(driver.provider).delete(deployed.resource, deployed.id, state)
    assert not [n for n in maps(driver) if n.startswith(name)]


def test_refresh_notices_objects_deleted_by_hand(driver: ProviderDriver, cluster: Cluster, chart: str) -> None:
    deployed = install(driver, {"chart": chart})
    kind = cluster.discovery.find("v1", "ConfigMap")
    cluster.delete(kind, driver.namespace, f"{deployed.name}-settings", "Background")
    result = Releases(driver.provider).read(deployed.resource, deployed.id, deployed.state, deployed.inputs)
    assert result is not None
    _, state, inputs = result
    again = checked(driver, {"chart": chart}, deployed)
    assert Releases(driver.provider).diff(deployed.resource, state, inputs, again).changes
    _, state = Releases(driver.provider).update(deployed.resource, state, again)
    assert f"{deployed.name}-settings" in maps(driver)
    Releases(driver.provider).delete(deployed.resource, deployed.id, state)
    assert Releases(driver.provider).read(deployed.resource, deployed.id, state, inputs) is None


def test_values_that_violate_the_schema_are_refused_at_preview(driver: ProviderDriver, chart: str) -> None:
    _, problems = Releases(driver.provider).check(
        release("app"), PropertyMap({"chart": chart, "values": {"replicas": "many"}}), PropertyMap(), Naming()
    )
    assert [name for name, _ in problems] == ["values"]
    assert "replicas" in problems[0][1]
    deployed, problems = Releases(driver.provider).check(
        release("app"), PropertyMap({"chart": chart, "values": {"replicas": UNKNOWN}}), PropertyMap(), Naming()
    )
    assert problems == []
    assert deployed.values["resourceNames"] is UNKNOWN


def test_release_that_is_not_ready_is_recorded_or_rolled_back(driver: ProviderDriver, chart: str) -> None:
    with pytest.raises(InitFailed, match=r"was applied, but Deployment .* was not ready") as caught:
        install(driver, {"chart": chart, "values": {"replicas": 1}}, timeout=1)
    assert caught.value.state.values["status"]["status"] == "failed"
    assert len(caught.value.state.values["__objects"]) == 2
    Releases(driver.provider).delete(release("app"), caught.value.id, caught.value.state)
    with pytest.raises(InvalidRequest, match="taken back, as atomic asks"):
        install(driver, {"chart": chart, "atomic": True, "values": {"replicas": 1}}, timeout=1)
    assert not [n for n in maps(driver) if n.startswith("app-")]


def test_objects_of_other_managers_are_not_changed(driver: ProviderDriver, cluster: Cluster, chart: str) -> None:
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine-settings"}, "data": {"a": "1"}}
    cluster.create(objects.with_metadata(theirs, namespace=driver.namespace), "somebody")
    with pytest.raises(InvalidRequest, match="already exists and belongs to no release"):
        install(driver, {"chart": chart, "name": "mine"})
    assert maps(driver)["mine-settings"]["data"] == {"a": "1"}
    deployed = install(driver, {"chart": chart, "name": "mine", "takeOwnership": True})
    Releases(driver.provider).delete(deployed.resource, deployed.id, deployed.state)


def test_unavailable_chart_is_reported_or_refused(driver: ProviderDriver, records: Path) -> None:
    desired = {
        "chart": "oci://registry.example.com/charts/nowhere",
        "version": "1.0.0",
        "values": {"password": "hunter2", "open": True},
        "repositoryOpts": {"repo": "https://charts.example.com"},
    }
    bag = PropertyMap(desired, frozenset({("values", "password")}))
    deployed, problems = Releases(driver.provider).check(release("app"), bag, PropertyMap(), Naming(seed=b"x"))
    assert problems == []
    id_, state = Releases(driver.provider).create(release("app"), deployed)
    assert state.values["status"]["status"] == "not simulated"
    (line,) = unsimulated.read_records(records)
    assert line["what"] == "helm chart oci://registry.example.com/charts/nowhere"
    assert line["values"] == {"password": "[secret]", "open": True}
    assert "none of those that the rehearsal brings" in line["why"]
    Releases(driver.provider).create(release("app"), deployed)
    assert len(unsimulated.read_records(records)) == 1
    again, _ = Releases(driver.provider).check(release("app"), bag, deployed, Naming())
    assert Releases(driver.provider).diff(release("app"), state, deployed, again).changes == []
    assert Releases(driver.provider).read(release("app"), id_, state, deployed) == (id_, state, deployed)
    Releases(driver.provider).delete(release("app"), id_, state)


def test_unavailable_chart_is_an_error_outside_a_rehearsal(
    driver: ProviderDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(unsimulated.FILE_VARIABLE, raising=False)
    _, problems = Releases(driver.provider).check(
        release("app"), PropertyMap({"chart": "nowhere"}), PropertyMap(), Naming()
    )
    assert [name for name, _ in problems] == ["chart"]
    with pytest.raises(InvalidRequest, match="nowhere"):
        functions.invoke(driver.provider, "kubernetes:helm:template", {"jsonOpts": '{"chart": "nowhere"}'})


def test_charts_of_the_rehearsal_are_found_by_name_and_version(
    driver: ProviderDriver, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(unsimulated.FILE_VARIABLE, raising=False)
    row = catalog.recipe("karpenter-crd-chart")
    ensure([row.name], terminal_progress())
    charts.known.cache_clear()
    version = row.version.removeprefix("v")
    address = "oci://public.ecr.aws/karpenter/karpenter-crd"
    deployed = install(driver, {"chart": address, "version": version}, timeout=60)
    created = deployed.state.values["resourceNames"][
        "CustomResourceDefinition.apiextensions.k8s.io/apiextensions.k8s.io/v1"
    ]
    assert "nodepools.karpenter.sh" in created
    # A kind is served a moment after its definition is established.
    pool = cluster.retry(lambda: cluster.discovery.find("karpenter.sh/v1", "NodePool"), lambda _: None)
    assert cluster.retry(lambda: cluster.list(pool), lambda _: None) == []
    Releases(driver.provider).delete(deployed.resource, deployed.id, deployed.state)
    with pytest.raises(ApiError, match="not found"):
        cluster.get(cluster.discovery.find("apiextensions.k8s.io/v1", "CustomResourceDefinition"), "", created[0])
    _, problems = Releases(driver.provider).check(
        release("app"), PropertyMap({"chart": address, "version": "0.0.1"}), PropertyMap(), Naming()
    )
    assert f"is there in version {version}, not in 0.0.1" in problems[0][1]


def test_chart_from_a_source_tree_has_its_published_version() -> None:
    row = catalog.recipe("karpenter-chart")
    ensure([row.name], terminal_progress())
    charts.known.cache_clear()
    version = row.version.removeprefix("v")
    result = charts.find("oci://public.ecr.aws/karpenter/karpenter", version)
    created = charts.render(result, charts.Rendering("karpenter", "karpenter", {"settings": {"clusterName": "one"}}))
    (deployment,) = [obj for obj in created.objects if obj["kind"] == "Deployment"]
    assert deployment["metadata"]["labels"]["helm.sh/chart"] == f"karpenter-{version}"
    assert deployment["metadata"]["labels"]["app.kubernetes.io/version"] == version


def test_chart_without_a_release_yields_its_objects(driver: ProviderDriver, chart: str) -> None:
    desired = {"chart": chart, "namespace": driver.namespace, "values": {"extra": True}}
    result = components.from_chart(driver.provider, "plain", desired)
    assert sorted(objects.identity(o) for o in result) == [
        f"{driver.namespace}/plain",
        f"{driver.namespace}/plain-extra",
        f"{driver.namespace}/plain-settings",
    ]
    options = {"path": chart, "release_name": "old", "namespace": "there", "values": {"word": "w"}}
    records = functions.invoke(driver.provider, "kubernetes:helm:template", {"jsonOpts": json.dumps(options)})
    assert {objects.namespace(o) for o in records["result"]} == {"there"}
    decoded = functions.invoke(
        driver.provider, "kubernetes:yaml:decode", {"text": "{apiVersion: v1, kind: Pod, metadata: {name: x}}"}
    )
    assert decoded["result"][0]["metadata"] == {"name": "x", "namespace": driver.namespace}


def test_values_override_values_files(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text("{a: {x: 1, w: 2}, b: [1]}", encoding="utf-8")
    files = [{"path": str(tmp_path / "values.yaml")}, {"text": "{a: {w: 3, y: 4}}"}]
    values = charts.values_of({"valueYamlFiles": files, "values": {"a": {"z": None}, "b": [2]}})
    # Helm reads values as kubectl reads manifests: a bare `y` is a boolean, and as a key the text "true".
    assert values == {"a": {"x": 1, "w": 3, "true": 4, "z": None}, "b": [2]}
