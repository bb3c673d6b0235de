"""POD rules about the metadata and the scheduling of sandboxes."""

from __future__ import annotations

from collections.abc import Iterator

from agentenv.policies.rules.registry import POD, Outcome, fail, forbid, forbid_boolean, rule, unknown
from agentenv.policies.view.cluster.pods import PodSpec, unchanged_by_patch

# Annotations that container runtimes read
RUNTIMES = ("dev.gvisor.", "io.katacontainers.", "io.kubernetes.cri", "container.apparmor.security.beta")
SCHEDULERS = frozenset({None, "default-scheduler", "fargate-scheduler"})


@rule(
    id="POD-11",
    title="Pod templates have no labels or annotations of the sandbox controller",
    severity="High",
    why="The controller finds the pods of a sandbox by these keys. A template with such keys can take over the pod of"
    " another sandbox.",
    fix="Remove every label and annotation of agents.x-k8s.io from the pod template. The controller sets them.",
    applies_to=POD,
)
def controller_keys(pod: PodSpec) -> Iterator[Outcome]:
    """Check the labels and annotations of the pod template."""
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
    why="A pod that names its node, tolerates every taint or has a system priority can run beside the platform's pods,"
    " or evict them.",
    fix="Remove nodeName and schedulerName, tolerate only the taint of the class's tier, and use a priority class for"
    " sandboxes.",
    applies_to=POD,
    defaults="The default scheduler, no tolerations and priority 0 by default. Only pods that run code of users are"
    " checked: Sandbox, SandboxTemplate, and namespaces whose name starts with sandbox-.",
)
def placement(pod: PodSpec) -> Iterator[Outcome]:
    """Check each field that bypasses the scheduler."""
    if not pod.runs_user_code:
        return
    yield from forbid(pod.at("nodeName"), bool, "the pod names its node")
    yield from forbid(pod.at("schedulerName"), lambda value: value not in SCHEDULERS, "the pod has its own scheduler")
    yield from forbid(
        pod.at("priorityClassName"),
        lambda value: str(value or "").startswith("system-"),
        "the pod has a system priority",
    )
    for toleration in pod.at("tolerations").elements():
        yield from forbid(toleration.at("key"), lambda value: not value, "the pod tolerates every taint")


@rule(
    id="POD-18",
    title="No annotation configures the container runtime of a sandbox",
    severity="High",
    why="gVisor, Kata and containerd read settings from annotations. Some of them remove isolation: a host device,"
    " another kernel, no confinement.",
    fix="Remove the annotation, and configure the runtime of a class in its RuntimeClass.",
    applies_to=POD,
)
def runtime_annotations(pod: PodSpec) -> Iterator[Outcome]:
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
