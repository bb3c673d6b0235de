"""POD: what a container may do to its node and its neighbours, by its own spec."""

from __future__ import annotations

from collections.abc import Iterator

from policies.rules.registry import POD, Outcome, fail, forbid, rule, unknown
from policies.view.pods import PodSpec


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
    defaults="Not privileged where nothing is said (Kubernetes API reference, SecurityContext).",
)
def privileged(pod: PodSpec) -> Iterator[Outcome]:
    """Each container by itself."""
    for container in pod.containers:
        yield from forbid(
            container.security("privileged"), lambda value: value is True, f"{container.title} is privileged"
        )


@rule(
    id="POD-05",
    title="No process gains privileges",
    severity="High",
    why="With privilege escalation a set-uid program in the image gives a sandbox's process more rights than it began"
    " with.",
    do="Set securityContext.allowPrivilegeEscalation to false in every container.",
    equivalents={
        "Checkov": ("CKV_K8S_20",),
        "CIS": ("4.2.6",),
        "PSS": ("restricted",),
        "Kyverno": ("disallow-privilege-escalation",),
    },
    about=POD,
    defaults="Allowed where nothing is said (Kubernetes API reference, SecurityContext).",
)
def privilege_escalation(pod: PodSpec) -> Iterator[Outcome]:
    """The container has to say it: there is no such field for a pod."""
    for container in pod.containers:
        flag = container.security("allowPrivilegeEscalation")
        if pod.windows or (pod.patch and flag.missing):
            continue
        yield from forbid(
            flag, lambda value: value is not False, f"{container.title} does not forbid privilege escalation"
        )


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
    """Labels and annotations of the pod template; a bare pod is the controller's own."""
    for field in (pod.labels, pod.annotations):
        for key, value in field.entries():
            if field.unknown:
                yield unknown(field)
            elif key.partition("/")[0].endswith("agents.x-k8s.io"):
                yield fail(value, f"'{key}' belongs to the sandbox controller")
