"""Guardrails for pods in a class's namespace: only the sandbox controller creates them, and they stay unchanged."""

from __future__ import annotations

from typing import Any

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import RELEASE_LABEL, SANDBOX
from agentenv.core.guardrails.guardrail import (
    SUBRESOURCE,
    Operation,
    Policy,
    Rule,
    Watch,
    all_of,
    key_below,
    quoted,
    quoted_list,
    unchanged_marks,
    unless,
)
from agentenv.core.guardrails.owners import OWNER_UNCHANGED
from agentenv.core.guardrails.principals import CLOUD, Principals, requested_by
from agentenv.core.nodes.tiers import TIER_LABEL
from agentenv.core.workspaces.workspace import DOMAIN

# Paths of the kubelet that connect to containers.
_KUBELET_PATHS = ("exec", "run", "attach", "portforward", "cri")
_FIXED = (CLASS_LABEL, TIER_LABEL, RELEASE_LABEL)

# The default of pods without a priority class. Placeholder pods have less and are preempted; system components have
# more. No pod in between preempts a sandbox.
_PRIORITY = 0


def priority_class() -> dict[str, Any]:
    """Return the PriorityClass of sandboxes."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": SANDBOX},
        "value": _PRIORITY,
        "globalDefault": False,
        "preemptionPolicy": "PreemptLowerPriority",
        "description": "Sandboxes: they preempt placeholder pods, and no pod without a priority class preempts them.",
    }


def policies(principals: Principals) -> tuple[Policy, ...]:
    """Return the policies for the creation of pods, for changes of them, and for connections to them."""
    return (_creation(principals), _unchanged(principals), _workloads(), _pod_parts(principals), _connections())


def _creation(principals: Principals) -> Policy:
    controller = quoted(principals.sandbox_controller)
    return Policy(
        name="pod-makers",
        about="Creation of pods.",
        watches=(Watch("", ("pods",), ("CREATE",)),),
        rules=(
            Rule(
                "pod-by",
                "Any other pod in the namespace has the class's network access and service account, and no owner.",
                all_of(
                    f"request.userInfo.username == {controller}",
                    "object.metadata.?ownerReferences.orValue([]).exists(owner, owner.kind == 'Sandbox' &&"
                    " owner.apiVersion.startsWith('agents.x-k8s.io/') && owner.?controller.orValue(false))",
                ),
                "only the sandbox controller may create pods, for a Sandbox; create a SandboxClaim",
            ),
        ),
    )


def _unchanged(principals: Principals) -> Policy:
    labels = " && ".join(
        f"object.metadata.?labels[?{quoted(key)}] == oldObject.metadata.?labels[?{quoted(key)}]" for key in _FIXED
    )
    return Policy(
        name="pods-kept",
        about="Updates of pods and of their status.",
        watches=(Watch("", ("pods", "pods/status"), ("UPDATE",)),),
        rules=(
            Rule(
                "pod-unchanged",
                "An image that is changed in a running pod was not checked on creation.",
                "object.spec == oldObject.spec",
                "the spec of a pod must not change",
            ),
            Rule(
                "pod-moved",
                "Network policies select pods by these labels.",
                labels,
                "the labels of a pod's class, tier and release must not change",
            ),
            Rule(
                "pod-given",
                "Once a pod has an owner it is accounted to them, and no one else gets it.",
                unless(
                    unchanged_marks(f"({key_below(DOMAIN)} && !(key in {quoted_list(_FIXED)}) && !{OWNER_UNCHANGED})"),
                    requested_by(principals.sandbox_controller, deployers=False),
                ),
                "only the sandbox controller may set a pod's labels and annotations below sandbox.users.io/, from its"
                " claim",
            ),
            Rule(
                "pod-disowned",
                "A pod without an owner reference to its Sandbox keeps running when the Sandbox is suspended or"
                " deleted.",
                unless(
                    "object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences",
                    requested_by(principals.sandbox_controller, *principals.collectors, deployers=False),
                ),
                "the ownerReferences of a pod must not change",
            ),
        ),
    )


def _workloads() -> Policy:
    both: tuple[Operation, ...] = ("CREATE", "UPDATE")
    return Policy(
        name="workloads",
        about="Workloads, which create pods.",
        watches=(
            Watch("apps", ("deployments", "statefulsets", "daemonsets", "replicasets"), both),
            Watch("apps", ("deployments/scale", "statefulsets/scale", "replicasets/scale"), ("UPDATE",)),
            Watch("batch", ("jobs", "cronjobs"), both),
            Watch("", ("replicationcontrollers",), both),
            Watch("", ("replicationcontrollers/scale",), ("UPDATE",)),
        ),
        rules=(
            Rule(
                "workload-none",
                "Only sandboxes run in the namespaces of classes. Older workloads may be scaled to zero and deleted.",
                f"{SUBRESOURCE} == 'scale' ? object.spec.?replicas.orValue(0) == 0 :"
                " (oldObject != null && (object.spec == oldObject.spec || object.spec.?replicas.orValue(1) == 0))",
                "workloads must not be created in the namespace of a class; create a SandboxClaim",
            ),
        ),
    )


def _pod_parts(principals: Principals) -> Policy:
    return Policy(
        name="pod-parts",
        about="Updates of running pods through their subresources.",
        watches=(
            Watch("", ("pods/ephemeralcontainers", "pods/resize"), ("UPDATE",)),
            Watch("", ("pods/binding", "bindings"), ("CREATE",)),
        ),
        rules=(
            Rule(
                "pod-debugged",
                "A debug container may run any image as any user, with access to the owner's files and processes.",
                unless(
                    f"{SUBRESOURCE} != 'ephemeralcontainers'",
                    "object.spec.?ephemeralContainers.orValue([]).size() == 0",
                ),
                "ephemeral containers must not be added to a sandbox",
            ),
            Rule(
                "pod-resized",
                "The owner of a sandbox pays for its resources; the LimitRange bounds them.",
                unless(f"{SUBRESOURCE} != 'resize'", requested_by(principals.service)),
                "only the workspace service and deployers may resize sandboxes",
            ),
            Rule(
                "pod-bound",
                "The binding of a pod chooses its node.",
                unless(
                    f"{SUBRESOURCE} != 'binding' && request.resource.resource != 'bindings'",
                    requested_by(*principals.schedulers, prefixes=[CLOUD]),
                ),
                "only the scheduler may bind pods to nodes",
            ),
        ),
    )


def _connections() -> Policy:
    connects = f"{quoted_list(_KUBELET_PATHS)}.exists(start, object.?path.orValue('').lowerAscii().contains(start))"
    subresources = ("pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "services/proxy")
    return Policy(
        name="doors",
        about="Connections to running sandboxes through the API server, and through their nodes.",
        # Nodes are cluster-scoped, so all of them are matched; the kubelet's own paths connect to containers.
        watches=(Watch("", (*subresources, "nodes/proxy"), ("CONNECT",)),),
        rules=(
            Rule(
                "pod-entered",
                "A sandbox belongs to its owner. Deployers may connect to help, which the audit log records. RBAC alone"
                " would allow everyone who may edit workloads.",
                unless(
                    f"request.resource.resource == 'nodes' && !{connects}",
                    requested_by(),
                ),
                "only deployers may connect to a sandbox through the API server; its owner connects to its ports",
            ),
        ),
    )
