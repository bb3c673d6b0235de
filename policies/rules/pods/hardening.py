"""POD: what the processes of a container may do to their node, by the security contexts of the pod and its containers.

Where a pod and a container both say something, the container's word counts, as for the kubelet.
"""

from __future__ import annotations

from collections.abc import Iterator

from agentenv.policies.rules.registry import (
    POD,
    Outcome,
    fail,
    forbid,
    forbid_switch,
    not_applicable,
    once,
    rule,
    unknown,
)
from agentenv.policies.view.cluster.pods import Container, PodSpec, left_out
from agentenv.policies.view.fields import UNKNOWN, number_or_unknown

_API = "Kubernetes API reference"
_STANDARDS = "Pod Security Standards 1.35"


@rule(
    id="POD-01",
    title="No container is privileged",
    severity="Critical",
    why="A privileged container has every capability and every device of its node: whoever is in it owns the node and"
    " all that runs there.",
    do="Leave out securityContext.privileged, or set it to false; ask for the one capability that is needed instead.",
    equivalents={
        "Checkov": ("CKV_K8S_16",),
        "CIS": ("4.2.1",),
        "PSS": ("baseline",),
        "Kyverno": ("disallow-privileged-containers",),
    },
    about=POD,
    defaults=f"Not privileged where nothing is said ({_API}, SecurityContext).",
)
def privileged(pod: PodSpec) -> Iterator[Outcome]:
    """Each container by itself."""
    for container in pod.containers:
        yield from forbid_switch(container.security("privileged"), {True}, f"{container.title} is privileged")


@rule(
    id="POD-02",
    title="Nothing of the host's: network, processes, memory, ports",
    severity="Critical",
    why="On the host's network no NetworkPolicy holds, and the metadata address answers with the node's credentials; in"
    " its process or IPC namespace every other pod's memory and environment are in reach.",
    do="Remove hostNetwork, hostPID and hostIPC, and every hostPort; reach the pod through a Service.",
    equivalents={
        "Checkov": ("CKV_K8S_17", "CKV_K8S_18", "CKV_K8S_19", "CKV_K8S_26"),
        "CIS": ("4.2.2", "4.2.3", "4.2.4"),
        "PSS": ("baseline",),
        "Kyverno": ("disallow-host-namespaces", "disallow-host-ports"),
    },
    about=POD,
    defaults=f"Namespaces of the pod's own, and no port of the host, where nothing is said ({_API}, PodSpec).",
)
def host_namespaces(pod: PodSpec) -> Iterator[Outcome]:
    """The pod's three switches, and each port of each container."""
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        yield from forbid_switch(pod.at(key), {True}, f"the pod has {key}")
    for container in pod.containers:
        for port in container.at("ports").elements():
            yield from forbid(
                port.at("hostPort"), lambda value: value not in {None, 0}, f"{container.title} has a port of the host"
            )


@rule(
    id="POD-04",
    title="All capabilities are dropped, and none but NET_BIND_SERVICE added",
    severity="High",
    why="A container begins with fourteen capabilities of root's, NET_RAW and SETUID among them; each one added is a"
    " way further out.",
    do='Set securityContext.capabilities.drop to ["ALL"] in every container, and add nothing but NET_BIND_SERVICE.',
    equivalents={
        "Checkov": ("CKV_K8S_25", "CKV_K8S_28", "CKV_K8S_37", "CKV_K8S_39"),
        "CIS": ("4.2.7", "4.2.8"),
        "PSS": ("baseline", "restricted"),
        "Kyverno": ("disallow-capabilities", "disallow-capabilities-strict", "require-drop-all"),
    },
    about=POD,
    defaults="The runtime's default set where nothing is said; containerd reads names in any case.",
)
def capabilities(pod: PodSpec) -> Iterator[Outcome]:
    """What is dropped, and each capability that is added, by itself."""
    if pod.windows:
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
    if left_out(container.pod, dropped):
        return
    elements = dropped.elements()
    if any(isinstance(one.raw, str) and one.raw.upper() == "ALL" for one in elements):
        return
    unsure = next((one for one in elements if one.unknown), None)
    if unsure is not None:
        yield unknown(unsure)
    else:
        yield fail(dropped, f"{container.title} does not drop ALL capabilities")


@rule(
    id="POD-05",
    title="No process gains privileges",
    severity="High",
    why="With privilege escalation a set-uid program in the image gives a sandbox's process more rights than it began"
    " with.",
    do="Set securityContext.allowPrivilegeEscalation to false in every container.",
    equivalents={
        "Checkov": ("CKV_K8S_20",),
        "CIS": ("4.2.5",),
        "PSS": ("restricted",),
        "Kyverno": ("disallow-privilege-escalation",),
    },
    about=POD,
    defaults=f"Allowed where nothing is said ({_API}, SecurityContext).",
)
def privilege_escalation(pod: PodSpec) -> Iterator[Outcome]:
    """The container has to say it: there is no such field for a pod."""
    if pod.windows:
        return
    for container in pod.containers:
        flag = container.security("allowPrivilegeEscalation")
        if not left_out(pod, flag):
            yield from forbid_switch(flag, {True, None}, f"{container.title} does not forbid privilege escalation")


@rule(
    id="POD-06",
    title="Nothing runs as root",
    severity="High",
    why="Root in a container is root to the kernel and to every file that is mounted: a flaw in either is enough to be"
    " root outside.",
    do="Set runAsNonRoot to true and runAsUser to a number above 0 for the pod, and let no container say otherwise.",
    equivalents={
        "Checkov": ("CKV_K8S_23",),
        "CIS": ("4.2.6",),
        "PSS": ("restricted",),
        "Kyverno": ("require-run-as-nonroot", "require-run-as-non-root-user"),
    },
    about=POD,
    defaults="The image says who runs where nothing is said, and most say root. With hostUsers set to false, root is"
    f" nobody on the node ({_STANDARDS}), which is not enough for a sandbox, whose homes know users by number.",
)
def root(pod: PodSpec) -> Iterator[Outcome]:
    """Who each container runs as, by its own word or the pod's."""
    if pod.of_node:
        yield not_applicable(pod.spec, "the program is part of its node")
        return
    inside = pod.at("hostUsers")
    if inside.raw is False and not pod.sandbox:
        yield not_applicable(inside, "the pod has users of its own: its root is nobody on the node")
        return
    for outcome in once(outcome for container in pod.containers for outcome in _runs_as(container)):
        # Where the pod may have users of its own, being root may be no harm
        yield unknown(inside) if inside.unknown and not pod.sandbox else outcome


def _runs_as(container: Container) -> Iterator[Outcome]:
    user, flag = container.effective("runAsUser"), container.effective("runAsNonRoot")
    number = number_or_unknown(user)
    if number is UNKNOWN:
        yield unknown(user)
    elif number == 0:
        yield fail(user, f"{container.title} runs as root")
    elif not flag.missing:
        yield from forbid_switch(flag, {False}, f"{container.title} may run as root")
    elif user.missing and not container.pod.patch:
        yield fail(flag, f"nobody says that {container.title} does not run as root")


@rule(
    id="POD-07",
    title="System calls are filtered",
    severity="High",
    why="Without a seccomp profile every system call of the node's kernel is there to be tried, and most ways out of"
    " containers begin with one that no program needs.",
    do="Set securityContext.seccompProfile.type to RuntimeDefault for the pod, and let no container be Unconfined.",
    equivalents={
        "Checkov": ("CKV_K8S_31",),
        "PSS": ("baseline", "restricted"),
        "Kyverno": ("restrict-seccomp", "restrict-seccomp-strict"),
    },
    about=POD,
    defaults="Unconfined where nothing is said, unless the kubelet was started with --seccomp-default; annotations have"
    " not counted since Kubernetes 1.27.",
)
def seccomp(pod: PodSpec) -> Iterator[Outcome]:
    """The profile of each container, its own or the pod's."""
    if pod.windows:
        return
    yield from once(outcome for container in pod.containers for outcome in _filtered(container))


def _filtered(container: Container) -> Iterator[Outcome]:
    kind = container.effective("seccompProfile").at("type")
    if not left_out(container.pod, kind):
        yield from forbid(
            kind,
            lambda value: value not in {"RuntimeDefault", "Localhost"},
            f"{container.title} has no seccomp profile" if kind.missing else f"{container.title} is not confined",
        )
