"""Empty fields of built-in kinds: which of them the inputs keep, as those of the official plugin do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agentenv.rehearsal.providers.kubernetes import checking, diff
from agentenv.rehearsal.providers.kubernetes.checking import OMITTED, Naming, without_empties
from agentenv.rehearsal.providers.kubernetes.urns import resource
from agentenv.rehearsal.providers.kubernetes.values import UNKNOWN, PropertyMap
from tests.fast.components.reads import everything

# Pointers, maps and structures in the types of k8s.io/api: there, an empty value is a value.
RETAINED = {
    ("ConfigMap", "data.*"),
    ("CronJob", "spec.jobTemplate.spec.template.spec.containers.securityContext.allowPrivilegeEscalation"),
    ("CronJob", "spec.jobTemplate.spec.template.spec.containers.securityContext.privileged"),
    ("CronJob", "spec.jobTemplate.spec.template.spec.enableServiceLinks"),
    ("CronJob", "spec.suspend"),
    ("Deployment", "spec.template.spec.containers.securityContext.allowPrivilegeEscalation"),
    ("Deployment", "spec.template.spec.automountServiceAccountToken"),
    ("Deployment", "spec.template.spec.enableServiceLinks"),
    ("PersistentVolumeClaim", "spec.storageClassName"),
    ("ServiceAccount", "automountServiceAccountToken"),
    ("StorageClass", "allowVolumeExpansion"),
}


def checked(inputs: dict[str, Any]) -> dict[str, Any]:
    group = inputs["apiVersion"] if "/" in inputs["apiVersion"] else f"core/{inputs['apiVersion']}"
    of = resource(f"urn:pulumi:s::p::kubernetes:{group}:{inputs['kind']}::thing")
    bag, problems = checking.check(
        of, PropertyMap(inputs), PropertyMap({}), Naming(seed=b"s"), scope=lambda _: False, default="d"
    )
    assert problems == []
    return {key: value for key, value in bag.values.items() if key != "metadata"}


NOBODY: dict[str, Any] = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "nobody"},
    "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": []},
}


@pytest.mark.parametrize(
    ("version", "kind", "fields", "expected"),
    [
        ("networking.k8s.io/v1", "NetworkPolicy", NOBODY["spec"], {"podSelector": {}, "policyTypes": ["Ingress"]}),
        ("v1", "PersistentVolume", {"storageClassName": "", "csi": {}}, {"csi": {}}),
        ("v1", "PersistentVolume", {"storageClassName": "efs"}, {"storageClassName": "efs"}),
        ("v1", "PersistentVolumeClaim", {"storageClassName": ""}, {"storageClassName": ""}),
    ],
)
def test_what_the_types_omit_when_it_is_empty_is_dropped(
    version: str, kind: str, fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    declared = {"apiVersion": version, "kind": kind, "metadata": {"name": "one"}, "spec": fields}
    assert checked(declared)["spec"] == expected


def test_a_default_that_is_false_is_dropped_and_one_that_is_not_known_is_not() -> None:
    declared = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": -1}
    assert "globalDefault" not in checked({**declared, "globalDefault": False})
    assert checked({**declared, "globalDefault": True})["globalDefault"] is True
    assert checked({**declared, "globalDefault": UNKNOWN})["globalDefault"] is UNKNOWN
    assert checked({**NOBODY, "spec": UNKNOWN})["spec"] is UNKNOWN


def test_a_rule_added_to_a_policy_without_any_is_not_noticed() -> None:
    inputs = {**NOBODY, **checked(NOBODY)}
    opened = {**inputs, "spec": {**inputs["spec"], "ingress": [{"ports": [{"port": 22}]}]}}
    assert diff.changes(diff.drifted_inputs(inputs, inputs, opened), inputs) == []


def test_custom_kinds_preserve_empty_fields() -> None:
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NetworkPolicy", "spec": {"ingress": []}}
    assert without_empties(pool) == pool


def _empties(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _empties(part, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for part in value:
            yield from _empties(part, path) if isinstance(part, dict) else ()
    elif value is False or value in ("", []):
        yield path


def test_every_declared_empty_field_has_a_known_treatment() -> None:
    omitted = {(kind, ".".join(path)) for (_, kind), paths in OMITTED.items() for path in paths}
    declared = {
        (item.inputs["kind"], "data.*" if path.startswith("data.") else path)
        for graph in everything()[1]
        for item in graph.resources
        if item.type.startswith("kubernetes:") and item.inputs.get("apiVersion", "").partition("/")[0] in BUILT_IN
        for path in _empties(item.inputs, "")
    }
    assert declared & omitted
    assert declared <= omitted | RETAINED


BUILT_IN = {
    *("v1", "apps", "batch", "policy", "admissionregistration.k8s.io", "networking.k8s.io", "node.k8s.io"),
    *("rbac.authorization.k8s.io", "scheduling.k8s.io", "storage.k8s.io"),
}
