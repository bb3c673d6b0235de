"""The guardrails: admission policies that hold objects created at run time to the rules of a deployment.

Creates, in this order: the PriorityClass of sandboxes, each ValidatingAdmissionPolicy, and its bindings. They are
created before the first namespace of a class and deleted after the last, so no class is ever without them.
"""

from typing import Any, NotRequired, TypedDict

import pulumi

from agentenv.components._lib.arguments import ArgumentReader
from agentenv.components._lib.kubernetes_objects import create_object, create_or_take_over
from agentenv.components._lib.options import (
    ChildOptions,
    child_options,
    child_options_without_dependencies,
    component_outputs,
)
from agentenv.components._lib.tags import Labels, Ownership
from agentenv.core.guardrails import EKS, Principals, anchor_documents, policies
from agentenv.core.guardrails.pods import priority_class


class GuardrailHands(TypedDict):
    """The user names that some of the rules exempt. Defaults: those of EKS."""

    sandbox_controller: NotRequired[str]
    """The agent-sandbox controller: the only one that creates pods in the namespace of a class."""

    service: NotRequired[str]
    """The workspace service: it retains the volumes of workspaces, and restores them."""

    provisioner: NotRequired[str]
    """The CSI provisioner, which creates volumes of access points."""

    schedulers: NotRequired[list[str]]
    """The schedulers, which bind pods to nodes, besides the controllers of EKS."""

    collectors: NotRequired[list[str]]
    """The namespace controller and the garbage collector."""

    binders: NotRequired[list[str]]
    """The controllers that bind volumes to claims."""

    accounts: NotRequired[list[str]]
    """The controllers that create the default service account of a namespace."""

    jobs: NotRequired[list[str]]
    """The controllers that create Jobs of CronJobs, and their pods."""


class GuardrailsArgs(TypedDict):
    """The arguments of guardrails."""

    ownership: Ownership
    """The owner of the environment, for tags and names."""

    file_system_ids: pulumi.Input[list[str]]
    """The file systems of the environment; only the CSI provisioner creates volumes on them."""

    hands: NotRequired[GuardrailHands]
    """The exempt user names. Deployers, who may change admission policies anyway, are not listed."""

    outlived: NotRequired[bool]
    """Whether the cluster outlives the stack; then the parameter anchor is retained, and taken over by the next one."""


class Guardrails(pulumi.ComponentResource):
    """ValidatingAdmissionPolicies with their bindings, and the PriorityClass of sandboxes."""

    policy_names: pulumi.Output[list[str]]
    """The names of the policies in the cluster."""

    def __init__(self, name: str, args: GuardrailsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Create them; a wrong plain argument raises before anything is created."""
        reader = ArgumentReader.of("guardrails", args, GuardrailsArgs)
        Labels.of(reader, "guardrails", name)
        hands = _hands(reader)

        super().__init__("agent-environment:index:Guardrails", name, {}, opts)
        child_without_dependencies = child_options_without_dependencies(self)
        file_system_ids = pulumi.Output.from_input(args["file_system_ids"])

        priority = create_object(f"{name}-priority", priority_class(), child_options(self, opts))
        parameters_binding = _create_parameters_policy(
            name, [priority], child_without_dependencies, outlived=reader.flag("outlived", default=False)
        )
        after = pulumi.ResourceOptions(depends_on=[parameters_binding])
        # The number of policies does not depend on file system ids; the spec of a policy may.
        admission_policies = policies(["fs-1"], hands)
        for index, (policy, other_policy) in enumerate(zip(admission_policies, policies(["fs-2"], hands), strict=True)):
            document = policy.document()
            if document != other_policy.document():
                document["spec"] = file_system_ids.apply(lambda ids, index=index: _spec(ids, hands, index))
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


def _spec(ids: list[str], hands: Principals, index: int) -> dict[str, Any]:
    return policies(ids, hands)[index].document()["spec"]


def _hands(reader: ArgumentReader) -> Principals:
    """Return the exempt user names: those of EKS, with the overrides of the arguments."""
    if not reader.has("hands"):
        return EKS
    overrides = reader.part("hands", GuardrailHands)

    def user_names(key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(overrides.texts(key)) or default

    return Principals(
        sandbox_controller=overrides.text("sandbox_controller", default=EKS.sandbox_controller),
        service=overrides.text("service", default=EKS.service),
        provisioner=overrides.text("provisioner", default=EKS.provisioner),
        schedulers=user_names("schedulers", EKS.schedulers),
        collectors=user_names("collectors", EKS.collectors),
        binders=user_names("binders", EKS.binders),
        accounts=user_names("accounts", EKS.accounts),
        jobs=user_names("jobs", EKS.jobs),
    )
