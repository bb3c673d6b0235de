"""POD rules about the security contexts of pods and containers.

A value of the container takes precedence over the value of the pod, as for the kubelet.
"""

from __future__ import annotations

from collections.abc import Iterator

from agentenv.policies.rules.registry import (
    POD,
    Outcome,
    fail,
    first_of_each_field,
    forbid,
    forbid_boolean,
    not_applicable,
    rule,
    unknown,
)
from agentenv.policies.view.cluster.pods import Container, PodSpec, unchanged_by_patch
from agentenv.policies.view.fields import UNKNOWN, number_or_unknown

_API = "Kubernetes API reference"
_STANDARDS = "Pod Security Standards 1.35"


@rule(
    id="POD-01",
    title="No container is privileged",
    severity="Critical",
    why="A privileged container has every capability and every device of its node, and so controls all pods there.",
    fix="Remove securityContext.privileged, or set it to false. Add the one capability that is needed instead.",
    equivalents={
        "Checkov": ("CKV_K8S_16",),
        "CIS": ("4.2.1",),
        "PSS": ("baseline",),
        "Kyverno": ("disallow-privileged-containers",),
    },
    applies_to=POD,
    defaults=f"Not privileged by default ({_API}, SecurityContext).",
)
def privileged(pod: PodSpec) -> Iterator[Outcome]:
    """Check each container."""
    for container in pod.containers:
        yield from forbid_boolean(container.security("privileged"), {True}, f"{container.title} is privileged")


@rule(
    id="POD-02",
    title="Pods do not share the network, processes, memory or ports of the host",
    severity="Critical",
    why="NetworkPolicies do not apply to the host network, and instance metadata returns the node's credentials there."
    " In the host's process or IPC namespace, a pod can read the memory and environment of other pods.",
    fix="Remove hostNetwork, hostPID, hostIPC and every hostPort. Use a Service to reach the pod.",
    equivalents={
        "Checkov": ("CKV_K8S_17", "CKV_K8S_18", "CKV_K8S_19", "CKV_K8S_26"),
        "CIS": ("4.2.2", "4.2.3", "4.2.4"),
        "PSS": ("baseline",),
        "Kyverno": ("disallow-host-namespaces", "disallow-host-ports"),
    },
    applies_to=POD,
    defaults=f"Own namespaces, and no host ports, by default ({_API}, PodSpec).",
)
def host_namespaces(pod: PodSpec) -> Iterator[Outcome]:
    """Check the three fields of the pod, and each port of each container."""
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        yield from forbid_boolean(pod.at(key), {True}, f"the pod has {key}")
    for container in pod.containers:
        for port in container.at("ports").elements():
            yield from forbid(
                port.at("hostPort"), lambda value: value not in {None, 0}, f"{container.title} uses a port of the host"
            )


@rule(
    id="POD-04",
    title="Containers drop all capabilities and add only NET_BIND_SERVICE",
    severity="High",
    why="A container starts with fourteen capabilities of root, such as NET_RAW and SETUID. Each added capability makes"
    " a container escape easier.",
    fix='Set securityContext.capabilities.drop to ["ALL"] in every container, and add at most NET_BIND_SERVICE.',
    equivalents={
        "Checkov": ("CKV_K8S_25", "CKV_K8S_28", "CKV_K8S_37", "CKV_K8S_39"),
        "CIS": ("4.2.7", "4.2.8"),
        "PSS": ("baseline", "restricted"),
        "Kyverno": ("disallow-capabilities", "disallow-capabilities-strict", "require-drop-all"),
    },
    applies_to=POD,
    defaults="The default capabilities of the runtime. containerd ignores the case of names.",
)
def capabilities(pod: PodSpec) -> Iterator[Outcome]:
    """Check the dropped capabilities, and each added one."""
    if pod.on_windows:
        return
    for container in pod.containers:
        yield from _dropped(container)
        for added in container.security("capabilities").at("add").elements():
            yield from forbid(
                added,
                lambda value: str(value).upper().removeprefix("CAP_") != "NET_BIND_SERVICE",
                f"{container.title} adds the capability {added.raw}",
            )


def _dropped(container: Container) -> Iterator[Outcome]:
    dropped = container.security("capabilities").at("drop")
    if unchanged_by_patch(container.pod, dropped):
        return
    elements = dropped.elements()
    if any(isinstance(element.raw, str) and element.raw.upper() == "ALL" for element in elements):
        return
    unknown_element = next((element for element in elements if element.unknown), None)
    if unknown_element is not None:
        yield unknown(unknown_element)
    else:
        yield fail(dropped, f"{container.title} does not drop ALL capabilities")


@rule(
    id="POD-05",
    title="Privilege escalation is not allowed",
    severity="High",
    why="With privilege escalation, a set-uid program in the image gives a process more privileges than it had.",
    fix="Set securityContext.allowPrivilegeEscalation to false in every container.",
    equivalents={
        "Checkov": ("CKV_K8S_20",),
        "CIS": ("4.2.5",),
        "PSS": ("restricted",),
        "Kyverno": ("disallow-privilege-escalation",),
    },
    applies_to=POD,
    defaults=f"Allowed by default ({_API}, SecurityContext).",
)
def privilege_escalation(pod: PodSpec) -> Iterator[Outcome]:
    """Check each container: the pod has no such field."""
    if pod.on_windows:
        return
    for container in pod.containers:
        flag = container.security("allowPrivilegeEscalation")
        if not unchanged_by_patch(pod, flag):
            yield from forbid_boolean(flag, {True, None}, f"{container.title} does not forbid privilege escalation")


@rule(
    id="POD-06",
    title="Containers do not run as root",
    severity="High",
    why="Root in a container is root to the kernel and to mounted files. A container escape is then root on the node.",
    fix="Set runAsNonRoot to true and runAsUser to a number above 0 for the pod, and override neither in a container.",
    equivalents={
        "Checkov": ("CKV_K8S_23",),
        "CIS": ("4.2.6",),
        "PSS": ("restricted",),
        "Kyverno": ("require-run-as-nonroot", "require-run-as-non-root-user"),
    },
    applies_to=POD,
    defaults="The image's user by default, which is often root. With hostUsers set to false, root has no privileges on"
    f" the node ({_STANDARDS}). That is not enough for a sandbox, because homes identify users by number.",
)
def root(pod: PodSpec) -> Iterator[Outcome]:
    """Check the user of each container, its own or the pod's."""
    if pod.is_node_agent:
        yield not_applicable(pod.spec, "the pod is a node agent")
        return
    host_users = pod.at("hostUsers")
    if host_users.raw is False and not pod.sandbox:
        yield not_applicable(host_users, "the pod has a user namespace: its root has no privileges on the node")
        return
    for outcome in first_of_each_field(outcome for container in pod.containers for outcome in _runs_as(container)):
        # Root is harmless if the pod turns out to have a user namespace
        yield unknown(host_users) if host_users.unknown and not pod.sandbox else outcome


def _runs_as(container: Container) -> Iterator[Outcome]:
    user, flag = container.effective("runAsUser"), container.effective("runAsNonRoot")
    number = number_or_unknown(user)
    if number is UNKNOWN:
        yield unknown(user)
    elif number == 0:
        yield fail(user, f"{container.title} runs as root")
    elif not flag.missing:
        yield from forbid_boolean(flag, {False}, f"{container.title} may run as root")
    elif user.missing and not container.pod.patch:
        yield fail(flag, f"neither runAsUser nor runAsNonRoot is set for {container.title}")


@rule(
    id="POD-07",
    title="A seccomp profile filters system calls",
    severity="High",
    why="Without a seccomp profile, a container can make every system call. Most container escapes start with one that"
    " ordinary programs do not need.",
    fix="Set securityContext.seccompProfile.type to RuntimeDefault for the pod, and use Unconfined in no container.",
    equivalents={
        "Checkov": ("CKV_K8S_31",),
        "PSS": ("baseline", "restricted"),
        "Kyverno": ("restrict-seccomp", "restrict-seccomp-strict"),
    },
    applies_to=POD,
    defaults="Unconfined by default, unless the kubelet runs with --seccomp-default. Annotations are ignored since"
    " Kubernetes 1.27.",
)
def seccomp(pod: PodSpec) -> Iterator[Outcome]:
    """Check the profile of each container, its own or the pod's."""
    if pod.on_windows:
        return
    yield from first_of_each_field(outcome for container in pod.containers for outcome in _filtered(container))


def _filtered(container: Container) -> Iterator[Outcome]:
    kind = container.effective("seccompProfile").at("type")
    if not unchanged_by_patch(container.pod, kind):
        yield from forbid(
            kind,
            lambda value: value not in {"RuntimeDefault", "Localhost"},
            f"{container.title} has no seccomp profile" if kind.missing else f"{container.title} is unconfined",
        )
