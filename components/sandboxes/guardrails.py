"""The guardrails: what reaches the API server at run time is held to the rules that a deployment is held to.

In the order it comes to life: the priority that all sandboxes have, each policy, and what puts it into force. They come
before the first namespace of a class, which would else have a moment without them, and go after the last.
"""

from typing import Any, NotRequired, TypedDict

import pulumi

from agentenv.components._lib.arguments import ArgumentReader
from agentenv.components._lib.kubernetes_objects import create_object
from agentenv.components._lib.options import (
    ChildOptions,
    child_options,
    child_options_without_dependencies,
    component_outputs,
)
from agentenv.components._lib.tags import Labels, Ownership
from agentenv.core.guardrails import EKS, Hands, lasting, policies
from agentenv.core.guardrails.priority import priority_class


class GuardrailHands(TypedDict):
    """The user names of those whom one rule or another does not hold; as they are on EKS unless told."""

    sandbox_controller: NotRequired[str]
    """What turns claims into sandboxes: nobody else makes pods in the namespace of a class."""

    service: NotRequired[str]
    """The workspace service: it keeps the volumes of workspaces, and brings their owners back to them."""

    provisioner: NotRequired[str]
    """What makes volumes of access points."""

    schedulers: NotRequired[list[str]]
    """What binds pods to nodes, beside the controllers of EKS."""

    collectors: NotRequired[list[str]]
    """What takes away the contents of namespaces, and what belongs to nothing any more."""

    binders: NotRequired[list[str]]
    """What brings volumes and their claims together."""

    accounts: NotRequired[list[str]]
    """What gives every namespace its first account."""

    jobs: NotRequired[list[str]]
    """What makes the jobs of CronJobs, and their pods."""


class GuardrailsArgs(TypedDict):
    """What guardrails are made from."""

    ownership: Ownership
    """Whose the environment is."""

    file_system_ids: pulumi.Input[list[str]]
    """The file systems of the environment: volumes on them are made by its own driver alone."""

    hands: NotRequired[GuardrailHands]
    """Who is exempt. Whoever may make admission policies is a deployer, and is not named here."""

    outlived: NotRequired[bool]
    """Whether the cluster outlives the stack: what has to stay for guardrails to come back to it then does."""


class Guardrails(pulumi.ComponentResource):
    """ValidatingAdmissionPolicies with their bindings, and the priority of sandboxes."""

    policy_names: pulumi.Output[list[str]]
    """The policies, by their names in the cluster."""

    def __init__(self, name: str, args: GuardrailsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Make them; a wrong plain argument raises before anything is made."""
        reader = ArgumentReader.of("guardrails", args, GuardrailsArgs)
        Labels.of(reader, "guardrails", name)
        hands = _hands(reader)

        super().__init__("agent-environment:index:Guardrails", name, {}, opts)
        inner = child_options_without_dependencies(self)
        systems = pulumi.Output.from_input(args["file_system_ids"])

        priority = create_object(f"{name}-priority", priority_class(), child_options(self, opts))
        watching = _watching(name, [priority], inner, outlived=reader.flag("outlived", default=False))
        after = pulumi.ResourceOptions(depends_on=[watching])
        # Which policies there are hangs on no id; what one says may.
        known = policies(["fs-1"], hands)
        for place, (policy, other) in enumerate(zip(known, policies(["fs-2"], hands), strict=True)):
            document = policy.document()
            if document != other.document():
                document["spec"] = systems.apply(lambda ids, place=place: _spec(ids, hands, place))
            made = create_object(f"{name}-{policy.name}", document, inner, after)
            for binding in policy.bindings():
                suffix = binding["metadata"]["name"].removeprefix(policy.full_name)
                bound = pulumi.ResourceOptions(depends_on=[made])
                create_object(f"{name}-{policy.name}-binding{suffix}", binding, inner, bound)

        self.policy_names = pulumi.Output.from_input([policy.full_name for policy in known])
        self.register_outputs(component_outputs(self))


def _watching(name: str, after: list[pulumi.Resource], inner: ChildOptions, *, outlived: bool) -> pulumi.Resource:
    """What keeps the API server reading the classes' parameters; the last of it."""
    last = after
    for word, document in zip(("parameters", "parameters-binding"), lasting(), strict=True):
        stays = pulumi.ResourceOptions(depends_on=last, retain_on_delete=outlived)
        last = [create_object(f"{name}-{word}", document, inner, stays)]
    return last[0]


def _spec(ids: list[str], hands: Hands, place: int) -> dict[str, Any]:
    return policies(ids, hands)[place].document()["spec"]


def _hands(reader: ArgumentReader) -> Hands:
    """Those of EKS, but for those who were told."""
    if not reader.has("hands"):
        return EKS
    told = reader.part("hands", GuardrailHands)

    def some(key: str, usual: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(told.texts(key)) or usual

    return Hands(
        sandbox_controller=told.text("sandbox_controller", default=EKS.sandbox_controller),
        service=told.text("service", default=EKS.service),
        provisioner=told.text("provisioner", default=EKS.provisioner),
        schedulers=some("schedulers", EKS.schedulers),
        collectors=some("collectors", EKS.collectors),
        binders=some("binders", EKS.binders),
        accounts=some("accounts", EKS.accounts),
        jobs=some("jobs", EKS.jobs),
    )
