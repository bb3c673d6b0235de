"""The init container of a sandbox on nodes: it waits until the class's NetworkPolicy is enforced for the pod.

A NetworkPolicy is enforced some time after a pod starts. A warm sandbox has been covered long before it is claimed; a
cold start has not, and without a gate user code runs in between. The CNI's strict mode prevents this where it is
enabled, and the gate verifies it. The gate probes addresses that answer every pod in the cluster and that the class was
not granted. It exits when they have not answered several times in a row.

A probe cannot distinguish a denial from an address that is down. The gate therefore probes two addresses that are never
down together, more than once, and probes itself first, so that a broken probe does not count as a denial. A class that
is granted every probe address has no gate, and relies on strict mode alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.resources import files
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any

from agentenv.core.capabilities.from_settings import egress_of
from agentenv.core.capabilities.sets.boxes import Point
from agentenv.core.capabilities.sets.pods import shared_pod_ports
from agentenv.core.classes.pods.init_container import init_container
from agentenv.core.pinned_versions import releases

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentenv.config.sections.classes import SandboxClass
    from agentenv.core.capabilities.cluster_facts import ClusterFacts
    from agentenv.core.capabilities.sets.reach import Reach
    from agentenv.core.nodes.mirrors import Mirrors

GATE = "gate"
# Enforcement has been observed up to 1.5 seconds late; after this bound it is missing. The kubelet then restarts the
# container, and the termination message says why.
BOUND_SECONDS = 30
# One may be a lost packet. Each round costs a second, on every cold start and every resume.
SILENT_ROUNDS = 2
# Two that fail independently: an update replaces the API server, but not the resolver at the same time.
MOST_ADDRESSES = 2
SCRIPT = "network_gate.sh"


@dataclass(frozen=True)
class Address:
    """A TCP endpoint that answers every client that may reach it."""

    host: str
    port: int | str
    what: str

    def __str__(self) -> str:
        return f"{self.host} {self.port}"


# From the variables that the kubelet sets in every container, for existing clusters whose ranges are not known.
API_SERVER_FROM_ENV = Address("$(KUBERNETES_SERVICE_HOST)", "$(KUBERNETES_SERVICE_PORT)", "the API server")


def gate_container(sandbox_class: SandboxClass, cluster: ClusterFacts, image: str) -> dict[str, Any] | None:
    """Return the init container of a class; None on Fargate, where groups apply at once, or without an address."""
    addresses = probe_addresses(sandbox_class, cluster)
    if sandbox_class.compute == "fargate" or not addresses:
        return None
    return init_container(
        GATE,
        image,
        ["/bin/sh", "-c", script(), GATE],
        sandbox_class,
        args=[str(BOUND_SECONDS), str(SILENT_ROUNDS), sandbox_class.name, *(str(address) for address in addresses)],
    )


def gate_image(mirrors: Mirrors) -> str:
    """Return the image of the gate by digest, from the mirror of this environment."""
    return mirrors.image(releases().images[GATE])


def gate_note(sandbox_class: SandboxClass, cluster: ClusterFacts) -> str:
    """Return a note for a class on nodes without a gate; empty where it has one."""
    if sandbox_class.compute == "fargate" or probe_addresses(sandbox_class, cluster):
        return ""
    return (
        f"class {sandbox_class.name} may reach every address that could be probed for a denial, so it has no gate:"
        " cold starts rely on the strict mode of the network policy alone"
    )


def script() -> str:
    """Return the script of the gate, for any POSIX shell with `nc`."""
    return files("agentenv.core.classes.pods").joinpath(SCRIPT).read_text(encoding="utf-8")


def probe_addresses(sandbox_class: SandboxClass, cluster: ClusterFacts) -> tuple[Address, ...]:
    """Return addresses that answer where no policy is enforced, and that the policy of the class denies."""
    # The API server's public addresses are never probed. That they are unknown must not make the service's address,
    # which is known, count as one that might be granted.
    known = cluster if cluster.services is None else replace(cluster, api=cluster.api or ())
    egress = egress_of(sandbox_class, known)
    granted = [bounds.most for bounds in egress.worlds.values()]
    words = {grant.word for grant in sandbox_class.capabilities}
    addresses = [
        address
        for address in _candidates(cluster, resolver=not any(_resolver_granted(reach, cluster) for reach in granted))
        if not any(_includes(reach, address) for reach in granted)
    ]
    if cluster.services is None and "api-server" not in words:
        addresses.insert(0, API_SERVER_FROM_ENV)
    return tuple(addresses[:MOST_ADDRESSES])


def _candidates(cluster: ClusterFacts, *, resolver: bool) -> Iterator[Address]:
    """Yield the API server (first service address), EKS's resolver (tenth) and the VPC's resolver (second address).

    All of them answer on TCP.
    """
    services = [ip_network(text) for text in cluster.services or ()]
    for network in services:
        if network.version in cluster.versions:
            yield Address(str(network[1]), 443, "the API server")
    if resolver:
        known = cluster.resolver_addresses or tuple(str(network[10]) for network in services)
        for text in known:
            if ip_address(text).version in cluster.versions:
                yield Address(text, 53, "the cluster's resolver")
    for network in map(ip_network, cluster.vpc or ()):
        if network.version in cluster.versions:
            yield Address(str(network[2]), 53, "the VPC's resolver")


def _resolver_granted(reach: Reach, cluster: ClusterFacts) -> bool:
    """Return whether any of the resolver's pods may be reached, by whatever address."""
    return bool(shared_pod_ports(cluster.resolver.pod_ports, reach.pod_ports))


def _includes(reach: Reach, address: Address) -> bool:
    host = ip_address(address.host)
    return Point(host.version, "TCP", int(host), int(address.port)) in reach.boxes
