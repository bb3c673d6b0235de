"""The guardrails' graph: each policy before what binds it, the priority beside them, and only ids that come late."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentenv.components.sandboxes.guardrails import Guardrails
from agentenv.core.guardrails import EKS, anchor_documents, policies
from agentenv.core.plan import GuardrailsPlan
from tests.fast.components.graph import UNKNOWN, Graph, registered
from tests.fast.components.shapes import storage

SYSTEMS = ["fs-0123456789abcdef0", "fs-0fedcba9876543210"]


def build_graph(plan: GuardrailsPlan | None = None, *, preview: bool = False) -> Graph:
    def program() -> Guardrails:
        # A preview knows no id of what it has not made yet.
        systems = storage().file_system_ids if preview else SYSTEMS
        return Guardrails("guardrails", plan or GuardrailsPlan(), systems)

    return registered(program, preview=preview)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return build_graph()


def test_every_policy_is_there_as_it_is_written(graph: Graph) -> None:
    found = {
        policy.inputs["metadata"]["name"]: policy.inputs["spec"] for policy in graph.of("ValidatingAdmissionPolicy")
    }
    documents = [anchor_documents()[0], *(policy.document() for policy in policies(SYSTEMS))]
    assert found == {document["metadata"]["name"]: document["spec"] for document in documents}


def test_a_binding_comes_after_its_policy_and_goes_before_it(graph: Graph) -> None:
    bindings = graph.of("ValidatingAdmissionPolicyBinding")
    names = {binding.inputs["metadata"]["name"] for binding in bindings}
    of_policies = {document["metadata"]["name"] for policy in policies(SYSTEMS) for document in policy.bindings()}
    assert names == {anchor_documents()[1]["metadata"]["name"], *of_policies}
    by_name = {policy.inputs["metadata"]["name"]: policy for policy in graph.of("ValidatingAdmissionPolicy")}
    for binding in bindings:
        assert graph.comes_before(by_name[binding.inputs["spec"]["policyName"]], binding)


@pytest.mark.parametrize(("outlived", "suffix"), [(False, ""), (True, "Patch")])
def test_the_parameter_anchor_comes_first_and_an_outliving_cluster_retains_it(outlived: bool, suffix: str) -> None:
    resources = build_graph(GuardrailsPlan(cluster_retained=outlived))
    anchor = [
        resources.resource(f"ValidatingAdmissionPolicy{suffix}", "guardrails-parameters"),
        resources.resource(f"ValidatingAdmissionPolicyBinding{suffix}", "guardrails-parameters-binding"),
    ]
    others = [policy for policy in resources.of("ValidatingAdmissionPolicy") if policy.name != "guardrails-parameters"]
    assert len(others) == len(policies(SYSTEMS))
    assert all(resources.comes_before(first, other) for first in anchor for other in others)
    assert [bool(resource.retain) for resource in anchor] == [outlived] * 2
    assert not any(resource.retain for resource in others)
    assert [resource.inputs["spec"] for resource in anchor] == [document["spec"] for document in anchor_documents()]


def test_only_the_retained_objects_are_taken_over() -> None:
    """A second environment in the cluster is refused by its PriorityClass, before anything is taken over."""
    resources = build_graph(GuardrailsPlan(cluster_retained=True))
    priority = resources.resource("PriorityClass")
    taken_over = [
        *resources.of("ValidatingAdmissionPolicyPatch"),
        *resources.of("ValidatingAdmissionPolicyBindingPatch"),
    ]
    assert len(taken_over) == 2
    for resource in taken_over:
        assert resources.comes_before(priority, resource)
        assert resource.inputs["metadata"] == {
            "name": "sandbox-guardrail-parameters",
            "annotations": {"pulumi.com/patchFieldManager": "agent-environment"},
        }


def test_sandboxes_have_a_priority(graph: Graph) -> None:
    priority = graph.resource("PriorityClass").inputs
    assert (priority["metadata"]["name"], priority["value"]) == ("sandbox", 0)


def test_which_policies_there_are_is_known_before_any_file_system_is() -> None:
    graph = build_graph(preview=True)
    late = [
        policy.inputs["metadata"]["name"]
        for policy in graph.of("ValidatingAdmissionPolicy")
        if policy.inputs["spec"] == UNKNOWN
    ]
    assert len(graph.of("ValidatingAdmissionPolicy")) == len(policies(SYSTEMS)) + 1
    assert late == ["sandbox-guardrail-volumes", "sandbox-guardrail-storage-classes"]


def test_exempt_principals_are_settings() -> None:
    principals = replace(EKS, service="system:serviceaccount:mine:own", schedulers=("mine",))
    graph = build_graph(GuardrailsPlan(principals=principals))
    specs = {policy.name: str(policy.inputs["spec"]) for policy in graph.of("ValidatingAdmissionPolicy")}
    assert "'system:serviceaccount:mine:own'" in specs["guardrails-pool-scale"]
    assert "'mine'" in specs["guardrails-pod-parts"]
    assert "workspace-service" not in specs["guardrails-pool-scale"]
