"""Attempts on the namespace of a class, and on the objects that restrict its sandboxes."""

from __future__ import annotations

from typing import Any

from tests.live.guardrails.attempts.attempt import (
    Attempt,
    Table,
    apply,
    create,
    delete,
    merge,
    patch,
    put,
    replace,
)
from tests.live.guardrails.guarded import (
    ACCOUNTS,
    DEPLOYER,
    INSIDER,
    NAMESPACES,
    PROVISIONER,
    SERVICE,
    Guarded,
    Object,
    plain,
)

ATTEMPTS: list[Attempt] = []
_LEVEL = "pod-security.kubernetes.io/enforce"
_CLASS = "sandbox.users.io/class"


def _space(guarded: Guarded) -> str:
    return f"/api/v1/namespaces/{guarded.namespace}"


def _namespace(name: str, **labels: str) -> Any:
    namespace_labels = {
        _CLASS: "attempt",
        _LEVEL: "restricted",
        **{key.replace("_", "-"): value for key, value in labels.items()},
    }
    return lambda _: {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": namespace_labels}}


def _labels(**changes: str | None) -> Object:
    return {
        "metadata": {
            "labels": {{"level": _LEVEL, "mark": _CLASS}.get(key, key): value for key, value in changes.items()}
        }
    }


_spaces = Table("namespaces", ATTEMPTS)
_spaces.refused("space-walls", "lower walls by a merge patch", DEPLOYER, merge(_space, _labels(level="baseline")))
_spaces.refused(
    "space-walls",
    "no walls by a JSON patch",
    DEPLOYER,
    patch(_space, {"op": "remove", "path": f"/metadata/labels/{_LEVEL.replace('/', '~1')}"}),
)
_spaces.refused(
    "space-walls",
    "lower walls with its status",
    DEPLOYER,
    merge(lambda guarded: _space(guarded) + "/status", _labels(level="privileged")),
)
_spaces.refused(
    "space-walls",
    "lower walls while it is finalized",
    DEPLOYER,
    replace(_space, put(f"metadata|labels|{_LEVEL}", "privileged"), "/finalize"),
)
_spaces.refused(
    "space-walls",
    "a new one without walls",
    DEPLOYER,
    create(
        lambda _: {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": "sandbox-attempt", "labels": {_CLASS: "attempt"}},
        }
    ),
)
_spaces.refused("space-name", "a new one of another name", DEPLOYER, create(_namespace("elsewhere")))
_spaces.refused("space-name", "another class's", DEPLOYER, merge(_space, _labels(mark="other")))
_spaces.refused("space-by", "a new one by somebody", INSIDER, create(_namespace("sandbox-attempt")))
_spaces.refused("space-by", "no guardrails, by somebody", INSIDER, merge(_space, _labels(mark=None)))
_spaces.refused(
    "space-by",
    "no guardrails, with its status",
    INSIDER,
    merge(lambda guarded: _space(guarded) + "/status", _labels(mark=None)),
)
_spaces.refused(
    "space-by", "an older standard", INSIDER, merge(_space, {"metadata": {"labels": {f"{_LEVEL}-version": "v1.25"}}})
)
_spaces.refused(
    "space-by",
    "another payer, by the service",
    SERVICE,
    merge(_space, {"metadata": {"labels": {"sandbox.users.io/cost-center": "other"}}}),
)
_spaces.passes(
    "space-walls space-name space-by", "a new one by a deployment", DEPLOYER, create(_namespace("sandbox-attempt"))
)
_spaces.passes(
    "space-walls space-name space-by", "a label of somebody's own", INSIDER, merge(_space, _labels(team="a"))
)
_spaces.passes(
    "space-by",
    "another payer, by a deployment",
    DEPLOYER,
    merge(_space, {"metadata": {"labels": {"sandbox.users.io/cost-center": "other"}}}),
)
_spaces.passes(
    "space-walls space-name space-by",
    "its status",
    NAMESPACES,
    merge(lambda guarded: _space(guarded) + "/status", {"status": {"phase": "Active"}}),
)
_spaces.passes(
    "space-walls space-name space-by",
    "its finalizers",
    NAMESPACES,
    replace(_space, put("spec.finalizers", ["kubernetes"]), "/finalize"),
)

_fences = Table("fences", ATTEMPTS)


def _policy(guarded: Guarded) -> str:
    return f"/apis/networking.k8s.io/v1/namespaces/{guarded.namespace}/networkpolicies/capabilities"


def _quota(guarded: Guarded) -> str:
    return guarded.core("resourcequotas", "sandbox")


def _limits(guarded: Guarded) -> str:
    return guarded.core("limitranges", "sandbox")


def _account(guarded: Guarded) -> str:
    return guarded.core("serviceaccounts", "sandbox")


def _constraints(guarded: Guarded) -> str:
    return guarded.core("configmaps", "sandbox-class")


def _open(guarded: Guarded) -> Object:
    return plain(
        guarded,
        "networking.k8s.io/v1",
        "NetworkPolicy",
        spec={"podSelector": {}, "policyTypes": ["Egress"], "egress": [{}]},
    )


def _other_quota(guarded: Guarded) -> Object:
    return plain(guarded, "v1", "ResourceQuota", spec={"hard": {"pods": "1"}})


def _other_account(guarded: Guarded) -> Object:
    return plain(guarded, "v1", "ServiceAccount")


def _group(guarded: Guarded) -> Object:
    return plain(
        guarded,
        "vpcresources.k8s.aws/v1beta1",
        "SecurityGroupPolicy",
        spec={"podSelector": {}, "securityGroups": {"groupIds": ["sg-1"]}},
    )


_LABEL = {"metadata": {"labels": {"x": "y"}, "finalizers": ["example.com/kept"]}}
_fences.refused("fence-network", "one policy more", INSIDER, create(_open))
_fences.refused("fence-network", "one policy more by server-side apply", SERVICE, apply(_open))
_fences.refused("fence-network", "more reach by a merge patch", INSIDER, merge(_policy, {"spec": {"egress": [{}]}}))
_fences.refused(
    "fence-network",
    "other pods by a JSON patch",
    INSIDER,
    patch(_policy, {"op": "replace", "path": "/spec/podSelector", "value": {"matchLabels": {"x": "y"}}}),
)
_fences.refused("fence-network", "no policy", INSIDER, delete(_policy))
_fences.refused(
    "fence-network", "no policies at all", INSIDER, delete(lambda guarded: _policy(guarded).rpartition("/")[0])
)
_fences.passes("fence-network", "one policy more by a deployment", DEPLOYER, create(_open))
_fences.passes("fence-network", "no policy by a deployment", DEPLOYER, delete(_policy))
_fences.passes(
    "fence-network",
    "no policies at all, by who ends namespaces",
    NAMESPACES,
    delete(lambda guarded: _policy(guarded).rpartition("/")[0]),
)
_fences.refused("fence-network", "a security group more", INSIDER, create(_group))
_fences.refused("fence-network", "a security group more by server-side apply", SERVICE, apply(_group))
_fences.passes("fence-network", "a security group by a deployment", DEPLOYER, create(_group))
_fences.passes("fence-network", "a finalizer", INSIDER, merge(_policy, _LABEL))
_fences.refused("fence-limits", "a larger quota", INSIDER, merge(_quota, {"spec": {"hard": {"pods": "1000"}}}))
_fences.refused("fence-limits", "no quota", SERVICE, delete(_quota))
_fences.refused("fence-limits", "another quota", INSIDER, create(_other_quota))
_fences.refused("fence-limits", "no limits", INSIDER, delete(_limits))
_fences.passes(
    "fence-limits", "a larger quota by a deployment", DEPLOYER, merge(_quota, {"spec": {"hard": {"pods": "1000"}}})
)
_fences.passes(
    "fence-limits",
    "what is used of it",
    INSIDER,
    merge(lambda guarded: _quota(guarded) + "/status", {"status": {"used": {"pods": "1"}}}),
)
_fences.passes("fence-limits", "no limits, by who ends namespaces", NAMESPACES, delete(_limits))
_fences.refused(
    "fence-account",
    "a role in AWS",
    INSIDER,
    merge(_account, {"metadata": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/x"}}}),
)
_fences.refused("fence-account", "another account", INSIDER, create(_other_account))
_fences.refused("fence-account", "no account", INSIDER, delete(_account))
_fences.passes("fence-account", "the account that every namespace has", ACCOUNTS, create(_other_account))
_fences.passes("fence-account", "a label", INSIDER, merge(_account, _LABEL))
_fences.passes(
    "fence-account",
    "a role by a deployment",
    DEPLOYER,
    merge(_account, {"metadata": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/x"}}}),
)
_fences.refused(
    "fence-constraints",
    "another tier by a merge patch",
    INSIDER,
    merge(_constraints, {"data": {"runtimeClassName": ""}}),
)
_fences.refused(
    "fence-constraints",
    "one more image by a JSON patch",
    SERVICE,
    patch(_constraints, {"op": "add", "path": "/data/images", "value": "registry.example.com/x"}),
)
_fences.refused("fence-constraints", "none", INSIDER, delete(_constraints))
_fences.refused(
    "fence-constraints", "all of it by writing it anew", INSIDER, replace(_constraints, put("data.tier", "verified"))
)
_fences.passes("fence-constraints", "another tier by a deployment", DEPLOYER, merge(_constraints, {"data": {"x": "y"}}))
_fences.passes("fence-constraints", "a label", INSIDER, merge(_constraints, _LABEL))


def _keys(guarded: Guarded) -> str:
    return guarded.core("configmaps", "workspaced-keys")


_KEY = {"data": {"keys.json": '{"keys": []}'}}
_fences.refused("fence-keys", "a key of one's own by a merge patch", INSIDER, merge(_keys, _KEY))
_fences.refused(
    "fence-keys",
    "a key of one's own as bytes",
    PROVISIONER,
    merge(_keys, {"binaryData": {"keys.json": "e30="}}),
)
_fences.refused(
    "fence-keys", "a key of one's own by writing it anew", INSIDER, replace(_keys, put("data", _KEY["data"]))
)
_fences.refused("fence-keys", "none", INSIDER, delete(_keys))
_fences.passes("fence-keys", "its keys, by the service", SERVICE, merge(_keys, _KEY))
_fences.passes("fence-keys", "keys by a deployment", DEPLOYER, merge(_keys, _KEY))
_fences.passes("fence-keys", "a label", INSIDER, merge(_keys, _LABEL))
_fences.passes(
    "fence-constraints",
    "another ConfigMap",
    INSIDER,
    create(lambda guarded: plain(guarded, "v1", "ConfigMap", data={"x": "y"})),
)
