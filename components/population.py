"""The workloads of an environment: its sandbox classes, declared workspaces, and the workspace service."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pulumi

from agentenv.components._lib.arguments import ArgumentError, ArgumentReader
from agentenv.components._lib.existing import ExistingRanges
from agentenv.components._lib.options import ChildOptions, output_after
from agentenv.components.cluster.adopted_cluster import AdoptedCluster
from agentenv.components.cluster.cluster import Cluster
from agentenv.components.network.adopted_network import AdoptedNetwork
from agentenv.components.network.network import Network
from agentenv.components.platform_arguments import fargate_classes
from agentenv.components.sandboxes.sandbox_class import SandboxClass, SandboxClassArgs
from agentenv.components.sandboxes.schedules import create_schedules_namespace
from agentenv.components.sandboxes.workspace import Workspace, WorkspaceArgs, read_seat, read_seats
from agentenv.components.service.workspace_service import WorkspaceService, WorkspaceServiceArgs
from agentenv.components.settings_argument import read_settings
from agentenv.components.storage.home_metering import StorageMetering, StorageMeteringArgs
from agentenv.config.sections.classes import SandboxClass as ClassSettings
from agentenv.core.capabilities.grants import RefusedGrantError
from agentenv.core.service.home_metering import home_folders
from agentenv.core.service.rbac import NAME
from agentenv.core.workspaces.seats import SeatPlan

if TYPE_CHECKING:
    from agentenv.components.environment import EnvironmentArgs


@dataclass(frozen=True)
class ClusterContext:
    """The cluster and file systems that workloads run on."""

    name: str
    cluster_name: str
    cluster: Cluster | AdoptedCluster
    file_system_ids: pulumi.Output[list[str]]
    existing_ranges: ExistingRanges
    child: ChildOptions


def with_existing_ranges(args: "EnvironmentArgs", existing_ranges: ExistingRanges) -> "EnvironmentArgs":
    """Return the arguments with the Fargate rules recomputed for the address ranges of adopted resources."""
    if (
        not (existing_ranges.vpc_cidrs or existing_ranges.service_cidr)
        or not args.get("fargate_classes")
        or not args.get("settings")
    ):
        return args
    settings = read_settings(ArgumentReader("environment", args))
    try:
        return {**args, "fargate_classes": fargate_classes(settings, existing_ranges)}
    except RefusedGrantError as error:
        raise ArgumentError("environment.fargate_classes", error.found, error.hint) from None


def create_classes(
    context: ClusterContext, args: "EnvironmentArgs", after: pulumi.ResourceOptions
) -> dict[str, SandboxClass]:
    """Create the sandbox classes, by name, and before them the namespace of schedule jobs if a class has schedules."""
    if not args.get("settings"):
        return {}
    settings = read_settings(ArgumentReader("environment", args))
    if any(each.pool.schedules for each in settings.sandbox_classes):
        schedules_objects = create_schedules_namespace(context.name, settings.cluster.version, context.child, after)
        after = pulumi.ResourceOptions.merge(after, pulumi.ResourceOptions(depends_on=schedules_objects))
    return {
        each.name: SandboxClass(
            f"{context.name}-class-{each.name}",
            _class_args(each, context, args),
            context.child(after),
        )
        for each in settings.sandbox_classes
    }


def _class_args(settings: ClassSettings, context: ClusterContext, args: "EnvironmentArgs") -> SandboxClassArgs:
    class_args: SandboxClassArgs = {
        "ownership": args["ownership"],
        "settings": args.get("settings") or {},
        "sandbox_class": settings.name,
        "cluster_name": context.cluster_name,
        "issuer_url": context.cluster.issuer_url,
        "issuer_arn": context.cluster.issuer_arn,
        "file_system_ids": context.file_system_ids,
    }
    if settings.compute == "fargate":
        class_args["security_group_ids"] = context.cluster.class_security_group_ids.apply(
            lambda groups: groups[settings.name]
        )
    _add_network_context(class_args, context, args)
    return class_args


def _add_network_context(
    class_args: SandboxClassArgs | WorkspaceServiceArgs, context: ClusterContext, args: "EnvironmentArgs"
) -> None:
    """Add the address ranges of adopted resources, and the permissions boundary."""
    if context.existing_ranges.vpc_cidrs:
        class_args["vpc_cidrs"] = list(context.existing_ranges.vpc_cidrs)
    if context.existing_ranges.service_cidr:
        class_args["service_cidr"] = context.existing_ranges.service_cidr
    if "permissions_boundary" in args:
        class_args["permissions_boundary"] = args["permissions_boundary"]


def declared_seats(reader: ArgumentReader, key: str) -> list[SeatPlan]:
    """Return the declared workspaces among an environment's arguments, checked."""
    return [read_seat(ArgumentReader("workspace", layout)) for layout in read_seats(reader, key)]


def seat_security_groups(cluster: Cluster | AdoptedCluster, args: "EnvironmentArgs") -> dict[str, pulumi.Input[str]]:
    """Return the first security group of each Fargate class with declared workspaces, whose pods mount EFS directly."""
    seat_classes = {seat["sandbox_class"] for seat in args.get("workspaces") or ()}
    on_fargate = {each["name"] for each in args.get("fargate_classes") or ()}
    return {
        name: cluster.class_security_group_ids.apply(lambda groups, name=name: groups[name][0])
        for name in sorted(seat_classes & on_fargate)
    }


def create_seats(
    context: ClusterContext,
    args: "EnvironmentArgs",
    classes: Mapping[str, SandboxClass],
    kubernetes_provider: list[pulumi.ProviderResource],
) -> None:
    """Create the declared workspaces, each in its class."""
    for seat in args.get("workspaces") or ():
        sandbox_class: Any = classes[seat["sandbox_class"]]
        class_args: WorkspaceArgs = {
            "ownership": args["ownership"],
            "seat": seat,
            # Always the first one: the files of a workspace stay where they are when file systems are added.
            "file_system_id": context.file_system_ids.apply(lambda ids: ids[0]),
            "template": sandbox_class.seat_template,
            "namespace": sandbox_class.ready,
        }
        if "keep_data" in args:
            class_args["keep_data"] = args["keep_data"]
        options = pulumi.ResourceOptions(providers=kubernetes_provider)
        Workspace(f"{context.name}-seat-{seat['name']}", class_args, context.child(options))


def create_service(
    context: ClusterContext,
    args: "EnvironmentArgs",
    classes: Mapping[str, SandboxClass],
    network: Network | AdoptedNetwork,
    *,
    dependencies: Sequence[pulumi.Resource],
    kubernetes_provider: list[pulumi.ProviderResource],
) -> WorkspaceService | None:
    """Create the workspace service for these classes, if the settings name its image."""
    if not args.get("settings") or not read_settings(ArgumentReader("environment", args)).service.deployed:
        return None
    class_args: WorkspaceServiceArgs = {
        "ownership": args["ownership"],
        "settings": args.get("settings") or {},
        "cluster_name": context.cluster_name,
        "issuer_url": context.cluster.issuer_url,
        "issuer_arn": context.cluster.issuer_arn,
        "file_system_ids": context.file_system_ids,
        "place": output_after(NAME, dependencies),
        "class_namespaces": {name: each.ready for name, each in classes.items()},
        "vpc_id": network.vpc_id,
        "nat_addresses": list(network.nat_addresses_by_gateway),
    }
    if "keep_data" in args:
        class_args["keep_data"] = args["keep_data"]
    _add_network_context(class_args, context, args)
    return WorkspaceService(
        f"{context.name}-service",
        class_args,
        context.child(pulumi.ResourceOptions(providers=kubernetes_provider)),
    )


def create_storage_metering(
    context: ClusterContext,
    args: "EnvironmentArgs",
    dependencies: Sequence[pulumi.Resource],
    kubernetes_provider: list[pulumi.ProviderResource],
) -> StorageMetering | None:
    """Create the job that measures home sizes, if there are homes and a service that accounts for them."""
    if not args.get("settings") or not home_folders(read_settings(ArgumentReader("environment", args))):
        return None
    class_args: StorageMeteringArgs = {
        "ownership": args["ownership"],
        "settings": args.get("settings") or {},
        "issuer_url": context.cluster.issuer_url,
        "issuer_arn": context.cluster.issuer_arn,
        "file_system_ids": context.file_system_ids,
    }
    if "permissions_boundary" in args:
        class_args["permissions_boundary"] = args["permissions_boundary"]
    after = pulumi.ResourceOptions(depends_on=list(dependencies), providers=kubernetes_provider)
    return StorageMetering(f"{context.name}-storage-metering", class_args, context.child(after))
