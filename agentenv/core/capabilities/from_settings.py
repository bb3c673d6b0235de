"""From the settings of an environment to grants, surroundings and envelopes: the one place that knows both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agentenv.core.capabilities.cluster_facts import WORKSPACE_SERVICE, ClusterFacts, Proxy, Service, class_pods
from agentenv.core.capabilities.containment import Answer, Verdict, decide
from agentenv.core.capabilities.envelope import Envelope, Identity, PathRight, Statement
from agentenv.core.capabilities.grants import OtherClass, RefusedGrantError, grants_of
from agentenv.core.capabilities.policies.network_policy import Plain, network_policy
from agentenv.core.capabilities.resolve import Refused, refusals, resolve
from agentenv.core.capabilities.sets.boxes import Protocol
from agentenv.core.capabilities.sets.intervals import Intervals
from agentenv.core.capabilities.sets.pods import Pods, doors_of
from agentenv.core.capabilities.sets.reach import Reach, Uncertain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentenv.config.sections.classes import SandboxClass
    from agentenv.config.settings import Settings


# In words and by no ARN: which they are follows from the claim, and no policy of settings gives them.
OWN_SECRETS = Statement("secretsmanager:GetSecretValue", "the secrets of its owner")


@dataclass(frozen=True)
class Exceeding:
    """A class that does not surely stay within its parent."""

    name: str
    parent: str
    verdict: Verdict


def cluster_facts(settings: Settings, api: tuple[str, ...] | None = None) -> ClusterFacts:
    """What the settings tell of the cluster; the addresses of the API server come with it, and not before."""
    proxy = settings.network.egress_proxy
    # What stands already was divided by somebody else, and nobody has looked yet.
    existing_cluster = settings.cluster.existing is not None
    return ClusterFacts(
        vpc=None if settings.network.existing is not None else (str(settings.network.cidr),),
        services=None if existing_cluster else (str(settings.cluster.service_cidr),),
        pods=None if existing_cluster else (),
        api=api,
        neighbours=tuple(str(peer) for peer in settings.network.peers),
        proxy=None
        if proxy is None
        else Proxy(Service(Pods.labelled(proxy.namespace, {"app": proxy.app}), Intervals.single(proxy.port))),
        exchange=Service(WORKSPACE_SERVICE, Intervals.single(settings.service.port))
        if settings.service.enabled
        else None,
    )


def cluster_facts_with_existing(settings: Settings, vpc: Sequence[str] = (), services: str = "") -> ClusterFacts:
    """The same for what is written, with what was found of a network or a cluster that stands already.

    The public addresses of the API server are left out of nothing: it answers the ranges that it is open for alone.
    """
    here = cluster_facts(settings, api=())
    if vpc:
        here = replace(here, vpc=tuple(vpc))
    # Pods have addresses of the VPC: the network plugin that isolates them gives no others.
    return replace(here, services=(services,), pods=()) if services else here


def egress_of(sandbox_class: SandboxClass, here: ClusterFacts) -> Uncertain:
    """What the sandboxes of a class may reach; `RefusedGrantError` for a grant that cannot be made."""
    return resolve(grants_of(sandbox_class.capabilities), here)


def ingress_of(sandbox_class: SandboxClass, settings: Settings) -> Reach:
    """What may reach the sandboxes of a class: those classes that are granted it, and nothing else."""
    ports: dict[tuple[str, Protocol], Intervals] = {}
    for caller in settings.sandbox_classes:
        # Those of its grants that lead here: whatever is wrong with another is told where it stands.
        leading = [grant for grant in caller.capabilities if grant.class_ == sandbox_class.name]
        for grant in grants_of(leading):
            if isinstance(grant, OtherClass):
                key = (caller.name, grant.protocol)
                ports[key] = ports.get(key, Intervals()) | grant.ports
    return Reach(
        doors=frozenset(
            door
            for (caller, protocol), open_ports in ports.items()
            for door in doors_of(class_pods(caller), (protocol,), open_ports)
        )
    )


def policy_of(sandbox_class: SandboxClass, settings: Settings, here: ClusterFacts) -> Plain:
    """The NetworkPolicy of a class, of what it may reach whatever is not known yet turns out to be."""
    egress = surely(egress_of(sandbox_class, here))
    return network_policy(sandbox_class.name, egress, here, ingress_of(sandbox_class, settings))


def surely(reach: Uncertain) -> Reach:
    """What is reached whatever the unknown facts turn out to be: what is written may hold less than was granted, and
    never more."""
    first, *others = (bounds.least for bounds in reach.worlds.values())
    for other in others:
        first &= other
    return first


def envelope_of(sandbox_class: SandboxClass, settings: Settings, here: ClusterFacts | None = None) -> Envelope:
    """Everything a class may do, as it is compared with its parent."""
    here = here or cluster_facts(settings)
    budget = sandbox_class.budget if sandbox_class.budget is not None else settings.cost.per_user_cap
    lifetime = sandbox_class.max_lifetime
    return Envelope(
        egress=egress_of(sandbox_class, here),
        # What may reach a class is granted to the caller, and compared there.
        # A Fargate pod has a machine, and so a kernel, of its own.
        tier="untrusted" if sandbox_class.compute == "fargate" else sandbox_class.tier,
        paths=_paths(sandbox_class),
        identity=_identity(sandbox_class),
        lifetime=None if lifetime is None else int(lifetime.total_seconds()),
        budget=budget,
    )


def exceeding(settings: Settings, here: ClusterFacts | None = None) -> tuple[Exceeding, ...]:
    """The classes that name a parent and are not surely within it; grants that cannot be are refused apart."""
    here = here or cluster_facts(settings)
    by_name = {sandbox_class.name: sandbox_class for sandbox_class in settings.sandbox_classes}
    found: list[Exceeding] = []
    for child in settings.sandbox_classes:
        parent = by_name.get(child.parent) if child.parent is not None else None
        if parent is None:
            continue
        try:
            verdict = decide(envelope_of(child, settings, here), envelope_of(parent, settings, here), here)
        except RefusedGrantError:
            continue
        if verdict.answer is not Answer.YES:
            found.append(Exceeding(child.name, parent.name, verdict))
    return tuple(found)


def refused_grants(sandbox_class: SandboxClass, here: ClusterFacts) -> tuple[Refused, ...]:
    """The grants of a class that cannot be made in this cluster, each by its place in the list."""
    found: list[Refused] = []
    for index, written in enumerate(sandbox_class.capabilities):
        try:
            found += [Refused(index, refused.error) for refused in refusals(grants_of([written]), here)]
        except RefusedGrantError as error:
            found.append(Refused(index, error))
    return tuple(found)


def _identity(sandbox_class: SandboxClass) -> Identity:
    """What its sandboxes are to AWS: whoever exchanges a token has, besides the policies, the secrets of its owner."""
    identity = sandbox_class.identity
    if identity.kind == "none":
        return Identity()
    secrets = {OWN_SECRETS} if identity.kind == "exchange" else set[Statement]()
    return Identity(frozenset(identity.policies), frozenset(secrets))


def _paths(sandbox_class: SandboxClass) -> frozenset[PathRight]:
    """The volumes a sandbox has, by whose they are; where they are mounted says nothing about what is on them."""
    volumes = {
        "none": (),
        "scratch": ("scratch",),
        "slot": ("its own",),
        "shared": ("its own", "its task's"),
    }[sandbox_class.storage.kind]
    return frozenset(PathRight(volume, "/") for volume in volumes)
