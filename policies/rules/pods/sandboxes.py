"""POD: what a sandbox's pod must not ask of the platform, by its metadata and by where it wants to run."""

from __future__ import annotations

from collections.abc import Iterator

from agentenv.policies.rules.registry import POD, Outcome, fail, forbid, forbid_switch, rule, unknown
from agentenv.policies.view.cluster.pods import PodSpec, left_out

# What runtimes read from a pod's annotations, and some of them obey
RUNTIMES = ("dev.gvisor.", "io.katacontainers.", "io.kubernetes.cri", "container.apparmor.security.beta")
SCHEDULERS = frozenset({None, "default-scheduler", "fargate-scheduler"})


@rule(
    id="POD-11",
    title="No key of the sandbox controller in a pod's metadata",
    severity="High",
    why="The controller finds the pods of a sandbox by its own keys: a template that brings them can take over another"
    " sandbox's pod.",
    do="Remove every label and annotation under agents.x-k8s.io from the pod template; the controller sets them.",
    about=POD,
)
def controller_keys(pod: PodSpec) -> Iterator[Outcome]:
    """Labels and annotations of the pod template."""
    for field in (pod.labels, pod.annotations):
        for key, value in field.entries():
            if field.unknown:
                yield unknown(field)
            elif key.partition("/")[0].endswith("agents.x-k8s.io"):
                yield fail(value, f"'{key}' belongs to the sandbox controller")


@rule(
    id="POD-17",
    title="A sandbox finds its place by the scheduler",
    severity="High",
    why="A pod that names its node, tolerates every taint or has a system priority runs beside the platform's own pods,"
    " or in their stead.",
    do="Remove nodeName and schedulerName, tolerate the taint of the class's tier by its key, and use a priority class"
    " of sandboxes.",
    about=POD,
    defaults="The scheduler chooses, no taint is tolerated and the priority is 0 where nothing is said. Judged where"
    " users' programs run: Sandbox, SandboxTemplate, and namespaces that begin with sandbox-.",
)
def placement(pod: PodSpec) -> Iterator[Outcome]:
    """Each way past the scheduler."""
    if not pod.strangers:
        return
    yield from forbid(pod.at("nodeName"), bool, "the pod names its node")
    yield from forbid(pod.at("schedulerName"), lambda value: value not in SCHEDULERS, "the pod has its own scheduler")
    yield from forbid(
        pod.at("priorityClassName"), lambda value: str(value or "").startswith("system-"), "it has a system priority"
    )
    for toleration in pod.at("tolerations").elements():
        yield from forbid(toleration.at("key"), lambda value: not value, "it tolerates every taint")


@rule(
    id="POD-18",
    title="No annotation configures a sandbox's runtime",
    severity="High",
    why="gVisor, Kata and the container runtime read settings from annotations, and some of them open the wall: a host"
    " device, another kernel, no confinement.",
    do="Remove the annotation; what a class's runtime is, its RuntimeClass says.",
    about=POD,
)
def runtime_annotations(pod: PodSpec) -> Iterator[Outcome]:
    """The annotations of pods in which users' programs run."""
    if not pod.strangers:
        return
    for key, value in pod.annotations.entries():
        if pod.annotations.unknown:
            yield unknown(pod.annotations)
        elif key.startswith(RUNTIMES):
            yield fail(value, f"'{key}' configures the runtime")


@rule(
    id="POD-19",
    title="A sandbox is not told of its neighbours",
    severity="Low",
    why="Every Service of the namespace comes into each pod's environment: the names of what else runs there.",
    do="Set enableServiceLinks to false.",
    about=POD,
    defaults="Told where nothing is said (Kubernetes API reference, PodSpec).",
)
def service_links(pod: PodSpec) -> Iterator[Outcome]:
    """One switch of the pod's."""
    links = pod.at("enableServiceLinks")
    if pod.sandbox and not left_out(pod, links):
        yield from forbid_switch(links, {True, None}, "the pod's environment lists every Service")
