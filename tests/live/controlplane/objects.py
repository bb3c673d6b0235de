"""Objects that the tests put into the server."""

from __future__ import annotations

import contextlib
from typing import Any

import psutil

from agentenv.rehearsal.controlplane.client import Client, until

Object = dict[str, Any]

PATIENCE = 60.0


def namespace(client: Client, name: str, **labels: str) -> str:
    """A namespace in which pods may be made: its first service account is there."""
    client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    assert until(lambda: client.find(f"/api/v1/namespaces/{name}/serviceaccounts/default"), PATIENCE)
    return name


def pod(space: str, name: str, **spec: Any) -> Object:
    """A pod that any node can take."""
    container = {"name": "main", "image": "registry.example/sleeper", **spec.pop("container", {})}
    about = {"name": name, "namespace": space, "labels": spec.pop("labels", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": {"containers": [container], **spec}}


def condition(thing: Object | None, kind: str) -> Object:
    """A condition of that type, or nothing."""
    rows = ((thing or {}).get("status") or {}).get("conditions") or []
    return next((row for row in rows if row["type"] == kind), {})


def is_ready(client: Client, path: str) -> bool:
    """Return whether what lies there says that it is Ready."""
    return condition(client.find(path), "Ready").get("status") == "True"


def runs(process: psutil.Process) -> bool:
    """Return whether a process has not ended; a zombie has."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def becomes_ready(client: Client, path: str) -> bool:
    """Wait for it."""
    return bool(until(lambda: is_ready(client, path), PATIENCE))
