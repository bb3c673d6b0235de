"""The security contexts of all pods and containers of the project."""

from __future__ import annotations

from typing import Any

Plain = dict[str, Any]


def pod_security(uid: int) -> Plain:
    """Return the security context of a pod that runs as a uid.

    It has no fsGroup: the access point enforces the owner of files, and the kubelet would change the owner of every
    file at each start.
    """
    return {
        "runAsNonRoot": True,
        "runAsUser": uid,
        "runAsGroup": uid,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> Plain:
    """Return the security context of a container, without any privileges."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
