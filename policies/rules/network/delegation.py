"""NET rules about child classes, which must not reach more than their parent."""

from __future__ import annotations

from collections.abc import Iterator

from agentenv.core.capabilities.containment import Answer, decide_reach
from agentenv.core.capabilities.policies.effective_policy import Direction
from agentenv.core.capabilities.sets.reach import Uncertain
from agentenv.policies.rules.registry import GRAPH, Outcome, fail, not_applicable, rule, unknown
from agentenv.policies.view.cluster.fargate import on_fargate
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.tenants.reach import reach
from agentenv.policies.view.tenants.tenants import parent_of, tenants

PARTS: dict[Direction, str] = {"Egress": "egress", "Ingress": "ingress"}


@rule(
    id="NET-15",
    title="A child class reaches no more than its parent",
    severity="Critical",
    why="A sandbox that may start a child can use it as a proxy, and so reach everything that the child reaches.",
    fix="Narrow the policy of the child to what its parent may reach, or remove the parent.",
    applies_to=GRAPH,
    defaults="A class has no parent by default.",
)
def within_parent(graph: Graph) -> Iterator[Outcome]:
    """Compare the union of the policies of both. An unknown part of the child counts as everything."""
    for tenant in tenants(graph):
        parent = parent_of(graph, tenant)
        if parent.missing or not tenant.pod.sandbox:
            continue
        if parent.unknown:
            yield unknown(parent)
            continue
        parents = (each for each in tenants(graph) if each.class_name == parent.raw and each.pod.sandbox)
        other = next(parents, None)
        if other is None:
            yield unknown(parent, f"no sandbox of the class '{parent.raw}' is in the stack")
            continue
        if on_fargate(graph, tenant).answer or on_fargate(graph, other).answer:
            yield not_applicable(
                tenant.root, "on Fargate, security groups apply, which are compared when classes are declared"
            )
            continue
        for direction, part in PARTS.items():
            child, limit = (Uncertain.between(reach(graph, each, direction)) for each in (tenant, other))
            violation = decide_reach(child, limit, part)
            if violation is not None and violation.answer is Answer.NO:
                yield fail(tenant.root, f"{violation.words} ('{parent.raw}')")
            elif violation is not None:
                yield unknown(tenant.root, violation.words)
