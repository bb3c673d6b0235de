"""Inputs on their way in: names, namespaces, secrets, unknowns, manifests, and what the state keeps of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import struct_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

from agentenv.rehearsal.providers.common.errors import InitFailedStatus, PartialResource, without_secrets
from agentenv.rehearsal.providers.kubernetes import checking, checkpoint, cluster, manifests, naming, values, writing
from agentenv.rehearsal.providers.kubernetes.checking import Naming
from agentenv.rehearsal.providers.kubernetes.urns import InvalidType, resource
from agentenv.rehearsal.providers.kubernetes.values import UNKNOWN, PropertyMap

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap"}
MAP = resource("urn:pulumi:s::p::a:b:C$kubernetes:core/v1:ConfigMap::my::name")


def check(
    inputs: dict[str, Any], old: dict[str, Any] | None = None, **rules: Any
) -> tuple[PropertyMap, list[tuple[str, str]]]:
    message = Naming(**rules) if rules else Naming(seed=b"seed")
    return checking.check(
        MAP, PropertyMap(inputs), PropertyMap(old or {}), message, scope=lambda _: True, default="here"
    )


def test_an_urn_is_read_with_its_parents_and_its_colons() -> None:
    assert (MAP.token, MAP.api_version, MAP.kind, MAP.name) == (
        "kubernetes:core/v1:ConfigMap",
        "v1",
        "ConfigMap",
        "my::name",
    )
    with pytest.raises(InvalidType, match="is not a type of the kubernetes provider"):
        resource("urn:pulumi:s::p::aws:s3:Bucket::x")


def test_auto_name_is_annotated_stable_and_repeatable() -> None:
    checked, problems = check(CONFIG)
    assert problems == []
    created = checked.values["metadata"]
    assert created["name"].startswith("my::name-")
    assert len(created["name"]) == len("my::name-") + naming.DIGITS
    assert created["annotations"] == {"pulumi.com/autonamed": "true"}
    assert created["namespace"] == "here"
    assert check(CONFIG) == (checked, [])
    assert check(CONFIG, checked.values, seed=b"other")[0] == checked
    assert check(CONFIG, seed=b"other")[0] != checked


def test_fixed_names_are_not_changed() -> None:
    named = {**CONFIG, "metadata": {"name": "mine", "namespace": "there"}}
    assert check(named)[0].values == named
    assert check({**CONFIG, "metadata": {"name": UNKNOWN}})[0].values["metadata"]["name"] is UNKNOWN
    assert check({**CONFIG, "metadata": UNKNOWN})[0].values["metadata"] is UNKNOWN
    assert check(CONFIG, proposed="proposed")[0].values["metadata"]["name"] == "proposed"


@pytest.mark.parametrize(
    ("inputs", "rules", "path"),
    [
        ({"kind": "ConfigMap"}, {}, "apiVersion"),
        ({"apiVersion": "v1", "kind": UNKNOWN}, {}, "kind"),
        ({**CONFIG, "metadata": "x"}, {}, "metadata"),
        ({**CONFIG, "metadata": {"generateName": "x-"}}, {}, "metadata.generateName"),
        ({"apiVersion": "v1", "kind": "ConfigMapList", "items": []}, {}, "kind"),
        ({**CONFIG, "metadata": {"annotations": {"pulumi.com/waitFor": "x"}}}, {}, "metadata.annotations"),
        (CONFIG, {"off": True}, "metadata.name"),
    ],
)
def test_invalid_objects_are_refused_at_once(inputs: dict[str, Any], rules: dict[str, Any], path: str) -> None:
    assert [name for name, _ in check(inputs, **rules)[1]] == [path]


def test_patch_needs_a_name() -> None:
    patch = resource("urn:pulumi:s::p::kubernetes:core/v1:ConfigMapPatch::x")
    assert patch.patches("ConfigMap")
    assert not MAP.patches("ConfigMap")
    _, problems = checking.check(
        patch, PropertyMap(dict(CONFIG)), PropertyMap(), Naming(), scope=lambda _: True, default="x"
    )
    assert [name for name, _ in problems] == ["metadata.name"]


def test_kinds_without_a_namespace_get_none_and_unknown_kinds_one() -> None:
    for known, place in ((False, None), (None, "here"), (True, "here")):
        checked, _ = checking.check(
            MAP, PropertyMap(dict(CONFIG)), PropertyMap(), Naming(), scope=lambda _, k=known: k, default="here"
        )
        assert checked.values["metadata"].get("namespace") == place


def test_data_of_a_secret_is_always_secret() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "stringData": {"a": "b"}, "type": "Opaque"}
    checked, _ = check(secret)
    assert checked.secrets == {("stringData",)}
    live = {**secret, "data": {"a": "Yg=="}, "metadata": {"name": "x", "managedFields": [1]}}
    state = checkpoint.outputs(checked, live, "me")
    assert {("data",), ("stringData",), ("__inputs", "stringData")} <= state.secrets
    assert "managedFields" not in state.values["metadata"]
    assert checkpoint.field_manager(state.values) == "me"
    assert checkpoint.state_inputs(state.values) == checked.values
    assert checkpoint.live_object(state.values)["data"] == {"a": "Yg=="}


def test_secrets_are_marked_in_responses_and_lists_are_secret_as_a_whole() -> None:
    live = {"spec": {"a": "x", "items": [{"v": 1}, {"v": 2}], "text": "now a text"}}
    desired = [("spec", "a"), ("spec", "items", 1, "v"), ("spec", "gone"), ("spec", "text", "was", "deep")]
    assert values.project(desired, live) == {("spec", "a"), ("spec", "items"), ("spec", "text")}


PLAIN = st.recursive(
    st.one_of(st.text(max_size=4), st.integers(-9, 9), st.booleans()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=10,
)


@settings(max_examples=40)
@given(st.dictionaries(st.text(min_size=1, max_size=3), PLAIN, max_size=4))
def test_values_are_serialized_with_their_secrets(given_values: dict[str, Any]) -> None:
    secrets = frozenset((key,) for key in list(given_values)[:1])
    bag = PropertyMap(given_values, secrets)
    assert PropertyMap.of(bag.struct()) == bag


def test_values_are_not_shown_by_accident() -> None:
    assert "hunter2" not in repr(PropertyMap({"a": "hunter2"}, frozenset({("a",)})))


def test_dollar_keys_are_translated_for_the_server_and_back() -> None:
    desired = {"schema": [{"x_kubernetes_list_map_keys": ["name"], "x_other": 1, "none": None}]}
    sent = values.to_api(desired)
    assert sent == {"schema": [{"x-kubernetes-list-map-keys": ["name"], "x_other": 1}]}
    assert values.to_sdk(sent) == {"schema": [{"x_kubernetes_list_map_keys": ["name"], "x_other": 1}]}


def test_dry_run_leaves_server_choices_unknown() -> None:
    response = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "x", "uid": "made up"},
        "spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 80, "nodePort": 31000}], "type": "NodePort"},
        "status": {},
    }
    seen = checkpoint.with_unknowns(response, {"spec": {"ports": [{"port": 80}]}}, new=True)
    assert seen["metadata"]["uid"] is UNKNOWN
    assert seen["spec"] == {"clusterIP": UNKNOWN, "ports": [{"port": 80, "nodePort": UNKNOWN}], "type": "NodePort"}
    assert "status" not in seen
    desired = {"spec": {"clusterIP": "10.0.0.1", "ports": [{"nodePort": 31000}]}}
    assert checkpoint.with_unknowns(response, desired, new=True)["spec"] == response["spec"]
    later = checkpoint.with_unknowns(response, desired, new=False)
    assert later["metadata"]["uid"] == "made up"
    assert "status" in later


def test_fields_of_client_side_apply_are_adopted() -> None:
    ours = {"manager": "me", "operation": "Update", "apiVersion": "v1", "fieldsV1": {"f:data": {"f:a": {}}}}
    kubectl = {"manager": "kubectl", "operation": "Apply", "apiVersion": "v1", "fieldsV1": {"f:data": {"f:b": {}}}}
    status = {"manager": "me", "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": {}}}
    other = {"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:data": {"f:c": {}}}}
    merged = cluster.merged_managers([ours, kubectl, status, other], "me")
    assert merged == [{**ours, "operation": "Apply"}, kubectl, status, other]
    assert cluster.merged_managers(merged, "me") == merged
    again = cluster.merged_managers([*merged, {**ours, "fieldsV1": {"f:metadata": {}}}], "me")
    assert again[0]["fieldsV1"] == {"f:data": {"f:a": {}}, "f:metadata": {}}


KEYS = st.text(st.sampled_from('ab.[]"/ _0'), min_size=1, max_size=5)


@settings(max_examples=60)
@given(st.lists(st.one_of(KEYS, st.integers(0, 99)), min_size=1, max_size=4).filter(lambda p: isinstance(p[0], str)))
def test_a_path_is_read_as_it_is_written(path: list[str | int]) -> None:
    readable = not any(isinstance(part, str) and '"' in part for part in path)  # quotes inside keys are not escaped
    assert not readable or values.parse_path(values.format_path(tuple(path))) == tuple(path)


def test_ignored_fields_stay_with_their_manager() -> None:
    scaler = {
        "manager": "scaler",
        "operation": "Update",
        "subresource": "scale",
        "fieldsV1": {"f:spec": {"f:replicas": {}}},
    }
    us = {"manager": "me", "operation": "Apply", "fieldsV1": {"f:spec": {"f:paused": {}}}}
    live = {"metadata": {"managedFields": [us, scaler]}, "spec": {"replicas": 7, "paused": True}}
    desired = {"kind": "Deployment", "spec": {"replicas": 1, "paused": False, "other": 1}}
    ignored = ("spec.replicas", "spec.paused", "spec.none", "metadata.labels")
    assert writing.with_ignored_fields(desired, live, "me", ignored)["spec"] == {"paused": True, "other": 1}
    assert desired["spec"] == {"replicas": 1, "paused": False, "other": 1}


# -- manifests --------------------------------------------------------------------------------------------------------

SCOPED = {"Namespace": False, "ConfigMap": True, "Widget": None}


def scope(obj: Any) -> bool | None:
    return SCOPED.get(obj["kind"], True)


def obj(kind: str, name: str, namespace: str = "", **more: Any) -> dict[str, Any]:
    version = "example.com/v1" if kind == "Widget" else "v1"
    place = {"namespace": namespace} if namespace else {}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **place}, **more}


DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {"group": "example.com", "scope": "Cluster", "names": {"kind": "Widget"}},
}


def test_yaml_is_read_as_kubernetes_reads_it() -> None:
    (result,) = manifests.parse(
        "---\n---\na: 2024-01-01\nb: 12:30\nc: 0755\nd: 1e3\ne: yes\nf: '1'\ng: 1.5\n1: x\nh: 08\ni: .5\n"
        "j: y\nk: !x y\n",
        "x",
    )
    assert result == {
        "a": "2024-01-01",
        "b": "12:30",
        "c": 493,
        "d": 1000.0,
        "e": True,
        "f": "1",
        "g": 1.5,
        "1": "x",
        "h": 8,
        "i": 0.5,
        "j": True,
        "k": "y",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "is not YAML at line"),
        ("- a", "expected an object, found list"),
        ("a: !!int x", "is not YAML at line 1: !!int with something else"),
    ],
)
def test_broken_manifests_are_named(text: str, message: str) -> None:
    with pytest.raises(manifests.InvalidManifest, match=message):
        manifests.parse(text, "some.yaml")


def test_lists_are_expanded_and_namespaces_added() -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [obj("ConfigMap", "a"), obj("ConfigMap", "b", "there")]}
    result = manifests.normalized([listed, obj("Namespace", "n"), obj("Widget", "w")], "here", scope)
    assert [o["metadata"].get("namespace") for o in result] == ["here", "there", None, None]
    namespaced = {**DEFINITION, "spec": {**DEFINITION["spec"], "scope": "Namespaced"}}
    result = manifests.normalized([obj("Widget", "w"), namespaced], "here", scope)
    assert result[0]["metadata"]["namespace"] == "here"
    with pytest.raises(manifests.InvalidManifest, match=r"without metadata\.name"):
        manifests.normalized([{"apiVersion": "v1", "kind": "ConfigMap"}], "here", scope)


def test_dependencies_come_first() -> None:
    desired = {"annotations": {manifests.DEPENDS_ON: "/namespaces/n/ConfigMap/late"}}
    early = obj("ConfigMap", "early", "n")
    early["metadata"] |= desired
    result = [obj("Widget", "w"), early, obj("ConfigMap", "late", "n"), obj("Namespace", "n"), DEFINITION]
    out = manifests.in_order(result)
    names = [item.obj["metadata"]["name"] for item in out]
    assert names == ["n", "widgets.example.com", "w", "late", "early"]
    assert [item.after for item in out] == [(), (), (1,), (0,), (0, 3)]


def test_dependency_cycle_is_named() -> None:
    item, other = obj("ConfigMap", "a", "n"), obj("ConfigMap", "b", "n")
    item["metadata"]["annotations"] = {manifests.DEPENDS_ON: "/namespaces/n/ConfigMap/b"}
    other["metadata"]["annotations"] = {manifests.DEPENDS_ON: "/namespaces/n/ConfigMap/a"}
    with pytest.raises(manifests.InvalidManifest, match="circle: ConfigMap n/a, ConfigMap n/b"):
        manifests.in_order([item, other])


def test_files_are_read_by_name_and_pattern(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("a: 2", encoding="utf-8")
    (tmp_path / "a.yaml").write_text("a: 1", encoding="utf-8")
    assert manifests.read([str(tmp_path / "*.yaml")], patterns=True) == [{"a": 1}, {"a": 2}]
    with pytest.raises(manifests.InvalidManifest, match="cannot be read: No such file"):
        manifests.read([str(tmp_path / "*.yaml")], patterns=False)
    with pytest.raises(manifests.InvalidManifest, match="only http, https and paths"):
        manifests.read(["ftp://example.com/x"], patterns=True)


# -- errors -----------------------------------------------------------------------------------------------------------


def test_partially_created_resource_is_part_of_its_error() -> None:
    left = PartialResource("n/x", struct_pb2.Struct(), struct_pb2.Struct(), ["not ready", "no pod"])
    error = InitFailedStatus(left, "it was made, but")
    assert (error.code, error.details) == (grpc.StatusCode.UNKNOWN, "it was made, but")
    ((key, data),) = error.trailing_metadata
    assert key == "grpc-status-details-bin"
    assert isinstance(data, bytes)
    assert b"not ready" in data
    assert b"n/x" in data


def test_errors_have_no_secrets() -> None:
    message = without_secrets("refused: hunter2 in a", {"a": {"b": ["hunter2", "x"]}}, [("a", "b"), ("none",)])
    assert message == "refused: [secret] in a"
