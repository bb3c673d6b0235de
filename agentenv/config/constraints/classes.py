"""Constraints on the tiers, kernels, processors, probes and resources of a class."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from agentenv.config.constraints.constraint import Constraint, Finding
from agentenv.config.constraints.sizes import declared_sizes
from agentenv.config.values import duration_text
from agentenv.core.classes.pools.sizes import warm_members
from agentenv.core.nodes.node_pools import families_of, processor
from agentenv.core.nodes.tier_rules import rule_of
from agentenv.core.nodes.tiers import wall_of
from agentenv.core.values.secrets_in_text import SECRET_NAME, secret_in

if TYPE_CHECKING:
    from agentenv.config.mistakes import Place
    from agentenv.config.sections.classes import SandboxClass
    from agentenv.config.settings import Settings

NITRO_SINCE = (1, 36)
# The controller's default for how long a warm sandbox may take to become ready.
READINESS_GRACE = timedelta(minutes=5)
NESTED = re.compile(r"(c8i|m8i|r8i)(-flex)?|[a-z0-9-]+metal")
_GPU_FIX = "set tier: verified for vetted callers, or gpu: 0"
GPU_HINTS = {
    "standard": f"gVisor supports GPUs only when NVIDIA's own runtime starts it, which containerd does not do on these"
    f" nodes; {_GPU_FIX}",
    "untrusted": f"instances with nested virtualization have no GPUs to pass through; {_GPU_FIX}",
}


def on_nodes(settings: Settings) -> Iterator[tuple[Place, SandboxClass]]:
    """Yield the classes that run on nodes, with their places."""
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        if sandbox_class.compute == "karpenter":
            yield ("sandboxClasses", index), sandbox_class


def runtime_class(sandbox_class: SandboxClass) -> str | None:
    """Return the runtime class of a class on nodes, which follows from its tier."""
    return wall_of(sandbox_class.tier, sandbox_class.kernel).runtime_class


def _spot_nested(settings: Settings) -> Iterator[Finding]:
    for place, sandbox_class in on_nodes(settings):
        if (
            sandbox_class.tier == "untrusted"
            and sandbox_class.kernel == "kata"
            and sandbox_class.capacity != "on-demand"
        ):
            also = ((*place, "tier"), (*place, "kernel"), (*place, "compute"))
            yield Finding((*place, "capacity"), f"{sandbox_class.capacity} for nested virtualization", also=also)


def _nitro_version(settings: Settings) -> Iterator[Finding]:
    version = settings.cluster.version
    if tuple(int(part) for part in version.split(".")) < NITRO_SINCE:
        for place, sandbox_class in on_nodes(settings):
            if sandbox_class.tier == "untrusted" and sandbox_class.kernel == "nitro":
                also = ((*place, "tier"), (*place, "compute"), ("cluster", "version"))
                yield Finding((*place, "kernel"), f"nitro on Kubernetes {version}", also=also)


def _nitro_image(settings: Settings) -> Iterator[Finding]:
    if not settings.capacity.nitro_images:
        for place, sandbox_class in on_nodes(settings):
            if sandbox_class.tier == "untrusted" and sandbox_class.kernel == "nitro":
                also = ((*place, "tier"), (*place, "compute"), ("capacity", "nitroImages"))
                yield Finding((*place, "kernel"), "nitro without an image", also=also)


def _kernel_unused(settings: Settings) -> Iterator[Finding]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        place = ("sandboxClasses", index)
        if sandbox_class.kernel == "nitro" and (
            sandbox_class.tier != "untrusted" or sandbox_class.compute == "fargate"
        ):
            where = "on Fargate" if sandbox_class.compute == "fargate" else f"in tier {sandbox_class.tier}"
            yield Finding((*place, "kernel"), f"nitro {where}", also=((*place, "tier"), (*place, "compute")))


def _runtime_class(settings: Settings) -> Iterator[Finding]:
    for place, sandbox_class in on_nodes(settings):
        own = runtime_class(sandbox_class)
        if sandbox_class.runtime_class is not None and sandbox_class.runtime_class != own:
            hint = f"remove it, or set it to {own}" if own else "remove it: the tier shares the node's kernel"
            also = ((*place, "tier"), (*place, "kernel"), (*place, "compute"))
            yield Finding(
                (*place, "runtimeClass"), f"{sandbox_class.runtime_class} in tier {sandbox_class.tier}", hint, also
            )


def _security_group(settings: Settings) -> Iterator[Finding]:
    for place, sandbox_class in on_nodes(settings):
        if sandbox_class.enforced_by == "security-group":
            yield Finding((*place, "enforcedBy"), "security-group on nodes", also=((*place, "compute"),))


def _verified_open(settings: Settings) -> Iterator[Finding]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        place = ("sandboxClasses", index)
        if others := [
            role for role in sandbox_class.claimable_by.roles if role not in rule_of(sandbox_class.tier).roles
        ]:
            found = f"roles {' and '.join(others)} in tier {sandbox_class.tier}"
            yield Finding((*place, "claimableBy"), found, also=((*place, "tier"),))


def _gpu(settings: Settings) -> Iterator[Finding]:
    for place, sandbox_class in on_nodes(settings):
        if sandbox_class.gpu and not rule_of(sandbox_class.tier).gpu:
            hint = GPU_HINTS[sandbox_class.tier]
            also = ((*place, "tier"), (*place, "compute"))
            yield Finding((*place, "gpu"), f"{sandbox_class.gpu} in tier {sandbox_class.tier}", hint, also)


def _gpu_limit(settings: Settings) -> Iterator[Finding]:
    limit = settings.capacity.gpu.limit
    for place, sandbox_class in on_nodes(settings):
        if sandbox_class.gpu > limit and rule_of(sandbox_class.tier).gpu:
            also = (("capacity", "gpu"), (*place, "compute"), (*place, "tier"))
            yield Finding((*place, "gpu"), f"{sandbox_class.gpu} with capacity.gpu.limit {limit}", also=also)


def _architecture(settings: Settings) -> Iterator[Finding]:
    for place, sandbox_class in on_nodes(settings):
        nested = sandbox_class.tier == "untrusted" and sandbox_class.kernel == "kata"
        key = "gpu.families" if sandbox_class.gpu else "nestedFamilies" if nested else "families"
        found = {processor(family) for family in families_of(sandbox_class, settings.capacity)}
        if sandbox_class.architecture not in {"any", *found}:
            also = (("capacity",), (*place, "tier"), (*place, "kernel"), (*place, "gpu"), (*place, "compute"))
            yield Finding(
                (*place, "architecture"), f"{sandbox_class.architecture}, and capacity.{key} has none", also=also
            )


def _nested_family(settings: Settings) -> Iterator[Finding]:
    for index, family in enumerate(settings.capacity.nested_families):
        if not NESTED.fullmatch(family):
            yield Finding(("capacity", "nestedFamilies", index), family)


def _burst(settings: Settings) -> Iterator[Finding]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        for keys, resources in declared_sizes(sandbox_class):
            place = ("sandboxClasses", index, *keys)
            for key in ("cpu", "memory"):
                request, most = getattr(resources, key), getattr(resources.burst, key)
                if most is not None and most.value < request.value:
                    yield Finding((*place, "burst", key), f"{most} below {request}", also=((*place, key),))


def _larger_than_limits(settings: Settings) -> Iterator[Finding]:
    limits = settings.capacity.limits
    for place, sandbox_class in on_nodes(settings):
        for keys, resources in declared_sizes(sandbox_class):
            for key in ("cpu", "memory"):
                request, limit = getattr(resources, key), getattr(limits, key)
                if request.value > limit.value:
                    also = (("capacity", "limits", key), (*place, "compute"))
                    yield Finding((*place, *keys, key), f"{request} with capacity.limits.{key} {limit}", also=also)


def _secret_in_env(settings: Settings) -> Iterator[Finding]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        for position, variable in enumerate(sandbox_class.env):
            # The message may end up in a log, so it omits the value.
            place = ("sandboxClasses", index, "env", position)
            if SECRET_NAME.search(variable.name):
                yield Finding(place, f"{variable.name}, which looks like a secret")
            elif description := secret_in(variable.value, lines=False):
                yield Finding(place, f"{description} in {variable.name}")


def _probe(settings: Settings) -> Iterator[Finding]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        probe, place = sandbox_class.probe, ("sandboxClasses", index, "probe")
        if probe is not None and bool(probe.command) == (probe.port is not None):
            found = "a command and a port" if probe.command else "neither a command nor a port"
            yield Finding(place, found)
        elif probe is not None and probe.command and probe.path is not None:
            yield Finding((*place, "path"), f"{probe.path} with a command")


def _probe_late(settings: Settings) -> Iterator[Finding]:
    grace = settings.cluster.sandbox_controller.flags.readiness_grace or READINESS_GRACE
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        explicit = sandbox_class.probe is not None and "start_within" in sandbox_class.probe.model_fields_set
        if (
            sandbox_class.probe is not None
            and explicit
            and sandbox_class.probe.start_within > grace
            and warm_members(sandbox_class.pool)
        ):
            found = f"{duration_text(sandbox_class.probe.start_within)}, and a warm one has {duration_text(grace)}"
            also: tuple[Place, ...] = (
                ("cluster", "sandboxController", "flags", "readinessGrace"),
                ("sandboxClasses", index, "pool"),
            )
            yield Finding(("sandboxClasses", index, "probe", "startWithin"), found, also=also)


CONSTRAINTS = (
    Constraint(
        "spot-nested-virtualization",
        "EC2 does not launch Spot instances with nested virtualization",
        "capacity: on-demand with kernel: kata",
        "set capacity: on-demand",
        _spot_nested,
    ),
    Constraint(
        "nitro-needs-version",
        "EKS supports Nitro sandboxes from Kubernetes 1.36",
        "kernel: nitro with cluster.version 1.36 or later",
        'set cluster.version: "1.36", or kernel: kata',
        _nitro_version,
    ),
    Constraint(
        "nitro-needs-image",
        "AWS has no public image with the Nitro sandbox runtime, and without it no node ever offers a slot",
        "kernel: nitro with capacity.nitroImages",
        "build an AMI as the EKS user guide describes (Create and update a Nitro Sandbox AMI), or set kernel: kata",
        _nitro_image,
    ),
    Constraint(
        "kernel-without-untrusted",
        "kernel applies to untrusted sandboxes on nodes only",
        "kernel: nitro with tier: untrusted and compute: karpenter",
        "remove kernel, or set tier: untrusted",
        _kernel_unused,
    ),
    Constraint(
        "runtime-class-against-tier",
        "the tier determines the isolation, and another runtime class would isolate differently",
        "the runtime class of the tier",
        "remove it",
        _runtime_class,
    ),
    Constraint(
        "security-group-on-nodes",
        "on nodes the capabilities are compiled to one NetworkPolicy",
        "network-policy on nodes",
        "set enforcedBy: auto",
        _security_group,
    ),
    Constraint(
        "verified-open-to-all",
        "verified sandboxes share the node's kernel and are for vetted callers only",
        "roles other than user, or token claims",
        "set claimableBy: {roles: [operator]}, or roles: [] with tokens",
        _verified_open,
    ),
    Constraint(
        "gpu-behind-a-wall",
        "only a sandbox that shares the node's kernel can use the node's GPUs",
        "gpu in tier verified",
        "set tier: verified for vetted callers, or gpu: 0",
        _gpu,
    ),
    Constraint(
        "gpu-over-limit",
        "no node with that many GPUs would be launched",
        "at most capacity.gpu.limit",
        "raise capacity.gpu.limit",
        _gpu_limit,
    ),
    Constraint(
        "architecture-without-family",
        "none of the instance families has this architecture, so no pod would be scheduled",
        "an architecture of the instance families",
        "add a family, such as m8g for arm64 or m7i for amd64",
        _architecture,
    ),
    Constraint(
        "family-without-nested-virtualization",
        "instances of this family do not support nested virtualization",
        "c8i, m8i, r8i, or metal",
        "use one of them",
        _nested_family,
    ),
    Constraint(
        "burst-below-request",
        "Kubernetes rejects a limit below its request",
        "a burst of at least the request",
        "raise the burst, or remove it",
        _burst,
    ),
    Constraint(
        "sandbox-over-limits",
        "one sandbox requests more than the limit of its whole node pool",
        "at most capacity.limits",
        "raise capacity.limits",
        _larger_than_limits,
    ),
    Constraint(
        "probe-of-two-ways",
        "a probe has exactly one method",
        "a command; or a port, with or without a path",
        "keep one of them",
        _probe,
    ),
    Constraint(
        "probe-beyond-readiness",
        "a warm sandbox that is not ready in time is replaced, and its replacement would be too",
        "startWithin of at most cluster.sandboxController.flags.readinessGrace, which is 5m by default",
        "lower startWithin, or raise readinessGrace",
        _probe_late,
    ),
    Constraint(
        "secret-in-env",
        "everybody who may read the template can read its variables, and so can every sandbox of the class",
        "variables without secrets",
        "pass secrets by reference and per owner, with identity: {kind: exchange}",
        _secret_in_env,
    ),
)
