"""What runs in a class's namespace: pods that the sandbox controller made of Sandboxes, as it made them."""

from __future__ import annotations

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import RELEASE_LABEL
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

# Of a kubelet, by which one gets into containers.
_INTO = ("exec", "run", "attach", "portforward", "cri")
_FIXED = (CLASS_LABEL, TIER_LABEL, RELEASE_LABEL)


def policies(principals: Principals) -> tuple[Policy, ...]:
    """Who makes pods, what becomes of them, and who gets into one."""
    return (_creation(principals), _unchanged(principals), _workloads(), _pod_parts(principals), _connections())


def _creation(principals: Principals) -> Policy:
    controller = quoted(principals.sandbox_controller)
    return Policy(
        name="pod-makers",
        about="Who makes pods.",
        watches=(Watch("", ("pods",), ("CREATE",)),),
        rules=(
            Rule(
                "pod-by",
                "What else runs in the namespace has the class's network and account, and nobody who answers for it.",
                all_of(
                    f"request.userInfo.username == {controller}",
                    "object.metadata.?ownerReferences.orValue([]).exists(owner, owner.kind == 'Sandbox' &&"
                    " owner.apiVersion.startsWith('agents.x-k8s.io/') && owner.?controller.orValue(false))",
                ),
                "pods are made by the sandbox controller, of a Sandbox; make a claim",
            ),
        ),
    )


def _unchanged(principals: Principals) -> Policy:
    labels = " && ".join(
        f"object.metadata.?labels[?{quoted(key)}] == oldObject.metadata.?labels[?{quoted(key)}]" for key in _FIXED
    )
    return Policy(
        name="pods-kept",
        about="Changes of pods, by the ordinary way and with their status.",
        watches=(Watch("", ("pods", "pods/status"), ("UPDATE",)),),
        rules=(
            Rule(
                "pod-unchanged",
                "An image that is exchanged in a running pod was not looked at when it was made.",
                "object.spec == oldObject.spec",
                "a pod's specification stays as it was made",
            ),
            Rule(
                "pod-moved",
                "Without its label a pod is outside its network policy; with another's it is inside theirs.",
                labels,
                "a pod keeps the labels of its class, tier and release",
            ),
            Rule(
                "pod-given",
                "From the moment that it has one, a pod is accounted to its owner, and nobody else is ever given it.",
                unless(
                    unchanged_marks(f"({key_below(DOMAIN)} && !(key in {quoted_list(_FIXED)}) && !{OWNER_UNCHANGED})"),
                    requested_by(principals.sandbox_controller, deployers=False),
                ),
                "whose a pod is, and what else it says below sandbox.users.io/, is written by the sandbox controller as"
                " its claim has it",
            ),
            Rule(
                "pod-disowned",
                "A pod that belongs to no Sandbox outlives it, and suspending it ends nothing.",
                unless(
                    "object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences",
                    requested_by(principals.sandbox_controller, *principals.collectors, deployers=False),
                ),
                "a pod keeps the Sandbox that it belongs to",
            ),
        ),
    )


def _workloads() -> Policy:
    both: tuple[Operation, ...] = ("CREATE", "UPDATE")
    return Policy(
        name="workloads",
        about="Everything that makes pods by itself.",
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
                "Only sandboxes run where sandboxes do. What was there before may be scaled to nothing and taken away.",
                f"{SUBRESOURCE} == 'scale' ? object.spec.?replicas.orValue(0) == 0 :"
                " (oldObject != null && (object.spec == oldObject.spec || object.spec.?replicas.orValue(1) == 0))",
                "no workloads in the namespace of a class; make a claim",
            ),
        ),
    )


def _pod_parts(principals: Principals) -> Policy:
    return Policy(
        name="pod-parts",
        about="What is changed in a running pod through its subresources.",
        watches=(
            Watch("", ("pods/ephemeralcontainers", "pods/resize"), ("UPDATE",)),
            Watch("", ("pods/binding", "bindings"), ("CREATE",)),
        ),
        rules=(
            Rule(
                "pod-debugged",
                "A debug container may run any image as any user, beside somebody's files and processes.",
                unless(
                    f"{SUBRESOURCE} != 'ephemeralcontainers'",
                    "object.spec.?ephemeralContainers.orValue([]).size() == 0",
                ),
                "no debug containers in a sandbox, for nobody",
            ),
            Rule(
                "pod-resized",
                "What a sandbox may use is what its owner pays for.",
                unless(f"{SUBRESOURCE} != 'resize'", requested_by()),
                "sandboxes are resized by deployers",
            ),
            Rule(
                "pod-bound",
                "Whoever binds a pod chooses its node.",
                unless(
                    f"{SUBRESOURCE} != 'binding' && request.resource.resource != 'bindings'",
                    requested_by(*principals.schedulers, prefixes=[CLOUD]),
                ),
                "pods are bound to nodes by the scheduler",
            ),
        ),
    )


def _connections() -> Policy:
    into = f"{quoted_list(_INTO)}.exists(start, object.?path.orValue('').lowerAscii().contains(start))"
    ways = ("pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "services/proxy")
    return Policy(
        name="doors",
        about="Ways into a running sandbox through the API server, also by its node.",
        # A node has no namespace, and is looked at as well; it lets in by its own paths.
        watches=(Watch("", (*ways, "nodes/proxy"), ("CONNECT",)),),
        rules=(
            Rule(
                "pod-entered",
                "A sandbox is its owner's own computer. Deployers may get in to help, and the audit log says so. RBAC"
                " alone would let in everybody who may edit workloads.",
                unless(
                    f"request.resource.resource == 'nodes' && !{into}",
                    requested_by(),
                ),
                "nobody but deployers gets into a sandbox by the API server; its owner reaches what it serves",
            ),
        ),
    )
