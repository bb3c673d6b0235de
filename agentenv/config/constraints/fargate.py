"""Constraints on classes that run on Fargate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agentenv.config.constraints.constraint import Constraint, Finding
from agentenv.core.capabilities.policies.class_security_groups import refused_groups
from agentenv.core.nodes.fargate_sizes import MOST_DISK, SIZES, size_up

if TYPE_CHECKING:
    from agentenv.config.mistakes import Place
    from agentenv.config.sections.classes import SandboxClass
    from agentenv.config.settings import Settings


def _on_fargate(settings: Settings) -> Iterator[tuple[Place, SandboxClass]]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        if sandbox_class.compute == "fargate":
            yield ("sandboxClasses", index), sandbox_class


def _finding(place: Place, key: str, found: str, *keys: str) -> Finding:
    return Finding(
        (*place, *key.split(".")), found, also=tuple((*place, *other.split(".")) for other in ("compute", *keys))
    )


def _tier(settings: Settings) -> Iterator[Finding]:
    for place, sandbox_class in _on_fargate(settings):
        if sandbox_class.tier != "untrusted":
            yield _finding(place, "tier", sandbox_class.tier)


def _runtime_class(settings: Settings) -> Iterator[Finding]:
    for place, sandbox_class in _on_fargate(settings):
        if sandbox_class.runtime_class is not None:
            yield _finding(place, "runtimeClass", sandbox_class.runtime_class)


def _network_policy(settings: Settings) -> Iterator[Finding]:
    for place, sandbox_class in _on_fargate(settings):
        if sandbox_class.enforced_by == "network-policy":
            yield _finding(place, "enforcedBy", "network-policy")


def _storage(settings: Settings) -> Iterator[Finding]:
    for place, sandbox_class in _on_fargate(settings):
        if sandbox_class.storage.kind in {"slot", "shared"}:
            yield _finding(place, "storage.kind", sandbox_class.storage.kind)


def _seat(settings: Settings) -> Iterator[Finding]:
    on_fargate = {sandbox_class.name for _, sandbox_class in _on_fargate(settings)}
    for index, seat in enumerate(settings.workspaces):
        if seat.class_ in on_fargate:
            also: tuple[Place, ...] = (("sandboxClasses", "*", "compute"),)
            yield Finding(("workspaces", index, "class"), f"{seat.class_} on Fargate", also=also)


def _gpu(settings: Settings) -> Iterator[Finding]:
    for place, sandbox_class in _on_fargate(settings):
        if sandbox_class.gpu:
            yield _finding(place, "gpu", str(sandbox_class.gpu))


def _spot(settings: Settings) -> Iterator[Finding]:
    for place, sandbox_class in _on_fargate(settings):
        if sandbox_class.capacity != "on-demand":
            yield _finding(place, "capacity", sandbox_class.capacity)


def _arm(settings: Settings) -> Iterator[Finding]:
    for place, sandbox_class in _on_fargate(settings):
        if sandbox_class.architecture == "arm64":
            yield _finding(place, "architecture", "arm64")


def _size(settings: Settings) -> Iterator[Finding]:
    for place, sandbox_class in _on_fargate(settings):
        resources = sandbox_class.resources
        if size_up(resources.cpu.value, resources.memory.value) is None:
            yield _finding(place, "resources", f"{resources.cpu} cores and {resources.memory}")
        if (
            sandbox_class.storage.kind == "scratch"
            and resources.ephemeral.value + sandbox_class.storage.size.value > MOST_DISK
        ):
            found = f"{resources.ephemeral} and scratch of {sandbox_class.storage.size}"
            yield _finding(place, "resources.ephemeral", found, "storage")
        elif resources.ephemeral.value > MOST_DISK:
            yield _finding(place, "resources.ephemeral", str(resources.ephemeral))


def _burst(settings: Settings) -> Iterator[Finding]:
    for place, sandbox_class in _on_fargate(settings):
        for key in ("cpu", "memory"):
            request, most = getattr(sandbox_class.resources, key), getattr(sandbox_class.resources.burst, key)
            if most is not None and most.value > request.value:
                yield _finding(place, f"resources.burst.{key}", f"{most} over {request}", f"resources.{key}")


def _pod_identity(settings: Settings) -> Iterator[Finding]:
    for place, sandbox_class in _on_fargate(settings):
        if sandbox_class.identity.kind == "pod-identity":
            yield _finding(place, "identity.kind", "pod-identity")


def _grants(settings: Settings) -> Iterator[Finding]:
    for index, refusal in refused_groups(settings):
        place = ("sandboxClasses", index)
        yield Finding((*place, "capabilities"), refusal.found, refusal.hint, ((*place, "compute"), ("network",)))


_LARGEST = SIZES[-1]

CONSTRAINTS = (
    Constraint(
        "fargate-tier",
        "every Fargate pod has its own kernel, so only tier untrusted applies",
        "tier: untrusted on Fargate",
        "set tier: untrusted, or compute: karpenter",
        _tier,
    ),
    Constraint(
        "fargate-runtime-class",
        "Fargate does not support runtime classes; a pod with one is never scheduled",
        "no runtimeClass on Fargate",
        "remove it, or set compute: karpenter",
        _runtime_class,
    ),
    Constraint(
        "fargate-network-policy",
        "network policies are not enforced on Fargate pods",
        "security-group on Fargate",
        "set enforcedBy: auto",
        _network_policy,
    ),
    Constraint(
        "fargate-dynamic-storage",
        "Fargate mounts static volumes only, so warm sandboxes cannot be created with an access point",
        "storage.kind none or scratch on Fargate",
        "set storage.kind: none, or compute: karpenter",
        _storage,
    ),
    Constraint(
        "fargate-seat",
        "on Fargate no driver mounts with the role that the file systems admit",
        "seats of classes on nodes",
        "use a class with compute: karpenter",
        _seat,
    ),
    Constraint("fargate-gpu", "Fargate does not support GPUs", "gpu: 0 on Fargate", "set compute: karpenter", _gpu),
    Constraint(
        "fargate-spot",
        "EKS does not support Fargate Spot",
        "capacity: on-demand on Fargate",
        "set capacity: on-demand, or compute: karpenter",
        _spot,
    ),
    Constraint(
        "fargate-arm64",
        "EKS supports amd64 only on Fargate",
        "architecture any or amd64 on Fargate",
        "build the image for amd64, or set compute: karpenter",
        _arm,
    ),
    Constraint(
        "fargate-size",
        "Fargate adds 256 MiB and rounds up to its next size, and no size is large enough",
        f"at most {_LARGEST.cpu} cores, {_LARGEST.memory} GiB less 256 MiB, and 175Gi of disk",
        "request less, or set compute: karpenter",
        _size,
    ),
    Constraint(
        "fargate-grants",
        "on Fargate the capabilities are compiled to security groups, which limit rules and have no exceptions",
        "60 rules in each direction in each of 5 groups, towards ranges and other classes on Fargate",
        "grant fewer or larger ranges, or set compute: karpenter",
        _grants,
    ),
    Constraint(
        "fargate-burst",
        "a Fargate pod cannot use more than its own size",
        "no burst on Fargate",
        "raise the request to the burst, or remove the burst",
        _burst,
    ),
    Constraint(
        "fargate-pod-identity",
        "the Pod Identity agent is a DaemonSet, which Fargate does not run",
        "identity irsa on Fargate",
        "set identity.kind: irsa",
        _pod_identity,
    ),
)
