"""What lives in an environment: its classes of sandboxes, the workspaces that are always there, and their service."""

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
from agentenv.config.sections.classes import SandboxClass as Asked
from agentenv.core.capabilities.grants import RefusedGrantError
from agentenv.core.service.home_metering import folders
from agentenv.core.service.rbac import NAME
from agentenv.core.workspaces.seats import SeatPlan

if TYPE_CHECKING:
    from agentenv.components.environment import EnvironmentArgs


@dataclass(frozen=True)
class Ground:
    """What classes stand on."""

    name: str
    cluster_name: str
    cluster: Cluster | AdoptedCluster
    file_system_ids: pulumi.Output[list[str]]
    standing: ExistingRanges
    child: ChildOptions


def among(args: "EnvironmentArgs", standing: ExistingRanges) -> "EnvironmentArgs":
    """The arguments, with the rules of classes on Fargate as they are among what stands already."""
    if not (standing.vpc_cidrs or standing.service_cidr) or not args.get("fargate_classes") or not args.get("settings"):
        return args
    settings = read_settings(ArgumentReader("environment", args))
    try:
        return {**args, "fargate_classes": fargate_classes(settings, standing)}
    except RefusedGrantError as refused:
        raise ArgumentError("environment.fargate_classes", refused.found, refused.hint) from None


def create_classes(ground: Ground, args: "EnvironmentArgs", after: pulumi.ResourceOptions) -> dict[str, SandboxClass]:
    """The classes by name; first the place that the jobs of their schedules run in, where one has some."""
    if not args.get("settings"):
        return {}
    settings = read_settings(ArgumentReader("environment", args))
    if any(one.pool.schedules for one in settings.sandbox_classes):
        place = create_schedules_namespace(ground.name, settings.cluster.version, ground.child, after)
        after = pulumi.ResourceOptions.merge(after, pulumi.ResourceOptions(depends_on=place))
    return {
        one.name: SandboxClass(f"{ground.name}-class-{one.name}", _told(one, ground, args), ground.child(after))
        for one in settings.sandbox_classes
    }


def _told(one: Asked, ground: Ground, args: "EnvironmentArgs") -> SandboxClassArgs:
    told: SandboxClassArgs = {
        "ownership": args["ownership"],
        "settings": args.get("settings") or {},
        "sandbox_class": one.name,
        "cluster_name": ground.cluster_name,
        "issuer_url": ground.cluster.issuer_url,
        "issuer_arn": ground.cluster.issuer_arn,
        "file_system_ids": ground.file_system_ids,
    }
    if one.compute == "fargate":
        told["security_group_ids"] = ground.cluster.class_security_group_ids.apply(lambda groups: groups[one.name])
    _tell_around(told, ground, args)
    return told


def _tell_around(told: SandboxClassArgs | WorkspaceServiceArgs, ground: Ground, args: "EnvironmentArgs") -> None:
    """Which networks are the cluster's own, and what bounds the roles that are made."""
    if ground.standing.vpc_cidrs:
        told["vpc_cidrs"] = list(ground.standing.vpc_cidrs)
    if ground.standing.service_cidr:
        told["service_cidr"] = ground.standing.service_cidr
    if "permissions_boundary" in args:
        told["permissions_boundary"] = args["permissions_boundary"]


def declared_seats(reader: ArgumentReader, key: str) -> list[SeatPlan]:
    """The declared workspaces among an environment's arguments, with their shapes checked."""
    return [read_seat(ArgumentReader("workspace", one)) for one in read_seats(reader, key)]


def seat_security_groups(cluster: Cluster | AdoptedCluster, args: "EnvironmentArgs") -> dict[str, pulumi.Input[str]]:
    """The first security group of each class on Fargate with seats: their pods mount files for themselves."""
    seated = {seat["sandbox_class"] for seat in args.get("workspaces") or ()}
    on_fargate = {one["name"] for one in args.get("fargate_classes") or ()}
    return {
        name: cluster.class_security_group_ids.apply(lambda groups, name=name: groups[name][0])
        for name in sorted(seated & on_fargate)
    }


def create_seats(
    ground: Ground,
    args: "EnvironmentArgs",
    classes: Mapping[str, SandboxClass],
    speaking: list[pulumi.ProviderResource],
) -> None:
    """The declared workspaces, each in its class."""
    for seat in args.get("workspaces") or ():
        of: Any = classes[seat["sandbox_class"]]
        told: WorkspaceArgs = {
            "ownership": args["ownership"],
            "seat": seat,
            # The first, whatever is added: a seat's files stay where they are.
            "file_system_id": ground.file_system_ids.apply(lambda ids: ids[0]),
            "template": of.template,
            "namespace": of.ready,
        }
        if "keep_data" in args:
            told["keep_data"] = args["keep_data"]
        spoken = pulumi.ResourceOptions(providers=speaking)
        Workspace(f"{ground.name}-seat-{seat['name']}", told, ground.child(spoken))


def create_service(
    ground: Ground,
    args: "EnvironmentArgs",
    classes: Mapping[str, SandboxClass],
    network: Network | AdoptedNetwork,
    *,
    needed: Sequence[pulumi.Resource],
    speaking: list[pulumi.ProviderResource],
) -> WorkspaceService | None:
    """The service that gives sandboxes of these classes to people, where it is said which image it is."""
    if not args.get("settings") or not read_settings(ArgumentReader("environment", args)).service.deployed:
        return None
    told: WorkspaceServiceArgs = {
        "ownership": args["ownership"],
        "settings": args.get("settings") or {},
        "cluster_name": ground.cluster_name,
        "issuer_url": ground.cluster.issuer_url,
        "issuer_arn": ground.cluster.issuer_arn,
        "file_system_ids": ground.file_system_ids,
        "place": output_after(NAME, needed),
        "class_namespaces": {name: one.ready for name, one in classes.items()},
        "vpc_id": network.vpc_id,
        "nat_addresses": list(network.nat_addresses_by_gateway),
    }
    if "keep_data" in args:
        told["keep_data"] = args["keep_data"]
    _tell_around(told, ground, args)
    return WorkspaceService(f"{ground.name}-service", told, ground.child(pulumi.ResourceOptions(providers=speaking)))


def create_storage_metering(
    ground: Ground, args: "EnvironmentArgs", needed: Sequence[pulumi.Resource], speaking: list[pulumi.ProviderResource]
) -> StorageMetering | None:
    """What looks how large homes are, where there are some and the service that accounts for them."""
    if not args.get("settings") or not folders(read_settings(ArgumentReader("environment", args))):
        return None
    told: StorageMeteringArgs = {
        "ownership": args["ownership"],
        "settings": args.get("settings") or {},
        "issuer_url": ground.cluster.issuer_url,
        "issuer_arn": ground.cluster.issuer_arn,
        "file_system_ids": ground.file_system_ids,
    }
    if "permissions_boundary" in args:
        told["permissions_boundary"] = args["permissions_boundary"]
    after = pulumi.ResourceOptions(depends_on=list(needed), providers=speaking)
    return StorageMetering(f"{ground.name}-storage-metering", told, ground.child(after))
