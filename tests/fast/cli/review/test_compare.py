"""The prediction of an update from two graphs."""

from __future__ import annotations

from typing import Any

from agentenv.cli.review.changes import Change, changes_from_steps, operation_counts
from agentenv.cli.review.compare import compare_graphs, count_unknown_in_both
from agentenv.cli.review.graph import Resource
from tests.fast.cli.review.resources import ACCESS_POINT, FILE_SYSTEM, LATER, depending, of, resource, urn


def operations(changes: list[Change]) -> dict[str, tuple[str, tuple[str, ...], str]]:
    return {change.name: (change.operation, change.keys, change.sureness) for change in changes}


def test_creations_and_deletions_are_found() -> None:
    same, gone, new = (resource(FILE_SYSTEM, name, {"encrypted": True}) for name in ("same", "gone", "new"))
    found = compare_graphs(of(same, gone), of(same, new))
    assert operations(found) == {"new": ("create", (), "shown"), "gone": ("delete", (), "shown")}
    assert operation_counts(found) == {"create": 1, "update": 0, "replace": 0, "delete": 1}


def test_the_table_of_a_service_distinguishes_update_and_replacement() -> None:
    before = of(resource(FILE_SYSTEM, "a", {"encrypted": False}), resource(FILE_SYSTEM, "b", {"tags": {"x": "1"}}))
    after = of(resource(FILE_SYSTEM, "a", {"encrypted": True}), resource(FILE_SYSTEM, "b", {"tags": {"x": "2"}}))
    assert operations(compare_graphs(before, after)) == {
        "a": ("replace", ("encrypted",), "table"),
        "b": ("update", ("tags.x",), "table"),
    }


def test_another_spelling_is_no_change() -> None:
    first, second = (
        '{"Statement": [{"Effect": "Allow", "Action": "a:B"}]}',
        '{"Statement":{"Action":["a:B"],"Effect":"Allow"}}',
    )
    kind = "aws:iam/policy:Policy"
    assert not compare_graphs(of(resource(kind, "p", {"policy": first})), of(resource(kind, "p", {"policy": second})))


def test_an_immutable_kubernetes_field_forces_replacement() -> None:
    kind = "kubernetes:storage.k8s.io/v1:StorageClass"
    base = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "efs"}}
    before = resource(kind, "class", {**base, "parameters": {"gidRangeStart": "1"}})
    after = resource(kind, "class", {**base, "parameters": {"gidRangeStart": "2"}})
    labelled = resource(kind, "class", {**before.inputs, "metadata": {"name": "efs", "labels": {"a": "b"}}})
    assert operations(compare_graphs(of(before), of(after)))["class"][0] == "replace"
    assert operations(compare_graphs(of(before), of(labelled)))["class"][0] == "update"


def test_a_resource_type_without_a_table_is_a_guess() -> None:
    kind = "random:index/randomId:RandomId"
    found = compare_graphs(of(resource(kind, "r", {"length": 1})), of(resource(kind, "r", {"length": 2})))
    assert operations(found) == {"r": ("update", ("length",), "guess")}
    assert "no table" in found[0].why


def test_a_dependent_of_a_replaced_resource_is_replaced() -> None:
    old, new = (resource(FILE_SYSTEM, "fs", {"encrypted": flag}) for flag in (False, True))
    door = depending(new, "fileSystemId", ACCESS_POINT, "home", {"tags": {}})
    tagged = depending(new, "description", "aws:kms/key:Key", "key", {})
    found = operations(compare_graphs(of(old, door, tagged), of(new, door, tagged)))
    assert found["home"] == ("replace", ("fileSystemId",), "follows")
    assert found["key"] == ("update", ("description",), "follows")


def test_a_dependent_of_an_updated_resource_does_not_change() -> None:
    old, new = (resource(FILE_SYSTEM, "fs", {"tags": {"x": value}}) for value in "12")
    door = depending(new, "fileSystemId", ACCESS_POINT, "home", {})
    assert list(operations(compare_graphs(of(old, door), of(new, door)))) == ["fs"]


def test_an_auto_generated_name_is_no_change() -> None:
    kind = "aws:iam/role:Role"
    before = of(resource(kind, "role", {"name": "role-0a1b2c3"}), resource(kind, "other", {"path": "role-0a1b2c3"}))
    after = of(resource(kind, "role", {"name": "role-3c2b1a0"}), resource(kind, "other", {"path": "role-3c2b1a0"}))
    chosen = of(resource(kind, "role", {"name": "role-for-people"}), *list(after.values())[1:])
    assert compare_graphs(before, after) == []
    assert operations(compare_graphs(before, chosen))["role"][0] == "replace"


def test_an_aliased_resource_is_the_same() -> None:
    old = resource(FILE_SYSTEM, "old", {"encrypted": True})
    moved = resource(FILE_SYSTEM, "new", {"encrypted": True}, aliases=(old.urn,))
    assert compare_graphs(of(old), of(moved)) == []
    assert len(compare_graphs(of(old), of(resource(FILE_SYSTEM, "new", {"encrypted": True})))) == 2


def test_values_unknown_in_both_are_counted() -> None:
    first = resource(FILE_SYSTEM, "fs", {"kmsKeyId": LATER, "tags": {"a": LATER, "b": "c"}})
    second = resource(FILE_SYSTEM, "fs", {"kmsKeyId": LATER, "tags": {"a": "known", "b": "c"}})
    assert count_unknown_in_both(of(first), of(first)) == 2
    assert count_unknown_in_both(of(first), of(second)) == 1


def test_providers_and_the_stack_are_not_shown() -> None:
    kinds = ("pulumi:pulumi:Stack", "pulumi:providers:aws")
    assert compare_graphs(of(), of(*(Resource(urn(kind, "x"), kind) for kind in kinds))) == []


def test_the_engines_steps_of_one_resource_are_one_change() -> None:
    fs = resource(FILE_SYSTEM, "fs")
    steps = [
        {"op": "create-replacement", "urn": fs.urn},
        {"op": "replace", "urn": fs.urn, "replaceReasons": ["encrypted"], "detailedDiff": None},
        {"op": "delete-replaced", "urn": fs.urn},
        {"op": "same", "urn": urn(FILE_SYSTEM, "other")},
    ]
    assert changes_from_steps(steps, of(fs), of(fs)) == [
        Change("replace", fs.urn, FILE_SYSTEM, ("encrypted",), "engine")
    ]


def test_a_replacement_lists_only_the_inputs_that_force_it() -> None:
    fs = resource(FILE_SYSTEM, "fs")
    detailed = {"tags.x": {"kind": "update"}, "encrypted": {"kind": "update-replace"}}
    found = changes_from_steps([{"op": "replace", "urn": fs.urn, "detailedDiff": detailed}], of(fs), of(fs))
    assert found[0].keys == ("encrypted",)


def test_ignore_changes_and_replace_on_changes_are_followed() -> None:
    def pool(replicas: int, **more: Any) -> Resource:
        inputs = {"apiVersion": "a/v1", "kind": "Pool", "metadata": {"name": "p"}, "spec": {"replicas": replicas}}
        return resource("kubernetes:a/v1:Pool", "p", inputs, **more)

    assert operations(compare_graphs(of(pool(1)), of(pool(2))))["p"][0] == "update"
    assert compare_graphs(of(pool(1)), of(pool(2, ignores=("spec.replicas",)))) == []
    assert compare_graphs(of(pool(1)), of(pool(2, ignores=("spec.rep",)))) != []
    assert operations(compare_graphs(of(pool(1)), of(pool(2, replaced_by=("spec",)))))["p"][0] == "replace"
