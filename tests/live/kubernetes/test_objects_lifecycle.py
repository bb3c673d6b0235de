"""Objects over their life: made, left alone, changed, replaced, drifted, imported, fought over, and deleted."""

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
from tests.live.kubernetes.driving import Driver

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap"}


def config_map(**data: str) -> dict[str, Any]:
    return {**CONFIG, "data": data}


def quota(**hard: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": hard}}


def account(**labels: str) -> dict[str, Any]:
    """A kind whose every field can change in place."""
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"labels": labels}}


def change_behind(cluster: Cluster, driver: Driver, kept: Any, patch: list[dict[str, Any]], manager: str) -> None:
    live = driver.live(kept)
    path = cluster.kind(live).path(live["metadata"]["namespace"], live["metadata"]["name"])
    cluster.client.request("PATCH", path, {"fieldManager": manager}, patch, content=JSON_PATCH)


def test_a_created_object_is_named_placed_and_settles(driver: Driver) -> None:
    kept = driver.up("core/v1:ConfigMap", "settings", config_map(a="1"))
    live = driver.live(kept)
    assert kept.id == f"{driver.namespace}/{kept.name}"
    assert kept.name.startswith("settings-")
    assert live["data"] == {"a": "1"}
    compared, _ = driver.compare(kept, config_map(a="1"))
    assert compared.changes == []


def test_an_update_in_place_takes_away_what_is_no_longer_asked_for(driver: Driver) -> None:
    kept = driver.up("core/v1:ServiceAccount", "robot", account(one="1", two="2"))
    kept = driver.update(kept, account(two="3"))
    assert driver.live(kept)["metadata"]["labels"] == {"two": "3"}
    assert {e["operation"] for e in driver.live(kept)["metadata"]["managedFields"]} == {"Apply"}
    kept = driver.update(kept, account(two="4"))
    assert driver.live(kept)["metadata"]["labels"] == {"two": "4"}


def test_data_of_a_config_map_replaces_it_unless_the_provider_says_otherwise(driver: Driver) -> None:
    kept = driver.up("core/v1:ConfigMap", "settings", config_map(a="1"))
    compared, _ = driver.compare(kept, config_map(a="2"))
    assert compared.replaces == [Change(("data", "a"), "update")]
    assert not compared.delete_before_replace  # a name of our making: old and new can stand side by side

    named = {**config_map(a="1"), "metadata": {"name": "mine"}}
    kept = driver.up("core/v1:ConfigMap", "named", named)
    compared, _ = driver.compare(kept, {**named, "data": {"a": "2"}})
    assert compared.delete_before_replace


def test_the_servers_own_spelling_of_a_quantity_is_no_change_and_no_drift(driver: Driver) -> None:
    asked = quota(**{"requests.cpu": "2000m", "requests.memory": "2048Mi"})
    kept = driver.up("core/v1:ResourceQuota", "limit", asked)
    assert driver.live(kept)["spec"]["hard"] == {"requests.cpu": "2", "requests.memory": "2Gi"}
    fresh = driver.refresh(kept)
    assert fresh is not None
    assert fresh.inputs == kept.inputs
    compared, _ = driver.compare(fresh, asked)
    assert compared.changes == []


def test_a_refresh_sees_what_was_changed_behind_its_back(driver: Driver, cluster: Cluster) -> None:
    kept = driver.up("core/v1:ConfigMap", "settings", config_map(a="1", b="2"))
    patch = [{"op": "replace", "path": "/data/a", "value": "hand"}, {"op": "add", "path": "/data/theirs", "value": "x"}]
    change_behind(cluster, driver, kept, patch, "kubectl-edit")
    fresh = driver.refresh(kept)
    assert fresh is not None
    assert fresh.inputs.values["data"] == {"a": "hand", "b": "2"}
    compared, _ = driver.compare(fresh, config_map(a="1", b="2"))
    assert compared.changes == [Change(("data", "a"), "update")]


def test_a_refresh_sees_that_an_object_is_gone(driver: Driver, cluster: Cluster) -> None:
    kept = driver.up("core/v1:ConfigMap", "settings", config_map(a="1"))
    cluster.delete(cluster.discovery.find("v1", "ConfigMap"), driver.namespace, kept.name, "Background")
    assert driver.refresh(kept) is None
    driver.down(kept)  # what is already gone is fine


def test_what_exists_already_is_refused_in_the_servers_words(driver: Driver) -> None:
    named = {**config_map(a="1"), "metadata": {"name": "taken"}}
    driver.up("core/v1:ConfigMap", "first", named)
    with pytest.raises(InvalidRequest, match=r'configmaps "taken" already exists.*pulumi import'):
        driver.up("core/v1:ConfigMap", "second", {**named, "data": {"a": "2"}})
    assert driver.cluster.get(driver.cluster.discovery.find("v1", "ConfigMap"), driver.namespace, "taken")["data"] == {
        "a": "1"
    }


def test_upsert_takes_over_what_exists(driver: Driver) -> None:
    named = {**config_map(a="1"), "metadata": {"name": "taken"}}
    driver.up("core/v1:ConfigMap", "first", named)
    settings = driver.provider.settings
    other = Driver.configured(
        {"kubeconfig": str(settings.kubeconfig), "namespace": driver.namespace, "upsertExistingObjects": True}
    )
    forced = {**named, "data": {"b": "2"}}
    kept = other.up("core/v1:ConfigMap", "second", forced)
    assert other.live(kept)["data"] == {"a": "1", "b": "2"}


def test_a_conflict_names_the_owner_and_the_field_and_force_takes_it(driver: Driver, cluster: Cluster) -> None:
    kept = driver.up("core/v1:ServiceAccount", "robot", account(team="one"))
    kept = driver.update(kept, account(team="two"))
    patch = [{"op": "replace", "path": "/metadata/labels/team", "value": "three"}]
    change_behind(cluster, driver, kept, patch, "somebody-else")
    _, checked = driver.compare(kept, account(team="four"))
    with pytest.raises(InvalidRequest, match=r"\.metadata\.labels\.team is owned by 'somebody-else'.*patchForce"):
        driver.provider.preview_update(kept.state, checked)
    with pytest.raises(InvalidRequest, match=r'conflict with "somebody-else".*patchForce'):
        driver.provider.update(kept.resource, kept.state, checked)

    forced = account(team="four")
    forced["metadata"]["annotations"] = {"pulumi.com/patchForce": "true"}
    kept = driver.update(kept, forced)
    assert driver.live(kept)["metadata"]["labels"] == {"team": "four"}


def test_an_ignored_field_that_another_has_taken_is_left_alone(driver: Driver, cluster: Cluster) -> None:
    kept = driver.up("core/v1:ServiceAccount", "robot", account(team="one", word="a"))
    patch = [{"op": "replace", "path": "/metadata/labels/team", "value": "theirs"}]
    change_behind(cluster, driver, kept, patch, "somebody-else")
    _, checked = driver.compare(kept, account(team="one", word="b"))  # the engine puts the old value back
    ignored = ("metadata.labels.team",)
    driver.provider.preview_update(kept.state, checked, ignored)
    driver.provider.update(kept.resource, kept.state, checked, ignored=ignored)
    assert driver.live(kept)["metadata"]["labels"] == {"team": "theirs", "word": "b"}


def test_an_import_gives_inputs_that_change_nothing(driver: Driver, cluster: Cluster) -> None:
    spec = {"type": "ClusterIP", "selector": {"app": "x"}, "ports": [{"port": 80}]}
    made = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": driver.namespace},
        "spec": spec,
    }
    cluster.create(made, "somebody")
    one = resource("urn:pulumi:test::test::kubernetes:core/v1:Service::web")
    found = driver.provider.read(one, f"{driver.namespace}/web", PropertyMap(), PropertyMap())
    assert found is not None
    id_, state, inputs = found
    assert id_ == f"{driver.namespace}/web"
    assert "status" not in inputs.values
    assert "uid" not in inputs.values["metadata"]
    checked = driver.check(one, inputs, inputs)
    assert driver.provider.diff(one, state, inputs, checked).changes == []


def test_a_deletion_waits_for_finalizers_and_says_what_holds_it(driver: Driver, cluster: Cluster) -> None:
    held = {**config_map(a="1"), "metadata": {"finalizers": ["example.com/hold"]}}
    kept = driver.up("core/v1:ConfigMap", "held", held)
    with pytest.raises(InvalidRequest, match=r"finalizers hold it: example.com/hold"):
        driver.down(kept, timeout=1)
    release = [{"op": "remove", "path": "/metadata/finalizers"}]
    later = threading.Timer(0.5, change_behind, (cluster, driver, kept, release, "test"))
    later.start()
    driver.down(kept)
    later.join()
    with pytest.raises(ApiError, match="not found"):
        driver.live(kept)


def test_a_patch_lays_fields_over_an_object_and_takes_only_those_away(driver: Driver, cluster: Cluster) -> None:
    theirs = {**CONFIG, "metadata": {"name": "theirs", "namespace": driver.namespace}, "data": {"a": "1"}}
    cluster.apply(theirs, "owner")
    kept = driver.up("core/v1:ConfigMapPatch", "extra", {**CONFIG, "metadata": {"name": "theirs"}, "data": {"b": "2"}})
    assert driver.live(kept)["data"] == {"a": "1", "b": "2"}
    kept = driver.update(kept, {**CONFIG, "metadata": {"name": "theirs"}, "data": {"c": "3"}})
    assert driver.live(kept)["data"] == {"a": "1", "c": "3"}
    driver.down(kept)
    assert driver.live(kept)["data"] == {"a": "1"}


def test_secrets_stay_secret_in_state_inputs_and_errors(driver: Driver) -> None:
    asked = {"apiVersion": "v1", "kind": "Secret", "stringData": {"password": "hunter2"}}
    kept = driver.up("core/v1:Secret", "login", asked)
    assert ("data",) in kept.state.secrets
    assert ("__inputs", "stringData") in kept.state.secrets
    assert ("stringData",) in kept.inputs.secrets
    assert "hunter2" not in repr(kept)
    fresh = driver.refresh(kept)
    assert fresh is not None
    assert ("data",) in fresh.state.secrets
    assert driver.compare(fresh, asked)[0].changes == []


def test_a_secret_that_was_changed_by_hand_drifts_and_stays_secret(driver: Driver, cluster: Cluster) -> None:
    asked = {"apiVersion": "v1", "kind": "Secret", "stringData": {"password": "hunter2", "other": "x"}}
    kept = driver.up("core/v1:Secret", "login", asked)
    by_hand = base64.b64encode(b"by hand").decode()
    patch = [{"op": "replace", "path": "/data/password", "value": by_hand}]
    change_behind(cluster, driver, kept, patch, "somebody")
    fresh = driver.refresh(kept)
    assert fresh is not None
    assert fresh.inputs.values["stringData"] == {"password": "by hand", "other": "x"}
    assert ("stringData",) in fresh.inputs.secrets
    assert driver.compare(fresh, asked)[0].changes == [Change(("stringData", "password"), "update")]


def test_a_preview_asks_the_server_and_keeps_unknown_what_it_will_choose(driver: Driver) -> None:
    one = resource("urn:pulumi:test::test::kubernetes:core/v1:Service::web")
    spec = {"selector": {"app": "x"}, "ports": [{"port": 80}]}
    checked = driver.check(one, PropertyMap({"apiVersion": "v1", "kind": "Service", "spec": spec}))
    seen = driver.provider.preview_create(one, checked).values
    assert seen["spec"]["type"] == "ClusterIP"
    assert seen["spec"]["clusterIP"] is UNKNOWN
    assert seen["metadata"]["uid"] is UNKNOWN
    assert "status" not in seen

    wrong = PropertyMap({"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 800000}]}})
    with pytest.raises(InvalidRequest, match="must be between 1 and 65535"):
        driver.provider.preview_create(one, driver.check(one, wrong))
    half = PropertyMap({"apiVersion": "v1", "kind": "Service", "spec": {"selector": UNKNOWN, "ports": [{"port": 80}]}})
    checked = driver.check(one, half)
    assert driver.provider.preview_create(one, checked) == checked
    nowhere = {**config_map(), "metadata": {"namespace": "not-yet-there"}}
    one = resource("urn:pulumi:test::test::kubernetes:core/v1:ConfigMap::early")
    checked = driver.check(one, PropertyMap(nowhere))
    assert driver.provider.preview_create(one, checked) == checked


def test_ten_thousand_fields_at_once_by_many_threads(driver: Driver) -> None:
    names = [f"many-{index}" for index in range(40)]
    made: dict[str, str] = {}

    def one(name: str) -> None:
        made[name] = driver.up("core/v1:ConfigMap", name, config_map(**{f"k{i}": "v" for i in range(250)})).id

    threads = [threading.Thread(target=one, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == sorted(names)


def test_a_cluster_that_cannot_be_reached_leaves_previews_going(driver: Driver) -> None:
    away = Driver.configured({"kubeconfig": NOBODY})
    one = resource("urn:pulumi:test::test::kubernetes:core/v1:ConfigMap::settings")
    checked = away.check(one, PropertyMap(config_map(a="1")))
    assert checked.values["metadata"]["namespace"] == "default"
    assert away.provider.preview_create(one, checked) == checked
    assert any("unreachable" in text for text in away.heard.warnings)

    kept = driver.up("core/v1:ConfigMap", "settings", config_map(a="1"))
    with pytest.raises(InvalidRequest, match="PULUMI_K8S_DELETE_UNREACHABLE"):
        away.refresh(kept)
    with pytest.raises(InvalidRequest, match="PULUMI_K8S_DELETE_UNREACHABLE"):
        away.down(kept)
    forgetful = Driver.configured({"kubeconfig": NOBODY, "deleteUnreachable": True})
    assert forgetful.refresh(kept) is None
    forgetful.down(kept)
    patient = Driver.configured({"kubeconfig": NOBODY, "skipUpdateUnreachable": True})
    assert patient.refresh(kept) == kept
    assert isinstance(patient.provider, Provider)


NOBODY = """
apiVersion: v1
kind: Config
current-context: nobody
contexts: [{name: nobody, context: {cluster: nobody, user: nobody}}]
clusters: [{name: nobody, cluster: {server: "https://127.0.0.1:9"}}]
users: [{name: nobody, user: {token: none}}]
"""
