"""Derive cluster facts, reaches, policies and envelopes from the settings of an environment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agentenv.core.capabilities.cluster_facts import (
    DAEMON_PORT,
    GATEWAY,
    SERVICE_LOOPS,
    WORKSPACE_SERVICE,
    ClusterFacts,
    Proxy,
    Service,
    class_pods,
)
from agentenv.core.capabilities.containment import Answer, Verdict, decide
from agentenv.core.capabilities.envelope import Envelope, Identity, PathRight, Statement
from agentenv.core.capabilities.grants import OtherClass, RefusedGrantError, grants_of
from agentenv.core.capabilities.policies.network_policy import Plain, network_policy
from agentenv.core.capabilities.resolve import RefusedGrant, internet_here, refusals, resolve
from agentenv.core.capabilities.sets.boxes import ALL_PORTS, PROTOCOLS, Protocol, product, union
from agentenv.core.capabilities.sets.intervals import Intervals
from agentenv.core.capabilities.sets.pods import PodPorts, Pods, pod_ports_of
from agentenv.core.capabilities.sets.reach import Reach, Uncertain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentenv.config.sections.classes import Daemon, SandboxClass
    from agentenv.config.settings import Settings


# Not an ARN: which secrets these are follows from the claim, and no policy in the settings grants them.
OWN_SECRETS = Statement("secretsmanager:GetSecretValue", "the secrets of its owner")


@dataclass(frozen=True)
class ParentViolation:
    """A class that is not known to stay within its parent."""

    name: str
    parent: str
    verdict: Verdict


def cluster_facts(settings: Settings, api: tuple[str, ...] | None = None) -> ClusterFacts:
    """Return the facts of the cluster that follow from the settings; the API server's addresses are known later."""
    proxy = settings.network.egress_proxy
    # The ranges of an existing network or cluster are not in the settings.
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
    """Return the cluster facts completed with the ranges of an existing network or cluster.

    The API server's public addresses are excluded from no grant: it answers only the ranges that it is open to.
    """
    cluster = cluster_facts(settings, api=())
    if vpc:
        cluster = replace(cluster, vpc=tuple(vpc))
    # Pods have addresses of the VPC: the network plugin that isolates them gives no others.
    return replace(cluster, services=(services,), pods=()) if services else cluster


def egress_of(sandbox_class: SandboxClass, cluster: ClusterFacts) -> Uncertain:
    """Return what the sandboxes of a class may reach; raise `RefusedGrantError` for an invalid grant."""
    return resolve(grants_of(sandbox_class.capabilities), cluster)


def reaches_internet(sandbox_class: SandboxClass, cluster: ClusterFacts) -> bool:
    """Return whether the sandboxes of a class may reach any address of the internet."""
    for world, bounds in egress_of(sandbox_class, cluster).worlds.items():
        addresses = internet_here(cluster, world)
        internet = union([product((version,), PROTOCOLS, mine, ALL_PORTS) for version, mine in addresses.items()])
        if bounds.most.boxes & internet:
            return True
    return False


def ingress_of(sandbox_class: SandboxClass, settings: Settings) -> Reach:
    """Return what may reach the sandboxes of a class: classes that are granted access, and callers of its daemon."""
    granted = granted_ingress(sandbox_class, settings)
    return replace(granted, pod_ports=granted.pod_ports | daemon_ingress(settings.daemon_of(sandbox_class)))


def daemon_ingress(daemon: Daemon) -> frozenset[PodPorts]:
    """Return who may reach the daemon of a sandbox: the gateway, and for `workspaced` the service that controls it."""
    callers = {"workspaced": (GATEWAY, WORKSPACE_SERVICE, SERVICE_LOOPS), "image": (GATEWAY,), "none": ()}[daemon]
    return frozenset(entry for pods in callers for entry in pod_ports_of(pods, ("TCP",), Intervals.single(DAEMON_PORT)))


def granted_ingress(sandbox_class: SandboxClass, settings: Settings) -> Reach:
    """Return what other classes may reach in a class by their grants, which never include the port of its daemon."""
    served = settings.daemon_of(sandbox_class) != "none"
    ports: dict[tuple[str, Protocol], Intervals] = {}
    for caller in settings.sandbox_classes:
        # Only grants to this class: mistakes in other grants are reported for their own class.
        leading = [grant for grant in caller.capabilities if grant.class_ == sandbox_class.name]
        for grant in grants_of(leading):
            if isinstance(grant, OtherClass):
                key = (caller.name, grant.protocol)
                closed = Intervals.single(DAEMON_PORT) if served and grant.protocol == "TCP" else Intervals()
                ports[key] = ports.get(key, Intervals()) | (grant.ports - closed)
    return Reach(
        pod_ports=frozenset(
            entry
            for (caller, protocol), open_ports in ports.items()
            for entry in pod_ports_of(class_pods(caller), (protocol,), open_ports)
        )
    )


def policy_of(sandbox_class: SandboxClass, settings: Settings, cluster: ClusterFacts) -> Plain:
    """Return the NetworkPolicy of a class: what is granted under every possible value of the unknown facts."""
    egress = certain_reach(egress_of(sandbox_class, cluster))
    return network_policy(sandbox_class.name, egress, cluster, ingress_of(sandbox_class, settings))


def certain_reach(reach: Uncertain) -> Reach:
    """Return what is reached under every possible value of the unknown facts.

    A policy compiled from it may allow less than was granted, and never more.
    """
    first, *further = (bounds.least for bounds in reach.worlds.values())
    for bounds in further:
        first &= bounds
    return first


def envelope_of(sandbox_class: SandboxClass, settings: Settings, cluster: ClusterFacts | None = None) -> Envelope:
    """Return the envelope of a class, which is compared with its parent's."""
    cluster = cluster or cluster_facts(settings)
    budget = sandbox_class.budget if sandbox_class.budget is not None else settings.cost.per_user_cap
    lifetime = sandbox_class.max_lifetime
    return Envelope(
        egress=egress_of(sandbox_class, cluster),
        # What may reach a class is granted to the caller, and compared there.
        # A Fargate pod has a machine, and so a kernel, of its own.
        tier="untrusted" if sandbox_class.compute == "fargate" else sandbox_class.tier,
        paths=_paths(sandbox_class),
        identity=_identity(sandbox_class),
        lifetime=None if lifetime is None else int(lifetime.total_seconds()),
        budget=budget,
    )


def parent_violations(settings: Settings, cluster: ClusterFacts | None = None) -> tuple[ParentViolation, ...]:
    """Return the classes not known to stay within their parent; invalid grants are reported separately."""
    cluster = cluster or cluster_facts(settings)
    by_name = {sandbox_class.name: sandbox_class for sandbox_class in settings.sandbox_classes}
    violations: list[ParentViolation] = []
    for child in settings.sandbox_classes:
        parent = by_name.get(child.parent) if child.parent is not None else None
        if parent is None:
            continue
        try:
            verdict = decide(envelope_of(child, settings, cluster), envelope_of(parent, settings, cluster), cluster)
        except RefusedGrantError:
            continue
        if verdict.answer is not Answer.YES:
            violations.append(ParentViolation(child.name, parent.name, verdict))
    return tuple(violations)


def refused_grants(sandbox_class: SandboxClass, cluster: ClusterFacts) -> tuple[RefusedGrant, ...]:
    """Return the grants of a class that cannot be made in this cluster, each with its index in the list."""
    violations: list[RefusedGrant] = []
    for index, grant in enumerate(sandbox_class.capabilities):
        try:
            violations += [RefusedGrant(index, refused.error) for refused in refusals(grants_of([grant]), cluster)]
        except RefusedGrantError as error:
            violations.append(RefusedGrant(index, error))
    return tuple(violations)


def _identity(sandbox_class: SandboxClass) -> Identity:
    """Return the AWS identity of a class: its policies, and with the token exchange the secrets of the owner."""
    identity = sandbox_class.identity
    if identity.kind == "none":
        return Identity()
    secrets = {OWN_SECRETS} if identity.kind == "exchange" else set[Statement]()
    return Identity(frozenset(identity.policies), frozenset(secrets))


def _paths(sandbox_class: SandboxClass) -> frozenset[PathRight]:
    """Return the volumes of a sandbox by kind; mount paths do not matter to what is on them."""
    volumes = {
        "none": (),
        "scratch": ("scratch",),
        "slot": ("its own",),
        "shared": ("its own", "its task's"),
    }[sandbox_class.storage.kind]
    return frozenset(PathRight(volume, "/") for volume in volumes)
