"""Attempts at the shape of a sandbox's pod: the same ones in a template, in a Sandbox and in a pod.

Each is made by whoever may write that kind, so that nothing else is against it.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from model import seats
from model.guardrails import EKS, policies
from tests.live.guardrails.attempts.attempt import (
    Attempt,
    Table,
    apply,
    changed,
    create,
    merge,
    patch,
    put,
)
from tests.live.guardrails.stage import (
    CONTROLLER,
    DEPLOYER,
    FARGATE_CLASS,
    LOOSE,
    SERVICE,
    Guarded,
    Object,
    pod,
    sandbox,
    seat,
    swarm,
    template,
)

ATTEMPTS: list[Attempt] = []
Change = Callable[[Object], Any]  # of the pod: its `metadata` and `spec`

_OTHER = "registry.example.com/other@sha256:" + "cd" * 32
_CONTAINER = "spec.containers.0."


def _every_container(place: str, value: Any) -> Change:
    def change(thing: Object) -> None:
        for kind in ("containers", "initContainers"):
            for number in range(len(thing["spec"].get(kind, ()))):
                put(f"spec.{kind}.{number}.{place}", value)(thing)

    return change


def _init(place: str, value: Any) -> Change:
    """In the first container: what looks at the others only is found out."""
    return put(f"spec.initContainers.0.{place}", value)


_TOKEN = {"serviceAccountToken": {"path": "token", "audience": "kubernetes.default.svc", "expirationSeconds": 3600}}
_LABEL = "metadata|labels|sandbox.users.io/"
_BAD: tuple[tuple[str, str, Change], ...] = (
    ("pod-runtime", "no runtime class", put("spec.runtimeClassName", None)),
    ("pod-account", "another account", put("spec.serviceAccountName", "default")),
    ("pod-account", "a token mounted", put("spec.automountServiceAccountToken", value=True)),
    ("pod-account", "a token that is mounted where nothing is said", put("spec.automountServiceAccountToken", None)),
    ("pod-user", "another user", put("spec.securityContext.runAsUser", 1000)),
    ("pod-user", "another group", put("spec.securityContext.runAsGroup", 1000)),
    ("pod-user", "a container of another user", put(_CONTAINER + "securityContext.runAsUser", 1000)),
    ("pod-user", "a first container of another group", _init("securityContext.runAsGroup", 1000)),
    ("pod-user", "root in a container", put(_CONTAINER + "securityContext.runAsNonRoot", value=False)),
    ("pod-user", "another group's files", put("spec.securityContext.supplementalGroups", [4711])),
    ("pod-user", "volumes of another group", put("spec.securityContext.fsGroup", 4711)),
    (
        "pod-privileges",
        "privileges",
        lambda thing: [
            put(_CONTAINER + "securityContext.privileged", value=True)(thing),
            put(_CONTAINER + "securityContext.allowPrivilegeEscalation", value=True)(thing),
        ],
    ),
    ("pod-privileges", "escalation", put(_CONTAINER + "securityContext.allowPrivilegeEscalation", None)),
    ("pod-privileges", "capabilities not dropped", _init("securityContext.capabilities", {"drop": ["NET_RAW"]})),
    (
        "pod-privileges",
        "a capability added",
        put(_CONTAINER + "securityContext.capabilities", {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}),
    ),
    ("pod-privileges", "a device", put(_CONTAINER + "volumeDevices", [{"name": "home", "devicePath": "/dev/x"}])),
    ("pod-root", "a root to write to", _init("securityContext.readOnlyRootFilesystem", value=False)),
    ("pod-seccomp", "no filter", put("spec.securityContext.seccompProfile", None)),
    (
        "pod-seccomp",
        "a container without a filter",
        put(_CONTAINER + "securityContext.seccompProfile", {"type": "Unconfined"}),
    ),
    ("pod-host", "the node's network", put("spec.hostNetwork", value=True)),
    ("pod-host", "the node's processes", put("spec.hostPID", value=True)),
    ("pod-host", "the node's memory", put("spec.hostIPC", value=True)),
    ("pod-host", "processes shared", put("spec.shareProcessNamespace", value=True)),
    ("pod-host", "a kernel's setting", put("spec.securityContext.sysctls", [{"name": "kernel.msgmax", "value": "1"}])),
    ("pod-host", "a port of the node", put(_CONTAINER + "ports", [{"containerPort": 80, "hostPort": 80}])),
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
    ("pod-volumes", "a token of Kubernetes", put("spec.volumes.-", {"name": "x", "projected": {"sources": [_TOKEN]}})),
    ("pod-volumes", "an empty projection", put("spec.volumes.-", {"name": "x", "projected": {"sources": []}})),
    ("pod-labels", "the label of another class", put(_LABEL + "class", "other")),
    ("pod-labels", "no label of a class", put(_LABEL + "class", None)),
    ("pod-labels", "the label of another tier", put(_LABEL + "tier", "verified")),
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
    ("pod-images", "a tag", put(_CONTAINER + "image", "registry.example.com/sandbox:latest")),
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
        put(_CONTAINER + "env", [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "x", "key": "y"}}}]),
    ),
    ("pod-env", "all of a secret", put(_CONTAINER + "envFrom", [{"secretRef": {"name": "x"}}])),
    ("pod-no-debug", "a debug container", put("spec.ephemeralContainers", [{"name": "debug", "image": _OTHER}])),
)
# What the server refuses by itself before it asks anybody, or fills in, has no attempt in that place.
_NOT_IN = {
    # RuntimeClass and nodeSelector are merged; they have to agree.
    "pods": {
        "another tier's nodes",
        "a token that is mounted where nothing is said",
        "a debug container",
        "an empty projection",
        "a device",
        "a driver's volume without a claim",
    },
    "templates": {"somebody else's home"},
    "sandboxes": set[str](),
}
_GOOD: tuple[tuple[str, str, Change], ...] = (
    ("pod-user", "the same user said again", _every_container("securityContext.runAsUser", None)),
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
        put(_CONTAINER + "env", [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
    ),
    ("pod-volumes", "more scratch space", put("spec.volumes.-", {"name": "x", "emptyDir": {"sizeLimit": "1Mi"}})),
    (
        "pod-annotations",
        "an annotation that keeps its node",
        put("metadata|annotations|karpenter.sh/do-not-disrupt", "true"),
    ),
    ("pod-node", "the usual scheduler", put("spec.schedulerName", "default-scheduler")),
)


def _in_template(change: Change) -> Change:
    return lambda thing: change(thing["spec"]["podTemplate"])


def _seat(made: Guarded) -> Object:
    """A declared workspace, with its own id and home."""
    return seats.sandbox(seat(), made.loose.templates[0]["spec"])


_RULES = {row.name: " ".join(rule.id for rule in row.rules) for row in policies(["fs-1"], EKS)}
_EVERY = _RULES["pods"]
for _name, _thing, _user, _inside in (
    ("templates", template, DEPLOYER, _in_template),
    ("sandboxes", sandbox, SERVICE, _in_template),
    ("pods", pod, CONTROLLER, lambda change: change),
):
    _table = Table(_name, ATTEMPTS)
    for _rule, _what, _change in _BAD:
        if _what not in _NOT_IN[_name]:
            _table.refused(_rule, _what, _user, create(changed(_thing, _inside(_change))))
    _table.passes(_RULES[_name], "as the class has it", _user, create(_thing))
    for _rule, _what, _change in _GOOD:
        _table.passes(_rule, _what, _user, create(changed(_thing, _inside(_change))))

_templates = Table("templates", ATTEMPTS)
_templates.refused(
    "pod-images",
    "an image that is none of the class's",
    DEPLOYER,
    create(changed(template, _in_template(put(_CONTAINER + "image", _OTHER)))),
)
_templates.refused(
    "pod-labels",
    "labels without who pays",
    DEPLOYER,
    create(changed(template, _in_template(put(_LABEL + "cost-center", None)))),
)
_templates.refused(
    "pod-runtime",
    "one that stands, by a JSON patch",
    DEPLOYER,
    patch(
        lambda made: made.extension("sandboxtemplates", made.pool),
        {"op": "remove", "path": "/spec/podTemplate/spec/runtimeClassName"},
    ),
)
_templates.refused(
    "pod-labels",
    "one that stands, by a merge patch",
    DEPLOYER,
    merge(
        lambda made: made.extension("sandboxtemplates", made.pool),
        {"spec": {"podTemplate": {"metadata": {"labels": {"sandbox.users.io/class": "other"}}}}},
    ),
)
_templates.passes(
    _EVERY,
    "one that stands, with a label for the controller",
    CONTROLLER,
    merge(
        lambda made: made.extension("sandboxtemplates", made.pool),
        {"metadata": {"labels": {"agents.x-k8s.io/sandbox-template-ref-hash": "1"}}},
    ),
)

_sandboxes = Table("sandboxes", ATTEMPTS)


def _standing(made: Guarded) -> str:
    return made.extension("sandboxes", made.sandbox)


_sandboxes.refused(
    "pod-images",
    "an image that is none of the class's",
    SERVICE,
    create(changed(sandbox, _in_template(put(_CONTAINER + "image", _OTHER)))),
)
_sandboxes.refused(
    "pod-images",
    "another image by a JSON patch",
    SERVICE,
    patch(_standing, {"op": "replace", "path": "/spec/podTemplate/spec/containers/0/image", "value": _OTHER}),
)
_sandboxes.refused(
    "pod-host",
    "the node's network by a merge patch",
    DEPLOYER,
    merge(_standing, {"spec": {"podTemplate": {"spec": {"hostNetwork": True}}}}),
)
_sandboxes.refused(
    "pod-runtime",
    "no runtime class by a JSON patch, by the controller",
    CONTROLLER,
    patch(_standing, {"op": "remove", "path": "/spec/podTemplate/spec/runtimeClassName"}),
)
_sandboxes.refused(
    "pod-user",
    "a declared workspace with the class's id",
    DEPLOYER,
    create(lambda made: sandbox(made, f"seat-{LOOSE}")),
)
_sandboxes.refused(
    "pod-host",
    "the node's network by server-side apply",
    DEPLOYER,
    apply(changed(sandbox, _in_template(put("spec.hostNetwork", value=True)))),
)
_sandboxes.passes(_EVERY, "a declared workspace", DEPLOYER, create(_seat))
_sandboxes.passes(
    "pod-images pod-labels",
    "an image that the class has left behind, by the controller",
    CONTROLLER,
    create(changed(sandbox, _in_template(put(_CONTAINER + "image", _OTHER)))),
)
_sandboxes.passes(
    _EVERY, "one that stands, put to sleep", SERVICE, merge(_standing, {"spec": {"operatingMode": "Suspended"}})
)
_sandboxes.passes(
    _EVERY,
    "one that stands, with its status",
    CONTROLLER,
    merge(lambda made: _standing(made) + "/status", {"status": {"nodeName": "walled"}}),
)
_sandboxes.passes(
    "pod-host",
    "one that stands, with a specification beside its status, which the server leaves out",
    CONTROLLER,
    merge(
        lambda made: _standing(made) + "/status",
        {"status": {"nodeName": "walled"}, "spec": {"podTemplate": {"spec": {"hostNetwork": True}}}},
    ),
)

_pods = Table("pods", ATTEMPTS)
_pods.passes(
    "pod-images",
    "an image that the class has left behind",
    CONTROLLER,
    create(changed(pod, put(_CONTAINER + "image", _OTHER))),
)
_pods.passes(
    "pod-volumes",
    "a token that EKS's webhook brings",
    CONTROLLER,
    create(
        changed(
            pod,
            put(
                "spec.volumes.-",
                {
                    "name": "aws-iam-token",
                    "projected": {
                        "sources": [
                            {
                                "serviceAccountToken": {
                                    "path": "token",
                                    "audience": "sts.amazonaws.com",
                                    "expirationSeconds": 3600,
                                }
                            }
                        ]
                    },
                },
            ),
        )
    ),
)


def _pod_of_seat(made: Guarded) -> Object:
    found, inside = pod(made, f"seat-{LOOSE}"), _seat(made)["spec"]["podTemplate"]["spec"]
    return {**found, "spec": inside}


_pods.passes("pod-user pod-volumes", "that of a declared workspace", CONTROLLER, create(_pod_of_seat))
_pods.refused(
    "pod-user",
    "that of a declared workspace with the class's id",
    CONTROLLER,
    create(lambda made: pod(made, f"seat-{LOOSE}")),
)


def _on_fargate(made: Guarded) -> Object:
    """A pod of the class on Fargate, as EKS's webhook leaves it."""
    objects = made.classes[FARGATE_CLASS]
    inside = deepcopy(objects.templates[0]["spec"]["podTemplate"])
    profile = {"eks.amazonaws.com/fargate-profile": "batch"}
    found = pod(made)
    found["metadata"] |= {
        "namespace": objects.namespace["metadata"]["name"],
        "labels": {**inside["metadata"]["labels"], **profile},
    }
    # The server knows which number that name has, and would fill it in.
    inside["spec"] |= {"schedulerName": "fargate-scheduler", "priorityClassName": "system-node-critical"}
    return {**found, "spec": inside["spec"]}


_pods.passes(_EVERY, "one on Fargate", CONTROLLER, create(_on_fargate))
_pods.refused(
    "pod-priority",
    "one on Fargate with more priority than Fargate gives",
    CONTROLLER,
    create(changed(_on_fargate, put("spec.priorityClassName", "system-cluster-critical"))),
)
_pods.refused(
    "pod-runtime",
    "one on Fargate with a runtime class",
    CONTROLLER,
    create(changed(_on_fargate, put("spec.runtimeClassName", "gvisor"))),
)
_pods.refused(
    "pod-volumes",
    "what another task shares",
    CONTROLLER,
    create(changed(pod, put("spec.volumes.-", {"name": "x", "persistentVolumeClaim": {"claimName": "shared-t-1"}}))),
)
_templates.passes(_EVERY, "that of a task", SERVICE, create(lambda made: swarm(made).template))
_templates.refused(
    "pod-volumes",
    "that of a task with what another shares",
    SERVICE,
    create(
        lambda made: changed(
            lambda _: swarm(made).template, _in_template(put("metadata|labels|sandbox.users.io/task", "t-2"))
        )(made)
    ),
)
