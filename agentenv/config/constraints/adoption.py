"""Constraints on adopted resources: an existing VPC, cluster or file system is used as it is and not configured."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from agentenv.config.constraints.constraint import Constraint, Finding

if TYPE_CHECKING:
    from agentenv.config.sections.base import Section
    from agentenv.config.settings import Settings

# Settings that configure a resource when it is created. The others say how the environment uses it.
_OF_NETWORKS = frozenset({"cidr", "zones", "endpoints", "flow_log_days", "flow_log_traffic", "transit_gateway"})
_OF_CLUSTERS = frozenset(
    {
        *("support_policy", "public_access_cidrs", "private_access_from", "service_cidr", "log_days"),
        *("admins", "operators", "readers", "deployers"),
    }
)
_OF_FILE_SYSTEMS = frozenset(
    {
        *("throughput", "provisioned_mibps", "infrequent_access_after", "archive_after", "back_on_access"),
        *("backup", "kms_key"),
    }
)

_NETWORK, _CLUSTER, _FILES = ("network", "existing"), ("cluster", "existing"), ("storage", "existing")


def _configured(section: Section, name: str, words: Collection[str]) -> Iterator[Finding]:
    """Yield the settings of a section that the stack file sets and that an existing resource ignores."""
    for word in sorted(section.model_fields_set & set(words)):
        alias = type(section).model_fields[word].alias or word
        yield Finding((name, alias), f"{alias} of an existing resource", also=((name, "existing"),))


def _configured_network(settings: Settings) -> Iterator[Finding]:
    if settings.network.existing is not None:
        yield from _configured(settings.network, "network", _OF_NETWORKS)


def _configured_cluster(settings: Settings) -> Iterator[Finding]:
    if settings.cluster.existing is not None:
        yield from _configured(settings.cluster, "cluster", _OF_CLUSTERS)


def _configured_file_systems(settings: Settings) -> Iterator[Finding]:
    if settings.storage.existing:
        yield from _configured(settings.storage, "storage", _OF_FILE_SYSTEMS)


def _named_twice(settings: Settings) -> Iterator[Finding]:
    if settings.cluster.existing is not None and settings.cluster.name is not None:
        yield Finding(("cluster", "name"), f"'{settings.cluster.name}' beside an existing cluster", also=(_CLUSTER,))


def _cluster_alone(settings: Settings) -> Iterator[Finding]:
    if settings.cluster.existing is not None and settings.network.existing is None:
        yield Finding(_CLUSTER, f"'{settings.cluster.existing}' with a new VPC", also=(_NETWORK,))


def _subnets_twice(settings: Settings) -> Iterator[Finding]:
    if settings.network.existing is not None:
        network = settings.network.existing
        subnet_ids = (*network.private_subnet_ids, *network.public_subnet_ids)
        for id_ in sorted({subnet_id for subnet_id in subnet_ids if subnet_ids.count(subnet_id) > 1}):
            yield Finding(_NETWORK, f"{id_} more than once")


def _mount_group_without_targets(settings: Settings) -> Iterator[Finding]:
    place = ("storage", "mountGroup")
    if settings.storage.mount_group is not None:
        if not settings.storage.existing:
            yield Finding(place, "a security group for new mount targets", also=(_FILES,))
        elif settings.network.existing is None:
            found = "existing mount targets with a new VPC"
            yield Finding(place, found, "set network.existing to their VPC, or remove mountGroup", (_NETWORK,))


CONSTRAINTS = (
    Constraint(
        "existing-network-shaped",
        "an existing VPC is used as it is, and its owner configures it",
        "network.existing without settings that configure a new VPC",
        "remove the setting; zones and ranges follow from the subnets",
        _configured_network,
    ),
    Constraint(
        "existing-cluster-shaped",
        "an existing cluster is used as it is, and its owner decides who has access",
        "cluster.existing without settings that configure a new cluster",
        "remove the setting, and configure the cluster itself",
        _configured_cluster,
    ),
    Constraint(
        "existing-file-systems-shaped",
        "an existing file system keeps its throughput, lifecycle, backup and key",
        "storage.existing without settings that configure a new file system",
        "remove the setting, and configure the file system itself",
        _configured_file_systems,
    ),
    Constraint(
        "cluster-named-twice",
        "an existing cluster already has a name",
        "either name or existing",
        "remove name",
        _named_twice,
    ),
    Constraint(
        "existing-cluster-without-network",
        "a cluster cannot leave its VPC, and its nodes and file systems must be in the same one",
        "cluster.existing with its VPC in network.existing",
        "set network.existing to its VPC and subnets",
        _cluster_alone,
    ),
    Constraint(
        "existing-subnet-twice",
        "a subnet is either private or public",
        "each subnet once",
        "remove it from one of the lists",
        _subnets_twice,
    ),
    Constraint(
        "mount-group-without-targets",
        "mountGroup is the security group of existing mount targets; new mount targets get their own",
        "mountGroup with storage.existing and network.existing",
        "remove mountGroup",
        _mount_group_without_targets,
    ),
)
