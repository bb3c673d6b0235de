"""A sandbox class: its namespace with everything that constrains it, and its releases.

Creates its IAM role, its namespace and, in it, the parameters of its guardrails, the service account, its network
policy or security groups, quota and limits, its storage classes, and for each release a template and warm pools. All
documents come from `agentenv.core.classes`; this module makes no decisions.

A changed release has a new name. The old one leaves the stack and is retained in the cluster, so that its claims keep
working. `agentenv.service.workspaces.retire_releases` deletes it when it has no claims left.
"""

from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_aws import eks, iam

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
from agentenv.components._lib.tags import Labels
from agentenv.components.cluster.context import ClusterContext
from agentenv.components.cluster.irsa import Roles, ServiceAccount, pod_identity_trust_policy
from agentenv.core.classes.advice import class_notes
from agentenv.core.classes.names import SANDBOX, namespace
from agentenv.core.classes.objects import ClassObjects, DeploymentValues, class_objects
from agentenv.core.classes.plan import ClassPlan


class SandboxClass(pulumi.ComponentResource):
    """A namespace with its constraints, and a template and warm pools for each release."""

    namespace: pulumi.Output[str]
    """Its namespace, known once it is created."""

    releases: pulumi.Output[dict[str, str]]
    """The template of each channel. Warm pools have the same name, with the shard as a suffix."""

    pool_size: pulumi.Output[int]
    """The number of warm sandboxes of a release over all its pools, outside its schedules."""

    expected_miss_rate: pulumi.Output[str | None]
    """The expected share of claims that start cold; null if the settings have no arrival rate."""

    role_arn: pulumi.Output[str | None]
    """The IAM role of its sandboxes; null without one."""

    def __init__(
        self, name: str, plan: ClassPlan, cluster: ClusterContext, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        """Create it in a cluster with the file systems of its homes."""
        labels = Labels.of(plan.environment, "sandbox-class", name)

        super().__init__("agent-environment:index:SandboxClass", name, {}, opts)
        for remark in class_notes(plan):
            pulumi.log.info(remark, self)
        inner = child_options_without_dependencies(self)
        roles = Roles(labels, inner, plan.environment.permissions_boundary)
        identity = _ClassIdentity(plan, cluster, roles, labels, inner)
        role = identity.role(self)
        objects = class_objects(plan, _known(plan, cluster, role))
        namespace_object, required = _ObjectCreator(name, objects, inner).create(child_options(self, opts))
        self.seat_template = objects.seat

        # An output of the namespace itself, so that its users depend on it.
        self.namespace = namespace_object.metadata.name
        # The namespace as an output that depends on its constraints. A dependency on the whole component would be one
        # on each of its children, and the engine walks every path to each when a deletion fails.
        self.ready = output_after(namespace(plan.name), required)
        self.releases = pulumi.Output.from_input({release.channel: release.name() for release in objects.releases})
        self.pool_size = pulumi.Output.from_input(objects.pool_choice.size)
        expected = objects.pool_choice.expected_miss_rate
        self.expected_miss_rate = pulumi.Output.from_input(None if expected is None else f"{expected:.6f}")
        self.role_arn = role.arn.apply(str) if role else pulumi.Output.from_input(None)
        self.register_outputs({**component_outputs(self), OUTPUT: roles.planned_documents.entries})

    @property
    def summary(self) -> pulumi.Output[dict[str, Any]]:
        """Return the class's entry in the stack outputs."""
        return pulumi.Output.all(
            namespace=self.namespace,
            releases=self.releases,
            poolSize=self.pool_size,
            expectedMissRate=self.expected_miss_rate,
        )


def _known(plan: ClassPlan, cluster: ClusterContext, role: iam.Role | None) -> DeploymentValues:
    shards = range(plan.shards if plan.slots else 0)
    systems = cluster.file_systems(len(shards))
    return DeploymentValues(
        file_systems=[systems.apply(lambda ids, shard=shard: ids[shard]) for shard in shards],
        file_systems_joined=systems.apply(",".join),
        # With Pod Identity an association binds the role to the service account instead.
        role_arns={plan.name: role.arn} if role and plan.settings.identity.kind == "irsa" else {},
        group_ids={plan.name: cluster.security_groups(plan.name)} if plan.on_fargate else {},
    )


@dataclass(frozen=True)
class _ClassIdentity:
    """Creates the IAM role of a class."""

    plan: ClassPlan
    cluster: ClusterContext
    roles: Roles
    labels: Labels
    child: ChildOptions

    def role(self, component: pulumi.ComponentResource) -> iam.Role | None:
        """Create the role of all sandboxes of the class, if its settings give it one."""
        identity = self.plan.settings.identity
        service_account = ServiceAccount(namespace(self.plan.name), SANDBOX)
        description = f"Sandboxes of class {self.plan.name}"
        if identity.kind == "irsa":
            role = self.roles.irsa_role("role", description, self.cluster.issuer, service_account)
        elif identity.kind == "pod-identity":
            aws, cluster = aws_context(component), self.cluster.name
            role = self.roles.create_role(
                "role",
                description,
                aws.apply(lambda context: to_json(pod_identity_trust_policy(context, cluster, service_account))),
            )
            eks.PodIdentityAssociation(
                f"{self.labels.base}-role",
                cluster_name=cluster,
                namespace=service_account.namespace,
                service_account=service_account.name,
                role_arn=role.arn,
                tags=self.labels.tags("role"),
                opts=self.child(),
            )
        else:
            return None
        self.roles.attach_policies(role, "role", identity.policies)
        return role


@dataclass(frozen=True)
class _ObjectCreator:
    """Creates the Kubernetes objects of a class."""

    base: str
    objects: ClassObjects
    child: ChildOptions

    def create(self, namespace_child: ChildOptions) -> tuple[Any, list[Any]]:
        """Create the objects in dependency order; return the namespace, and everything a sandbox depends on."""
        objects = self.objects
        namespace_object = create_object(
            f"{self.base}-namespace",
            objects.namespace,
            namespace_child,
            # Its deletion terminates sandboxes and deletes their volume claims first.
            pulumi.ResourceOptions(custom_timeouts=pulumi.CustomTimeouts(delete="15m")),
        )
        parameters = self._create("constraints", objects.constraints, [namespace_object])
        # The provider awaits the status of the quota. By then the API server has observed the guardrail parameters too,
        # without which the guardrails reject every object in the namespace.
        required = [namespace_object, parameters]
        for suffix, document in (
            ("account", objects.account),
            ("keys", objects.keys),
            ("policy", objects.network_policy),
            ("groups", objects.group_policy),
        ):
            if document is not None:
                required.append(self._create(suffix, document, [namespace_object]))
        inside = [
            *required,
            self._create("quota", objects.quota, [parameters]),
            self._create("limits", objects.limits, [namespace_object]),
        ]
        for shard, document in enumerate(objects.storage_classes):
            inside.append(self._create(f"storage-{shard}", document, [namespace_object], delete_before_replace=True))
        for template, pool in zip(objects.templates, objects.pools, strict=True):
            self._create_release(template, pool, inside)
        self._create_schedules(inside)
        return namespace_object, required

    def _create_release(self, template: Document, pool: Document, after: list[Any]) -> None:
        """Create a template and its warm pools; they are retained, because claims refer to them."""
        retained = pulumi.ResourceOptions(retain_on_delete=True, depends_on=after)
        suffix = template["metadata"]["name"]
        blueprint = create_object(f"{self.base}-{suffix}-template", template, self.child, retained)
        scheduled = ["spec.replicas"] if self.objects.schedules else None
        filled = pulumi.ResourceOptions(retain_on_delete=True, depends_on=[blueprint], ignore_changes=scheduled)
        create_object(f"{self.base}-{suffix}-pool", _forced(pool), self.child, filled)
        empty = pulumi.ResourceOptions(retain_on_delete=True, depends_on=[blueprint])
        for cold in self.objects.cold_pools:
            if cold["spec"]["sandboxTemplateRef"]["name"] == suffix:
                create_object(f"{self.base}-{suffix}-cold-pool", _forced(cold), self.child, empty)

    def _create_schedules(self, after: list[Any]) -> None:
        if self.objects.schedules is None:
            return
        schedules = self.objects.schedules
        rbac = [
            self._create(f"schedules-{document['kind'].lower()}", document, after)
            for document in (schedules.account, schedules.role)
        ]
        rbac.append(self._create("schedules-binding", schedules.binding, rbac))
        for job in schedules.jobs:
            self._create(f"schedules-{job['metadata']['name']}", job, rbac)

    def _create(self, suffix: str, document: Document, after: list[Any], *, delete_before_replace: bool = False) -> Any:
        more = pulumi.ResourceOptions(depends_on=after, delete_before_replace=delete_before_replace or None)
        return create_object(f"{self.base}-{suffix}", document, self.child, more)


def _forced(pool: Document) -> Document:
    """Return a pool that is force-applied: a retained pool that returns has fields and a size set by the service."""
    description = {**pool["metadata"].get("annotations", {}), "pulumi.com/patchForce": "true"}
    return {**pool, "metadata": {**pool["metadata"], "annotations": description}}
