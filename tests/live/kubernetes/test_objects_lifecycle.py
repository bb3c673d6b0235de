"""The lifecycle of objects: create, no change, update, replace, drift, import, field conflicts and delete."""

from __future__ import annotations

import base64
import threading
from typing import Any

import pytest

from agentenv.rehearsal.providers.kubernetes.client import JSON_PATCH, ApiError
from agentenv.rehearsal.providers.kubernetes.cluster import Cluster
from agentenv.rehearsal.providers.kubernetes.diff import Change
from agentenv.rehearsal.providers.kubernetes.provider import Provider
from agentenv.rehearsal.providers.kubernetes.urns import resource
from agentenv.rehearsal.providers.kubernetes.values import UNKNOWN, PropertyMap
from agentenv.rehearsal.providers.kubernetes.words import InvalidRequest
from tests.live.kubernetes.provider_driver import ProviderDriver

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap"}


def config_map(**data: str) -> dict[str, Any]:
    return {**CONFIG, "data": data}


def quota(**hard: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": hard}}


def account(**labels: str) -> dict[str, Any]:
    """Return a resource of a kind whose fields can all be updated in place."""
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"labels": labels}}


def change_by_other_manager(
    cluster: Cluster, driver: ProviderDriver, deployed: Any, patch: list[dict[str, Any]], manager: str
) -> None:
    live = driver.live(deployed)
    path = cluster.kind(live).path(live["metadata"]["namespace"], live["metadata"]["name"])
    cluster.client.request("PATCH", path, {"fieldManager": manager}, patch, content=JSON_PATCH)


def test_created_object_has_name_and_namespace_and_settles(driver: ProviderDriver) -> None:
    deployed = driver.up("core/v1:ConfigMap", "settings", config_map(a="1"))
    live = driver.live(deployed)
    assert deployed.id == f"{driver.namespace}/{deployed.name}"
    assert deployed.name.startswith("settings-")
    assert live["data"] == {"a": "1"}
    compared, _ = driver.compare(deployed, config_map(a="1"))
    assert compared.changes == []


def test_update_removes_fields_that_are_no_longer_declared(driver: ProviderDriver) -> None:
    deployed = driver.up("core/v1:ServiceAccount", "robot", account(target="1", two="2"))
    deployed = driver.update(deployed, account(two="3"))
    assert driver.live(deployed)["metadata"]["labels"] == {"two": "3"}
    assert {e["operation"] for e in driver.live(deployed)["metadata"]["managedFields"]} == {"Apply"}
    deployed = driver.update(deployed, account(two="4"))
    assert driver.live(deployed)["metadata"]["labels"] == {"two": "4"}


def test_changed_data_replaces_a_config_map_unless_configured_otherwise(driver: ProviderDriver) -> None:
    deployed = driver.up("core/v1:ConfigMap", "settings", config_map(a="1"))
    compared, _ = driver.compare(deployed, config_map(a="2"))
    assert compared.replaces == [Change(("data", "a"), "update")]
    assert not compared.delete_before_replace  # an auto-generated name: old and new can exist side by side

    named = {**config_map(a="1"), "metadata": {"name": "mine"}}
    deployed = driver.up("core/v1:ConfigMap", "named", named)
    compared, _ = driver.compare(deployed, {**named, "data": {"a": "2"}})
    assert compared.delete_before_replace


def test_normalized_quantity_is_neither_change_nor_drift(driver: ProviderDriver) -> None:
    desired = quota(**{"requests.cpu": "2000m", "requests.memory": "2048Mi"})
    deployed = driver.up("core/v1:ResourceQuota", "limit", desired)
    assert driver.live(deployed)["spec"]["hard"] == {"requests.cpu": "2", "requests.memory": "2Gi"}
    fresh = driver.refresh(deployed)
    assert fresh is not None
    assert fresh.inputs == deployed.inputs
    compared, _ = driver.compare(fresh, desired)
    assert compared.changes == []


def test_refresh_notices_changes_by_others(driver: ProviderDriver, cluster: Cluster) -> None:
    deployed = driver.up("core/v1:ConfigMap", "settings", config_map(a="1", b="2"))
    patch = [{"op": "replace", "path": "/data/a", "value": "hand"}, {"op": "add", "path": "/data/theirs", "value": "x"}]
    change_by_other_manager(cluster, driver, deployed, patch, "kubectl-edit")
    fresh = driver.refresh(deployed)
    assert fresh is not None
    assert fresh.inputs.values["data"] == {"a": "hand", "b": "2"}
    compared, _ = driver.compare(fresh, config_map(a="1", b="2"))
    assert compared.changes == [Change(("data", "a"), "update")]


def test_refresh_notices_a_deleted_object(driver: ProviderDriver, cluster: Cluster) -> None:
    deployed = driver.up("core/v1:ConfigMap", "settings", config_map(a="1"))
    cluster.delete(cluster.discovery.find("v1", "ConfigMap"), driver.namespace, deployed.name, "Background")
    assert driver.refresh(deployed) is None
    driver.down(deployed)  # an object that is already gone is no error


def test_existing_object_is_refused_with_the_servers_message(driver: ProviderDriver) -> None:
    named = {**config_map(a="1"), "metadata": {"name": "taken"}}
    driver.up("core/v1:ConfigMap", "first", named)
    with pytest.raises(InvalidRequest, match=r'configmaps "taken" already exists.*pulumi import'):
        driver.up("core/v1:ConfigMap", "second", {**named, "data": {"a": "2"}})
    assert driver.cluster.get(driver.cluster.discovery.find("v1", "ConfigMap"), driver.namespace, "taken")["data"] == {
        "a": "1"
    }


def test_upsert_adopts_an_existing_object(driver: ProviderDriver) -> None:
    named = {**config_map(a="1"), "metadata": {"name": "taken"}}
    driver.up("core/v1:ConfigMap", "first", named)
    settings = driver.provider.settings
    other = ProviderDriver.configured(
        {"kubeconfig": str(settings.kubeconfig), "namespace": driver.namespace, "upsertExistingObjects": True}
    )
    forced = {**named, "data": {"b": "2"}}
    deployed = other.up("core/v1:ConfigMap", "second", forced)
    assert other.live(deployed)["data"] == {"a": "1", "b": "2"}


def test_conflict_names_manager_and_field_and_force_overrides(driver: ProviderDriver, cluster: Cluster) -> None:
    deployed = driver.up("core/v1:ServiceAccount", "robot", account(team="one"))
    deployed = driver.update(deployed, account(team="two"))
    patch = [{"op": "replace", "path": "/metadata/labels/team", "value": "three"}]
    change_by_other_manager(cluster, driver, deployed, patch, "somebody-else")
    _, checked = driver.compare(deployed, account(team="four"))
    with pytest.raises(InvalidRequest, match=r"\.metadata\.labels\.team is owned by 'somebody-else'.*patchForce"):
        driver.provider.preview_update(deployed.state, checked)
    with pytest.raises(InvalidRequest, match=r'conflict with "somebody-else".*patchForce'):
        driver.provider.update(deployed.resource, deployed.state, checked)

    forced = account(team="four")
    forced["metadata"]["annotations"] = {"pulumi.com/patchForce": "true"}
    deployed = driver.update(deployed, forced)
    assert driver.live(deployed)["metadata"]["labels"] == {"team": "four"}


def test_ignored_field_of_another_manager_is_not_changed(driver: ProviderDriver, cluster: Cluster) -> None:
    deployed = driver.up("core/v1:ServiceAccount", "robot", account(team="one", word="a"))
    patch = [{"op": "replace", "path": "/metadata/labels/team", "value": "theirs"}]
    change_by_other_manager(cluster, driver, deployed, patch, "somebody-else")
    _, checked = driver.compare(deployed, account(team="one", word="b"))  # the engine restores the old value
    ignored = ("metadata.labels.team",)
    driver.provider.preview_update(deployed.state, checked, ignored)
    driver.provider.update(deployed.resource, deployed.state, checked, ignored=ignored)
    assert driver.live(deployed)["metadata"]["labels"] == {"team": "theirs", "word": "b"}


def test_imported_inputs_have_no_diff(driver: ProviderDriver, cluster: Cluster) -> None:
    spec = {"type": "ClusterIP", "selector": {"app": "x"}, "ports": [{"port": 80}]}
    created = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": driver.namespace},
        "spec": spec,
    }
    cluster.create(created, "somebody")
    target = resource("urn:pulumi:test::test::kubernetes:core/v1:Service::web")
    result = driver.provider.read(target, f"{driver.namespace}/web", PropertyMap(), PropertyMap())
    assert result is not None
    id_, state, inputs = result
    assert id_ == f"{driver.namespace}/web"
    assert "status" not in inputs.values
    assert "uid" not in inputs.values["metadata"]
    checked = driver.check(target, inputs, inputs)
    assert driver.provider.diff(target, state, inputs, checked).changes == []


def test_deletion_waits_for_finalizers_and_names_them(driver: ProviderDriver, cluster: Cluster) -> None:
    held = {**config_map(a="1"), "metadata": {"finalizers": ["example.com/hold"]}}
    deployed = driver.up("core/v1:ConfigMap", "held", held)
    with pytest.raises(InvalidRequest, match=r"finalizers hold it: example.com/hold"):
        driver.down(deployed, timeout=1)
    release = [{"op": "remove", "path": "/metadata/finalizers"}]
    later = threading.Timer(0.5, change_by_other_manager, (cluster, driver, deployed, release, "test"))
    later.start()
    driver.down(deployed)
    later.join()
    with pytest.raises(ApiError, match="not found"):
        driver.live(deployed)


def test_patch_sets_and_removes_only_its_fields(driver: ProviderDriver, cluster: Cluster) -> None:
    theirs = {**CONFIG, "metadata": {"name": "theirs", "namespace": driver.namespace}, "data": {"a": "1"}}
    cluster.apply(theirs, "owner")
    deployed = driver.up(
        "core/v1:ConfigMapPatch", "extra", {**CONFIG, "metadata": {"name": "theirs"}, "data": {"b": "2"}}
    )
    assert driver.live(deployed)["data"] == {"a": "1", "b": "2"}
    deployed = driver.update(deployed, {**CONFIG, "metadata": {"name": "theirs"}, "data": {"c": "3"}})
    assert driver.live(deployed)["data"] == {"a": "1", "c": "3"}
    driver.down(deployed)
    assert driver.live(deployed)["data"] == {"a": "1"}


def test_secrets_stay_secret_in_state_inputs_and_errors(driver: ProviderDriver) -> None:
    desired = {"apiVersion": "v1", "kind": "Secret", "stringData": {"password": "hunter2"}}
    deployed = driver.up("core/v1:Secret", "login", desired)
    assert ("data",) in deployed.state.secrets
    assert ("__inputs", "stringData") in deployed.state.secrets
    assert ("stringData",) in deployed.inputs.secrets
    assert "hunter2" not in repr(deployed)
    fresh = driver.refresh(deployed)
    assert fresh is not None
    assert ("data",) in fresh.state.secrets
    assert driver.compare(fresh, desired)[0].changes == []


def test_changed_secret_is_drift_and_stays_secret(driver: ProviderDriver, cluster: Cluster) -> None:
    desired = {"apiVersion": "v1", "kind": "Secret", "stringData": {"password": "hunter2", "other": "x"}}
    deployed = driver.up("core/v1:Secret", "login", desired)
    by_hand = base64.b64encode(b"by hand").decode()
    patch = [{"op": "replace", "path": "/data/password", "value": by_hand}]
    change_by_other_manager(cluster, driver, deployed, patch, "somebody")
    fresh = driver.refresh(deployed)
    assert fresh is not None
    assert fresh.inputs.values["stringData"] == {"password": "by hand", "other": "x"}
    assert ("stringData",) in fresh.inputs.secrets
    assert driver.compare(fresh, desired)[0].changes == [Change(("stringData", "password"), "update")]


def test_preview_validates_at_the_server_and_keeps_its_defaults_unknown(driver: ProviderDriver) -> None:
    target = resource("urn:pulumi:test::test::kubernetes:core/v1:Service::web")
    spec = {"selector": {"app": "x"}, "ports": [{"port": 80}]}
    checked = driver.check(target, PropertyMap({"apiVersion": "v1", "kind": "Service", "spec": spec}))
    seen = driver.provider.preview_create(target, checked).values
    assert seen["spec"]["type"] == "ClusterIP"
    assert seen["spec"]["clusterIP"] is UNKNOWN
    assert seen["metadata"]["uid"] is UNKNOWN
    assert "status" not in seen

    wrong = PropertyMap({"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 800000}]}})
    with pytest.raises(InvalidRequest, match="must be between 1 and 65535"):
        driver.provider.preview_create(target, driver.check(target, wrong))
    half = PropertyMap({"apiVersion": "v1", "kind": "Service", "spec": {"selector": UNKNOWN, "ports": [{"port": 80}]}})
    checked = driver.check(target, half)
    assert driver.provider.preview_create(target, checked) == checked
    nowhere = {**config_map(), "metadata": {"namespace": "not-yet-there"}}
    target = resource("urn:pulumi:test::test::kubernetes:core/v1:ConfigMap::early")
    checked = driver.check(target, PropertyMap(nowhere))
    assert driver.provider.preview_create(target, checked) == checked


def test_many_threads_create_objects_with_ten_thousand_fields(driver: ProviderDriver) -> None:
    names = [f"many-{index}" for index in range(40)]
    created: dict[str, str] = {}

    def target(name: str) -> None:
        created[name] = driver.up("core/v1:ConfigMap", name, config_map(**{f"k{i}": "v" for i in range(250)})).id

    threads = [threading.Thread(target=target, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(created) == sorted(names)


def test_preview_succeeds_when_the_cluster_is_unreachable(driver: ProviderDriver) -> None:
    away = ProviderDriver.configured({"kubeconfig": NOBODY})
    target = resource("urn:pulumi:test::test::kubernetes:core/v1:ConfigMap::settings")
    checked = away.check(target, PropertyMap(config_map(a="1")))
    assert checked.values["metadata"]["namespace"] == "default"
    assert away.provider.preview_create(target, checked) == checked
    assert any("unreachable" in text for text in away.messages.warnings)

    deployed = driver.up("core/v1:ConfigMap", "settings", config_map(a="1"))
    with pytest.raises(InvalidRequest, match="PULUMI_K8S_DELETE_UNREACHABLE"):
        away.refresh(deployed)
    with pytest.raises(InvalidRequest, match="PULUMI_K8S_DELETE_UNREACHABLE"):
        away.down(deployed)
    forgetful = ProviderDriver.configured({"kubeconfig": NOBODY, "deleteUnreachable": True})
    assert forgetful.refresh(deployed) is None
    forgetful.down(deployed)
    patient = ProviderDriver.configured({"kubeconfig": NOBODY, "skipUpdateUnreachable": True})
    assert patient.refresh(deployed) == deployed
    assert isinstance(patient.provider, Provider)


NOBODY = """
apiVersion: v1
kind: Config
current-context: nobody
contexts: [{name: nobody, context: {cluster: nobody, user: nobody}}]
clusters: [{name: nobody, cluster: {server: "https://127.0.0.1:9"}}]
users: [{name: nobody, user: {token: none}}]
"""
