"""Refusals of what is said of things that stand already: they are used as they are, and not shaped."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from agentenv.config.constraints.constraint import Finding, Row

if TYPE_CHECKING:
    from agentenv.config.sections.base import Section
    from agentenv.config.settings import Settings

# What shapes a thing where it is made. What stays says how the environment uses it.
_OF_NETWORKS = frozenset({"cidr", "zones", "endpoints", "flow_log_days", "flow_log_traffic"})
_OF_CLUSTERS = frozenset(
    {
        *("support_policy", "public_access_cidrs", "service_cidr", "log_days"),
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


def _shaped(section: Section, name: str, words: Collection[str]) -> Iterator[Finding]:
    """Settings of a section that were written down and have nothing to shape."""
    for word in sorted(section.model_fields_set & set(words)):
        alias = type(section).model_fields[word].alias or word
        yield Finding((name, alias), f"{alias} of something that stands", also=((name, "existing"),))


def _shaped_network(settings: Settings) -> Iterator[Finding]:
    if settings.network.existing is not None:
        yield from _shaped(settings.network, "network", _OF_NETWORKS)


def _shaped_cluster(settings: Settings) -> Iterator[Finding]:
    if settings.cluster.existing is not None:
        yield from _shaped(settings.cluster, "cluster", _OF_CLUSTERS)


def _shaped_files(settings: Settings) -> Iterator[Finding]:
    if settings.storage.existing:
        yield from _shaped(settings.storage, "storage", _OF_FILE_SYSTEMS)


def _named_twice(settings: Settings) -> Iterator[Finding]:
    if settings.cluster.existing is not None and settings.cluster.name is not None:
        yield Finding(("cluster", "name"), f"'{settings.cluster.name}' beside an existing cluster", also=(_CLUSTER,))


def _cluster_alone(settings: Settings) -> Iterator[Finding]:
    if settings.cluster.existing is not None and settings.network.existing is None:
        yield Finding(_CLUSTER, f"'{settings.cluster.existing}' with a VPC that is made", also=(_NETWORK,))


def _subnets_twice(settings: Settings) -> Iterator[Finding]:
    if settings.network.existing is not None:
        named = settings.network.existing
        both = (*named.private_subnet_ids, *named.public_subnet_ids)
        for id_ in sorted({one for one in both if both.count(one) > 1}):
            yield Finding(_NETWORK, f"{id_} more than once")


def _group_of_nothing(settings: Settings) -> Iterator[Finding]:
    place = ("storage", "mountGroup")
    if settings.storage.mount_group is not None:
        if not settings.storage.existing:
            yield Finding(place, "a group of mount targets that are made", also=(_FILES,))
        elif settings.network.existing is None:
            found = "mount targets that stand already, with a VPC that is made"
            yield Finding(place, found, "name their VPC in network.existing, or leave it out", (_NETWORK,))


ROWS = (
    Row(
        "existing-network-shaped",
        "a VPC that stands already is used as it is, and its owner decides what it is like",
        "network.existing without what shapes a VPC",
        "drop it; zones and ranges follow from the subnets",
        _shaped_network,
    ),
    Row(
        "existing-cluster-shaped",
        "a cluster that stands already is used as it is, and its owner decides who gets in",
        "cluster.existing without what shapes a cluster",
        "drop it, and say it to the cluster's owner",
        _shaped_cluster,
    ),
    Row(
        "existing-file-systems-shaped",
        "a file system that stands already keeps its throughput, lifecycle, backup and key",
        "storage.existing without what shapes a file system",
        "drop it, and set it on the file system",
        _shaped_files,
    ),
    Row(
        "cluster-named-twice",
        "a cluster that stands already has its name",
        "either name or existing",
        "drop name",
        _named_twice,
    ),
    Row(
        "existing-cluster-without-network",
        "a cluster stays in the VPC that it was made in, and its nodes and files have to be there too",
        "cluster.existing with the network.existing that it is in",
        "name its VPC and subnets in network.existing",
        _cluster_alone,
    ),
    Row(
        "existing-subnet-twice",
        "a subnet is private or public, and has one part to play",
        "each subnet once",
        "drop it from one of the lists",
        _subnets_twice,
    ),
    Row(
        "mount-group-without-targets",
        "the group says where existing file systems are mounted already, and those that are made get one of their own",
        "mountGroup with storage.existing and network.existing",
        "drop it",
        _group_of_nothing,
    ),
)
