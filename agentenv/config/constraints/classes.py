"""Refusals of tiers, kernels, processors, probes and resources of a class."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from agentenv.config.constraints.constraint import Finding, Row
from agentenv.config.values import duration_text
from agentenv.core.classes.pools.sizes import warm_members
from agentenv.core.nodes.node_pools import processor
from agentenv.core.nodes.tier_rules import rule_of
from agentenv.core.nodes.tiers import wall_of

if TYPE_CHECKING:
    from agentenv.config.mistakes import Place
    from agentenv.config.sections.classes import SandboxClass
    from agentenv.config.settings import Settings

NITRO_SINCE = (1, 36)
# How long the controller waits for a warm sandbox to become ready, unless it is told otherwise.
READINESS_GRACE = timedelta(minutes=5)
NESTED = re.compile(r"(c8i|m8i|r8i)(-flex)?|[a-z0-9-]+metal")
_GPU_WAY_OUT = "set tier: verified for callers that were vetted, or gpu: 0"
GPU_HINTS = {
    "standard": f"gVisor gets at them only when NVIDIA's own runtime starts it, which containerd does not do on these"
    f" nodes; {_GPU_WAY_OUT}",
    "untrusted": f"instances with nested virtualization have none to hand on; {_GPU_WAY_OUT}",
}
SECRET_NAME = re.compile(r"(?i)(secret|passw(or)?d|token|api_?key|private_?key|credential)")
SECRET_VALUE = re.compile(r"A[KS]IA[A-Z0-9]{16}|gh[pousr]_[A-Za-z0-9]{20,}|-----BEGIN [A-Z ]*PRIVATE KEY|xox[abp]-")


def on_nodes(settings: Settings) -> Iterator[tuple[Place, SandboxClass]]:
    """The classes that run on nodes, with their places."""
    for index, one in enumerate(settings.sandbox_classes):
        if one.compute == "karpenter":
            yield ("sandboxClasses", index), one


def runtime_class(one: SandboxClass) -> str | None:
    """The runtime class that the tier of a class on nodes stands for."""
    return wall_of(one.tier, one.kernel).runtime_class


def _spot_nested(settings: Settings) -> Iterator[Finding]:
    for place, one in on_nodes(settings):
        if one.tier == "untrusted" and one.kernel == "kata" and one.capacity != "on-demand":
            also = ((*place, "tier"), (*place, "kernel"), (*place, "compute"))
            yield Finding((*place, "capacity"), f"{one.capacity} for nested virtualization", also=also)


def _nitro_version(settings: Settings) -> Iterator[Finding]:
    version = settings.cluster.version
    if tuple(int(part) for part in version.split(".")) < NITRO_SINCE:
        for place, one in on_nodes(settings):
            if one.tier == "untrusted" and one.kernel == "nitro":
                also = ((*place, "tier"), (*place, "compute"), ("cluster", "version"))
                yield Finding((*place, "kernel"), f"nitro on Kubernetes {version}", also=also)


def _kernel_unused(settings: Settings) -> Iterator[Finding]:
    for index, one in enumerate(settings.sandbox_classes):
        place = ("sandboxClasses", index)
        if one.kernel == "nitro" and (one.tier != "untrusted" or one.compute == "fargate"):
            where = "on Fargate" if one.compute == "fargate" else f"in tier {one.tier}"
            yield Finding((*place, "kernel"), f"nitro {where}", also=((*place, "tier"), (*place, "compute")))


def _runtime_class(settings: Settings) -> Iterator[Finding]:
    for place, one in on_nodes(settings):
        own = runtime_class(one)
        if one.runtime_class is not None and one.runtime_class != own:
            hint = f"leave it out, or write {own}" if own else "leave it out: the tier shares the node's kernel"
            also = ((*place, "tier"), (*place, "kernel"), (*place, "compute"))
            yield Finding((*place, "runtimeClass"), f"{one.runtime_class} in tier {one.tier}", hint, also)


def _security_group(settings: Settings) -> Iterator[Finding]:
    for place, one in on_nodes(settings):
        if one.enforced_by == "security-group":
            yield Finding((*place, "enforcedBy"), "security-group on nodes", also=((*place, "compute"),))


def _verified_open(settings: Settings) -> Iterator[Finding]:
    for index, one in enumerate(settings.sandbox_classes):
        place = ("sandboxClasses", index)
        if others := [role for role in one.claimable_by.roles if role not in rule_of(one.tier).roles]:
            found = f"every {' and '.join(others)} in tier {one.tier}"
            yield Finding((*place, "claimableBy"), found, also=((*place, "tier"),))


def _gpu(settings: Settings) -> Iterator[Finding]:
    for place, one in on_nodes(settings):
        if one.gpu and not rule_of(one.tier).gpu:
            hint = GPU_HINTS[one.tier]
            also = ((*place, "tier"), (*place, "compute"))
            yield Finding((*place, "gpu"), f"{one.gpu} in tier {one.tier}", hint, also)


def _gpu_limit(settings: Settings) -> Iterator[Finding]:
    limit = settings.capacity.gpu.limit
    for place, one in on_nodes(settings):
        if one.gpu > limit and rule_of(one.tier).gpu:
            also = (("capacity", "gpu"), (*place, "compute"), (*place, "tier"))
            yield Finding((*place, "gpu"), f"{one.gpu} with capacity.gpu.limit {limit}", also=also)


def _architecture(settings: Settings) -> Iterator[Finding]:
    for place, one in on_nodes(settings):
        nested = one.tier == "untrusted" and one.kernel == "kata"
        if one.gpu:
            key, families = "gpu.families", settings.capacity.gpu.families
        elif nested:
            key, families = "nestedFamilies", settings.capacity.nested_families
        else:
            key, families = "families", settings.capacity.families
        found = {processor(family) for family in families}
        if one.architecture not in {"any", *found}:
            also = (("capacity",), (*place, "tier"), (*place, "kernel"), (*place, "gpu"), (*place, "compute"))
            yield Finding((*place, "architecture"), f"{one.architecture}, and capacity.{key} has none", also=also)


def _nested_family(settings: Settings) -> Iterator[Finding]:
    for index, family in enumerate(settings.capacity.nested_families):
        if not NESTED.fullmatch(family):
            yield Finding(("capacity", "nestedFamilies", index), family)


def _burst(settings: Settings) -> Iterator[Finding]:
    for index, one in enumerate(settings.sandbox_classes):
        place = ("sandboxClasses", index, "resources")
        for key in ("cpu", "memory"):
            request, most = getattr(one.resources, key), getattr(one.resources.burst, key)
            if most is not None and most.value < request.value:
                yield Finding((*place, "burst", key), f"{most} below {request}", also=((*place, key),))


def _larger_than_limits(settings: Settings) -> Iterator[Finding]:
    limits = settings.capacity.limits
    for place, one in on_nodes(settings):
        for key in ("cpu", "memory"):
            request, limit = getattr(one.resources, key), getattr(limits, key)
            if request.value > limit.value:
                also = (("capacity", "limits", key), (*place, "compute"))
                yield Finding((*place, "resources", key), f"{request} with capacity.limits.{key} {limit}", also=also)


def _secret_in_env(settings: Settings) -> Iterator[Finding]:
    for index, one in enumerate(settings.sandbox_classes):
        for position, variable in enumerate(one.env):
            if SECRET_NAME.search(variable.name) or SECRET_VALUE.search(variable.value):
                # The value is left out: the message may end up in a log.
                yield Finding(("sandboxClasses", index, "env", position), f"{variable.name}, which looks like a secret")


def _probe(settings: Settings) -> Iterator[Finding]:
    for index, one in enumerate(settings.sandbox_classes):
        probe, place = one.probe, ("sandboxClasses", index, "probe")
        if probe is not None and bool(probe.command) == (probe.port is not None):
            found = "a command and a port" if probe.command else "neither a command nor a port"
            yield Finding(place, found)
        elif probe is not None and probe.command and probe.path is not None:
            yield Finding((*place, "path"), f"{probe.path} with a command")


def _probe_late(settings: Settings) -> Iterator[Finding]:
    patience = settings.cluster.sandbox_controller.flags.readiness_grace or READINESS_GRACE
    for index, one in enumerate(settings.sandbox_classes):
        said = one.probe is not None and "start_within" in one.probe.model_fields_set
        if one.probe is not None and said and one.probe.start_within > patience and warm_members(one.pool):
            found = f"{duration_text(one.probe.start_within)}, and a warm one has {duration_text(patience)}"
            also: tuple[Place, ...] = (
                ("cluster", "sandboxController", "flags", "readinessGrace"),
                ("sandboxClasses", index, "pool"),
            )
            yield Finding(("sandboxClasses", index, "probe", "startWithin"), found, also=also)


ROWS = (
    Row(
        "spot-nested-virtualization",
        "EC2 does not launch Spot instances with nested virtualization",
        "capacity: on-demand with kernel: kata",
        "set capacity: on-demand",
        _spot_nested,
    ),
    Row(
        "nitro-needs-version",
        "EKS has Nitro sandboxes since Kubernetes 1.36",
        "kernel: nitro with cluster.version 1.36 or later",
        'set cluster.version: "1.36", or kernel: kata',
        _nitro_version,
    ),
    Row(
        "kernel-without-untrusted",
        "only untrusted sandboxes on nodes choose where their kernel comes from",
        "kernel: nitro with tier: untrusted and compute: karpenter",
        "drop kernel, or set tier: untrusted",
        _kernel_unused,
    ),
    Row(
        "runtime-class-against-tier",
        "the tier promises a wall, and another runtime class would be another wall",
        "the tier's own runtime class",
        "leave it out",
        _runtime_class,
    ),
    Row(
        "security-group-on-nodes",
        "on nodes the capabilities are compiled to one NetworkPolicy",
        "network-policy on nodes",
        "set enforcedBy: auto",
        _security_group,
    ),
    Row(
        "verified-open-to-all",
        "verified sandboxes share the node's kernel and are for callers that were vetted",
        "roles other than user, or token claims",
        "set claimableBy: {roles: [operator]}, or roles: [] with tokens",
        _verified_open,
    ),
    Row(
        "gpu-behind-a-wall",
        "a sandbox that shares no kernel with its node does not get at the node's graphics processors here",
        "gpu in tier verified",
        "set tier: verified for callers that were vetted, or gpu: 0",
        _gpu,
    ),
    Row(
        "gpu-over-limit",
        "no node with so many processors would be launched",
        "at most capacity.gpu.limit",
        "raise capacity.gpu.limit",
        _gpu_limit,
    ),
    Row(
        "architecture-without-family",
        "none of the instance families has such processors, so no pod would ever be placed",
        "an architecture that the families have",
        "add a family, such as m8g for arm64 or m7i for amd64",
        _architecture,
    ),
    Row(
        "family-without-nested-virtualization",
        "the family cannot run a kernel inside an instance",
        "c8i, m8i, r8i, or metal",
        "take one of them",
        _nested_family,
    ),
    Row(
        "burst-below-request",
        "Kubernetes takes no limit below its request",
        "a burst of at least the request",
        "raise the burst, or leave it out",
        _burst,
    ),
    Row(
        "sandbox-over-limits",
        "one sandbox is larger than all nodes of its pool may be together",
        "at most capacity.limits",
        "raise capacity.limits",
        _larger_than_limits,
    ),
    Row(
        "probe-of-two-ways",
        "a sandbox is asked in one way whether it is ready",
        "a command; or a port, with or without a path",
        "keep one of them",
        _probe,
    ),
    Row(
        "probe-beyond-readiness",
        "a warm sandbox that is not ready in time is replaced by another, which would be replaced as well",
        "a start within cluster.sandboxController.flags.readinessGrace, which is 5m unless told",
        "shorten it, or raise the grace",
        _probe_late,
    ),
    Row(
        "secret-in-env",
        "everybody who may read the template reads its variables, and so does every sandbox of the class",
        "variables that are no secrets",
        "give secrets by reference and per owner, through identity: {kind: exchange}",
        _secret_in_env,
    ),
)
