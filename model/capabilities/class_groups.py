"""The security groups of every class on Fargate, from the settings: who is towards whom in words, and no ids yet.

The cluster's own group stands for the control plane's interfaces and for the resolver's pods, which EKS puts into it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from model.capabilities.grants import RefusedGrantError
from model.capabilities.of_settings import egress_of, ingress_of, surroundings_of
from model.capabilities.security_group import Group, Platform, security_groups
from model.capabilities.surroundings import class_pods

if TYPE_CHECKING:
    from model.capabilities.reach import Reach, Uncertain
    from model.settings import Settings
    from model.settings.classes import SandboxClass

# A class cannot be called so: the name has a character that no class's has.
CLUSTER = ":cluster"


@dataclass(frozen=True)
class ClassGroups:
    """The groups of one class; rules name the cluster's group, or a class, whose first group stands for it."""

    name: str
    groups: tuple[Group, ...]


def class_groups(settings: Settings) -> tuple[ClassGroups, ...]:
    """The groups of all classes on Fargate; `RefusedGrantError` where the rules of one cannot be written."""
    return tuple(
        ClassGroups(one.name, _groups(one, settings)) for one in settings.sandbox_classes if one.compute == "fargate"
    )


def refused_groups(settings: Settings) -> Iterator[tuple[int, RefusedGrantError]]:
    """The classes on Fargate whose rules cannot be written, by their places."""
    for index, one in enumerate(settings.sandbox_classes):
        if one.compute == "fargate":
            try:
                _groups(one, settings)
            except RefusedGrantError as refusal:
                yield index, refusal


def _groups(one: SandboxClass, settings: Settings) -> tuple[Group, ...]:
    # The public addresses of the API server are left out of nothing: it answers the ranges that it is open for alone,
    # and the NAT gateways' addresses are not among them.
    here = surroundings_of(settings, api=())
    members = {class_pods(other.name): other.name for other in settings.sandbox_classes if other.compute == "fargate"}
    if here.resolver.pods is not None:
        members[here.resolver.pods] = CLUSTER
    return security_groups(
        _surely(egress_of(one, here)), here, members, Platform(CLUSTER), ingress=ingress_of(one, settings)
    )


def _surely(reach: Uncertain) -> Reach:
    """What is reached whatever the unknown facts turn out to be: a group may hold less than was granted, never more."""
    first, *others = (bounds.least for bounds in reach.worlds.values())
    for other in others:
        first &= other
    return first
