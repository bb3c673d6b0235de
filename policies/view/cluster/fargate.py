"""Which pods run on Fargate, where no NetworkPolicy, RuntimeClass or agent of a node reaches them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from agentenv.core.capabilities.unknown_values import UNKNOWN
from agentenv.policies.view.fields import Field
from agentenv.policies.view.graph import Graph, once_per_graph
from agentenv.policies.view.tenants.namespaces import place_of
from agentenv.policies.view.tenants.tenants import Tenant

PROFILE: Final = "aws:eks/fargateProfile:FargateProfile"
GROUPS: Final = "vpcresources.k8s.aws"


@dataclass(frozen=True)
class OnFargate:
    """Whether a pod runs on Fargate, None where that is not known; and by which word of the stack."""

    answer: bool | None
    because: Field | None = None


def on_fargate(graph: Graph, tenant: Tenant) -> OnFargate:
    """By the selectors of profiles, which EKS holds against namespace and labels, or by what the pod or class says."""
    pod = tenant.pod
    for field in (pod.at("schedulerName"), pod.labels.at("eks.amazonaws.com/fargate-profile")):
        if field.known and (field.raw == "fargate-scheduler" or field.path.endswith('profile"]')):
            return OnFargate(True, field)
    compute = _compute(graph).get(tenant.namespace) if isinstance(tenant.namespace, str) else None
    if compute is not None and compute.raw == "fargate":
        return OnFargate(True, compute)
    doubt = compute if compute is not None and compute.unknown else None
    for selector in _selectors(graph):
        answer = _selected(selector, tenant)
        if answer:
            return OnFargate(True, selector)
        if answer is None:
            doubt = doubt or selector
    return OnFargate(False) if doubt is None else OnFargate(None, doubt)


@once_per_graph
def _selectors(graph: Graph) -> list[Field]:
    return [one for profile in graph.of_type(PROFILE) for one in profile.at("selectors").elements()]


@once_per_graph
def _compute(graph: Graph) -> dict[str, Field]:
    """What the parameters of a class's namespace say of where it runs."""
    found: dict[str, Field] = {}
    for thing in graph.objects("", "ConfigMap"):
        place = place_of(graph, thing)
        if thing.name.raw == "sandbox-class" and isinstance(place, str):
            found[place] = thing.at("data", "compute")
    return found


def _selected(selector: Field, tenant: Tenant) -> bool | None:
    answers = [_like(selector.at("namespace"), tenant.namespace), *_labels_like(selector.at("labels"), tenant)]
    if False in answers:
        return False
    return None if None in answers else True


def _labels_like(wanted: Field, tenant: Tenant) -> Iterator[bool | None]:
    for key, value in wanted.entries():
        if wanted.unknown or tenant.labels is UNKNOWN:
            yield None
        else:
            mine = tenant.labels.get(key)
            yield False if mine is None else _like(value, mine)


def _like(wanted: Field, found: object) -> bool | None:
    if wanted.missing:
        return False
    if not isinstance(wanted.raw, str) or not isinstance(found, str):
        return None
    # `*` and `?` are EKS's only wildcards; brackets are letters to it
    return fnmatchcase(found, wanted.raw.replace("[", "[[]"))
