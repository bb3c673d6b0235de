"""The custom resource definitions that EKS installs in every cluster without an add-on.

Only the one that the program writes is here: SecurityGroupPolicy, which gives pods security groups. Its webhook and
controller are not simulated; no traffic is filtered on these nodes.
"""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

_GROUP, _PLURAL = "vpcresources.k8s.aws", "securitygrouppolicies"


def definitions() -> tuple[Object, ...]:
    """Return the definitions, as the API server takes them."""
    return (
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{_PLURAL}.{_GROUP}"},
            "spec": {
                "group": _GROUP,
                "scope": "Namespaced",
                "names": {
                    "kind": "SecurityGroupPolicy",
                    "listKind": "SecurityGroupPolicyList",
                    "plural": _PLURAL,
                    "singular": "securitygrouppolicy",
                    "shortNames": ["sgp"],
                },
                "versions": [
                    {"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": _schema()}}
                ],
            },
        },
    )


def _schema() -> Object:
    groups = {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 16}
    spec = {
        "podSelector": _selector(),
        "serviceAccountSelector": _selector(),
        "securityGroups": {"type": "object", "properties": {"groupIds": groups}},
    }
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}


def _selector() -> Object:
    texts = {"type": "array", "items": {"type": "string"}}
    requirement = {
        "type": "object",
        "required": ["key", "operator"],
        "properties": {"key": {"type": "string"}, "operator": {"type": "string"}, "values": texts},
    }
    return {
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchExpressions": {"type": "array", "items": requirement},
            "matchLabels": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    }
