"""The destinations that the settings grant to a class of tier `verified` and that no other sandbox may reach.

Only vetted callers can claim tier `verified`, and its settings must name `api-server`, `metadata` and `vpc` explicitly.
A network policy that allows more than the settings is still a finding.
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


def granted_by_settings(graph: Graph, policy: Policy) -> BoxSet:
    """Return the destinations that the settings grant by name to the class of a policy's namespace."""
    return _by_namespace(graph).get(str(policy.namespace), NO_BOXES)


@once_per_graph
def _by_namespace(graph: Graph) -> Mapping[str, BoxSet]:
    settings = graph.context.settings
    if settings is None:
        return {}
    facts = cluster_facts_with_existing(settings)
    by_namespace: dict[str, BoxSet] = {}
    for sandbox_class in settings.sandbox_classes:
        named = [grant for grant in sandbox_class.capabilities if grant.word in NAMES]
        if sandbox_class.tier == "verified" and named:
            reach = certain_reach(resolve(grants_of(named), facts))
            by_namespace[namespace(sandbox_class.name)] = reach.boxes
    return by_namespace
