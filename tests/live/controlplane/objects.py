"""Objects that tests create in the API server."""

from __future__ import annotations

import contextlib
from typing import Any

import psutil

from agentenv.rehearsal.controlplane.client import Client, until

Object = dict[str, Any]

TIMEOUT = 180.0


def create_namespace(client: Client, name: str, **labels: str) -> str:
    """Create a namespace, and wait for its default service account."""
    client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    assert until(lambda: client.find(f"/api/v1/namespaces/{name}/serviceaccounts/default"), TIMEOUT)
    return name


def pod(namespace: str, name: str, **spec: Any) -> Object:
    """Return a pod that fits every node."""
    container = {"name": "main", "image": "registry.example/sleeper", **spec.pop("container", {})}
    about = {"name": name, "namespace": namespace, "labels": spec.pop("labels", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": {"containers": [container], **spec}}


def condition(obj: Object | None, kind: str) -> Object:
    """Return the condition of a type, or nothing."""
    rows = ((obj or {}).get("status") or {}).get("conditions") or []
    return next((row for row in rows if row["type"] == kind), {})


def is_ready(client: Client, path: str) -> bool:
    """Return whether the object at a path is Ready."""
    return condition(client.find(path), "Ready").get("status") == "True"


def runs(process: psutil.Process) -> bool:
    """Return whether a process has not ended; a zombie has."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def becomes_ready(client: Client, path: str) -> bool:
    """Wait until the object at a path is Ready."""
    return bool(until(lambda: is_ready(client, path), TIMEOUT))
