"""The workspace service: what gives people and agents their computers, keeps them and takes them away.

In the order it comes to life: what it is to AWS, its namespace with the policy of what it may reach, its account and
rights, the settings that it reads, its pods, and what leads to them. Its rights in classes are bound in each class's
namespace; so it comes after the classes and goes before them, while all that it speaks with still answers.
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
    Kept,
    Network,
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
from agentenv.core.service.deployment import Running, account, budget, configuration, deployment
from agentenv.core.service.rbac import NAME

SERVICE_ACCOUNT = ServiceAccount(NAME, NAME)


class WorkspaceServiceArgs(TypedDict):
    """What the service is made from."""

    ownership: Ownership
    """Whose the environment is."""

    settings: dict[str, Any]
    """The settings of its environment, as a stack file has them under `config`."""

    cluster_name: str
    """The cluster it is in."""

    issuer_url: pulumi.Input[str]
    """Who signs the tokens of the cluster's service accounts."""

    issuer_arn: pulumi.Input[str]
    """The same, as an identity provider of IAM."""

    file_system_ids: pulumi.Input[list[str]]
    """The file systems that homes are on, by shard."""

    class_namespaces: NotRequired[dict[str, pulumi.Input[str]]]
    """The namespace of each class, by the class's name, once it is there; none unless told."""

    place: NotRequired[pulumi.Input[str]]
    """The name of its namespace, known once what it works with is there; for whoever has it wait."""

    vpc_cidrs: NotRequired[list[str]]
    """The ranges of a VPC that stood already; those that the settings say unless told."""

    service_cidr: NotRequired[str]
    """The range of services of a cluster that stood already; the one that the settings say unless told."""

    vpc_id: NotRequired[pulumi.Input[str]]
    """The VPC that sandboxes are in; wanted where a class exchanges tokens, whose role works from there only."""

    nat_addresses: NotRequired[list[pulumi.Input[str]]]
    """The public addresses that sandboxes leave it under; none unless told, and so its endpoints alone."""

    keep_data: NotRequired[bool]
    """Whether the ledger is protected, and outlives the stack; true in `prod` unless told."""

    permissions_boundary: NotRequired[str]
    """The permissions boundary of its roles."""


class WorkspaceService(pulumi.ComponentResource):
    """The service's deployment with its namespace, rights and role, and the ways to it."""

    namespace: pulumi.Output[str]
    """The namespace it runs in, once it is there."""

    url: pulumi.Output[str]
    """Where pods of the cluster find it."""

    address: pulumi.Output[str | None]
    """The load balancer's name, for the domain's record to point to; nothing without a domain."""

    role_arn: pulumi.Output[str]
    """What it is to AWS."""

    ledger_table: pulumi.Output[str]
    """The table that the ledger is in."""

    def __init__(self, name: str, args: WorkspaceServiceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Make it; a wrong plain argument raises before anything is made."""
        reader = ArgumentReader.of("workspace_service", args, WorkspaceServiceArgs)
        labels = Labels.of(reader, "workspace-service", name)
        settings = read_settings(reader)
        if settings.service.image is None:
            raise ArgumentError("workspace_service.settings", "no image of the service", "service.image by its digest")
        cluster = reader.text("cluster_name")
        boundary = reader.text("permissions_boundary") if reader.has("permissions_boundary") else None
        ranges = reader.texts("vpc_cidrs") or [str(settings.network.cidr)]
        kept = reader.flag("keep_data", default=is_production(labels.environment))
        exchange = exchange_classes(settings.sandbox_classes)
        if exchange and not reader.has("vpc_id"):
            raise ArgumentError("workspace_service.vpc_id", "nothing", "the VPC that exchanged roles work from")

        super().__init__("agent-environment:index:WorkspaceService", name, {}, opts)
        self._name, self._settings, self._labels = name, settings, labels
        # What is in AWS waits for nobody, and what is in the cluster for its namespace, which waits for all the rest:
        # the ledger's deletion is refused in prod, and then the engine walks every path to what it waits for.
        outer, self._child = child_options(self, opts), child_options_without_dependencies(self)
        roles = Roles(labels, self._child, boundary)
        issuer = Issuer(pulumi.Output.from_input(args["issuer_arn"]), pulumi.Output.from_input(args["issuer_url"]))
        role = roles.irsa_role("role", "The workspace service", issuer, SERVICE_ACCOUNT)
        table = ledger_table(labels, self._child, kept=kept)
        aws = aws_context(self)
        where = Network(args.get("vpc_id") or "", reader.inputs("nat_addresses"))
        given_out = create_exchange_roles(roles, exchange, role, aws, where)
        may = add_service_policy(roles, role, aws, Kept(table.arn, args["file_system_ids"]), given_out)

        space = create_restricted_namespace(f"{name}-namespace", args.get("place", NAME), outer)
        inside = pulumi.ResourceOptions(depends_on=[space])
        passage = self._passage(ranges, inside)
        allowed = self._rights(role, args.get("class_namespaces") or {}, inside)
        flags = _flags(reader, cluster, args["file_system_ids"])
        flags = pulumi.Output.all(flags, table.name, _exchange_flags(given_out, aws, labels.environment)).apply(
            lambda told: [*told[0], f"--ledger-table={told[1]}", *told[2]]
        )
        running = self._run(settings.service.image, flags, _file(settings), [passage, *allowed, may], inside)
        self._ways(ranges, pulumi.ResourceOptions(depends_on=[space]))

        self.namespace = space.metadata.name
        self.url = running.apply(lambda _: f"http://{NAME}.{NAME}.svc:{settings.service.port}")
        self.role_arn = role.arn
        self.ledger_table = table.name
        self.register_outputs({**component_outputs(self), OUTPUT: roles.planned_documents.entries})

    def _passage(self, ranges: Sequence[str], inside: pulumi.ResourceOptions) -> pulumi.Resource:
        """The policy comes before the pods: one that starts without it is cut off, and never becomes ready."""
        service = self._settings.service
        callers = _callers(self._settings, ranges) if service.domain else ()
        reached = (service.issuer, _prometheus(self._settings), service.traces)
        said = network.policy(service.port, callers, reached)
        return create_object(f"{self._name}-passage", said, self._child, inside)

    def _rights(
        self, role: iam.Role, classes: Mapping[str, pulumi.Input[str]], inside: pulumi.ResourceOptions
    ) -> list[pulumi.Resource]:
        """Its account, and what it may do: looking everywhere, working in the namespaces of classes."""
        name, child = self._name, self._child
        made: list[pulumi.Resource] = [
            create_object(f"{name}-account", account({"eks.amazonaws.com/role-arn": role.arn}), child, inside),
            create_object(f"{name}-look", rights.role("ClusterRole", NAME, rights.everywhere()), child, inside),
            create_object(
                f"{name}-work", rights.role("ClusterRole", rights.IN_CLASSES, rights.in_classes()), child, inside
            ),
            create_object(f"{name}-lead", rights.role("Role", rights.OWN, rights.own(), NAME), child, inside),
        ]
        after = pulumi.ResourceOptions(depends_on=made)
        bound: list[pulumi.Resource] = [
            create_object(
                f"{name}-look", rights.binding("ClusterRoleBinding", NAME, NAME, "ClusterRole"), child, after
            ),
            create_object(
                f"{name}-lead", rights.binding("RoleBinding", rights.OWN, rights.OWN, "Role", NAME), child, after
            ),
        ]
        for one, space in sorted(classes.items()):
            document = rights.binding("RoleBinding", rights.IN_CLASSES, rights.IN_CLASSES, "ClusterRole")
            document["metadata"]["namespace"] = space
            bound.append(create_object(f"{name}-work-{one}", document, child, after))
        return [*made, *bound]

    def _run(
        self,
        image: str,
        flags: pulumi.Output[list[str]],
        settings: str,
        after: Sequence[pulumi.Resource],
        inside: pulumi.ResourceOptions,
    ) -> pulumi.Output[Any]:
        service, name = self._settings.service, self._name
        file = create_object(f"{name}-settings", configuration(settings), self._child, inside)
        running = Running(image, service.replicas, service.port, str(service.cpu), str(service.memory))
        document = deployment(running, settings)
        container = document["spec"]["template"]["spec"]["containers"][0]
        always: list[str] = container["args"]
        container["args"] = flags.apply(lambda told: [*always, *told])
        create_object(f"{name}-budget", budget(), self._child, inside)
        waits = pulumi.ResourceOptions(
            depends_on=[file, *after],
            # A node may have to come for it first.
            custom_timeouts=pulumi.CustomTimeouts(create="15m", update="15m"),
        )
        return create_object(name, document, self._child, waits).metadata

    def _ways(self, ranges: Sequence[str], inside: pulumi.ResourceOptions) -> None:
        """What leads to it: inside the cluster always, under its domain where it has one."""
        service = self._settings.service
        create_object(f"{self._name}-inside", network.inside(service.port), self._child, inside)
        self.address = pulumi.Output.from_input(None)
        if service.domain is None or service.certificate is None:
            return
        tags = pulumi.Output.all(**self._labels.tags("door")).apply(
            lambda said: ",".join(f"{key}={value}" for key, value in sorted(said.items()))
        )
        document = network.door(
            service.certificate, _callers(self._settings, ranges), internal=service.reach == "internal"
        )
        document["metadata"]["annotations"][network.TAGS] = tags
        door: core.Service = create_object(f"{self._name}-door", document, self._child, inside)
        self.address = door.status.apply(_balancer)


def _exchange_flags(
    roles: Mapping[str, iam.Role], aws: pulumi.Output[AwsContext], environment: str
) -> pulumi.Output[list[str]]:
    """What it needs to know to exchange tokens; nothing where no class does."""
    if not roles:
        return pulumi.Output.from_input(list[str]())
    secrets = aws.apply(lambda context: secrets_location(context, environment))
    named = [role.arn.apply(lambda arn, name=name: f"--exchange-role={name}={arn}") for name, role in roles.items()]
    prefix = secrets.apply(lambda context: f"--secrets-prefix={context.arn_prefix}{context.prefix}")
    return pulumi.Output.all(*named, prefix).apply(lambda told: [*told])


def _balancer(status: Any) -> str | None:
    ingress: Any = (status and status.load_balancer and status.load_balancer.ingress) or None
    return str(ingress[0].hostname) if ingress else None


def _prometheus(settings: Settings) -> str | None:
    """Where usage is asked for: where it was said, else the cluster's own, where it has one."""
    return settings.service.prometheus or (PROMETHEUS_ADDRESS if settings.cost.dashboards else None)


def _callers(settings: Settings, ranges: Sequence[str]) -> list[str]:
    """From where its domain is reached: where it was said, else the VPC and the networks tied to it."""
    said = [str(cidr) for cidr in settings.service.callers]
    return said or sorted({*ranges, *(str(cidr) for cidr in settings.network.peers)})


def _file(settings: Settings) -> str:
    """The settings as the service reads them: what was said, in the same order every time."""
    return json.dumps({"environment": settings.environment, "config": to_argument(settings)}, sort_keys=True)


def _flags(reader: ArgumentReader, cluster: str, file_systems: pulumi.Input[list[str]]) -> pulumi.Output[list[str]]:
    """What only a deployment knows."""
    settings = read_settings(reader)
    told = [f"--cluster-name={cluster}"]
    told += [f"--vpc-cidr={cidr}" for cidr in reader.texts("vpc_cidrs")]
    if reader.has("service_cidr"):
        told.append(f"--service-cidr={reader.text('service_cidr')}")
    for flag, value in (("prometheus", _prometheus(settings)), ("traces", settings.service.traces)):
        if value is not None:
            told.append(f"--{flag}={value}")
    return pulumi.Output.from_input(file_systems).apply(lambda ids: [*told, *(f"--file-system={one}" for one in ids)])
