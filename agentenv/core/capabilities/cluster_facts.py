"""The facts of one cluster that grants are resolved against; some are not known before deployment.

A fact that is `None` is not known yet; an empty one is known to be empty. Before an environment is deployed the address
of its API server is unknown, and still a class has to be compared with its parent.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_network
from typing import TYPE_CHECKING, Literal

from agentenv.core.capabilities.sets.address_ranges import (
    Spans,
    all_addresses,
    internet,
    of_versions,
    spans,
    union_of_spans,
)
from agentenv.core.capabilities.sets.boxes import TCP_AND_UDP, Protocol, Version
from agentenv.core.capabilities.sets.intervals import Intervals
from agentenv.core.capabilities.sets.pods import PodPorts, Pods, pod_ports_of

if TYPE_CHECKING:
    from agentenv.core.capabilities.sets.reach import World

Fact = Literal["vpc", "services", "pods", "api"]
FACTS: dict[Fact, str] = {
    "vpc": "the ranges of the VPC",
    "services": "the range of Kubernetes services",
    "pods": "the ranges of pods outside the VPC",
    "api": "the addresses of the API server",
}

# The ranges that EKS accepts for services; the API server is in them, in the VPC, or on the internet.
SERVICE_RANGES = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
# The API server has an address in each of a few subnets, and a few public ones.
MOST_API_ADDRESSES = 64


@dataclass(frozen=True)
class Service:
    """A destination in the cluster that a grant refers to: pods by labels, and addresses beside or instead of them."""

    pods: Pods | None
    ports: Intervals
    protocols: tuple[Protocol, ...] = ("TCP",)
    addresses: tuple[str, ...] = ()

    @property
    def pod_ports(self) -> frozenset[PodPorts]:
        """The ports of its pods."""
        return pod_ports_of(self.pods, self.protocols, self.ports) if self.pods is not None else frozenset()


# The pods behind the DNS service. A NetworkPolicy selects pods and not the service's address: network agents differ in
# which of the two they see, and those that see the address look up its pods.
CLUSTER_RESOLVER = Service(
    Pods.labelled("kube-system", {"k8s-app": "kube-dns"}), Intervals.single(53), protocols=TCP_AND_UDP
)

# The pods of the workspace service, where a sandbox's token is exchanged for credentials.
WORKSPACE_SERVICE = Pods.labelled("workspace-service", {"app.kubernetes.io/name": "workspace-service"})

# The pods of its loops, which ask workspaced in a sandbox whether it is idle.
SERVICE_LOOPS = Pods.labelled("workspace-service", {"app.kubernetes.io/name": "workspace-service-loops"})

# The pods of Envoy, through which callers reach sandboxes.
GATEWAY = Pods.labelled("gateway", {"app.kubernetes.io/name": "envoy"})

# The port of the program inside a sandbox, which E2B's `envd` has too.
DAEMON_PORT = 49983


@dataclass(frozen=True)
class Proxy:
    """An egress proxy: the only way to enforce domain names in a cluster whose network agent matches addresses."""

    service: Service
    refuses_private: bool | None = None  # whether it refuses names that resolve to addresses outside the internet


@dataclass(frozen=True)
class ClusterFacts:
    """The facts of the cluster against which grants are resolved."""

    versions: tuple[Version, ...] = (4,)  # of the pods' addresses; an EKS cluster has one or the other
    vpc: tuple[str, ...] | None = None
    services: tuple[str, ...] | None = None
    pods: tuple[str, ...] | None = ()
    api: tuple[str, ...] | None = (
        None  # private and public, beside the service's address, which follows from `services`
    )
    neighbours: tuple[str, ...] = ()  # networks the VPC is peered or routed with, where they have public ranges
    resolver: Service = CLUSTER_RESOLVER
    resolver_addresses: tuple[str, ...] = ()  # of the service in front of it, where known
    proxy: Proxy | None = None
    exchange: Service | None = None  # where a sandbox's token is exchanged for credentials
    agent: str = "the VPC CNI"
    agent_enforces: bool = True
    agent_most_ports: int | None = 24  # combinations of protocol and ports the agent keeps for one range

    @property
    def unknown(self) -> frozenset[str]:
        """The facts that are not known yet."""
        return frozenset(fact for fact in FACTS if self._value(fact) is None)

    def addresses(self, fact: Fact, world: World = frozenset()) -> Spans:
        """Return the addresses of a fact; of an unknown one, none or all possible ones, as the world says."""
        value = self._value(fact)
        if value is None:
            return of_versions(self._possible(fact, world), self.versions) if fact in world else {}
        result = spans(value)
        if fact == "api":
            result = union_of_spans(result, spans(self._api_services()))
        return of_versions(result, self.versions)

    def own(self, world: World = frozenset()) -> Spans:
        """Return all addresses of the cluster and of networks routed from it, the API server included."""
        return union_of_spans(
            *(self.addresses(fact, world) for fact in FACTS), of_versions(spans(self.neighbours), self.versions)
        )

    def _possible(self, fact: Fact, world: World) -> Spans:
        if fact == "services":
            return spans(SERVICE_RANGES)
        if fact == "api":
            return union_of_spans(self.addresses("vpc", world), self.addresses("services", world), internet())
        return all_addresses()

    def _value(self, fact: Fact) -> tuple[str, ...] | None:
        # One address of the API server follows from the range of services, and is unknown as long as that is.
        api = None if self.services is None else self.api
        return {"vpc": self.vpc, "services": self.services, "pods": self.pods, "api": api}[fact]

    def _api_services(self) -> tuple[str, ...]:
        """The `kubernetes` service has the first address of each range of services."""
        return tuple(str(ip_network(services)[1]) for services in self.services or ())


def class_pods(name: str) -> Pods:
    """Return the pods of a class: those with its label in its namespace."""
    return Pods.labelled(f"sandbox-{name}", {CLASS_LABEL: name})


CLASS_LABEL = "sandbox.users.io/class"
