"""Refusals of what Fargate has not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agentenv.config.constraints.constraint import Finding, Row
from agentenv.core.capabilities.policies.class_security_groups import refused_groups
from agentenv.core.nodes.fargate_sizes import MOST_DISK, SIZES, size_up

if TYPE_CHECKING:
    from agentenv.config.mistakes import Place
    from agentenv.config.sections.classes import SandboxClass
    from agentenv.config.settings import Settings


def _on_fargate(settings: Settings) -> Iterator[tuple[Place, SandboxClass]]:
    for index, one in enumerate(settings.sandbox_classes):
        if one.compute == "fargate":
            yield ("sandboxClasses", index), one


def _finding(place: Place, key: str, found: str, *keys: str) -> Finding:
    return Finding(
        (*place, *key.split(".")), found, also=tuple((*place, *other.split(".")) for other in ("compute", *keys))
    )


def _tier(settings: Settings) -> Iterator[Finding]:
    for place, one in _on_fargate(settings):
        if one.tier != "untrusted":
            yield _finding(place, "tier", one.tier)


def _runtime_class(settings: Settings) -> Iterator[Finding]:
    for place, one in _on_fargate(settings):
        if one.runtime_class is not None:
            yield _finding(place, "runtimeClass", one.runtime_class)


def _network_policy(settings: Settings) -> Iterator[Finding]:
    for place, one in _on_fargate(settings):
        if one.enforced_by == "network-policy":
            yield _finding(place, "enforcedBy", "network-policy")


def _storage(settings: Settings) -> Iterator[Finding]:
    for place, one in _on_fargate(settings):
        if one.storage.kind in {"slot", "shared"}:
            yield _finding(place, "storage.kind", one.storage.kind)


def _gpu(settings: Settings) -> Iterator[Finding]:
    for place, one in _on_fargate(settings):
        if one.gpu:
            yield _finding(place, "gpu", str(one.gpu))


def _spot(settings: Settings) -> Iterator[Finding]:
    for place, one in _on_fargate(settings):
        if one.capacity != "on-demand":
            yield _finding(place, "capacity", one.capacity)


def _arm(settings: Settings) -> Iterator[Finding]:
    for place, one in _on_fargate(settings):
        if one.architecture == "arm64":
            yield _finding(place, "architecture", "arm64")


def _size(settings: Settings) -> Iterator[Finding]:
    for place, one in _on_fargate(settings):
        resources = one.resources
        if size_up(resources.cpu.value, resources.memory.value) is None:
            yield _finding(place, "resources", f"{resources.cpu} cores and {resources.memory}")
        if one.storage.kind == "scratch" and resources.ephemeral.value + one.storage.size.value > MOST_DISK:
            found = f"{resources.ephemeral} and scratch of {one.storage.size}"
            yield _finding(place, "resources.ephemeral", found, "storage")
        elif resources.ephemeral.value > MOST_DISK:
            yield _finding(place, "resources.ephemeral", str(resources.ephemeral))


def _burst(settings: Settings) -> Iterator[Finding]:
    for place, one in _on_fargate(settings):
        for key in ("cpu", "memory"):
            request, most = getattr(one.resources, key), getattr(one.resources.burst, key)
            if most is not None and most.value > request.value:
                yield _finding(place, f"resources.burst.{key}", f"{most} over {request}", f"resources.{key}")


def _pod_identity(settings: Settings) -> Iterator[Finding]:
    for place, one in _on_fargate(settings):
        if one.identity.kind == "pod-identity":
            yield _finding(place, "identity.kind", "pod-identity")


def _grants(settings: Settings) -> Iterator[Finding]:
    for index, refusal in refused_groups(settings):
        place = ("sandboxClasses", index)
        yield Finding((*place, "capabilities"), refusal.found, refusal.hint, ((*place, "compute"), ("network",)))


_LARGEST = SIZES[-1]

ROWS = (
    Row(
        "fargate-tier",
        "a Fargate pod has a kernel of its own: neither gVisor nor a shared kernel",
        "tier: untrusted on Fargate",
        "set tier: untrusted, or compute: karpenter",
        _tier,
    ),
    Row(
        "fargate-runtime-class",
        "Fargate runs no runtime classes; a pod that names one is never placed",
        "no runtimeClass on Fargate",
        "leave it out, or set compute: karpenter",
        _runtime_class,
    ),
    Row(
        "fargate-network-policy",
        "nothing enforces a NetworkPolicy on Fargate pods",
        "security-group on Fargate",
        "set enforcedBy: auto",
        _network_policy,
    ),
    Row(
        "fargate-dynamic-storage",
        "Fargate mounts static volumes only, so no warm sandbox can be born with an access point",
        "storage.kind none or scratch on Fargate; a seat under workspaces has a volume of its own",
        "set storage.kind: none, or compute: karpenter",
        _storage,
    ),
    Row("fargate-gpu", "Fargate has no graphics processors", "gpu: 0 on Fargate", "set compute: karpenter", _gpu),
    Row(
        "fargate-spot",
        "EKS offers no Spot on Fargate",
        "capacity: on-demand on Fargate",
        "set capacity: on-demand, or compute: karpenter",
        _spot,
    ),
    Row(
        "fargate-arm64",
        "EKS on Fargate runs amd64 only",
        "architecture any or amd64 on Fargate",
        "build the image for amd64, or set compute: karpenter",
        _arm,
    ),
    Row(
        "fargate-size",
        "Fargate adds 256 MiB, takes the next size it has, and has none as large",
        f"at most {_LARGEST.cpu} cores, {_LARGEST.memory} GiB less 256 MiB in step with the cores, and 175Gi of disk",
        "ask for less, or set compute: karpenter",
        _size,
    ),
    Row(
        "fargate-grants",
        "on Fargate the capabilities are compiled to security groups, which hold so many rules and no exceptions",
        "60 rules in each direction in each of 5 groups, towards ranges and other classes on Fargate",
        "grant fewer or larger ranges, or set compute: karpenter",
        _grants,
    ),
    Row(
        "fargate-burst",
        "a Fargate pod has a machine of its own size, and nothing beyond to burst into",
        "no burst on Fargate",
        "raise the request to the burst, or leave the burst out",
        _burst,
    ),
    Row(
        "fargate-pod-identity",
        "the Pod Identity agent is a DaemonSet, and Fargate has none",
        "identity irsa on Fargate",
        "set identity.kind: irsa",
        _pod_identity,
    ),
)
