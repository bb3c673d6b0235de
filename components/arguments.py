"""From settings to arguments: the one way from what a stack file says to what components are made from."""

from components.environment import EnvironmentArgs
from components.network import NetworkLayout
from components.ownership import Ownership
from components.platform_arguments import capacity_demands, capacity_headroom, capacity_layout, cluster_layout
from components.storage import StorageLayout
from model.settings import Mistakes, Settings
from model.settings.mistakes import Mistake, mistake_at
from model.settings.network import Network
from model.settings.storage import Storage


def environment_args(settings: Settings) -> EnvironmentArgs:
    """The arguments of the environment that the settings describe; `Mistakes` for what no component can do."""
    mistakes = _beyond_us(settings)
    if mistakes:
        raise Mistakes(mistakes)
    told: EnvironmentArgs = {
        "ownership": _ownership(settings),
        "network": _network(settings.network),
        "cluster": cluster_layout(settings.cluster),
        "capacity": capacity_layout(settings),
        "storage": _storage(settings.storage),
        "demands": capacity_demands(settings),
        "headroom": capacity_headroom(settings),
        "cluster_name": settings.cluster_name,
        "keep_data": settings.protect,
        "deletion_protection": settings.cluster.deletion_protection,
    }
    if settings.cluster.permissions_boundary is not None:
        told["permissions_boundary"] = settings.cluster.permissions_boundary
    return told


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


def _beyond_us(settings: Settings) -> list[Mistake]:
    """What the settings can say and no component can do yet.

    To make a second network beside the one that somebody wanted used would be worse than to refuse.
    """
    adopted = {
        ("network", "existing"): settings.network.existing,
        ("storage", "existing"): settings.storage.existing,
    }
    return [
        mistake_at(place, "something that stands already", "nothing: it is made here", "leave it out")
        for place, found in adopted.items()
        if found
    ]
