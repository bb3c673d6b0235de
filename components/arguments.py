"""Converts settings to component arguments; the only path from a stack file to the components."""

from agentenv.components._lib.existing import Existing
from agentenv.components._lib.tags import Ownership
from agentenv.components.environment import EnvironmentArgs
from agentenv.components.metering_arguments import metering_layout
from agentenv.components.network.network import NetworkLayout
from agentenv.components.platform_arguments import (
    capacity_demands,
    capacity_headroom,
    capacity_layout,
    capacity_mirrors,
    cluster_layout,
    cost_layout,
    fargate_classes,
    sandbox_controller,
    seat_layouts,
)
from agentenv.components.settings_argument import to_argument
from agentenv.components.storage.storage import StorageLayout
from agentenv.config import Settings
from agentenv.config.sections.network import Network
from agentenv.config.sections.storage import Storage


def environment_args(settings: Settings) -> EnvironmentArgs:
    """Return the arguments of the environment that the settings describe."""
    args: EnvironmentArgs = {
        "ownership": _ownership(settings),
        "network": _network(settings.network),
        "cluster": cluster_layout(settings.cluster),
        "capacity": capacity_layout(settings),
        "storage": _storage(settings.storage),
        "demands": capacity_demands(settings),
        "headroom": capacity_headroom(settings),
        "mirrors": capacity_mirrors(settings),
        "sandbox_controller": sandbox_controller(settings),
        "cluster_name": settings.cluster_name,
        "settings": to_argument(settings),
        "workspaces": seat_layouts(settings),
        "keep_data": settings.protect,
        "deletion_protection": settings.cluster.deletion_protection,
    }
    if costs := cost_layout(settings.cost):
        args["costs"] = costs
    if classes := fargate_classes(settings):
        args["fargate_classes"] = classes
    if settings.cost.dashboards:
        args["metering"] = metering_layout(settings)
    if settings.cluster.permissions_boundary is not None:
        args["permissions_boundary"] = settings.cluster.permissions_boundary
    if existing := _existing(settings):
        args["existing"] = existing
    return args


def _existing(settings: Settings) -> Existing:
    """Return the existing resources that the stack file names."""
    existing: Existing = {}
    if (network := settings.network.existing) is not None:
        existing["network"] = {
            "vpc_id": network.vpc_id,
            "private_subnet_ids": list(network.private_subnet_ids),
            "public_subnet_ids": list(network.public_subnet_ids),
        }
    if settings.cluster.existing is not None:
        existing["cluster"] = True
    if settings.storage.existing:
        existing["file_systems"] = {"ids": list(settings.storage.existing)}
        if settings.storage.mount_group is not None:
            existing["file_systems"]["mount_group_id"] = settings.storage.mount_group
    return existing


def _ownership(settings: Settings) -> Ownership:
    return {
        "environment": settings.environment,
        "owner": settings.cost.owner,
        "cost_center": settings.cost.cost_center,
        "tags": {tag.key: tag.value for tag in settings.cost.tags},
    }


def _network(network: Network) -> NetworkLayout:
    layout: NetworkLayout = {
        "cidr": str(network.cidr),
        "nat": network.nat,
        "endpoints": list(network.endpoints),
        "flow_log_days": network.flow_log_days,
        "flow_log_traffic": network.flow_log_traffic,
    }
    if isinstance(network.zones, int):
        layout["zones"] = network.zones
    else:
        layout["zone_names"] = list(network.zones)
    return layout


def _storage(storage: Storage) -> StorageLayout:
    layout: StorageLayout = {
        "file_systems": storage.file_systems,
        "throughput": storage.throughput,
        "infrequent_after_days": _days(storage.infrequent_access_after),
        "archive_after_days": _days(storage.archive_after),
        "back_on_access": storage.back_on_access,
        "backups": storage.backup,
    }
    if storage.provisioned_mibps is not None:
        layout["provisioned_mibps"] = storage.provisioned_mibps
    if storage.kms_key is not None:
        layout["key_arn"] = storage.kms_key
    return layout


def _days(transition: str) -> int:
    return 0 if transition == "never" else int(transition.removesuffix("d"))
