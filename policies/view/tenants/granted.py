"""What a class for vetted callers is granted by name, of what no other sandbox may reach.

Tier `verified` is claimed by nobody who was not vetted, and a stack file names `api-server`, `metadata` and `vpc` only
where each is meant. The settings say so, not the network policy: one that allows more is a finding as everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agentenv.core.capabilities.from_settings import certain_reach, cluster_facts_with_existing
from agentenv.core.capabilities.grants import grants_of
from agentenv.core.capabilities.resolve import resolve
from agentenv.core.capabilities.sets.boxes import NO_BOXES, BoxSet
from agentenv.core.classes.names import namespace
from agentenv.policies.view.graph import Graph, once_per_graph
from agentenv.policies.view.tenants.reach import Policy

NAMES: Final = frozenset({"api-server", "metadata", "vpc"})


def granted(graph: Graph, policy: Policy) -> BoxSet:
    """Return what the class of a policy's namespace is granted by name; nothing for any other namespace."""
    return _by_namespace(graph).get(str(policy.namespace), NO_BOXES)


@once_per_graph
def _by_namespace(graph: Graph) -> Mapping[str, BoxSet]:
    settings = graph.situation.settings
    if settings is None:
        return {}
    here = cluster_facts_with_existing(settings)
    found: dict[str, BoxSet] = {}
    for one in settings.sandbox_classes:
        named = [grant for grant in one.capabilities if grant.word in NAMES]
        if one.tier == "verified" and named:
            found[namespace(one.name)] = certain_reach(resolve(grants_of(named), here)).boxes
    return found
