"""POD rules about resource limits, groups, users and the root file system."""

from __future__ import annotations

from collections.abc import Iterator

from agentenv.core.nodes.tiers import GPU_TAINT
from agentenv.policies.rules.registry import (
    GRAPH,
    POD,
    Outcome,
    fail,
    first_of_each_field,
    forbid,
    forbid_boolean,
    rule,
    unknown,
)
from agentenv.policies.view.cluster.pods import Container, PodSpec, unchanged_by_patch
from agentenv.policies.view.fields import UNKNOWN, Field, is_zero, number_or_unknown, sets_no_limit
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.tenants.sandbox_namespaces import sandbox_namespaces
from agentenv.policies.view.tenants.tenants import tenants

# Lower user ids may belong to users of the node (Checkov CKV_K8S_40, which also requires one)
FIRST_CONTAINER_USER = 10_000
# All that a sandbox may request; runtimes and the guardrails know this GPU
RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage", GPU_TAINT})
DEVICES, ADMIN_ACCESS = "resource.k8s.io", "resource.kubernetes.io/admin-access"


@rule(
    id="POD-09",
    title="Every container has resource limits",
    severity="High",
    why="Without limits, one sandbox can use all CPU, memory or disk of its node, and its cost cannot be estimated.",
    fix="Set limits for cpu and memory in every container, or a LimitRange in the namespace. In a sandbox, also limit"
    " ephemeral-storage, and set a sizeLimit for every emptyDir.",
    equivalents={
        "Checkov": ("CKV_K8S_11", "CKV_K8S_13"),
        "Kyverno": ("require-requests-limits", "require-emptydir-requests-and-limits"),
    },
    applies_to=POD,
    defaults="No limit if neither the container, the pod nor a LimitRange sets one, or if it is 0 (kubelet: cgroups and"
    " the eviction manager). Only pods that run code of users need a limit for the disk.",
)
def limits(pod: PodSpec, graph: Graph) -> Iterator[Outcome]:
    """Check containers and init containers; ephemeral containers cannot have limits."""
    required = ("cpu", "memory", "ephemeral-storage") if pod.runs_user_code else ("cpu", "memory")
    defaults = {name: _default_limit(pod, graph, name) for name in required}
    for container in pod.containers:
        if container.kind != "ephemeralContainers":
            yield from first_of_each_field(
                outcome for name in required for outcome in _limit(container, name, defaults[name])
            )
    for volume in pod.at("volumes").elements() if pod.runs_user_code else ():
        kind = volume.at("emptyDir")
        if kind.unknown:
            yield unknown(kind)
        elif not kind.missing:
            size = kind.at("sizeLimit")
            # An emptyDir in memory counts against the memory limit of the container that writes to it
            if not (kind.at("medium").raw == "Memory" and sets_no_limit(size)):
                yield from forbid(size, lambda value: value is None or is_zero(value), "an emptyDir has no size limit")


def _limit(container: Container, name: str, default: Field | None) -> Iterator[Outcome]:
    limit = container.at("resources", "limits", name)
    if limit.unknown:
        yield unknown(limit)
    elif is_zero(limit.raw):
        # The default of the pod or namespace applies only if the container has no value
        yield fail(limit, f"{container.title} has a limit of 0 for {name}, which is no limit")
    elif limit.missing and not unchanged_by_patch(container.pod, limit):
        if default is None:
            yield fail(limit, f"{container.title} has no limit for {name}")
        elif default.unknown:
            yield unknown(default)


def _default_limit(pod: PodSpec, graph: Graph, name: str) -> Field | None:
    """Return the limit of the pod or of a LimitRange in its namespace; None if there is none."""
    pod_limit = pod.at("resources", "limits", name)
    if not sets_no_limit(pod_limit):
        return pod_limit
    possible: Field | None = None
    for limit_range in graph.objects("", "LimitRange"):
        here, there = limit_range.namespace, pod.namespace
        if here.known and there.known and here.raw != there.raw:
            continue
        for row in limit_range.at("spec", "limits").elements():
            default, kind = row.at("default", name), row.at("type")
            if sets_no_limit(default) or not (kind.unknown or kind.raw == "Container"):
                continue
            if here.known and there.known and kind.known and default.known:
                return default
            possible = next(field for field in (there, here, kind, default) if field.unknown)
    return possible


@rule(
    id="POD-13",
    title="Pods do not use the group of root",
    severity="Low",
    why="In many images, group 0 can write to system files. On a shared file system, all tenants would share the"
    " group.",
    fix="Set numbers above 0 for runAsGroup, fsGroup and supplementalGroups.",
    applies_to=POD,
    defaults="The image's group by default. Only explicit values are checked.",
)
def root_group(pod: PodSpec) -> Iterator[Outcome]:
    """Check the groups of the pod and of each container."""
    fields = [pod.security("fsGroup"), pod.security("runAsGroup"), *pod.security("supplementalGroups").elements()]
    fields += [container.security("runAsGroup") for container in pod.containers]
    for field in fields:
        yield from forbid(field, lambda value: value in {0, "0"}, "it is the group of root")


@rule(
    id="POD-15",
    title="The root file system of containers is read-only",
    severity="Low",
    why="A process that can write to the image can change programs that other processes run, and can fill the node's"
    " disk regardless of volume sizes.",
    fix="Set readOnlyRootFilesystem to true in every container. Mount an emptyDir with a sizeLimit for files to write.",
    equivalents={"Checkov": ("CKV_K8S_22",), "Kyverno": ("require-ro-rootfs",)},
    applies_to=POD,
    defaults="Writable by default (Kubernetes API reference, SecurityContext).",
)
def read_only_root(pod: PodSpec) -> Iterator[Outcome]:
    """Check containers and init containers; ephemeral ones often have to install debugging tools."""
    if pod.on_windows:
        return
    for container in pod.containers:
        flag = container.security("readOnlyRootFilesystem")
        if container.kind != "ephemeralContainers" and not unchanged_by_patch(pod, flag):
            yield from forbid_boolean(flag, {False, None}, f"{container.title} can write to its root file system")


@rule(
    id="POD-16",
    title="Containers do not use low user ids",
    severity="Low",
    why="A low user id may belong to a user of the node. After a container escape, a process has that user's files.",
    fix=f"Set runAsUser to {FIRST_CONTAINER_USER} or more.",
    applies_to=POD,
    defaults="The image's user by default. Only explicit values are checked; POD-06 is about root.",
)
def low_user(pod: PodSpec) -> Iterator[Outcome]:
    """Check the users of the pod and of each container."""
    for field in (pod.security("runAsUser"), *(container.security("runAsUser") for container in pod.containers)):
        number = number_or_unknown(field)
        if number is UNKNOWN:
            yield unknown(field)
        elif number is not None and 0 < number < FIRST_CONTAINER_USER:
            yield fail(field, "the user id may belong to a user of the node")


@rule(
    id="POD-22",
    title="Sandboxes have no devices but GPUs",
    severity="High",
    why="A device leads past the sandbox to the node: /dev/fuse and /dev/kvm have much of the kernel behind them. With"
    " admin access, a claim also gets devices that are in use by others.",
    fix="Remove extended resources, huge pages and resourceClaims from the pods of sandboxes, and adminAccess from"
    " claims of devices.",
    applies_to=GRAPH,
    defaults="No devices, and no admin access, by default (Kubernetes API reference, PodSpec and DeviceRequest).",
)
def devices(graph: Graph) -> Iterator[Outcome]:
    """Check the pods of sandboxes, and all claims of devices."""
    for tenant in tenants(graph):
        for claim in tenant.pod.at("resourceClaims").elements():
            yield unknown(claim) if claim.unknown else fail(claim, "the pod claims devices of its node")
        for container in tenant.pod.containers:
            for key in ("limits", "requests"):
                amounts = container.at("resources", key)
                if amounts.unknown:
                    yield unknown(amounts)
                for name, amount in amounts.entries() if amounts.known else ():
                    if name not in RESOURCES:
                        yield from forbid(amount, lambda value: not is_zero(value), f"{container.title} has {name}")
    for request in _device_requests(graph):
        for access in (request.at("adminAccess"), request.at("exactly", "adminAccess")):
            yield from forbid_boolean(access, {True}, "the claim gets devices that others use")
    for namespace in sandbox_namespaces(graph):
        if namespace.declaration is not None and namespace.declaration.labels.known:
            label = namespace.declaration.labels.at(ADMIN_ACCESS)
            yield from forbid(label, lambda value: value == "true", "claims in it may have admin access to devices")


def _device_requests(graph: Graph) -> Iterator[Field]:
    for claim in graph.objects(DEVICES, "ResourceClaim"):
        yield from claim.at("spec", "devices", "requests").elements()
    for template in graph.objects(DEVICES, "ResourceClaimTemplate"):
        yield from template.at("spec", "spec", "devices", "requests").elements()
