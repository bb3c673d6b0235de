"""Compute the security groups of every class on Fargate from the settings; groups are named, not yet by id.

The cluster security group represents the control plane's interfaces and the resolver's pods, which EKS puts into it.
The nodes' security group represents the gateway and the workspace service, which run on nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentenv.core.capabilities.cluster_facts import ClusterFacts, class_pods
from agentenv.core.capabilities.from_settings import (
    certain_reach,
    cluster_facts_with_existing,
    daemon_ingress,
    egress_of,
    granted_ingress,
    refused_grants,
)
from agentenv.core.capabilities.grants import RefusedGrantError
from agentenv.core.capabilities.policies.security_group import DEFAULT_QUOTA, Group, Platform, security_groups

if TYPE_CHECKING:
    from agentenv.config.sections.classes import SandboxClass
    from agentenv.config.settings import Settings

# No class can have these names: they contain a character that class names do not allow.
CLUSTER = ":cluster"
NODES = ":nodes"
# Each class has ingress rules in the cluster security group, which also has rules of its own.
CLUSTER_RULES = DEFAULT_QUOTA.rules - 10


@dataclass(frozen=True)
class ClassGroups:
    """The groups of one class; rules name the cluster's group, or a class, which means its first group."""

    name: str
    groups: tuple[Group, ...]


def class_groups(settings: Settings, cluster: ClusterFacts | None = None) -> tuple[ClassGroups, ...]:
    """Return the groups of all classes on Fargate; raise `RefusedGrantError` where a class exceeds what groups allow.

    The ranges of an existing VPC have to be passed in: without them no address is certainly granted.
    """
    cluster = cluster or cluster_facts_with_existing(settings)
    return tuple(
        ClassGroups(sandbox_class.name, _groups(sandbox_class, settings, cluster))
        for sandbox_class in settings.sandbox_classes
        if sandbox_class.compute == "fargate"
    )


def refused_groups(settings: Settings) -> Iterator[tuple[int, RefusedGrantError]]:
    """Yield the classes on Fargate whose rules cannot be created, by index."""
    # An existing VPC may have any range: one inside the internet's takes a few more rules.
    cluster, cluster_rules = cluster_facts_with_existing(settings, _assumed_vpc_ranges(settings)), 0
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        # An invalid grant is reported separately.
        if sandbox_class.compute == "fargate" and not refused_grants(sandbox_class, cluster):
            try:
                cluster_rules += _count_cluster_rules(_groups(sandbox_class, settings, cluster))
            except RefusedGrantError as refusal:
                yield index, refusal
            else:
                if cluster_rules > CLUSTER_RULES:
                    yield index, _too_many_cluster_rules(cluster_rules)


def _assumed_vpc_ranges(settings: Settings) -> tuple[str, ...]:
    return (str(settings.network.cidr),) if settings.network.existing is not None else ()


def _groups(sandbox_class: SandboxClass, settings: Settings, cluster: ClusterFacts) -> tuple[Group, ...]:
    members = {class_pods(other.name): other.name for other in settings.sandbox_classes if other.compute == "fargate"}
    if cluster.resolver.pods is not None:
        members[cluster.resolver.pods] = CLUSTER
    ports = (
        (sandbox_class.probe.port,) if sandbox_class.probe is not None and sandbox_class.probe.port is not None else ()
    )
    platform = Platform(
        CLUSTER,
        probe_ports=ports,
        daemon_callers=NODES if daemon_ingress(settings.daemon_of(sandbox_class)) else None,
    )
    return security_groups(
        certain_reach(egress_of(sandbox_class, cluster)),
        cluster,
        members,
        platform,
        ingress=granted_ingress(sandbox_class, settings),
    )


def _count_cluster_rules(groups: tuple[Group, ...]) -> int:
    return sum(rule.group == CLUSTER for group in groups for rule in group.egress)


def _too_many_cluster_rules(count: int) -> RefusedGrantError:
    return RefusedGrantError(
        f"{count} rules of classes in the cluster's group with this one",
        f"{CLUSTER_RULES}",
        "each class on Fargate takes one there, and two more with dns: run fewer classes on Fargate",
    )
