"""The first container of a sandbox on nodes: it waits until its class's policy is felt, and nothing runs before it.

A NetworkPolicy binds some time after a pod starts. A warm member has been covered for long when it is claimed; a cold
start has not, and without a gate its user's code runs in between. The CNI's strict mode closes this for whoever has it
switched on, and the gate is how a sandbox knows: it asks for addresses that answer anybody in the cluster and that its
class was not granted, and lets the sandbox begin when they have been silent several times in a row.

What it cannot tell: silence because of the policy from silence because nothing is there. It therefore asks for two
addresses that are never down together, more than once, and asks itself first, so that a probe which does not work is
no denial. Where a class is granted everything that surely answers there is no gate, and strict mode alone holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.resources import files
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any

from agentenv.core.capabilities.from_settings import egress_of
from agentenv.core.capabilities.sets.boxes import Point
from agentenv.core.capabilities.sets.pods import shared
from agentenv.core.classes.pods.hardening import container_security
from agentenv.core.pinned_versions import releases
from agentenv.core.values.quantities import Quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentenv.config.sections.classes import SandboxClass
    from agentenv.core.capabilities.cluster_facts import ClusterFacts
    from agentenv.core.capabilities.sets.reach import Reach
    from agentenv.core.nodes.mirrors import Mirrors

GATE = "gate"
# Denials have come up to a second and a half late; what takes this long is not late but missing. The kubelet then tries
# again, and between the tries the message says why.
BOUND_SECONDS = 30
# Once may be a lost packet. Each costs a second, on every cold start and every resume.
SILENT_ROUNDS = 2
# Two that fail apart from each other: the API server is replaced at an update, the resolver is not at that moment.
MOST_ADDRESSES = 2
SCRIPT = "network_gate.sh"
DISK = "ephemeral-storage"
REQUESTS = {"cpu": "10m", "memory": "16Mi", DISK: "4Mi"}
LIMITS = {"cpu": "200m", "memory": "32Mi", DISK: "4Mi"}


@dataclass(frozen=True)
class Address:
    """Something that answers whoever may reach it, by TCP."""

    host: str
    port: int | str
    what: str

    def __str__(self) -> str:
        return f"{self.host} {self.port}"


# What the kubelet tells every container, for clusters whose ranges somebody else chose.
TOLD_BY_KUBELET = Address("$(KUBERNETES_SERVICE_HOST)", "$(KUBERNETES_SERVICE_PORT)", "the API server")


def gate_container(one: SandboxClass, here: ClusterFacts, image: str) -> dict[str, Any] | None:
    """The init container of a class; none on Fargate, whose groups bind before a pod starts, or without an address."""
    asked = telling_addresses(one, here)
    if one.compute == "fargate" or not asked:
        return None
    return {
        "name": GATE,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", "-c", script(), GATE],
        "args": [str(BOUND_SECONDS), str(SILENT_ROUNDS), one.name, *(str(address) for address in asked)],
        "resources": _resources(one),
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _resources(one: SandboxClass) -> dict[str, dict[str, str]]:
    """Little, and never more than the sandbox has: a pod counts as the larger of the two, so that it costs nothing."""
    has = one.resources
    most = {"cpu": has.burst.cpu or has.cpu, "memory": has.burst.memory or has.memory}
    return {
        "requests": _little({"cpu": has.cpu, "memory": has.memory, DISK: has.ephemeral}, REQUESTS),
        "limits": _little({**most, DISK: has.ephemeral}, LIMITS),
    }


def _little(own: dict[str, Quantity], little: dict[str, str]) -> dict[str, str]:
    return {key: str(min(Quantity.parse(text), own[key], key=lambda one: one.value)) for key, text in little.items()}


def gate_image(mirrors: Mirrors) -> str:
    """The image of the gate by digest, from where this environment takes its images."""
    return mirrors.image(releases().images[GATE])


def gate_note(one: SandboxClass, here: ClusterFacts) -> str:
    """What to know where a class on nodes has no gate; nothing where it has one."""
    if one.compute == "fargate" or telling_addresses(one, here):
        return ""
    return (
        f"class {one.name} may reach everything that surely answers in the cluster, so that no denial can be felt:"
        " cold starts rely on the strict mode of the network policy alone"
    )


def script() -> str:
    """What the gate runs, under any POSIX shell with `nc`."""
    return files("agentenv.core.classes.pods").joinpath(SCRIPT).read_text(encoding="utf-8")


def telling_addresses(one: SandboxClass, here: ClusterFacts) -> tuple[Address, ...]:
    """Addresses that answer where no policy binds, and that the policy of the class surely holds back."""
    # The API server's public addresses are never asked for. That they are not known yet is then no reason to take
    # the service's address, which is known, for one that might be granted.
    known = here if here.services is None else replace(here, api=here.api or ())
    every = egress_of(one, known)
    granted = [bounds.most for bounds in every.worlds.values()]
    words = {grant.word for grant in one.capabilities}
    found = [
        address
        for address in _candidates(here, resolver=not any(_resolver_granted(reach, here) for reach in granted))
        if not any(_includes(reach, address) for reach in granted)
    ]
    if here.services is None and "api-server" not in words:
        found.insert(0, TOLD_BY_KUBELET)
    return tuple(found[:MOST_ADDRESSES])


def _candidates(here: ClusterFacts, *, resolver: bool) -> Iterator[Address]:
    """The first address of the services is the API server's, the tenth on EKS the resolver's, and AWS answers names at
    the second of the VPC; all of them by TCP as well."""
    services = [ip_network(text) for text in here.services or ()]
    for network in services:
        if network.version in here.versions:
            yield Address(str(network[1]), 443, "the API server")
    if resolver:
        known = here.resolver_addresses or tuple(str(network[10]) for network in services)
        for text in known:
            if ip_address(text).version in here.versions:
                yield Address(text, 53, "the cluster's resolver")
    for network in map(ip_network, here.vpc or ()):
        if network.version in here.versions:
            yield Address(str(network[2]), 53, "the VPC's resolver")


def _resolver_granted(reach: Reach, here: ClusterFacts) -> bool:
    """Whether any of the resolver's pods may be reached, by whatever address."""
    return bool(shared(here.resolver.doors, reach.doors))


def _includes(reach: Reach, address: Address) -> bool:
    host = ip_address(address.host)
    return Point(host.version, "TCP", int(host), int(address.port)) in reach.boxes
