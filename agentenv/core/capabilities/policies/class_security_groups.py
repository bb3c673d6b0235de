"""The security groups of every class on Fargate, from the settings: who is towards whom in words, and no ids yet.

The cluster's own group stands for the control plane's interfaces and for the resolver's pods, which EKS puts into it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agentenv.core.capabilities.cluster_facts import ClusterFacts, class_pods
from agentenv.core.capabilities.from_settings import (
    cluster_facts_with_existing,
    egress_of,
    ingress_of,
    refused_grants,
    surely,
)
from agentenv.core.capabilities.grants import RefusedGrantError
from agentenv.core.capabilities.policies.security_group import DEFAULT_QUOTA, Group, Platform, security_groups
from agentenv.core.capabilities.policies.security_group_rules import GroupRule

if TYPE_CHECKING:
    from agentenv.config.sections.classes import SandboxClass
    from agentenv.config.settings import Settings

# Classes cannot be called so: these names have a character that no class's has.
CLUSTER = ":cluster"
STORAGE = ":storage"
# Each class is let into the cluster's group by rules there, beside which some are the cluster's own.
CLUSTER_RULES = DEFAULT_QUOTA.rules - 10


@dataclass(frozen=True)
class ClassGroups:
    """The groups of one class; rules name the cluster's group, or a class, whose first group stands for it."""

    name: str
    groups: tuple[Group, ...]


def class_groups(settings: Settings, here: ClusterFacts | None = None) -> tuple[ClassGroups, ...]:
    """The groups of all classes on Fargate; `RefusedGrantError` where the rules of one cannot be written.

    In a VPC that stands already nobody knows what is the internet until it has been looked at, and nothing is surely
    granted: what was found has to be told.
    """
    here = here or cluster_facts_with_existing(settings)
    return tuple(
        ClassGroups(one.name, _groups(one, settings, here))
        for one in settings.sandbox_classes
        if one.compute == "fargate"
    )


def refused_groups(settings: Settings) -> Iterator[tuple[int, RefusedGrantError]]:
    """The classes on Fargate whose rules cannot be written, by their places."""
    # A VPC that stands already is as large as any: a range of it inside the internet's makes a few rules more.
    here, towards_cluster = cluster_facts_with_existing(settings, _unseen(settings)), 0
    for index, one in enumerate(settings.sandbox_classes):
        # A grant that cannot be made at all is told by itself.
        if one.compute == "fargate" and not refused_grants(one, here):
            try:
                towards_cluster += _towards_cluster(_groups(one, settings, here))
            except RefusedGrantError as refusal:
                yield index, refusal
            else:
                if towards_cluster > CLUSTER_RULES:
                    yield index, _crowded(towards_cluster)


def _unseen(settings: Settings) -> tuple[str, ...]:
    return (str(settings.network.cidr),) if settings.network.existing is not None else ()


def _groups(one: SandboxClass, settings: Settings, here: ClusterFacts) -> tuple[Group, ...]:
    members = {class_pods(other.name): other.name for other in settings.sandbox_classes if other.compute == "fargate"}
    if here.resolver.pods is not None:
        members[here.resolver.pods] = CLUSTER
    # A seat on Fargate mounts its volume through its own interface. That rule is made with the group of the mount
    # targets, on both sides; it is counted here, because it takes its place in the first group.
    seated = any(seat.class_ == one.name for seat in settings.workspaces)
    ports = (one.probe.port,) if one.probe is not None and one.probe.port is not None else ()
    platform = Platform(CLUSTER, storage=STORAGE if seated else None, probe_ports=ports)
    groups = security_groups(surely(egress_of(one, here)), here, members, platform, ingress=ingress_of(one, settings))
    return tuple(replace(group, egress=tuple(_not_to_storage(group))) for group in groups)


def _not_to_storage(group: Group) -> Iterator[GroupRule]:
    return (rule for rule in group.egress if rule.group != STORAGE)


def _towards_cluster(groups: tuple[Group, ...]) -> int:
    return sum(rule.group == CLUSTER for group in groups for rule in group.egress)


def _crowded(count: int) -> RefusedGrantError:
    return RefusedGrantError(
        f"{count} rules of classes in the cluster's group with this one",
        f"{CLUSTER_RULES}",
        "each class on Fargate takes one there, and two more with dns: run fewer classes on Fargate",
    )
