"""Refusals of what a class may reach: grants that nothing could hold, and classes that exceed their parents."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

from agentenv.config.constraints.constraint import Finding, Row
from agentenv.core.capabilities.containment import Answer
from agentenv.core.capabilities.from_settings import cluster_facts, exceeding, policy_of, refused_grants
from agentenv.core.capabilities.grants import RefusedGrantError

if TYPE_CHECKING:
    from agentenv.config.mistakes import Place
    from agentenv.config.settings import Settings

# Which setting of a class a part of the comparison with its parent comes from. Its tier has a row of its own.
PARTS: dict[str, tuple[str, ...]] = {
    "egress": ("capabilities",),
    "paths": ("storage",),
    "identity": ("identity",),
    "lifetime": ("maxLifetime",),
    "budget": ("budget",),
}
# What a class is compared by beside its own settings and its parent's.
AROUND: tuple[Place, ...] = (("network",), ("cluster", "serviceCidr"), ("service",), ("cost", "perUserCap"))


def _not_made(settings: Settings) -> Iterator[Finding]:
    here = cluster_facts(settings)
    for index, one in enumerate(settings.sandbox_classes):
        place = ("sandboxClasses", index, "capabilities")
        for refused in refused_grants(one, here):
            grant = one.capabilities[refused.index]
            # A range of the cluster's own, and a name that nothing could hold, have rows that tell them better.
            if isinstance(grant.cidr, IPv4Network) or (grant.domain is not None and here.proxy is None):
                continue
            also: tuple[Place, ...] = (("network", "egressProxy"), ("service", "enabled"))
            yield Finding((*place, refused.index), refused.error.found, f"{refused.error.hint}", also)


def _not_written(settings: Settings) -> Iterator[Finding]:
    here = cluster_facts(settings, api=())
    for index, one in enumerate(settings.sandbox_classes):
        if one.compute == "fargate" or refused_grants(one, here):
            continue
        try:
            policy_of(one, settings, here)
        except RefusedGrantError as refusal:
            place = ("sandboxClasses", index)
            also: tuple[Place, ...] = ((*place, "compute"), ("sandboxClasses", "*", "capabilities"), ("network",))
            yield Finding((*place, "capabilities"), refusal.found, refusal.hint, also)


def _more(settings: Settings) -> Iterator[Finding]:
    return _exceeding(settings, Answer.NO)


def _perhaps(settings: Settings) -> Iterator[Finding]:
    return _exceeding(settings, Answer.INDETERMINATE)


def _exceeding(settings: Settings, answer: Answer) -> Iterator[Finding]:
    places = {one.name: index for index, one in enumerate(settings.sandbox_classes)}
    for one in exceeding(settings):
        for finding in one.verdict.findings:
            if finding.answer is answer and finding.part in PARTS:
                place = ("sandboxClasses", places[one.name])
                part = PARTS[finding.part]
                also: tuple[Place, ...] = (
                    ("sandboxClasses", "*", "name"),
                    ("sandboxClasses", "*", *part),
                    (*place, "parent"),
                    (*place, "compute"),
                    *AROUND,
                )
                yield Finding((*place, *part), f"{one.name} under {one.parent}: {finding.words}", also=also)


ROWS = (
    Row(
        "grant-not-made",
        "the grant stands for nothing in this environment",
        "grants that the network of this environment can hold",
        "leave it out",
        _not_made,
    ),
    Row(
        "grants-not-written",
        "on nodes the capabilities are compiled to one NetworkPolicy, of which the network's agent keeps so much",
        "24 ranges of ports for one destination",
        "grant ranges of ports that touch, or all ports",
        _not_written,
    ),
    Row(
        "class-exceeds-parent",
        "a child may do nothing that its parent may not",
        "what the parent has, or less of it",
        "take it from the child, give it to the parent, or drop the parent",
        _more,
    ),
    Row(
        "class-perhaps-exceeds-parent",
        "what is not known counts as everything in a child and as nothing in its parent",
        "what surely is the parent's, or less of it",
        "write it as its parent does, or drop the parent",
        _perhaps,
    ),
)
