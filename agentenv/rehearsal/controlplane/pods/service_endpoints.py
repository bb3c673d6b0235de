"""The pods behind a port of a Service, and the loopback addresses at which their programs listen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentenv.rehearsal.controlplane.client import PodApi, has_condition
from agentenv.rehearsal.controlplane.pods import listen_addresses

Object = dict[str, Any]


@dataclass(frozen=True)
class Endpoint:
    """A ready pod of a Service: its own port, and where that is on this machine."""

    pod: Object
    port: int
    host: str
    listens: int


def endpoints(client: PodApi, plane: Path, service: Object, port: int) -> Iterator[Endpoint]:
    """Yield the ready pods behind a port of a Service that run as processes of the plane."""
    spec = service.get("spec") or {}
    rows = [row for row in spec.get("ports") or () if row["port"] == port]
    labels = ",".join(f"{key}={value}" for key, value in (spec.get("selector") or {}).items())
    if not rows or not labels:
        return
    path = f"/api/v1/namespaces/{service['metadata']['namespace']}/pods"
    for pod in client.request("GET", path, query={"labelSelector": labels})["items"]:
        target = _number(pod, rows[0].get("targetPort") or port)
        flag = _flag(pod, target)
        if target is None or flag is None or not has_condition(pod):
            continue
        address = listen_addresses.address(plane, pod["metadata"]["uid"], flag)
        if address is not None:
            host, _, number = address.removeprefix("http://").partition(":")
            yield Endpoint(pod, target, host, int(number))


def _number(pod: Object, port: int | str) -> int | None:
    """Return the number of a container's port, which may be named."""
    if isinstance(port, int):
        return port
    rows = (row for container in pod["spec"]["containers"] for row in container.get("ports") or ())
    return next((row["containerPort"] for row in rows if row.get("name") == port), None)


def _flag(pod: Object, port: int | None) -> str | None:
    """Return the flag by which the program was given a port."""
    arguments = pod["spec"]["containers"][0].get("args") or ()
    return next((text.partition("=")[0] for text in arguments if text.endswith(f"={port}")), None)
