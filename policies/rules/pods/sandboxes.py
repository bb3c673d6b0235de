"""POD rules about the metadata and the scheduling of sandboxes."""

from __future__ import annotations

from collections.abc import Iterator

from agentenv.core.capabilities.unknown_values import UNKNOWN
from agentenv.core.classes.names import SANDBOX, USER_LABEL, WORKSPACE_LABEL
from agentenv.core.nodes.fargate_profiles import SCHEDULER
from agentenv.core.nodes.tiers import TIER_LABEL
from agentenv.policies.rules.registry import POD, POD_METADATA, Outcome, fail, forbid, forbid_boolean, rule, unknown
from agentenv.policies.view.cluster.pods import PodMetadata, PodSpec, unchanged_by_patch
from agentenv.policies.view.fields import Field, is_one_of, number_or_unknown, scalar
from agentenv.policies.view.graph import Graph

SCHEDULING = "scheduling.k8s.io"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
# Labels with the name of a node
NODE_NAMES = (
    "kubernetes.io/hostname",
    "metadata.name",
    "node.kubernetes.io/instance-id",
    "alpha.eksctl.io/instance-id",
)
TENANTS = frozenset({USER_LABEL, WORKSPACE_LABEL})
# Annotations that container runtimes read
RUNTIMES = ("dev.gvisor.", "io.katacontainers.", "io.kubernetes.cri", "container.apparmor.security.beta")
SCHEDULERS = frozenset({None, "default-scheduler", SCHEDULER})


@rule(
    id="POD-11",
    title="Pod templates have no labels or annotations of the sandbox controller",
    severity="High",
    why="The controller finds the pods of a sandbox by these keys. A template with such keys can take over the pod of"
    " another sandbox.",
    fix="Remove every label and annotation of agents.x-k8s.io from the pod template, or from additionalPodMetadata of"
    " the claim. The controller sets them.",
    applies_to=POD_METADATA,
)
def controller_keys(pod: PodMetadata) -> Iterator[Outcome]:
    """Check the labels and annotations of the pod template, or of a claim."""
    for field in (pod.labels, pod.annotations):
        for key, value in field.entries():
            if field.unknown:
                yield unknown(field)
            elif key.partition("/")[0].endswith("agents.x-k8s.io"):
                yield fail(value, f"'{key}' belongs to the sandbox controller")


@rule(
    id="POD-17",
    title="Sandboxes are placed by the scheduler",
    severity="High",
    why="A pod that names its node, tolerates every taint or has a high priority can run beside the platform's pods, or"
    " evict them. One that follows a tenant can attack it from the same node.",
    fix="Remove nodeName, schedulerName, names of nodes and of tenants from selectors and affinities. Tolerate only the"
    " taint of the class's tier, and use a priority class with a value of 0 or less.",
    applies_to=POD,
    defaults="The default scheduler, no tolerations and priority 0 by default. Only pods that run code of users are"
    " checked: Sandbox, SandboxTemplate, and namespaces whose name starts with sandbox-.",
)
def placement(pod: PodSpec, graph: Graph) -> Iterator[Outcome]:
    """Check each field that bypasses the scheduler, or leads it to a node or a tenant."""
    if not pod.runs_user_code:
        return
    yield from forbid(pod.at("nodeName"), bool, "the pod names its node")
    yield from forbid(pod.at("schedulerName"), lambda value: value not in SCHEDULERS, "the pod has its own scheduler")
    yield from _priority(pod, graph)
    yield from _tolerations(pod)
    selector = pod.at("nodeSelector")
    if selector.unknown:
        yield unknown(selector)
    for name in NODE_NAMES if selector.known else ():
        yield from forbid(selector.at(name), bool, "the pod names its node")
    affinity = pod.at("affinity")
    if affinity.unknown:
        yield unknown(affinity)
    else:
        yield from _node_affinity(affinity.at("nodeAffinity"))
        yield from _pod_affinity(affinity.at("podAffinity"))


def _priority(pod: PodSpec, graph: Graph) -> Iterator[Outcome]:
    name = pod.at("priorityClassName")
    if str(scalar(name) or "").startswith("system-"):
        yield fail(name, "the pod has a system priority")
        return
    if name.missing or is_one_of(name, {"", SANDBOX}):
        return
    values = [each.at("value") for each in graph.objects(SCHEDULING, "PriorityClass") if each.name.raw == scalar(name)]
    numbers = [number_or_unknown(value) for value in values]
    if any(isinstance(number, float) and number > 0 for number in numbers):
        yield fail(name, "the pod has a priority over other pods")
    elif name.unknown or not values or UNKNOWN in numbers:
        yield unknown(name, "the value of its priority class is not known")


def _tolerations(pod: PodSpec) -> Iterator[Outcome]:
    tiers: set[object] = set()
    for toleration in pod.at("tolerations").elements():
        key, operator, value = toleration.at("key"), toleration.at("operator"), toleration.at("value")
        yield from forbid(key, lambda value: not value, "the pod tolerates every taint")
        if key.raw != TIER_LABEL:
            continue
        if operator.unknown:
            yield unknown(operator)
        elif operator.raw == "Exists":
            yield fail(operator, "the pod tolerates the nodes of every tier")
        elif tiers - {scalar(value)}:
            yield fail(value, "the pod tolerates the nodes of several tiers")
        tiers.add(scalar(value))


def _node_affinity(affinity: Field) -> Iterator[Outcome]:
    terms = affinity.at(REQUIRED, "nodeSelectorTerms").elements()
    terms += [row.at("preference") for row in affinity.at(PREFERRED).elements()]
    for term in terms:
        fields = term.at("matchFields")
        if fields.unknown:
            yield unknown(fields)
        elif fields.elements():
            yield fail(fields, "the pod names its node")
        for expression in term.at("matchExpressions").elements():
            yield from forbid(expression.at("key"), lambda key: key in NODE_NAMES, "the pod names its node")


def _pod_affinity(affinity: Field) -> Iterator[Outcome]:
    terms = affinity.at(REQUIRED).elements()
    terms += [row.at("podAffinityTerm") for row in affinity.at(PREFERRED).elements()]
    for selector in (term.at("labelSelector") for term in terms):
        expressions = selector.at("matchExpressions").elements()
        keys = {
            *(key for key, _ in selector.at("matchLabels").entries()),
            *(scalar(row.at("key")) for row in expressions),
        }
        if keys & TENANTS:
            yield fail(selector, "the pod runs beside a tenant of its choice")
        elif selector.holds_unknown():
            yield unknown(selector)


@rule(
    id="POD-18",
    title="No annotation configures the container runtime of a sandbox",
    severity="High",
    why="gVisor, Kata and containerd read settings from annotations. Some of them remove isolation: a host device,"
    " another kernel, no confinement.",
    fix="Remove the annotation, and configure the runtime of a class in its RuntimeClass.",
    applies_to=POD_METADATA,
)
def runtime_annotations(pod: PodMetadata) -> Iterator[Outcome]:
    """Check the annotations of pods that run code of users."""
    if not pod.runs_user_code:
        return
    for key, value in pod.annotations.entries():
        if pod.annotations.unknown:
            yield unknown(pod.annotations)
        elif key.startswith(RUNTIMES):
            yield fail(value, f"'{key}' configures the runtime")


@rule(
    id="POD-19",
    title="The environment of a sandbox does not list the Services of its namespace",
    severity="Low",
    why="By default, the environment of each pod has variables for every Service of its namespace.",
    fix="Set enableServiceLinks to false.",
    applies_to=POD,
    defaults="Enabled by default (Kubernetes API reference, PodSpec).",
)
def service_links(pod: PodSpec) -> Iterator[Outcome]:
    """Check one field of the pod."""
    links = pod.at("enableServiceLinks")
    if pod.sandbox and not unchanged_by_patch(pod, links):
        yield from forbid_boolean(links, {True, None}, "the pod's environment lists every Service")
