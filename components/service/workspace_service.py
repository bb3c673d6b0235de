"""The workspace service, whose API creates, suspends, retains and deletes workspaces.

Creates, in this order: its IAM roles and ledger table, its namespace with a network policy, its service account and
RBAC, its settings, the Deployments of its API and of its loops, and its Services. It has RoleBindings in the namespace
of each class. So it is created after the classes and deleted before them, while everything that it calls still exists.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
from pulumi_aws import iam

from agentenv.components._lib.aws_context import AwsContext, aws_context
from agentenv.components._lib.kubernetes_objects import create_object
from agentenv.components._lib.namespaces import create_restricted_namespace
from agentenv.components._lib.options import (
    ChildOptions,
    child_options,
    child_options_without_dependencies,
    component_outputs,
)
from agentenv.components._lib.planned_documents import OUTPUT
from agentenv.components._lib.tags import Labels
from agentenv.components.cluster.context import ClusterContext
from agentenv.components.cluster.irsa import Roles, ServiceAccount
from agentenv.components.network.network import NetworkContext
from agentenv.components.service.iam import (
    ServiceData,
    add_service_policy,
    create_exchange_roles,
    exchange_classes,
    secrets_location,
)
from agentenv.components.service.tables import access_table, ledger_table
from agentenv.config import Settings
from agentenv.config.reader import to_config
from agentenv.core.nodes.fargate_profiles import CONTROLLERS, controllers
from agentenv.core.plan import ServicePlan
from agentenv.core.service import home_emptying, network_policy
from agentenv.core.service import rbac as rights
from agentenv.core.service.deployment import (
    ServiceSettings,
    configuration,
    deployment,
    disruption_budget,
    loops_deployment,
    service_account,
)
from agentenv.core.service.rbac import NAME

SERVICE_ACCOUNT = ServiceAccount(NAME, NAME)


class WorkspaceService(pulumi.ComponentResource):
    """The Deployments of the service with its namespace, RBAC, IAM roles, ledger table and Services."""

    namespace: pulumi.Output[str]
    """Its namespace, known once it is created."""

    url: pulumi.Output[str]
    """Its URL inside the cluster."""

    role_arn: pulumi.Output[str]
    """Its IAM role."""

    ledger_table: pulumi.Output[str]
    """The DynamoDB table of the ledger."""

    def __init__(
        self,
        name: str,
        plan: ServicePlan,
        cluster: ClusterContext,
        network: NetworkContext,
        *,
        class_namespaces: Mapping[str, pulumi.Input[str]] | None = None,
        target_group_arn: pulumi.Input[str] | None = None,
        place: pulumi.Input[str] = NAME,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Create it for the classes in these namespaces.

        `target_group_arn` is the target group in which it registers the pods of the gateway, if there is one.
        `place` is the name of its namespace, as an output that depends on everything that the service needs.
        """
        labels, settings = Labels.of(plan.environment, "workspace-service", name), plan.settings

        super().__init__("agent-environment:index:WorkspaceService", name, {}, opts)
        self._name, self._plan, self._settings, self._labels = name, plan, settings, labels
        # AWS resources have no dependencies. Kubernetes objects depend on the namespace, and only it on the rest: in
        # prod the ledger's deletion is refused, and then the engine walks every path to each of its dependencies.
        outer, self._child = child_options(self, opts), child_options_without_dependencies(self)
        roles = Roles(labels, self._child, plan.environment.permissions_boundary)
        role = roles.irsa_role("role", "The workspace service", cluster.issuer, SERVICE_ACCOUNT)
        table = ledger_table(labels, self._child, protected=plan.environment.keep_data)
        access = access_table(labels, self._child, protected=plan.environment.keep_data)
        aws = aws_context(self)
        class_roles = create_exchange_roles(roles, exchange_classes(settings.sandbox_classes), role, aws, network)
        files = cluster.file_system_ids
        data = ServiceData((table.arn, access.arn), files, settings.service.own_secrets, target_group_arn)
        policy = add_service_policy(roles, role, aws, data, class_roles)

        namespace_object = create_restricted_namespace(f"{name}-namespace", place, outer)
        in_namespace = pulumi.ResourceOptions(depends_on=[namespace_object])
        passage = self._create_network_policy(in_namespace)
        rbac = self._create_rbac(role, class_namespaces or {}, in_namespace)
        rbac += self._create_emptying(outer)
        rbac += self._create_controllers_rbac(in_namespace)
        flags = pulumi.Output.all(
            _flags(plan, cluster),
            table.name,
            access.name,
            _exchange_flags(class_roles, aws, labels.environment),
            _target_flags(target_group_arn),
        ).apply(
            lambda values: [
                *values[0],
                f"--ledger-table={values[1]}",
                f"--access-table={values[2]}",
                *values[3],
                *values[4],
            ]
        )
        deployment_spec_input = self._create_deployment(
            plan.image, flags, _file(settings), [passage, *rbac, policy], in_namespace
        )
        self._create_services(pulumi.ResourceOptions(depends_on=[namespace_object]))

        self.namespace = namespace_object.metadata.name
        self.url = deployment_spec_input.apply(lambda _: f"http://{NAME}.{NAME}.svc:{settings.service.port}")
        self.role_arn = role.arn
        self.ledger_table = table.name
        self.register_outputs({**component_outputs(self), OUTPUT: roles.planned_documents.entries})

    def _create_network_policy(self, in_namespace: pulumi.ResourceOptions) -> pulumi.Resource:
        """Create the network policy, before the pods: without it a pod has no traffic, and never becomes ready."""
        service = self._settings.service
        reached = (service.issuer, self._plan.prometheus, service.traces)
        policy_spec = network_policy.service_network_policy(
            service.port,
            reached,
            controls_sandboxes=service.workspaced is not None,
            authorizes=self._plan.authorizes,
        )
        return create_object(f"{self._name}-passage", policy_spec, self._child, in_namespace)

    def _create_rbac(
        self, role: iam.Role, classes: Mapping[str, pulumi.Input[str]], in_namespace: pulumi.ResourceOptions
    ) -> list[pulumi.Resource]:
        """Create its service account and RBAC: read access everywhere, write access in the namespaces of classes."""
        name, child = self._name, self._child
        created: list[pulumi.Resource] = [
            create_object(
                f"{name}-account", service_account({"eks.amazonaws.com/role-arn": role.arn}), child, in_namespace
            ),
            create_object(
                f"{name}-look", rights.role("ClusterRole", NAME, rights.cluster_rules()), child, in_namespace
            ),
            create_object(
                f"{name}-work",
                rights.role("ClusterRole", rights.IN_CLASSES, rights.class_namespace_rules()),
                child,
                in_namespace,
            ),
            create_object(
                f"{name}-lead", rights.role("Role", rights.OWN, rights.own_namespace_rules(), NAME), child, in_namespace
            ),
        ]
        after = pulumi.ResourceOptions(depends_on=created)
        bindings: list[pulumi.Resource] = [
            create_object(
                f"{name}-look", rights.binding("ClusterRoleBinding", NAME, NAME, "ClusterRole"), child, after
            ),
            create_object(
                f"{name}-lead", rights.binding("RoleBinding", rights.OWN, rights.OWN, "Role", NAME), child, after
            ),
        ]
        for class_name, class_namespace in sorted(classes.items()):
            document = rights.binding("RoleBinding", rights.IN_CLASSES, rights.IN_CLASSES, "ClusterRole")
            document["metadata"]["namespace"] = class_namespace
            bindings.append(create_object(f"{name}-work-{class_name}", document, child, after))
        return [*created, *bindings]

    def _create_emptying(self, outer: ChildOptions) -> list[pulumi.Resource]:
        """Create the namespace of the Jobs that empty homes, without traffic, and what the service may do there."""
        name = f"{self._name}-emptying"
        namespace_object = create_restricted_namespace(f"{name}-namespace", home_emptying.NAME, outer)
        within = pulumi.ResourceOptions(depends_on=[namespace_object])
        rules = rights.role("Role", home_emptying.NAME, home_emptying.rbac_rules(), home_emptying.NAME)
        role = create_object(f"{name}-work", rules, self._child, within)
        binding = rights.binding("RoleBinding", home_emptying.NAME, home_emptying.NAME, "Role", home_emptying.NAME)
        return [
            create_object(f"{name}-passage", home_emptying.no_traffic(), self._child, within),
            create_object(f"{name}-quota", home_emptying.quota(), self._child, within),
            create_object(f"{name}-work", binding, self._child, pulumi.ResourceOptions(depends_on=[role])),
        ]

    def _create_controllers_rbac(self, in_namespace: pulumi.ResourceOptions) -> list[pulumi.Resource]:
        """Create what the service may do in the namespaces of the controllers on Fargate."""
        created: list[pulumi.Resource] = []
        for place in sorted(CONTROLLERS[name].namespace for name in controllers(self._settings.cluster)):
            name = f"{self._name}-controllers-{place}"
            rules = rights.role("Role", rights.IN_CONTROLLERS, rights.controller_namespace_rules(), place)
            role = create_object(name, rules, self._child, in_namespace)
            binding = rights.binding("RoleBinding", rights.IN_CONTROLLERS, rights.IN_CONTROLLERS, "Role", place)
            created.append(create_object(name, binding, self._child, pulumi.ResourceOptions(depends_on=[role])))
        return created

    def _create_deployment(
        self,
        image: str,
        flags: pulumi.Output[list[str]],
        settings: str,
        after: Sequence[pulumi.Resource],
        in_namespace: pulumi.ResourceOptions,
    ) -> pulumi.Output[Any]:
        service, name = self._settings.service, self._name
        file = create_object(f"{name}-settings", configuration(settings), self._child, in_namespace)
        deployment_spec_input = ServiceSettings(
            image,
            service.replicas,
            service.port,
            str(service.cpu),
            str(service.memory),
            authorizes=self._plan.authorizes,
        )
        create_object(f"{name}-budget", disruption_budget(), self._child, in_namespace)
        waits = pulumi.ResourceOptions(
            depends_on=[file, *after],
            # Karpenter may have to launch a node first.
            custom_timeouts=pulumi.CustomTimeouts(create="15m", update="15m"),
        )
        loops = _with_flags(loops_deployment(deployment_spec_input, settings), flags)
        create_object(f"{name}-loops", loops, self._child, waits)
        document = _with_flags(deployment(deployment_spec_input, settings), flags)
        return create_object(name, document, self._child, waits).metadata

    def _create_services(self, in_namespace: pulumi.ResourceOptions) -> None:
        """Create its Services: of the API, and of the authorization that the gateway asks for."""
        port = self._settings.service.port
        create_object(f"{self._name}-inside", network_policy.cluster_service(port), self._child, in_namespace)
        if self._plan.authorizes:
            create_object(f"{self._name}-authorizer", network_policy.authorizer_service(), self._child, in_namespace)


def _with_flags(document: dict[str, Any], flags: pulumi.Output[list[str]]) -> dict[str, Any]:
    """Return a Deployment with flags whose values are known later."""
    container = document["spec"]["template"]["spec"]["containers"][0]
    always: list[str] = container["args"]
    container["args"] = flags.apply(lambda values: [*always, *values])
    return document


def _exchange_flags(
    roles: Mapping[str, iam.Role], aws: pulumi.Output[AwsContext], environment: str
) -> pulumi.Output[list[str]]:
    """Return the flags for exchanging tokens; none if no class does."""
    if not roles:
        return pulumi.Output.from_input(list[str]())
    secrets = aws.apply(lambda context: secrets_location(context, environment))
    named = [role.arn.apply(lambda arn, name=name: f"--exchange-role={name}={arn}") for name, role in roles.items()]
    prefix = secrets.apply(lambda context: f"--secrets-prefix={context.arn_prefix}{context.prefix}")
    return pulumi.Output.all(*named, prefix).apply(lambda values: [*values])


def _target_flags(target_group_arn: pulumi.Input[str] | None) -> pulumi.Output[list[str]]:
    """Return the flag for registering the gateway's pods; none without a load balancer."""
    if target_group_arn is None:
        return pulumi.Output.from_input(list[str]())
    return pulumi.Output.from_input(target_group_arn).apply(lambda arn: [f"--target-group={arn}"])


def _file(settings: Settings) -> str:
    """Return the settings file of the service, in a stable order."""
    return json.dumps({"environment": settings.environment, "config": to_config(settings)}, sort_keys=True)


def _flags(plan: ServicePlan, cluster: ClusterContext) -> pulumi.Output[list[str]]:
    """Return the flags with values of this deployment."""
    values = [f"--cluster-name={cluster.name}"]
    values += [f"--vpc-cidr={cidr}" for cidr in plan.existing.vpc_cidrs]
    if plan.existing.service_cidr:
        values.append(f"--service-cidr={plan.existing.service_cidr}")
    for flag, value in (("prometheus", plan.prometheus), ("traces", plan.settings.service.traces)):
        if value is not None:
            values.append(f"--{flag}={value}")
    return cluster.file_system_ids.apply(
        lambda ids: [*values, *(f"--file-system={file_system_id}" for file_system_id in ids)]
    )
