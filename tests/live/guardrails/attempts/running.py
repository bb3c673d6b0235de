"""Attempts to run other workloads beside sandboxes, and to change or connect to their pods."""

from __future__ import annotations

from typing import Any

from tests.live.guardrails.attempts.attempt import (
    STRATEGIC,
    Attempt,
    Request,
    Table,
    changed,
    create,
    delete,
    merge,
    patch,
    pod_path,
    put,
    replace,
)
from tests.live.guardrails.guarded import (
    COLLECTOR,
    CONTROLLER,
    DEPLOYER,
    FARGATE,
    INSIDER,
    SCHEDULER,
    SERVICE,
    Guarded,
    Object,
    plain,
    pod,
)

ATTEMPTS: list[Attempt] = []
_OTHER = "registry.example.com/other@sha256:" + "cd" * 32


def _status(guarded: Guarded) -> str:
    return pod_path(guarded) + "/status"


_makers = Table("pod-makers", ATTEMPTS)
_makers.refused("pod-by", "a pod like a sandbox's, by somebody", INSIDER, create(pod))
_makers.refused("pod-by", "a pod like a sandbox's, by a deployment", DEPLOYER, create(pod))
_makers.refused("pod-by", "a pod like a sandbox's, by the service", SERVICE, create(pod))
_makers.refused(
    "pod-by",
    "a pod of nothing, by the controller",
    CONTROLLER,
    create(changed(pod, put("metadata.ownerReferences", []))),
)
_makers.refused(
    "pod-by",
    "a pod of something else, by the controller",
    CONTROLLER,
    create(changed(pod, put("metadata.ownerReferences.0.kind", "ReplicaSet"))),
)
_makers.passes("pod-by", "a pod of a Sandbox, by the controller", CONTROLLER, create(pod))

_unchanged = Table("pods-kept", ATTEMPTS)
_unchanged.refused(
    "pod-unchanged",
    "another image by a JSON patch",
    INSIDER,
    patch(pod_path, {"op": "replace", "path": "/spec/containers/0/image", "value": _OTHER}),
)
_unchanged.refused(
    "pod-unchanged",
    "another image by a strategic patch",
    DEPLOYER,
    merge(pod_path, {"spec": {"containers": [{"name": "sandbox", "image": _OTHER}]}}, STRATEGIC),
)
_unchanged.refused(
    "pod-unchanged",
    "one more toleration",
    CONTROLLER,
    patch(pod_path, {"op": "add", "path": "/spec/tolerations/-", "value": {"operator": "Exists"}}),
)
_unchanged.refused(
    "pod-moved",
    "another class's label by a merge patch",
    INSIDER,
    merge(pod_path, {"metadata": {"labels": {"sandbox.users.io/class": "other"}}}),
)
_unchanged.refused(
    "pod-moved",
    "no class's label by a JSON patch",
    CONTROLLER,
    patch(pod_path, {"op": "remove", "path": "/metadata/labels/sandbox.users.io~1class"}),
)
_unchanged.refused(
    "pod-moved",
    "another class's label, with its status",
    INSIDER,
    merge(_status, {"metadata": {"labels": {"sandbox.users.io/class": "other"}}}),
)
_unchanged.refused(
    "pod-moved",
    "another release's label by all of it",
    DEPLOYER,
    replace(pod_path, put("metadata|labels|sandbox.users.io/release", "x")),
)
_unchanged.refused(
    "pod-disowned", "no Sandbox", INSIDER, patch(pod_path, {"op": "remove", "path": "/metadata/ownerReferences"})
)
_unchanged.refused(
    "pod-disowned",
    "one Sandbox more",
    DEPLOYER,
    patch(
        pod_path,
        {
            "op": "add",
            "path": "/metadata/ownerReferences/-",
            "value": {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1"},
        },
    ),
)
_unchanged.passes(
    "pod-unchanged pod-moved pod-disowned",
    "an annotation and a finalizer",
    INSIDER,
    merge(pod_path, {"metadata": {"annotations": {"x": "y"}, "finalizers": ["example.com/kept"]}}),
)
_unchanged.passes(
    "pod-unchanged pod-moved pod-disowned",
    "a status by its node",
    "node",
    merge(_status, {"status": {"message": "well"}}, STRATEGIC),
)
_unchanged.passes(
    "pod-disowned",
    "no Sandbox, by the collector of what it leaves behind",
    COLLECTOR,
    patch(pod_path, {"op": "remove", "path": "/metadata/ownerReferences"}),
)


def _idle(guarded: Guarded) -> str:
    return guarded.core("pods", guarded.idle)


for _key in ("user", "workspace", "task", "mode"):
    _label = {"metadata": {"labels": {f"sandbox.users.io/{_key}": "x"}}}
    _unchanged.refused("pod-given", f"{_key} of one that nobody has", INSIDER, merge(_idle, _label))
    _unchanged.passes(
        "pod-given", f"{_key} of one that nobody has, by the controller", CONTROLLER, merge(_idle, _label)
    )
_unchanged.refused(
    "pod-given",
    "whose it is, with the status of one that nobody has",
    INSIDER,
    merge(
        lambda guarded: _idle(guarded) + "/status", {"metadata": {"labels": {"sandbox.users.io/user": "x"}}}, STRATEGIC
    ),
)
_unchanged.refused(
    "pod-given",
    "whose it is, by a deployer",
    DEPLOYER,
    merge(_idle, {"metadata": {"labels": {"sandbox.users.io/user": "x"}}}),
)
_unchanged.refused(
    "pod-given", "a budget", INSIDER, merge(pod_path, {"metadata": {"annotations": {"sandbox.users.io/budget": "1"}}})
)
_unchanged.passes("pod-given", "another label", INSIDER, merge(pod_path, {"metadata": {"labels": {"x": "y"}}}))
_unchanged.passes("pod-unchanged", "its end", INSIDER, delete(pod_path))

_INSIDE: Object = {
    "metadata": {"labels": {"app": "x"}},
    "spec": {"containers": [{"name": "main", "image": _OTHER}], "restartPolicy": "Always"},
}
_SELECTED: Object = {"selector": {"matchLabels": {"app": "x"}}, "template": _INSIDE}
_ONCE: Object = {"template": {**_INSIDE, "spec": {**_INSIDE["spec"], "restartPolicy": "Never"}}}
_KINDS: tuple[tuple[str, str, Object], ...] = (
    ("apps/v1", "Deployment", _SELECTED),
    ("apps/v1", "StatefulSet", {**_SELECTED, "serviceName": "x"}),
    ("apps/v1", "DaemonSet", _SELECTED),
    ("apps/v1", "ReplicaSet", _SELECTED),
    ("batch/v1", "Job", _ONCE),
    ("batch/v1", "CronJob", {"schedule": "0 0 * * *", "jobTemplate": {"spec": _ONCE}}),
    ("v1", "ReplicationController", {"selector": {"app": "x"}, "template": _INSIDE}),
)


def _workload(version: str, kind: str, spec: Object) -> Any:
    return lambda guarded: plain(guarded, version, kind, spec=spec)


def _leftover(guarded: Guarded) -> str:
    return f"/apis/apps/v1/namespaces/{guarded.open_namespace}/deployments/leftover"


_workloads = Table("workloads", ATTEMPTS)
for _version, _kind, _spec in _KINDS:
    for _user, _who in ((INSIDER, "somebody"), (DEPLOYER, "a deployment")):
        _workloads.refused("workload-none", f"a {_kind} by {_who}", _user, create(_workload(_version, _kind, _spec)))
_workloads.refused(
    "workload-none",
    "more of what was there before, by its scale",
    INSIDER,
    merge(lambda guarded: _leftover(guarded) + "/scale", {"spec": {"replicas": 3}}),
)
_workloads.refused(
    "workload-none",
    "more of what was there before, by a merge patch",
    DEPLOYER,
    merge(_leftover, {"spec": {"replicas": 3}}),
)
_workloads.passes(
    "workload-none",
    "none of what was there before, by its scale",
    INSIDER,
    merge(lambda guarded: _leftover(guarded) + "/scale", {"spec": {"replicas": 0}}),
)
_workloads.passes(
    "workload-none",
    "an annotation of what was there before",
    INSIDER,
    merge(_leftover, {"metadata": {"annotations": {"x": "y"}}}),
)
_workloads.passes("workload-none", "what was there before, taken away", INSIDER, delete(_leftover))

_parts = Table("pod-parts", ATTEMPTS)


def _debug(guarded: Guarded) -> str:
    return pod_path(guarded) + "/ephemeralcontainers"


def _resize(guarded: Guarded) -> str:
    return guarded.core("pods", "waiting", guarded.open_namespace) + "/resize"


_CONTAINER = {
    "name": "debug",
    "image": _OTHER,
    "targetContainerName": "sandbox",
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True},
}
_SMALLER = {
    "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "50m"}, "limits": {"cpu": "50m"}}}]}
}


def _binding(guarded: Guarded) -> Request:
    about = {"name": "waiting", "namespace": guarded.open_namespace}
    target = {"apiVersion": "v1", "kind": "Node", "name": "walled"}
    obj = {"apiVersion": "v1", "kind": "Binding", "metadata": about, "target": target}
    return Request("POST", guarded.core("pods", "waiting", guarded.open_namespace) + "/binding", obj)


def _old_binding(guarded: Guarded) -> Request:
    request_body = _binding(guarded)
    return Request("POST", f"/api/v1/namespaces/{guarded.open_namespace}/bindings", request_body.body)


for _user, _who in ((INSIDER, "somebody"), (DEPLOYER, "a deployment"), (SERVICE, "the service")):
    _parts.refused(
        "pod-debugged",
        f"a debug container by {_who}",
        _user,
        merge(_debug, {"spec": {"ephemeralContainers": [_CONTAINER]}}, STRATEGIC),
    )
_parts.refused(
    "pod-debugged",
    "a debug container by a JSON patch",
    INSIDER,
    patch(_debug, {"op": "add", "path": "/spec/ephemeralContainers", "value": [_CONTAINER]}),
)
_parts.passes(
    "pod-debugged", "no debug container", INSIDER, merge(_debug, {"spec": {"ephemeralContainers": []}}, STRATEGIC)
)
_parts.refused("pod-resized", "another size by somebody", INSIDER, merge(_resize, _SMALLER, STRATEGIC))
for _user, _who in ((SERVICE, "the service"), (DEPLOYER, "a deployer")):
    _parts.passes("pod-resized", f"another size by {_who}", _user, merge(_resize, _SMALLER, STRATEGIC))
_parts.refused("pod-bound", "a node by somebody", INSIDER, _binding)
_parts.refused("pod-bound", "a node by somebody, the old way", INSIDER, _old_binding)
_parts.refused("pod-bound", "a node by the service", SERVICE, _binding)
_parts.passes("pod-bound", "a node by the scheduler", SCHEDULER, _binding)
_parts.passes("pod-bound", "a node by a scheduler of EKS", FARGATE, _binding)
