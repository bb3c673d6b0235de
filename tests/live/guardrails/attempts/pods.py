"""Pods of sandboxes that must be refused, and some that must pass: each a change to a pod of its class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentenv.core.classes.pods.aws_identity import FILE
from agentenv.core.iam.identity_exchange import AUDIENCE, TOKEN_SECONDS
from agentenv.core.values.posix_ids import class_id
from tests.live.guardrails.attempts.attempt import put
from tests.live.guardrails.guarded import CLASS, LOOSE, SHARED, Object

Change = Callable[[Object], Any]  # of the pod: its `metadata` and `spec`

OTHER = "registry.example.com/other@sha256:" + "cd" * 32
CONTAINER = "spec.containers.0."


def _every_container(place: str, value: Any) -> Change:
    def change(obj: Object) -> None:
        for kind in ("containers", "initContainers"):
            for number in range(len(obj["spec"].get(kind, ()))):
                put(f"spec.{kind}.{number}.{place}", value)(obj)

    return change


def _init(place: str, value: Any) -> Change:
    """Return a change of the init container, which rules about the other containers miss."""
    return put(f"spec.initContainers.0.{place}", value)


def _ids_of_other_class(ids: str, label: str) -> Change:
    """Return a change to another class's ids, with the label of that class."""

    def change(obj: Object) -> None:
        for word in ("runAsUser", "runAsGroup"):
            put(f"spec.securityContext.{word}", class_id(ids))(obj)
        put(f"{LABEL}home-class", label or None)(obj)

    return change


def identity_token(*more: Object, name: str = "x", **changes: Any) -> Object:
    """Return the volume with the token of a class's identity, with other fields or further sources."""
    token: Object = {"audience": AUDIENCE, "expirationSeconds": TOKEN_SECONDS, "path": FILE}
    fields = {key: value for key, value in {**token, **changes}.items() if value is not None}
    return {"name": name, "projected": {"sources": [{"serviceAccountToken": fields}, *more]}}


def _pod_field(path: str) -> Object:
    return {"name": "x", "downwardAPI": {"items": [{"path": "x", "fieldRef": {"fieldPath": path}}]}}


_KUBERNETES = "kubernetes.default.svc"
_KEYS_OF_CLASS = {
    "name": "x",
    "configMap": {"name": "workspaced-keys", "optional": True, "items": [{"key": "x", "path": "x"}]},
}
LABEL = "metadata|labels|sandbox.users.io/"
BAD: tuple[tuple[str, str, Change], ...] = (
    ("pod-runtime", "no runtime class", put("spec.runtimeClassName", None)),
    ("pod-account", "another account", put("spec.serviceAccountName", "default")),
    ("pod-account", "a token mounted", put("spec.automountServiceAccountToken", value=True)),
    ("pod-account", "a token that is mounted where nothing is said", put("spec.automountServiceAccountToken", None)),
    ("pod-user", "another user", put("spec.securityContext.runAsUser", 1000)),
    ("pod-user", "another group", put("spec.securityContext.runAsGroup", 1000)),
    ("pod-user", "a container of another user", put(CONTAINER + "securityContext.runAsUser", 1000)),
    ("pod-user", "a first container of another group", _init("securityContext.runAsGroup", 1000)),
    ("pod-user", "root in a container", put(CONTAINER + "securityContext.runAsNonRoot", value=False)),
    ("pod-user", "another group's files", put("spec.securityContext.supplementalGroups", [4711])),
    ("pod-user", "volumes of another group", put("spec.securityContext.fsGroup", 4711)),
    ("pod-user", "ids of another class, of which nothing is said", _ids_of_other_class(CLASS, "")),
    ("pod-user", "ids of another class than it says", _ids_of_other_class(CLASS, SHARED)),
    ("pod-user", "ids of a class that there is none of", _ids_of_other_class("nobody", "nobody")),
    ("pod-user", "its own class's ids, said to be another's", _ids_of_other_class(LOOSE, CLASS)),
    (
        "pod-privileges",
        "privileges",
        lambda obj: [
            put(CONTAINER + "securityContext.privileged", value=True)(obj),
            put(CONTAINER + "securityContext.allowPrivilegeEscalation", value=True)(obj),
        ],
    ),
    ("pod-privileges", "escalation", put(CONTAINER + "securityContext.allowPrivilegeEscalation", None)),
    ("pod-privileges", "capabilities not dropped", _init("securityContext.capabilities", {"drop": ["NET_RAW"]})),
    (
        "pod-privileges",
        "a capability added",
        put(CONTAINER + "securityContext.capabilities", {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}),
    ),
    ("pod-privileges", "a device", put(CONTAINER + "volumeDevices", [{"name": "home", "devicePath": "/dev/x"}])),
    ("pod-root", "a root to write to", _init("securityContext.readOnlyRootFilesystem", value=False)),
    ("pod-seccomp", "no filter", put("spec.securityContext.seccompProfile", None)),
    (
        "pod-seccomp",
        "a container without a filter",
        put(CONTAINER + "securityContext.seccompProfile", {"type": "Unconfined"}),
    ),
    ("pod-host", "the node's network", put("spec.hostNetwork", value=True)),
    ("pod-host", "the node's processes", put("spec.hostPID", value=True)),
    ("pod-host", "the node's memory", put("spec.hostIPC", value=True)),
    ("pod-host", "processes shared", put("spec.shareProcessNamespace", value=True)),
    ("pod-host", "a kernel's setting", put("spec.securityContext.sysctls", [{"name": "kernel.msgmax", "value": "1"}])),
    ("pod-host", "a port of the node", put(CONTAINER + "ports", [{"containerPort": 80, "hostPort": 80}])),
    ("pod-volumes", "the node's files", put("spec.volumes.-", {"name": "x", "hostPath": {"path": "/"}})),
    ("pod-volumes", "a secret", put("spec.volumes.-", {"name": "x", "secret": {"secretName": "x"}})),
    ("pod-volumes", "scratch space without a size", put("spec.volumes.-", {"name": "x", "emptyDir": {}})),
    (
        "pod-volumes",
        "somebody else's home",
        put("spec.volumes.-", {"name": "x", "persistentVolumeClaim": {"claimName": "home-somebody"}}),
    ),
    ("pod-volumes", "a file server", put("spec.volumes.-", {"name": "x", "nfs": {"server": "fs", "path": "/"}})),
    (
        "pod-volumes",
        "a driver's volume without a claim",
        put("spec.volumes.-", {"name": "x", "csi": {"driver": "efs.csi.aws.com"}}),
    ),
    ("pod-volumes", "a token of Kubernetes", put("spec.volumes.-", identity_token(audience=_KUBERNETES))),
    ("pod-volumes", "a token without an audience", put("spec.volumes.-", identity_token(audience=None))),
    (
        "pod-volumes",
        "an identity token that lasts longer",
        put("spec.volumes.-", identity_token(expirationSeconds=7200)),
    ),
    ("pod-volumes", "an identity token at another path", put("spec.volumes.-", identity_token(path="other"))),
    (
        "pod-volumes",
        "an identity token beside a token of Kubernetes",
        put("spec.volumes.-", identity_token({"serviceAccountToken": {"audience": _KUBERNETES, "path": "more"}})),
    ),
    (
        "pod-volumes",
        "an identity token beside a secret",
        put("spec.volumes.-", identity_token({"secret": {"name": "x"}})),
    ),
    (
        "pod-volumes",
        "a secret in the source of an identity token",
        lambda obj: [
            put("spec.volumes.-", identity_token())(obj),
            put("secret", {"name": "x"})(obj["spec"]["volumes"][-1]["projected"]["sources"][0]),
        ],
    ),
    (
        "pod-volumes",
        "the node's files in the volume of an identity token",
        put("spec.volumes.-", {**identity_token(), "hostPath": {"path": "/"}}),
    ),
    ("pod-volumes", "another ConfigMap", put("spec.volumes.-", {"name": "x", "configMap": {"name": "x"}})),
    ("pod-volumes", "some keys of the ConfigMap of keys", put("spec.volumes.-", _KEYS_OF_CLASS)),
    ("pod-volumes", "what others wrote on the pod", put("spec.volumes.-", _pod_field("metadata.annotations"))),
    ("pod-volumes", "no field of the pod", put("spec.volumes.-", {"name": "x", "downwardAPI": {}})),
    ("pod-volumes", "an empty projection", put("spec.volumes.-", {"name": "x", "projected": {"sources": []}})),
    ("pod-labels", "the label of another class", put(LABEL + "class", "other")),
    ("pod-labels", "no label of a class", put(LABEL + "class", None)),
    ("pod-labels", "the label of another tier", put(LABEL + "tier", "verified")),
    (
        "pod-annotations",
        "an annotation that gVisor reads",
        put("metadata|annotations|dev.gvisor.spec.mount.x.type", "bind"),
    ),
    (
        "pod-annotations",
        "an annotation that Kata reads",
        put("metadata|annotations|io.katacontainers.config.hypervisor.path", "/x"),
    ),
    ("pod-images", "a tag", put(CONTAINER + "image", "registry.example.com/sandbox:latest")),
    ("pod-images", "a first container's tag", _init("image", "registry.example.com/gate:latest")),
    ("pod-placement", "another tier's nodes", put("spec|nodeSelector|sandbox.users.io/tier", "verified")),
    ("pod-placement", "any node", put("spec.tolerations.-", {"operator": "Exists"})),
    (
        "pod-placement",
        "another tier's taint",
        put("spec.tolerations.-", {"key": "sandbox.users.io/tier", "value": "verified", "effect": "NoSchedule"}),
    ),
    (
        "pod-placement",
        "the platform's nodes",
        put("spec.tolerations.-", {"key": "CriticalAddonsOnly", "operator": "Exists"}),
    ),
    ("pod-node", "a node by name", put("spec.nodeName", "walled")),
    ("pod-node", "a scheduler of its own", put("spec.schedulerName", "mine")),
    ("pod-priority", "more priority", put("spec.priorityClassName", "system-node-critical")),
    (
        "pod-env",
        "a secret as a variable",
        put(CONTAINER + "env", [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "x", "key": "y"}}}]),
    ),
    ("pod-env", "all of a secret", put(CONTAINER + "envFrom", [{"secretRef": {"name": "x"}}])),
    ("pod-no-debug", "a debug container", put("spec.ephemeralContainers", [{"name": "debug", "image": OTHER}])),
)
# Without attempts: requests that the server itself refuses before admission, or defaults.
NOT_IN = {
    # RuntimeClass and nodeSelector are merged; they have to agree.
    "pods": {
        "another tier's nodes",
        "a token that is mounted where nothing is said",
        "a debug container",
        "an empty projection",
        "a device",
        "a driver's volume without a claim",
        "a secret in the source of an identity token",
        "the node's files in the volume of an identity token",
    },
    "templates": {"somebody else's home"},
    "sandboxes": set[str](),
}
GOOD: tuple[tuple[str, str, Change], ...] = (
    ("pod-user", "the same user said again", _every_container("securityContext.runAsUser", None)),
    ("pod-user", "ids of the class that its home was made in", _ids_of_other_class(CLASS, CLASS)),
    (
        "pod-placement",
        "nodes that are away for a moment",
        put(
            "spec.tolerations.-",
            {
                "key": "node.kubernetes.io/not-ready",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 5,
            },
        ),
    ),
    (
        "pod-placement",
        "nodes with local disks",
        put(
            "spec.affinity",
            {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]
                    }
                }
            },
        ),
    ),
    (
        "pod-env",
        "its own name as a variable",
        put(CONTAINER + "env", [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
    ),
    ("pod-volumes", "the token of the class's identity", put("spec.volumes.-", identity_token())),
    ("pod-volumes", "more scratch space", put("spec.volumes.-", {"name": "x", "emptyDir": {"sizeLimit": "1Mi"}})),
    (
        "pod-annotations",
        "an annotation that keeps its node",
        put("metadata|annotations|karpenter.sh/do-not-disrupt", "true"),
    ),
    ("pod-node", "the usual scheduler", put("spec.schedulerName", "default-scheduler")),
)
