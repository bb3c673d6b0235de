"""A class of sandboxes: its namespace with all that holds it, and its releases.

In the order it comes to life: what it is to AWS, its namespace, the account, quota and limits in it, the parameters of
its guardrails, the one policy of what it may reach, the classes of its storage, and for each release a template and its
pools. Everything of it follows from its settings by `agentenv.core.classes`; nothing is decided here.

A release that is changed is another one, under another name. The old one leaves the stack and stays in the cluster:
claims of it go on working, and `agentenv.service.workspaces.retire_releases` takes it away when there are none.
"""

from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

import pulumi
from pulumi_aws import eks, iam

from agentenv.components._lib.arguments import ArgumentError, ArgumentReader
from agentenv.components._lib.aws_context import aws_context
from agentenv.components._lib.iam_policies import to_json
from agentenv.components._lib.kubernetes_objects import Document, create_object
from agentenv.components._lib.options import (
    ChildOptions,
    child_options,
    child_options_without_dependencies,
    component_outputs,
    output_after,
)
from agentenv.components._lib.planned_documents import OUTPUT
from agentenv.components._lib.tags import Labels, Ownership
from agentenv.components.cluster.irsa import Issuer, Roles, ServiceAccount, pod_identity_trust_policy
from agentenv.components.settings_argument import read_settings
from agentenv.config import Settings
from agentenv.core.capabilities.from_settings import cluster_facts_with_existing
from agentenv.core.classes.advice import class_notes
from agentenv.core.classes.names import SANDBOX, namespace
from agentenv.core.classes.objects import ClassObjects, DeploymentValues, class_objects
from agentenv.core.classes.plan import ClassPlan, plans


class SandboxClassArgs(TypedDict):
    """What a class is made from."""

    ownership: Ownership
    """Whose the environment is."""

    settings: dict[str, Any]
    """The settings of its environment, as a stack file has them under `config`."""

    sandbox_class: str
    """Which of the classes in those settings."""

    cluster_name: str
    """The cluster it is in."""

    issuer_url: pulumi.Input[str]
    """Who signs the tokens of the cluster's service accounts."""

    issuer_arn: pulumi.Input[str]
    """The same, as an identity provider of IAM."""

    file_system_ids: pulumi.Input[list[str]]
    """The file systems that homes are on: as many as the settings say, by shard."""

    security_group_ids: NotRequired[pulumi.Input[list[str]]]
    """The groups that its pods are put into, where it runs on Fargate."""

    vpc_cidrs: NotRequired[list[str]]
    """The ranges of a VPC that stood already; those that the settings say unless told."""

    service_cidr: NotRequired[str]
    """The range of services of a cluster that stood already; the one that the settings say unless told."""

    permissions_boundary: NotRequired[str]
    """The permissions boundary of a role that is made."""


class SandboxClass(pulumi.ComponentResource):
    """A namespace, what holds its sandboxes, and a template and pools for each release."""

    namespace: pulumi.Output[str]
    """The namespace, once it is there."""

    releases: pulumi.Output[dict[str, str]]
    """The name of each channel's template; its pools are called the same, with the shard behind."""

    pool_size: pulumi.Output[int]
    """How many sandboxes each release keeps warm outside its schedules."""

    expected_miss_rate: pulumi.Output[str | None]
    """The share of claims that will start cold, where it was said how claims arrive."""

    role_arn: pulumi.Output[str | None]
    """What its sandboxes are to AWS, where they are anything."""

    def __init__(self, name: str, args: SandboxClassArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Make it; a wrong plain argument raises before anything is made."""
        reader = ArgumentReader.of("sandbox_class", args, SandboxClassArgs)
        labels = Labels.of(reader, "sandbox-class", name)
        plan = class_plan_of(reader)
        if plan.on_fargate and not reader.has("security_group_ids"):
            raise ArgumentError("sandbox_class.security_group_ids", "nothing", "groups: no policy holds it on Fargate")
        boundary = reader.text("permissions_boundary") if reader.has("permissions_boundary") else None
        cluster = reader.text("cluster_name")

        super().__init__("agent-environment:index:SandboxClass", name, {}, opts)
        for remark in class_notes(plan):
            pulumi.log.info(remark, self)
        inner = child_options_without_dependencies(self)
        roles = Roles(labels, inner, boundary)
        aws = _ToAws(plan, cluster, roles, labels, inner)
        role = aws.role(self, args)
        objects = class_objects(plan, _known(plan, args, role))
        made, held = _Objects(name, objects, inner).make(child_options(self, opts))
        self.template = stable_template(objects)

        # By way of the namespace itself, whatever takes its name waits for it and goes before it.
        self.namespace = made.metadata.name
        # The same, once what holds its sandboxes is there. Whoever waits for the whole component waits for each of its
        # children, by every way there is to each, and the engine walks all of them when a deletion fails.
        self.ready = output_after(namespace(plan.name), held)
        self.releases = pulumi.Output.from_input({one.channel: one.name() for one in objects.releases})
        self.pool_size = pulumi.Output.from_input(objects.pool_choice.size)
        expected = objects.pool_choice.expected_miss_rate
        self.expected_miss_rate = pulumi.Output.from_input(None if expected is None else f"{expected:.6f}")
        self.role_arn = role.arn.apply(str) if role else pulumi.Output.from_input(None)
        self.register_outputs({**component_outputs(self), OUTPUT: roles.planned_documents.entries})

    @property
    def summary(self) -> pulumi.Output[dict[str, Any]]:
        """What people want to know of it."""
        return pulumi.Output.all(
            namespace=self.namespace,
            releases=self.releases,
            poolSize=self.pool_size,
            expectedMissRate=self.expected_miss_rate,
        )


def class_plan_of(reader: ArgumentReader) -> ClassPlan:
    """The class as its settings plan it."""
    settings = read_settings(reader)
    name = reader.text("sandbox_class")
    services = reader.text("service_cidr") if reader.has("service_cidr") else ""
    here = cluster_facts_with_existing(settings, reader.texts("vpc_cidrs"), services)
    found = next((one for one in plans(settings, here) if one.name == name), None)
    if found is None:
        raise ArgumentError("sandbox_class.sandbox_class", f"'{name}'", _classes(settings))
    return found


def _classes(settings: Settings) -> str:
    return ", ".join(one.name for one in settings.sandbox_classes) or "a class of the settings, which have none"


def stable_template(objects: ClassObjects) -> Document:
    """The specification of the class's own release, which its declared workspaces follow."""
    return objects.templates[0]["spec"]


def _known(plan: ClassPlan, args: SandboxClassArgs, role: iam.Role | None) -> DeploymentValues:
    systems = pulumi.Output.from_input(args["file_system_ids"])
    groups = args.get("security_group_ids")
    return DeploymentValues(
        file_systems=[systems.apply(lambda ids, shard=shard: ids[shard]) for shard in range(plan.shards)],
        file_systems_joined=systems.apply(",".join),
        # A role that the agent on the node hands out is tied to the account by an association instead.
        role_arns={plan.name: role.arn} if role and plan.settings.identity.kind == "irsa" else {},
        group_ids={plan.name: groups} if groups is not None else {},
    )


@dataclass(frozen=True)
class _ToAws:
    """What the sandboxes of a class are to AWS."""

    plan: ClassPlan
    cluster: str
    roles: Roles
    labels: Labels
    child: ChildOptions

    def role(self, component: pulumi.ComponentResource, args: SandboxClassArgs) -> iam.Role | None:
        """The one role of all its sandboxes, where its settings give it one."""
        identity = self.plan.settings.identity
        bearer = ServiceAccount(namespace(self.plan.name), SANDBOX)
        said = f"Sandboxes of class {self.plan.name}"
        if identity.kind == "irsa":
            issuer = Issuer(pulumi.Output.from_input(args["issuer_arn"]), pulumi.Output.from_input(args["issuer_url"]))
            made = self.roles.irsa_role("role", said, issuer, bearer)
        elif identity.kind == "pod-identity":
            aws = aws_context(component)
            made = self.roles.create_role(
                "role",
                said,
                aws.apply(lambda context: to_json(pod_identity_trust_policy(context, self.cluster, bearer))),
            )
            eks.PodIdentityAssociation(
                f"{self.labels.base}-role",
                cluster_name=self.cluster,
                namespace=bearer.namespace,
                service_account=bearer.name,
                role_arn=made.arn,
                tags=self.labels.tags("role"),
                opts=self.child(),
            )
        else:
            return None
        self.roles.attach_policies(made, "role", identity.policies)
        return made


@dataclass(frozen=True)
class _Objects:
    """The objects of a class in the cluster."""

    base: str
    objects: ClassObjects
    child: ChildOptions

    def make(self, first: ChildOptions) -> tuple[Any, list[Any]]:
        """All of them, each after what it needs; returns the namespace, and what has to be there before a sandbox."""
        objects = self.objects
        space = create_object(
            f"{self.base}-namespace",
            objects.namespace,
            first,
            # Everything in it goes with it: sandboxes end, and their claims for storage are given back.
            pulumi.ResourceOptions(custom_timeouts=pulumi.CustomTimeouts(delete="15m")),
        )
        parameters = self._made("constraints", objects.constraints, [space])
        # The engine waits until a quota is counted. By then the API server has seen the parameters too, without which
        # its guardrails let nothing be made here.
        held = [space, parameters]
        for word, document in (
            ("account", objects.account),
            ("policy", objects.network_policy),
            ("groups", objects.group_policy),
        ):
            if document is not None:
                held.append(self._made(word, document, [space]))
        inside = [
            *held,
            self._made("quota", objects.quota, [parameters]),
            self._made("limits", objects.limits, [space]),
        ]
        for shard, document in enumerate(objects.storage_classes):
            inside.append(self._made(f"storage-{shard}", document, [space], replaced_first=True))
        for template, pool in zip(objects.templates, objects.pools, strict=True):
            self._release(template, pool, inside)
        self._schedules(inside)
        return space, held

    def _release(self, template: Document, pool: Document, after: list[Any]) -> None:
        """A template and its pools, which outlive their release in the stack: claims name them."""
        kept = pulumi.ResourceOptions(retain_on_delete=True, depends_on=after)
        word = template["metadata"]["name"]
        blueprint = create_object(f"{self.base}-{word}-template", template, self.child, kept)
        scheduled = ["spec.replicas"] if self.objects.schedules else None
        filled = pulumi.ResourceOptions(retain_on_delete=True, depends_on=[blueprint], ignore_changes=scheduled)
        create_object(f"{self.base}-{word}-pool", _forced(pool), self.child, filled)
        empty = pulumi.ResourceOptions(retain_on_delete=True, depends_on=[blueprint])
        for cold in self.objects.cold_pools:
            if cold["spec"]["sandboxTemplateRef"]["name"] == word:
                create_object(f"{self.base}-{word}-cold-pool", _forced(cold), self.child, empty)

    def _schedules(self, after: list[Any]) -> None:
        if self.objects.schedules is None:
            return
        told = self.objects.schedules
        who = [self._made(f"schedules-{one['kind'].lower()}", one, after) for one in (told.account, told.role)]
        who.append(self._made("schedules-binding", told.binding, who))
        for job in told.jobs:
            self._made(f"schedules-{job['metadata']['name']}", job, who)

    def _made(self, word: str, document: Document, after: list[Any], *, replaced_first: bool = False) -> Any:
        more = pulumi.ResourceOptions(depends_on=after, delete_before_replace=replaced_first or None)
        return create_object(f"{self.base}-{word}", document, self.child, more)


def _forced(pool: Document) -> Document:
    """A pool that takes itself back: one that returns is as the service left it, and its size is the service's."""
    said = {**pool["metadata"].get("annotations", {}), "pulumi.com/patchForce": "true"}
    return {**pool, "metadata": {**pool["metadata"], "annotations": said}}
