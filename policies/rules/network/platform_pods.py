"""NET, the platform's own pods: where policies bind some of a namespace, none is left out by mistake."""

from __future__ import annotations

from collections.abc import Iterator

from agentenv.policies.rules.registry import GRAPH, Outcome, fail, rule, unknown
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.tenants.namespaces import labels_of, place_of
from agentenv.policies.view.tenants.reach import policies
from agentenv.policies.view.tenants.tenants import Tenant, tenants


@rule(
    id="NET-19",
    title="Where policies bind some pods of a namespace, they bind all",
    severity="Medium",
    why="A pod that no policy selects is open in both directions, and among pods that are bound it looks as if it were"
    " bound, too.",
    do="Write a policy for it, or one with an empty podSelector that denies everything at first.",
    equivalents={"Checkov": ("CKV2_K8S_6",), "CIS": ("5.3.2",)},
    about=GRAPH,
    defaults="A pod that no policy selects is not isolated (Kubernetes documents, Network Policies).",
)
def left_out(graph: Graph) -> Iterator[Outcome]:
    """Pods that are nobody's sandbox: of sandboxes NET-01 asks more. A namespace without policies is another matter."""
    sandboxes = {tenant.pod for tenant in tenants(graph)}
    standing = {policy.namespace for policy in policies(graph) if not policy.managed}
    found: dict[object, list[tuple[Tenant, set[bool | None]]]] = {}
    for pod in graph.pods:
        place = place_of(graph, pod.owner)
        if pod in sandboxes or pod.patch or place not in standing:
            continue
        one = Tenant(pod, place, labels_of(pod.labels))
        answers = {policy.selects(one) for policy in policies(graph) if policy.namespace == place}
        found.setdefault(place, []).append((one, answers))
    for neighbours in found.values():
        if not any(answers & {True, None} for _, answers in neighbours):
            continue
        for one, answers in neighbours:
            if None in answers and True not in answers:
                yield unknown(one.pod.labels, "whether a policy selects it is not known yet")
            elif True not in answers:
                yield fail(one.root, "no NetworkPolicy selects it, as one does others of its namespace")
