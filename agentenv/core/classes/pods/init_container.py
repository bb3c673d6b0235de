"""Init containers of a sandbox: as hardened as the sandbox, and so small that they cost nothing beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentenv.core.classes.pods.hardening import container_security
from agentenv.core.values.quantities import Quantity

if TYPE_CHECKING:
    from agentenv.config.sections.classes import SandboxClass

Plain = dict[str, Any]

_DISK = "ephemeral-storage"
_REQUESTS = {"cpu": "10m", "memory": "16Mi", _DISK: "4Mi"}
_LIMITS = {"cpu": "200m", "memory": "32Mi", _DISK: "4Mi"}


def init_container(
    name: str,
    image: str,
    command: Sequence[str],
    sandbox_class: SandboxClass,
    *,
    args: Sequence[str] = (),
    mounts: Sequence[Mapping[str, Any]] = (),
) -> Plain:
    """Return an init container with small resources, a read-only root and no privileges."""
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(command),
        **({"args": list(args)} if args else {}),
        "resources": _resources(sandbox_class),
        "securityContext": container_security(),
        **({"volumeMounts": [dict(mount) for mount in mounts]} if mounts else {}),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _resources(sandbox_class: SandboxClass) -> dict[str, dict[str, str]]:
    """Return small resources, at most the sandbox's: Kubernetes counts the larger of the two, so these are free."""
    resources = sandbox_class.resources
    limits = {"cpu": resources.burst.cpu or resources.cpu, "memory": resources.burst.memory or resources.memory}
    return {
        "requests": _at_most({"cpu": resources.cpu, "memory": resources.memory, _DISK: resources.ephemeral}, _REQUESTS),
        "limits": _at_most({**limits, _DISK: resources.ephemeral}, _LIMITS),
    }


def _at_most(own: Mapping[str, Quantity], little: Mapping[str, str]) -> dict[str, str]:
    return {
        key: str(min(Quantity.parse(text), own[key], key=lambda quantity: quantity.value))
        for key, text in little.items()
    }
