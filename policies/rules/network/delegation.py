"""NET, delegation: a class that another one may start reaches no more than that one."""

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
    title="A child reaches no more than its parent",
    severity="Critical",
    why="A sandbox that may start another one speaks through it: whatever the child reaches is the parent's too, past"
    " all that the parent was held to.",
    do="Narrow the child's policy to what its parent has, or give it no parent.",
    about=GRAPH,
    defaults="A class has no parent where nothing is said.",
)
def within_parent(graph: Graph) -> Iterator[Outcome]:
    """The union of the child's policies less the union of the parent's; unknown in the child counts as everything."""
    for tenant in tenants(graph):
        parent = parent_of(graph, tenant)
        if parent.missing or not tenant.pod.sandbox:
            continue
        if parent.unknown:
            yield unknown(parent)
            continue
        other = next((one for one in tenants(graph) if one.class_name == parent.raw and one.pod.sandbox), None)
        if other is None:
            yield unknown(parent, f"no sandbox of the class '{parent.raw}' is in the stack")
            continue
        if on_fargate(graph, tenant).answer or on_fargate(graph, other).answer:
            yield not_applicable(tenant.root, "on Fargate groups bind, which are compared where classes are declared")
            continue
        for direction, part in PARTS.items():
            mine, theirs = (Uncertain.between(reach(graph, one, direction)) for one in (tenant, other))
            found = decide_reach(mine, theirs, part)
            if found is not None and found.answer is Answer.NO:
                yield fail(tenant.root, f"{found.words} ('{parent.raw}')")
            elif found is not None:
                yield unknown(tenant.root, found.words)
