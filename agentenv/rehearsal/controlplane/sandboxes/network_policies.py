"""Decide where a sandbox's connections lead, by the NetworkPolicies that the API server has.

The policies are read as `core/capabilities` reads them everywhere. What is granted is reached only where it is on this
machine: other sandboxes, the cluster's own services, its resolver, and what a file of the plane maps to loopback. As
on a node, what no policy grants gets no answer; what is granted and is not here is refused.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from agentenv.core.capabilities.cluster_facts import CLUSTER_RESOLVER
from agentenv.core.capabilities.policies.effective_policy import Direction, effective
from agentenv.core.capabilities.sets.pods import Key
from agentenv.core.capabilities.sets.reach import Reach
from agentenv.local.sandboxes import name_answers
from agentenv.local.sandboxes.way_out import Dial, Enter, Protocol, Refusal, Resolve, Way
from agentenv.rehearsal.controlplane.client import PodApi
from agentenv.rehearsal.controlplane.pods.service_endpoints import endpoints

Object = dict[str, Any]

# The tenth address of the services' range, as EKS has it.
RESOLVER = "172.20.0.10"
_API_SERVER = "172.20.0.1"
# A file of the plane: `names` of the internet and their addresses, and what stands for an address and port on loopback.
OUTSIDE = "outside.json"
_DOMAIN = "svc.cluster.local"
_SECONDS = 1.0  # for which the objects that were read are used


@dataclass(frozen=True)
class Sandbox:
    """A running sandbox that others may reach."""

    pod: Callable[[], Object]  # as it is now
    inbound: Path


@dataclass(frozen=True)
class _Objects:
    """The objects of the API server at a time."""

    read_at: float
    policies: list[Object]
    services: list[Object]
    namespaces: Mapping[str, Mapping[str, str]]  # their labels


@dataclass(frozen=True)
class _Target:
    """A place on this machine, and the pod whose policies it is reached by."""

    way: Way
    labels: Mapping[Key, str] | None = None
    port: int = 0
    pod: Object | None = None  # one whose own policies say who comes in


class NetworkPolicies:
    """The network between the sandboxes of a plane."""

    def __init__(self, client: PodApi, plane: Path, api_server: tuple[str, int]) -> None:
        self._client, self._plane, self._api_server = client, plane, api_server
        self._sandboxes: dict[str, Sandbox] = {}
        self._objects: _Objects | None = None
        self._lock = threading.Lock()

    def add(self, address: str, sandbox: Sandbox) -> None:
        """Let others reach a sandbox, as far as policies allow it."""
        self._sandboxes[address] = sandbox

    def remove(self, address: str) -> None:
        """Forget a sandbox that has ended."""
        self._sandboxes.pop(address, None)

    def decide(self, pod: Object, source: str, protocol: Protocol, address: IPv4Address, port: int) -> Way:
        """Return where a connection of a pod leads; `source` is the pod's own address."""
        objects = self._read()
        reach = self._reach(objects, pod, "Egress")
        granted = reach.includes_address(address, protocol, port)
        answer = Refusal.REFUSE if granted else Refusal.DROP
        for target in self._targets(objects, str(address), protocol, port, source):
            by_labels = target.labels is not None and reach.includes_pod(target.labels, protocol, target.port)
            if granted or by_labels:
                if self._lets_in(objects, target, pod, source, protocol):
                    return target.way
                answer = Refusal.DROP
        return answer

    def _targets(
        self, objects: _Objects, address: str, protocol: Protocol, port: int, source: str
    ) -> Iterator[_Target]:
        """Yield what there is at an address and port, or behind it."""
        if address == RESOLVER and port == 53:
            yield _Target(Resolve(self._answer), _resolver_labels(), port)
        elif protocol == "UDP":
            return
        elif (sandbox := self._sandboxes.get(address)) is not None:
            pod = sandbox.pod()
            yield _Target(Enter(sandbox.inbound, port, source), self._labels(objects, pod), port, pod)
        elif address == _API_SERVER and port == 443:
            yield _Target(Dial(*self._api_server))
        elif (service := _behind(objects.services, address)) is not None:
            for row in endpoints(self._client, self._plane, service, port):
                yield _Target(Dial(row.host, row.listens), self._labels(objects, row.pod), row.port, row.pod)
        elif (found := self._outside().get("addresses", {}).get(f"{address}:{port}")) is not None:
            host, _, number = found.rpartition(":")
            yield _Target(Dial(host, int(number)))

    def _lets_in(self, objects: _Objects, target: _Target, pod: Object, source: str, protocol: Protocol) -> bool:
        if target.pod is None:
            return True
        reach = self._reach(objects, target.pod, "Ingress")
        by_labels = reach.includes_pod(self._labels(objects, pod), protocol, target.port)
        return by_labels or reach.includes_address(IPv4Address(source), protocol, target.port)

    def _reach(self, objects: _Objects, pod: Object, direction: Direction) -> Reach:
        metadata = pod["metadata"]
        return effective(objects.policies, metadata["namespace"], metadata.get("labels") or {}, direction).least

    def _labels(self, objects: _Objects, pod: Object) -> Mapping[Key, str]:
        metadata = pod["metadata"]
        labels: dict[Key, str] = {("pod", key): value for key, value in (metadata.get("labels") or {}).items()}
        of_namespace = objects.namespaces.get(metadata["namespace"], {})
        labels.update({("namespace", key): value for key, value in of_namespace.items()})
        return labels

    def _answer(self, query: bytes) -> bytes:
        return name_answers.answer(query, self._addresses)

    def _addresses(self, name: str) -> list[str] | None:
        """Return the addresses of a Service or of a name of the internet; None for any other."""
        service, _, rest = name.removesuffix(f".{_DOMAIN}").partition(".")
        if name.endswith(f".{_DOMAIN}"):
            for row in self._read().services:
                if (row["metadata"]["name"], row["metadata"]["namespace"]) == (service, rest):
                    ip = row["spec"].get("clusterIP", "None")
                    return [] if ip == "None" else [ip]
            return None
        address = self._outside().get("names", {}).get(name)
        return None if address is None else [address]

    def _outside(self) -> Object:
        try:
            return json.loads((self._plane / OUTSIDE).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}

    def _read(self) -> _Objects:
        with self._lock:
            if self._objects is None or time.monotonic() - self._objects.read_at > _SECONDS:
                began = time.monotonic()
                policies, services, namespaces = (
                    self._client.request("GET", path)["items"]
                    for path in (
                        "/apis/networking.k8s.io/v1/networkpolicies",
                        "/api/v1/services",
                        "/api/v1/namespaces",
                    )
                )
                labels = {row["metadata"]["name"]: row["metadata"].get("labels") or {} for row in namespaces}
                self._objects = _Objects(began, policies, services, labels)
            return self._objects


def resolv_conf(pod: Object) -> str:
    """Return what a kubelet writes into `/etc/resolv.conf`, by the pod's DNS settings."""
    spec = pod["spec"]
    config = spec.get("dnsConfig") or {}
    servers, searches, options = [RESOLVER], [_DOMAIN, "cluster.local"], {"ndots": "5"}
    if spec.get("dnsPolicy") == "None":
        servers, searches, options = [], [], {}
    else:
        searches.insert(0, f"{pod['metadata']['namespace']}.{_DOMAIN}")
    servers += config.get("nameservers") or ()
    searches += config.get("searches") or ()
    # An option of the pod replaces the kubelet's own of this name.
    options |= {row["name"]: row.get("value") or "" for row in config.get("options") or ()}
    words = [":".join(filter(None, option)) for option in options.items()]
    lines = [f"nameserver {server}" for server in servers]
    lines += [f"{word} {' '.join(values)}" for word, values in (("search", searches), ("options", words)) if values]
    return "".join(f"{line}\n" for line in lines)


def _behind(services: list[Object], address: str) -> Object | None:
    return next((row for row in services if row["spec"].get("clusterIP") == address), None)


def _resolver_labels() -> Mapping[Key, str]:
    pods = CLUSTER_RESOLVER.pods
    rows = pods.labels if pods is not None else ()
    return {key: example for key, values in rows if (example := values.example) is not None}
