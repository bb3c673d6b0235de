"""The workloads of an environment: its sandbox classes, declared workspaces, and the workspace service."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from agentenv.components._lib.options import ChildOptions, output_after
from agentenv.components.cluster.adopted_cluster import AdoptedCluster
from agentenv.components.cluster.cluster import Cluster
from agentenv.components.network.adopted_network import AdoptedNetwork
from agentenv.components.network.network import Network
from agentenv.components.sandboxes.sandbox_class import SandboxClass, SandboxClassArgs
from agentenv.components.sandboxes.schedules import create_schedules_namespace
from agentenv.components.sandboxes.workspace import SeatLayout, Workspace, WorkspaceArgs
from agentenv.components.service.workspace_service import WorkspaceService, WorkspaceServiceArgs
from agentenv.components.settings_argument import ownership, to_argument
from agentenv.components.storage.home_metering import StorageMetering, StorageMeteringArgs
from agentenv.core.classes.plan import ClassPlan
from agentenv.core.plan import Plan
from agentenv.core.service.home_metering import home_folders
from agentenv.core.service.rbac import NAME


@dataclass(frozen=True)
class WorkloadContext:
    """The cluster and file systems that workloads run on."""

    name: str
    cluster: Cluster | AdoptedCluster
    file_system_ids: pulumi.Output[list[str]]
    child: ChildOptions


def create_classes(context: WorkloadContext, plan: Plan, after: pulumi.ResourceOptions) -> dict[str, SandboxClass]:
    """Create the sandbox classes, by name, and before them the namespace of schedule jobs if a class has schedules."""
    if any(each.settings.pool.schedules for each in plan.classes.values()):
        version = plan.cluster.settings.version
        schedules_objects = create_schedules_namespace(context.name, version, context.child, after)
        after = pulumi.ResourceOptions.merge(after, pulumi.ResourceOptions(depends_on=schedules_objects))
    return {
        name: SandboxClass(f"{context.name}-class-{name}", _class_args(each, context, plan), context.child(after))
        for name, each in plan.classes.items()
    }


def _class_args(sandbox_class: ClassPlan, context: WorkloadContext, plan: Plan) -> SandboxClassArgs:
    class_args: SandboxClassArgs = {
        "ownership": ownership(plan.environment),
        "settings": to_argument(plan.settings),
        "sandbox_class": sandbox_class.name,
        "cluster_name": plan.environment.cluster_name,
        "issuer_url": context.cluster.issuer_url,
        "issuer_arn": context.cluster.issuer_arn,
        "file_system_ids": context.file_system_ids,
    }
    if sandbox_class.on_fargate:
        class_args["security_group_ids"] = context.cluster.class_security_group_ids.apply(
            lambda groups: groups[sandbox_class.name]
        )
    _add_network_context(class_args, plan)
    return class_args


def _add_network_context(class_args: SandboxClassArgs | WorkspaceServiceArgs, plan: Plan) -> None:
    """Add the address ranges of adopted resources, and the permissions boundary."""
    if plan.existing.vpc_cidrs:
        class_args["vpc_cidrs"] = list(plan.existing.vpc_cidrs)
    if plan.existing.service_cidr:
        class_args["service_cidr"] = plan.existing.service_cidr
    if plan.environment.permissions_boundary is not None:
        class_args["permissions_boundary"] = plan.environment.permissions_boundary


def create_seats(
    context: WorkloadContext,
    plan: Plan,
    classes: Mapping[str, SandboxClass],
    kubernetes_provider: list[pulumi.ProviderResource],
) -> None:
    """Create the declared workspaces, each in its class."""
    for seat, settings in zip(plan.seats, plan.settings.workspaces, strict=True):
        sandbox_class: Any = classes[seat.sandbox_class]
        layout: SeatLayout = {
            "name": seat.name,
            "sandbox_class": seat.sandbox_class,
            "user": seat.user,
            "size": seat.size,
            "mode": seat.mode,
            "destroy_data": settings.destroy_data,
        }
        if seat.budget is not None:
            layout["budget"] = seat.budget
        class_args: WorkspaceArgs = {
            "ownership": ownership(plan.environment),
            "seat": layout,
            # Always the first one: the files of a workspace stay where they are when file systems are added.
            "file_system_id": context.file_system_ids.apply(lambda ids: ids[0]),
            "template": sandbox_class.seat_template,
            "namespace": sandbox_class.ready,
            "keep_data": plan.environment.keep_data,
        }
        options = pulumi.ResourceOptions(providers=kubernetes_provider)
        Workspace(f"{context.name}-seat-{seat.name}", class_args, context.child(options))


def create_service(
    context: WorkloadContext,
    plan: Plan,
    classes: Mapping[str, SandboxClass],
    network: Network | AdoptedNetwork,
    *,
    dependencies: Sequence[pulumi.Resource],
    kubernetes_provider: list[pulumi.ProviderResource],
) -> WorkspaceService | None:
    """Create the workspace service for these classes, if the settings name its image."""
    if not plan.settings.service.deployed:
        return None
    class_args: WorkspaceServiceArgs = {
        "ownership": ownership(plan.environment),
        "settings": to_argument(plan.settings),
        "cluster_name": plan.environment.cluster_name,
        "issuer_url": context.cluster.issuer_url,
        "issuer_arn": context.cluster.issuer_arn,
        "file_system_ids": context.file_system_ids,
        "place": output_after(NAME, dependencies),
        "class_namespaces": {name: each.ready for name, each in classes.items()},
        "vpc_id": network.vpc_id,
        "nat_addresses": list(network.context.nat_addresses),
        "keep_data": plan.environment.keep_data,
    }
    _add_network_context(class_args, plan)
    return WorkspaceService(
        f"{context.name}-service",
        class_args,
        context.child(pulumi.ResourceOptions(providers=kubernetes_provider)),
    )


def create_storage_metering(
    context: WorkloadContext,
    plan: Plan,
    dependencies: Sequence[pulumi.Resource],
    kubernetes_provider: list[pulumi.ProviderResource],
) -> StorageMetering | None:
    """Create the job that measures home sizes, if there are homes and a service that accounts for them."""
    if not home_folders(plan.settings):
        return None
    class_args: StorageMeteringArgs = {
        "ownership": ownership(plan.environment),
        "settings": to_argument(plan.settings),
        "issuer_url": context.cluster.issuer_url,
        "issuer_arn": context.cluster.issuer_arn,
        "file_system_ids": context.file_system_ids,
    }
    if plan.environment.permissions_boundary is not None:
        class_args["permissions_boundary"] = plan.environment.permissions_boundary
    after = pulumi.ResourceOptions(depends_on=list(dependencies), providers=kubernetes_provider)
    return StorageMetering(f"{context.name}-storage-metering", class_args, context.child(after))
