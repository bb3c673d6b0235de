"""The guardrails: admission policies that hold objects created at run time to the rules of a deployment.

Creates, in this order: the PriorityClass of sandboxes, each ValidatingAdmissionPolicy, and its bindings. They are
created before the first namespace of a class and deleted after the last, so no class is ever without them.
"""

from typing import Any

import pulumi

from agentenv.components._lib.kubernetes_objects import create_object, create_or_take_over
from agentenv.components._lib.options import (
    ChildOptions,
    child_options,
    child_options_without_dependencies,
    component_outputs,
)
from agentenv.core.guardrails import Principals, anchor_documents, policies
from agentenv.core.guardrails.pods import priority_class
from agentenv.core.plan import GuardrailsPlan


class Guardrails(pulumi.ComponentResource):
    """ValidatingAdmissionPolicies with their bindings, and the PriorityClass of sandboxes."""

    policy_names: pulumi.Output[list[str]]
    """The names of the policies in the cluster."""

    def __init__(
        self,
        name: str,
        plan: GuardrailsPlan,
        file_system_ids: pulumi.Input[list[str]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Create them; only the CSI provisioner creates volumes on the file systems."""
        principals = plan.principals

        super().__init__("agent-environment:index:Guardrails", name, {}, opts)
        child_without_dependencies = child_options_without_dependencies(self)
        systems = pulumi.Output.from_input(file_system_ids)

        priority = create_object(f"{name}-priority", priority_class(), child_options(self, opts))
        parameters_binding = _create_parameters_policy(
            name, [priority], child_without_dependencies, outlived=plan.cluster_retained
        )
        after = pulumi.ResourceOptions(depends_on=[parameters_binding])
        # The number of policies does not depend on file system ids; the spec of a policy may.
        admission_policies = policies(["fs-1"], principals)
        for index, (policy, other_policy) in enumerate(
            zip(admission_policies, policies(["fs-2"], principals), strict=True)
        ):
            document = policy.document()
            if document != other_policy.document():
                document["spec"] = systems.apply(lambda ids, index=index: _spec(ids, principals, index))
            created = create_object(f"{name}-{policy.name}", document, child_without_dependencies, after)
            for binding in policy.bindings():
                suffix = binding["metadata"]["name"].removeprefix(policy.full_name)
                after_policy = pulumi.ResourceOptions(depends_on=[created])
                create_object(
                    f"{name}-{policy.name}-binding{suffix}", binding, child_without_dependencies, after_policy
                )

        self.policy_names = pulumi.Output.from_input([policy.full_name for policy in admission_policies])
        self.register_outputs(component_outputs(self))


def _create_parameters_policy(
    name: str, after: list[pulumi.Resource], child_without_dependencies: ChildOptions, *, outlived: bool
) -> pulumi.Resource:
    """Create the policy that keeps the API server watching the parameters of classes; return its binding.

    It comes after the PriorityClass, which the API server refuses to create for a second environment in the cluster.
    """
    create = create_or_take_over if outlived else create_object
    previous = after
    for suffix, document in zip(("parameters", "parameters-binding"), anchor_documents(), strict=True):
        retained = pulumi.ResourceOptions(depends_on=previous, retain_on_delete=outlived)
        previous = [create(f"{name}-{suffix}", document, child_without_dependencies, retained)]
    return previous[0]


def _spec(ids: list[str], principals: Principals, index: int) -> dict[str, Any]:
    return policies(ids, principals)[index].document()["spec"]
