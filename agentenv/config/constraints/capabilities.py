"""Constraints on capabilities: grants that cannot be enforced, and classes that exceed their parents."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

from agentenv.config.constraints.constraint import Constraint, Finding
from agentenv.core.capabilities.containment import Answer
from agentenv.core.capabilities.from_settings import cluster_facts, parent_violations, policy_of, refused_grants
from agentenv.core.capabilities.grants import RefusedGrantError

if TYPE_CHECKING:
    from agentenv.config.mistakes import Place
    from agentenv.config.settings import Settings

# The setting of a class that each part of the comparison with its parent comes from. The tier has its own constraint.
PARTS: dict[str, tuple[str, ...]] = {
    "egress": ("capabilities",),
    "paths": ("storage",),
    "identity": ("identity",),
    "lifetime": ("maxLifetime",),
    "budget": ("budget",),
}
# Settings outside of the two classes that the comparison depends on.
SHARED_SETTINGS: tuple[Place, ...] = (("network",), ("cluster", "serviceCidr"), ("service",), ("cost", "perUserCap"))


def _grant_without_meaning(settings: Settings) -> Iterator[Finding]:
    facts = cluster_facts(settings)
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        place = ("sandboxClasses", index, "capabilities")
        for refusal in refused_grants(sandbox_class, facts):
            grant = sandbox_class.capabilities[refusal.index]
            # Ranges of the cluster and domains without a proxy have constraints with better messages.
            if isinstance(grant.cidr, IPv4Network) or (grant.domain is not None and facts.proxy is None):
                continue
            also: tuple[Place, ...] = (("network", "egressProxy"), ("service", "enabled"))
            yield Finding((*place, refusal.index), refusal.error.found, f"{refusal.error.hint}", also)


def _policy_too_large(settings: Settings) -> Iterator[Finding]:
    facts = cluster_facts(settings, api=())
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        if sandbox_class.compute == "fargate" or refused_grants(sandbox_class, facts):
            continue
        try:
            policy_of(sandbox_class, settings, facts)
        except RefusedGrantError as refusal:
            place = ("sandboxClasses", index)
            also: tuple[Place, ...] = ((*place, "compute"), ("sandboxClasses", "*", "capabilities"), ("network",))
            yield Finding((*place, "capabilities"), refusal.found, refusal.hint, also)


def _exceeds(settings: Settings) -> Iterator[Finding]:
    return _exceeding(settings, Answer.NO)


def _may_exceed(settings: Settings) -> Iterator[Finding]:
    return _exceeding(settings, Answer.INDETERMINATE)


def _exceeding(settings: Settings, answer: Answer) -> Iterator[Finding]:
    places = {excess.name: index for index, excess in enumerate(settings.sandbox_classes)}
    for excess in parent_violations(settings):
        for finding in excess.verdict.findings:
            if finding.answer is answer and finding.part in PARTS:
                place = ("sandboxClasses", places[excess.name])
                part = PARTS[finding.part]
                also: tuple[Place, ...] = (
                    ("sandboxClasses", "*", "name"),
                    ("sandboxClasses", "*", *part),
                    (*place, "parent"),
                    (*place, "compute"),
                    *SHARED_SETTINGS,
                )
                yield Finding((*place, *part), f"{excess.name} under {excess.parent}: {finding.words}", also=also)


CONSTRAINTS = (
    Constraint(
        "grant-not-made",
        "the grant has no meaning in this environment",
        "grants that the network of this environment can enforce",
        "remove it",
        _grant_without_meaning,
    ),
    Constraint(
        "grants-not-written",
        "on nodes the capabilities are compiled to one NetworkPolicy, and the VPC CNI agent limits its size",
        "24 port ranges for one destination",
        "grant adjacent port ranges, or all ports",
        _policy_too_large,
    ),
    Constraint(
        "class-exceeds-parent",
        "a child class may not exceed the permissions of its parent",
        "at most what the parent has",
        "remove it from the child, add it to the parent, or remove parent",
        _exceeds,
    ),
    Constraint(
        "class-perhaps-exceeds-parent",
        "an unknown value counts as everything in a child and as nothing in its parent",
        "at most what the parent certainly has",
        "use the same value as the parent, or remove parent",
        _may_exceed,
    ),
)
