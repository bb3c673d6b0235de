"""The pods of the gateway that are targets of the load balancer, and those of them that are ready for requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agentenv.core.gateway.documents import REGISTERED

HEALTHY, DRAINING = "healthy", "draining"


@dataclass(frozen=True)
class Pod:
    """A pod of the gateway, as far as the load balancer is concerned."""

    name: str
    address: str  # empty before it has one
    serves: bool  # whether its containers are ready
    registered: bool  # whether its readiness gate is set
    ending: bool


@dataclass(frozen=True)
class Changes:
    """The targets to register and to deregister, and the pods whose readiness gate is to be set."""

    register: tuple[str, ...] = ()
    deregister: tuple[str, ...] = ()
    ready: tuple[str, ...] = ()


def pod_of(document: Mapping[str, Any]) -> Pod:
    """Return a pod from its object."""
    status: Mapping[str, Any] = document.get("status") or {}
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    return Pod(
        document["metadata"]["name"],
        status.get("podIP") or "",
        serves=conditions.get("ContainersReady") == "True",
        registered=conditions.get(REGISTERED) == "True",
        ending="deletionTimestamp" in document["metadata"],
    )


def changes(pods: Iterable[Pod], targets: Mapping[str, str]) -> Changes:
    """Return what to change; `targets` has the health of each registered address.

    A pod that is not ready for a while stays a target, because the balancer's own health checks leave it out. One that
    ends is deregistered at once, and serves until the balancer knows.
    """
    staying = [pod for pod in pods if pod.address and not pod.ending]
    serving = {pod.address for pod in staying if pod.serves}
    current = {address for address, health in targets.items() if health != DRAINING}
    ready = (pod.name for pod in staying if pod.serves and not pod.registered and targets.get(pod.address) == HEALTHY)
    return Changes(
        register=tuple(sorted(serving - current)),
        deregister=tuple(sorted(current - serving - {pod.address for pod in staying if pod.registered})),
        ready=tuple(sorted(ready)),
    )
