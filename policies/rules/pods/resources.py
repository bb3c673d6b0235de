"""POD: how much of its node a pod may use, and as whom it writes."""

from __future__ import annotations

from collections.abc import Iterator

from agentenv.policies.rules.registry import POD, Outcome, fail, forbid, forbid_switch, once, rule, unknown
from agentenv.policies.view.cluster.pods import Container, PodSpec, left_out
from agentenv.policies.view.fields import UNKNOWN, Field, is_zero, number_or_unknown, sets_no_limit
from agentenv.policies.view.graph import Graph

# Below this live the users of the node itself, as Checkov has it
LEAST_OWN_USER = 10_000


@rule(
    id="POD-09",
    title="Every container has limits",
    severity="High",
    why="Without a limit one sandbox takes the processor, the memory or the disk of everything else on its node, and"
    " nobody can say what it costs.",
    do="Set limits for cpu and memory in every container, or a LimitRange in the namespace; in a sandbox also"
    " ephemeral-storage, and a sizeLimit for every emptyDir.",
    equivalents={
        "Checkov": ("CKV_K8S_11", "CKV_K8S_13"),
        "Kyverno": ("require-requests-limits", "require-emptydir-requests-and-limits"),
    },
    about=POD,
    defaults="No limit where neither the container, the pod nor a LimitRange says one, or where one says 0 (kubelet:"
    " cgroups and the eviction manager). The limit of a disk counts for"
    " pods in which users' programs run: what a platform writes is its own choice.",
)
def limits(pod: PodSpec, graph: Graph) -> Iterator[Outcome]:
    """Containers that stay or run before; those put in later can have no limits."""
    wanted = ("cpu", "memory", "ephemeral-storage") if pod.strangers else ("cpu", "memory")
    given = {name: _given(pod, graph, name) for name in wanted}
    for container in pod.containers:
        if container.kind != "ephemeralContainers":
            yield from once(outcome for name in wanted for outcome in _limit(container, name, given[name]))
    for volume in pod.at("volumes").elements() if pod.strangers else ():
        kind = volume.at("emptyDir")
        if kind.unknown:
            yield unknown(kind)
        elif not kind.missing:
            size = kind.at("sizeLimit")
            # In memory it counts against the memory of who writes
            if not (kind.at("medium").raw == "Memory" and sets_no_limit(size)):
                yield from forbid(size, lambda value: value is None or is_zero(value), "an emptyDir has no size")


def _limit(container: Container, name: str, given: Field | None) -> Iterator[Outcome]:
    limit = container.at("resources", "limits", name)
    if limit.unknown:
        yield unknown(limit)
    elif is_zero(limit.raw):
        # What a namespace or a pod gives counts only where a container says nothing
        yield fail(limit, f"{container.title} has a limit of 0 for {name}, which is none")
    elif limit.missing and not left_out(container.pod, limit):
        if given is None:
            yield fail(limit, f"{container.title} has no limit for {name}")
        elif given.unknown:
            yield unknown(given)


def _given(pod: PodSpec, graph: Graph, name: str) -> Field | None:
    """What the pod, or a LimitRange where it runs, gives its containers; None for nothing."""
    whole = pod.at("resources", "limits", name)
    if not sets_no_limit(whole):
        return whole
    unsure: Field | None = None
    for found in graph.objects("", "LimitRange"):
        here, there = found.namespace, pod.namespace
        if here.known and there.known and here.raw != there.raw:
            continue
        for row in found.at("spec", "limits").elements():
            default, kind = row.at("default", name), row.at("type")
            if sets_no_limit(default) or not (kind.unknown or kind.raw == "Container"):
                continue
            if here.known and there.known and kind.known and default.known:
                return default
            unsure = next(field for field in (there, here, kind, default) if field.unknown)
    return unsure


@rule(
    id="POD-13",
    title="Nothing writes as root's group",
    severity="Low",
    why="Files of group 0 are often writable for the group in images, and everybody's on a shared file system.",
    do="Choose numbers above 0 for runAsGroup, fsGroup and supplementalGroups.",
    about=POD,
    defaults="The image decides where nothing is said; only what is said is judged.",
)
def root_group(pod: PodSpec) -> Iterator[Outcome]:
    """The groups of the pod, and of each container."""
    fields = [pod.security("fsGroup"), pod.security("runAsGroup"), *pod.security("supplementalGroups").elements()]
    fields += [container.security("runAsGroup") for container in pod.containers]
    for field in fields:
        yield from forbid(field, lambda value: value in {0, "0"}, "the group is root's")


@rule(
    id="POD-15",
    title="The root file system is read-only",
    severity="Low",
    why="Whoever can write to the programs in the image can leave something behind for the next process, and fills the"
    " node's disk beside every sized volume.",
    do="Set readOnlyRootFilesystem to true in every container, and mount an emptyDir with a size where it writes.",
    equivalents={"Checkov": ("CKV_K8S_22",), "Kyverno": ("require-ro-rootfs",)},
    about=POD,
    defaults="Writable where nothing is said (Kubernetes API reference, SecurityContext).",
)
def read_only_root(pod: PodSpec) -> Iterator[Outcome]:
    """Containers that stay or run before; one put in to look around has to install something."""
    if pod.windows:
        return
    for container in pod.containers:
        flag = container.security("readOnlyRootFilesystem")
        if container.kind != "ephemeralContainers" and not left_out(pod, flag):
            yield from forbid_switch(flag, {False, None}, f"{container.title} can write to its image")


@rule(
    id="POD-16",
    title="No user of the node's own",
    severity="Low",
    why="A user of a low number may be one of the node's: whoever gets out is that user there, with its files.",
    do=f"Choose a number of {LEAST_OWN_USER} or more for runAsUser.",
    equivalents={"Checkov": ("CKV_K8S_40",)},
    about=POD,
    defaults="The image decides where nothing is said; only what is said is judged, and root is POD-06's.",
)
def low_user(pod: PodSpec) -> Iterator[Outcome]:
    """The users of the pod, and of each container."""
    for field in (pod.security("runAsUser"), *(container.security("runAsUser") for container in pod.containers)):
        number = number_or_unknown(field)
        if number is UNKNOWN:
            yield unknown(field)
        elif number is not None and 0 < number < LEAST_OWN_USER:
            yield fail(field, "the user may be one of the node's")
