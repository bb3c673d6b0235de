"""What every pod and container of ours gives up, whoever made its image."""

from __future__ import annotations

from typing import Any

Plain = dict[str, Any]


def pod_security(uid: int) -> Plain:
    """Who a pod runs as.

    There is no fsGroup: the access point says whose its files are, and a kubelet that made them somebody else's would
    walk through all of them at every start.
    """
    return {
        "runAsNonRoot": True,
        "runAsUser": uid,
        "runAsGroup": uid,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> Plain:
    """What a container of a sandbox may do to its node: nothing."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
