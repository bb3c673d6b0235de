"""The workspace service, whose API creates, suspends, retains and deletes workspaces.

Creates, in this order: its IAM roles and ledger table, its namespace with a network policy, its service account and
RBAC, its settings, the Deployments of its API and of its loops, and its Services. It has RoleBindings in the namespace
of each class. So it is created after the classes and deleted before them, while everything that it calls still exists.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

import pulumi
from pulumi_aws import iam
from pulumi_kubernetes.core import v1 as core

from agentenv.components._lib.arguments import ArgumentError, ArgumentReader
from agentenv.components._lib.aws_context import AwsContext, aws_context
from agentenv.components._lib.kubernetes_objects import create_object
from agentenv.components._lib.namespaces import create_restricted_namespace
from agentenv.components._lib.options import child_options, child_options_without_dependencies, component_outputs
from agentenv.components._lib.planned_documents import OUTPUT
from agentenv.components._lib.tags import Labels, Ownership
from agentenv.components.cluster.irsa import Issuer, Roles, ServiceAccount
from agentenv.components.service.iam import (
    Network,
    ServiceData,
    add_service_policy,
    create_exchange_roles,
    exchange_classes,
    secrets_location,
)
from agentenv.components.service.ledger_table import ledger_table
from agentenv.components.settings_argument import read_settings, to_argument
from agentenv.config import Settings
from agentenv.config.settings import is_production
from agentenv.core.metering.locations import PROMETHEUS_ADDRESS
from agentenv.core.service import network_policy as network
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


class WorkspaceServiceArgs(TypedDict):
    """The arguments of the workspace service."""

    ownership: Ownership
    """The owner of the environment, for tags and names."""

    settings: dict[str, Any]
    """The settings of its environment, as in a stack file under `config`."""

    cluster_name: str
    """The name of the cluster."""

    issuer_url: pulumi.Input[str]
    """The URL of the cluster's OIDC issuer, which signs service account tokens."""

    issuer_arn: pulumi.Input[str]
    """The ARN of the issuer's IAM OIDC provider."""

    file_system_ids: pulumi.Input[list[str]]
    """The file systems of homes, by shard."""

    class_namespaces: NotRequired[dict[str, pulumi.Input[str]]]
    """The namespace of each class, by the name of the class. Default: none."""

    place: NotRequired[pulumi.Input[str]]
    """The name of its namespace, as an output that depends on everything that the service needs."""

    vpc_cidrs: NotRequired[list[str]]
    """The CIDR blocks of an adopted VPC. Default: those of the settings."""

    service_cidr: NotRequired[str]
    """The service CIDR block of an adopted cluster. Default: that of the settings."""

    vpc_id: NotRequired[pulumi.Input[str]]
    """The VPC of sandboxes. Required if a class exchanges tokens, because its role works from there only."""

    nat_addresses: NotRequired[list[pulumi.Input[str]]]
    """The public addresses of NAT gateways. Default: none, so only VPC endpoints are used."""

    keep_data: NotRequired[bool]
    """Whether the ledger is protected, and retained when the stack is destroyed. Default: true in `prod`."""

    permissions_boundary: NotRequired[str]
    """The permissions boundary of its IAM roles."""


class WorkspaceService(pulumi.ComponentResource):
    """The Deployments of the service with its namespace, RBAC, IAM roles, ledger table and Services."""

    namespace: pulumi.Output[str]
    """Its namespace, known once it is created."""

    url: pulumi.Output[str]
    """Its URL inside the cluster."""

    address: pulumi.Output[str | None]
    """The load balancer's DNS name, the target of the domain's record; null without a domain."""

    role_arn: pulumi.Output[str]
    """Its IAM role."""

    ledger_table: pulumi.Output[str]
    """The DynamoDB table of the ledger."""

    def __init__(self, name: str, args: WorkspaceServiceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Create it; a wrong plain argument raises before anything is created."""
        reader = ArgumentReader.of("workspace_service", args, WorkspaceServiceArgs)
        labels = Labels.of(reader, "workspace-service", name)
        settings = read_settings(reader)
        if settings.service.image is None:
            raise ArgumentError("workspace_service.settings", "no image of the service", "service.image with a digest")
        cluster = reader.text("cluster_name")
        boundary = reader.text("permissions_boundary") if reader.has("permissions_boundary") else None
        ranges = reader.texts("vpc_cidrs") or [str(settings.network.cidr)]
        protected = reader.flag("keep_data", default=is_production(labels.environment))
        exchange = exchange_classes(settings.sandbox_classes)
        if exchange and not reader.has("vpc_id"):
            raise ArgumentError("workspace_service.vpc_id", "nothing", "the VPC that exchanged roles work from")

        super().__init__("agent-environment:index:WorkspaceService", name, {}, opts)
        self._name, self._settings, self._labels = name, settings, labels
        # AWS resources have no dependencies. Kubernetes objects depend on the namespace, and only it on the rest: in
        # prod the ledger's deletion is refused, and then the engine walks every path to each of its dependencies.
        outer, self._child = child_options(self, opts), child_options_without_dependencies(self)
        roles = Roles(labels, self._child, boundary)
        issuer = Issuer(pulumi.Output.from_input(args["issuer_arn"]), pulumi.Output.from_input(args["issuer_url"]))
        role = roles.irsa_role("role", "The workspace service", issuer, SERVICE_ACCOUNT)
        table = ledger_table(labels, self._child, protected=protected)
        aws = aws_context(self)
        sandbox_network = Network(args.get("vpc_id") or "", reader.inputs("nat_addresses"))
        class_roles = create_exchange_roles(roles, exchange, role, aws, sandbox_network)
        policy = add_service_policy(roles, role, aws, ServiceData(table.arn, args["file_system_ids"]), class_roles)

        namespace_object = create_restricted_namespace(f"{name}-namespace", args.get("place", NAME), outer)
        in_namespace = pulumi.ResourceOptions(depends_on=[namespace_object])
        network_policy = self._create_network_policy(ranges, in_namespace)
        rbac = self._create_rbac(role, args.get("class_namespaces") or {}, in_namespace)
        flags = _flags(reader, cluster, args["file_system_ids"])
        flags = pulumi.Output.all(flags, table.name, _exchange_flags(class_roles, aws, labels.environment)).apply(
            lambda values: [*values[0], f"--ledger-table={values[1]}", *values[2]]
        )
        deployment_spec_input = self._create_deployment(
            settings.service.image, flags, _file(settings), [network_policy, *rbac, policy], in_namespace
        )
        self._create_services(ranges, pulumi.ResourceOptions(depends_on=[namespace_object]))

        self.namespace = namespace_object.metadata.name
        self.url = deployment_spec_input.apply(lambda _: f"http://{NAME}.{NAME}.svc:{settings.service.port}")
        self.role_arn = role.arn
        self.ledger_table = table.name
        self.register_outputs({**component_outputs(self), OUTPUT: roles.planned_documents.entries})

    def _create_network_policy(self, ranges: Sequence[str], in_namespace: pulumi.ResourceOptions) -> pulumi.Resource:
        """Create the network policy, before the pods: without it a pod has no traffic, and never becomes ready."""
        service = self._settings.service
        callers = _callers(self._settings, ranges) if service.domain else ()
        reached = (service.issuer, _prometheus(self._settings), service.traces)
        policy_spec = network.service_network_policy(
            service.port, callers, reached, controls_sandboxes=service.workspaced is not None
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
            image, service.replicas, service.port, str(service.cpu), str(service.memory)
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

    def _create_services(self, ranges: Sequence[str], in_namespace: pulumi.ResourceOptions) -> None:
        """Create its Service, and a load balancer if it has a domain."""
        service = self._settings.service
        create_object(f"{self._name}-inside", network.cluster_service(service.port), self._child, in_namespace)
        self.address = pulumi.Output.from_input(None)
        if service.domain is None or service.certificate is None:
            return
        tags = pulumi.Output.all(**self._labels.tags("door")).apply(
            lambda policy_spec: ",".join(f"{key}={value}" for key, value in sorted(policy_spec.items()))
        )
        document = network.load_balancer_service(
            service.certificate, _callers(self._settings, ranges), internal=service.reach == "internal"
        )
        document["metadata"]["annotations"][network.TAGS] = tags
        door: core.Service = create_object(f"{self._name}-door", document, self._child, in_namespace)
        self.address = door.status.apply(_balancer)


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


def _balancer(status: Any) -> str | None:
    ingress: Any = (status and status.load_balancer and status.load_balancer.ingress) or None
    return str(ingress[0].hostname) if ingress else None


def _prometheus(settings: Settings) -> str | None:
    """Return the address of Prometheus from the settings, or of the cluster's own, if it has one."""
    return settings.service.prometheus or (PROMETHEUS_ADDRESS if settings.cost.dashboards else None)


def _callers(settings: Settings, ranges: Sequence[str]) -> list[str]:
    """Return the CIDR blocks that may reach its domain: those of the settings, or the VPC and its peers."""
    policy_spec = [str(cidr) for cidr in settings.service.callers]
    return policy_spec or sorted({*ranges, *(str(cidr) for cidr in settings.network.peers)})


def _file(settings: Settings) -> str:
    """Return the settings file of the service, in a stable order."""
    return json.dumps({"environment": settings.environment, "config": to_argument(settings)}, sort_keys=True)


def _flags(reader: ArgumentReader, cluster: str, file_systems: pulumi.Input[list[str]]) -> pulumi.Output[list[str]]:
    """Return the flags with values of this deployment."""
    settings = read_settings(reader)
    values = [f"--cluster-name={cluster}"]
    values += [f"--vpc-cidr={cidr}" for cidr in reader.texts("vpc_cidrs")]
    if reader.has("service_cidr"):
        values.append(f"--service-cidr={reader.text('service_cidr')}")
    for flag, value in (("prometheus", _prometheus(settings)), ("traces", settings.service.traces)):
        if value is not None:
            values.append(f"--{flag}={value}")
    return pulumi.Output.from_input(file_systems).apply(
        lambda ids: [*values, *(f"--file-system={file_system_id}" for file_system_id in ids)]
    )
