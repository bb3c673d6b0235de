"""Selection of pods for Fargate, where NetworkPolicies, RuntimeClasses and node agents do not apply."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from agentenv.core.capabilities.unknown_values import UNKNOWN
from agentenv.core.nodes.fargate_profiles import SCHEDULER
from agentenv.policies.view.fields import Field
from agentenv.policies.view.graph import Graph, once_per_graph
from agentenv.policies.view.tenants.namespaces import namespace_of
from agentenv.policies.view.tenants.tenants import Tenant

PROFILE: Final = "aws:eks/fargateProfile:FargateProfile"
GROUPS: Final = "vpcresources.k8s.aws"


@dataclass(frozen=True)
class FargateAnswer:
    """The answer whether a pod runs on Fargate (None if that is not known), and the field that decides it."""

    answer: bool | None
    reason: Field | None = None


def on_fargate(graph: Graph, tenant: Tenant) -> FargateAnswer:
    """Decide by the pod, by its class, and by the selectors of profiles, which match namespaces and labels."""
    pod = tenant.pod
    for field in (pod.at("schedulerName"), pod.labels.at("eks.amazonaws.com/fargate-profile")):
        if field.known and (field.raw == SCHEDULER or field.path.endswith('profile"]')):
            return FargateAnswer(True, field)
    compute = _compute(graph).get(tenant.namespace) if isinstance(tenant.namespace, str) else None
    if compute is not None and compute.raw == "fargate":
        return FargateAnswer(True, compute)
    doubt = compute if compute is not None and compute.unknown else None
    for selector in _selectors(graph):
        answer = _selected(selector, tenant)
        if answer:
            return FargateAnswer(True, selector)
        if answer is None:
            doubt = doubt or selector
    return FargateAnswer(False) if doubt is None else FargateAnswer(None, doubt)


@once_per_graph
def _selectors(graph: Graph) -> list[Field]:
    return [selector for profile in graph.of_type(PROFILE) for selector in profile.at("selectors").elements()]


@once_per_graph
def _compute(graph: Graph) -> dict[str, Field]:
    """Return the `compute` parameter of each class, by namespace."""
    by_namespace: dict[str, Field] = {}
    for config in graph.objects("", "ConfigMap"):
        namespace = namespace_of(graph, config)
        if config.name.raw == "sandbox-class" and isinstance(namespace, str):
            by_namespace[namespace] = config.at("data", "compute")
    return by_namespace


def _selected(selector: Field, tenant: Tenant) -> bool | None:
    answers = [_matches(selector.at("namespace"), tenant.namespace), *_labels_match(selector.at("labels"), tenant)]
    if False in answers:
        return False
    return None if None in answers else True


def _labels_match(labels: Field, tenant: Tenant) -> Iterator[bool | None]:
    for key, pattern in labels.entries():
        if labels.unknown or tenant.labels is UNKNOWN:
            yield None
        else:
            label = tenant.labels.get(key)
            yield False if label is None else _matches(pattern, label)


def _matches(pattern: Field, value: object) -> bool | None:
    if pattern.missing:
        return False
    if not isinstance(pattern.raw, str) or not isinstance(value, str):
        return None
    # EKS's only wildcards are `*` and `?`
    return fnmatchcase(value, pattern.raw.replace("[", "[[]"))
