"""Differences between inputs, what drifted in the cluster, and which changes replace."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentenv.rehearsal.providers.kubernetes import comparing, diff, replacing
from agentenv.rehearsal.providers.kubernetes.diff import Change
from agentenv.rehearsal.providers.kubernetes.urns import resource
from agentenv.rehearsal.providers.kubernetes.values import UNKNOWN, Path, PropertyMap

SCALARS = st.one_of(st.text(max_size=3), st.integers(-3, 3), st.booleans())
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "b", "name", "spec"]), inner, max_size=3)
    ),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from(["a", "b", "metadata", "spec"]), TREES, max_size=4)


@settings(max_examples=60)
@given(OBJECTS)
def test_nothing_differs_from_itself(item: dict[str, Any]) -> None:
    assert diff.changes(item, copy.deepcopy(item)) == []


@settings(max_examples=60)
@given(OBJECTS, OBJECTS)
def test_a_difference_is_found_exactly_where_there_is_one(item: dict[str, Any], other: dict[str, Any]) -> None:
    result = diff.changes(item, other)
    assert bool(result) == (not diff.equal(item, other))
    turned = {"add": "delete", "delete": "add", "update": "update"}
    back = {(change.path, turned[change.verb]) for change in diff.changes(other, item)}
    assert {(change.path, change.verb) for change in result} == back


@settings(max_examples=60)
@given(OBJECTS, OBJECTS)
def test_inputs_are_unchanged_without_drift(inputs: dict[str, Any], live: dict[str, Any]) -> None:
    assert diff.drifted_inputs(inputs, live, copy.deepcopy(live)) == inputs


@settings(max_examples=60)
@given(OBJECTS, OBJECTS, OBJECTS)
def test_drift_adds_no_undeclared_field(inputs: dict[str, Any], before: dict[str, Any], now: dict[str, Any]) -> None:
    assert diff.drifted_inputs(inputs, before, now).keys() <= inputs.keys()


def test_null_and_absent_are_the_same_and_true_is_not_one() -> None:
    assert diff.changes({"a": None}, {}) == []
    assert diff.changes({"a": True}, {"a": 1}) == [Change(("a",), "update")]
    assert diff.changes({"a": 1}, {"a": UNKNOWN}) == [Change(("a",), "update")]


def test_list_items_are_compared_by_index() -> None:
    result = diff.changes({"a": [{"x": 1}, {"x": 2}]}, {"a": [{"x": 1}, {"x": 3}, {"x": 4}]})
    assert result == [Change(("a", 1, "x"), "update"), Change(("a", 2), "add")]


def test_normalized_value_is_no_drift_but_a_changed_one_is() -> None:
    inputs = {"spec": {"cpu": "1000m", "memory": "1024Mi"}}
    before = {"spec": {"cpu": "1", "memory": "1Gi", "set": "by the server"}}
    now = {"spec": {"cpu": "1", "memory": "2Gi", "set": "anew"}}
    assert diff.drifted_inputs(inputs, before, now) == {"spec": {"cpu": "1000m", "memory": "2Gi"}}


def test_named_items_are_compared_by_name() -> None:
    mine = {"containers": [{"name": "a", "image": "one"}, {"name": "b", "image": "two"}]}
    injected = {"name": "sidecar", "image": "x"}
    now = {"containers": [injected, {"name": "b", "image": "hand"}, {"name": "a", "image": "one"}]}
    result = diff.drifted_inputs(mine, mine, now)
    assert result == {"containers": [{"name": "a", "image": "one"}, {"name": "b", "image": "hand"}]}


def test_removed_field_is_drift() -> None:
    assert diff.drifted_inputs({"a": 1, "b": 2}, {"a": 1, "b": 2}, {"a": 1}) == {"a": 1}


REPLACING: list[tuple[str, str, Path, bool]] = [
    ("v1", "Service", ("spec", "clusterIP"), True),
    ("v1", "Service", ("spec", "ports", 0, "port"), False),
    ("apps/v1", "Deployment", ("spec", "selector", "matchLabels", "app"), True),
    ("apps/v1", "Deployment", ("spec", "template", "spec"), False),
    ("apps/v1", "DaemonSet", ("spec", "selector"), True),
    ("apps/v1", "StatefulSet", ("spec", "volumeClaimTemplates", 0, "spec"), True),
    ("apps/v1", "StatefulSet", ("spec", "replicas"), False),
    ("batch/v1", "Job", ("spec", "template", "spec", "containers", 0, "image"), True),
    ("batch/v1", "CronJob", ("spec", "schedule"), False),
    ("v1", "ConfigMap", ("data", "a"), True),
    ("v1", "ConfigMap", ("metadata", "labels", "a"), False),
    ("v1", "Secret", ("stringData", "a"), True),
    ("v1", "Secret", ("type",), True),
    ("v1", "PersistentVolumeClaim", ("spec", "resources", "requests", "storage"), False),
    ("v1", "PersistentVolumeClaim", ("spec", "storageClassName"), True),
    ("v1", "PersistentVolume", ("spec", "csi", "volumeHandle"), True),
    ("storage.k8s.io/v1", "StorageClass", ("parameters", "fileSystemId"), True),
    ("storage.k8s.io/v1", "StorageClass", ("reclaimPolicy",), False),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", ("roleRef", "name"), True),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", ("subjects", 0), False),
    ("v1", "Pod", ("spec", "containers", 1, "image"), True),
    ("v1", "Pod", ("spec", "containers", 1, "name"), False),
    ("v1", "Pod", ("spec", "tolerations", 0), False),
    ("v1", "Pod", ("spec",), True),
    ("example.com/v1", "Widget", ("spec", "selector"), False),
    ("example.com/v1", "Widget", ("metadata", "name"), True),
]


@pytest.mark.parametrize(("version", "kind", "path", "replaces"), REPLACING)
def test_which_changes_replace(version: str, kind: str, path: Path, *, replaces: bool) -> None:
    fixed = replacing.fixed({"apiVersion": version, "kind": kind}, replacing.Mutability())
    assert replacing.touches(path, fixed) == replaces


def test_data_may_change_in_place_where_the_provider_allows_it_and_the_object_is_not_sealed() -> None:
    loose = replacing.Mutability(config_maps=True, secrets=True)
    for kind in ("ConfigMap", "Secret"):
        obj = {"apiVersion": "v1", "kind": kind}
        assert not replacing.touches(("data", "a"), replacing.fixed(obj, loose))
        assert replacing.touches(("data", "a"), replacing.fixed({**obj, "immutable": True}, loose))


def test_a_patch_is_only_replaced_when_it_moves() -> None:
    fixed = replacing.fixed({"apiVersion": "apps/v1", "kind": "Deployment"}, replacing.Mutability(), patch=True)
    assert not replacing.touches(("spec", "selector"), fixed)
    assert replacing.touches(("metadata", "name"), fixed)


def compared(old: dict[str, Any], new: dict[str, Any], *, namespaced: bool | None = True) -> comparing.DiffResult:
    token = f"{new['apiVersion'] if '/' in new['apiVersion'] else 'core/v1'}:{new['kind']}"
    item = resource(f"urn:pulumi:s::p::kubernetes:{token}::x")
    state = PropertyMap({**old, "status": {}})
    rules = replacing.Mutability()
    return comparing.compare(
        item, state, PropertyMap(old), PropertyMap(new), scope=lambda _: namespaced, mutability=rules
    )


def test_a_default_namespace_and_the_core_groups_name_are_no_change() -> None:
    old = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}}
    new = {"apiVersion": "core/v1", "kind": "Service", "metadata": {"name": "x", "namespace": "default"}}
    assert compared(old, new).changes == []
    moved = {**old, "metadata": {"name": "x", "namespace": "other"}}
    assert compared(old, moved).replaces == [Change(("metadata", "namespace"), "update")]
    assert compared(old, moved, namespaced=False).changes == []


def test_another_version_updates_and_another_group_or_kind_replaces() -> None:
    old = {"apiVersion": "a.example.com/v1", "kind": "Widget", "metadata": {"name": "x"}}
    assert compared(old, {**old, "apiVersion": "a.example.com/v2"}).replaces == []
    assert compared(old, {**old, "apiVersion": "b.example.com/v1"}).replaces
    assert compared(old, {**old, "kind": "Gadget"}).replaces


def test_object_with_a_fixed_name_is_deleted_before_replacement() -> None:
    spec = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "1"}}
    assert compared(spec, {**spec, "data": {"a": "2"}}).delete_before_replace
    ours = {**spec, "metadata": {"name": "x", "annotations": {"pulumi.com/autonamed": "true"}}}
    assert not compared(ours, {**ours, "data": {"a": "2"}}).delete_before_replace
    assert not compared(spec, {**spec, "metadata": {"name": "y"}}).delete_before_replace
