"""NET rules about the platform's pods: policies must not omit some of them by mistake."""

from __future__ import annotations

from collections.abc import Iterator

from agentenv.policies.rules.registry import GRAPH, Outcome, fail, rule, unknown
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.tenants.namespaces import labels_of, namespace_of
from agentenv.policies.view.tenants.reach import policies
from agentenv.policies.view.tenants.tenants import Tenant, tenants


@rule(
    id="NET-19",
    title="If policies select some pods of a namespace, they select all",
    severity="Medium",
    why="A pod that no policy selects is open in both directions. Among isolated pods, this is easily missed.",
    fix="Add a policy for the pod, or a default-deny policy with an empty podSelector.",
    equivalents={"Checkov": ("CKV2_K8S_6",), "CIS": ("5.3.2",)},
    applies_to=GRAPH,
    defaults="A pod that no policy selects is not isolated (Kubernetes documents, Network Policies).",
)
def unselected_pods(graph: Graph) -> Iterator[Outcome]:
    """Check the pods that are not sandboxes, in namespaces with policies. NET-01 is about sandboxes."""
    sandboxes = {tenant.pod for tenant in tenants(graph)}
    with_policies = {policy.namespace for policy in policies(graph) if not policy.managed}
    by_namespace: dict[object, list[tuple[Tenant, set[bool | None]]]] = {}
    for pod in graph.pods:
        namespace = namespace_of(graph, pod.owner)
        if pod in sandboxes or pod.patch or namespace not in with_policies:
            continue
        labelled = Tenant(pod, namespace, labels_of(pod.labels))
        answers = {policy.selects(labelled) for policy in policies(graph) if policy.namespace == namespace}
        by_namespace.setdefault(namespace, []).append((labelled, answers))
    for pods in by_namespace.values():
        if not any(answers & {True, None} for _, answers in pods):
            continue
        for labelled, answers in pods:
            if None in answers and True not in answers:
                yield unknown(labelled.pod.labels, "whether a policy selects it is not known yet")
            elif True not in answers:
                yield fail(labelled.root, "no NetworkPolicy selects it, unlike other pods of its namespace")
