"""Existing resources to adopt: how they are read through the provider, and the checks that they must pass.

They are read with synchronous invokes while the program runs. So a resource that cannot be adopted ends the program
before anything is registered, and the number and names of resources do not depend on an output.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pulumi
from pulumi_aws import ec2, efs, eks

from agentenv.components._lib.arguments import ArgumentError
from agentenv.config import Settings
from agentenv.config.sections.network import ExistingNetwork
from agentenv.core.adoption import AdoptionProblem
from agentenv.core.adoption.cluster import FoundCluster, cluster_problems
from agentenv.core.adoption.file_systems import FoundFileSystem, file_system_problems
from agentenv.core.adoption.network import AVAILABLE, FoundSubnet, FoundVpc, network_problems
from agentenv.core.capabilities.grants import RefusedGrantError
from agentenv.core.nodes.node_pools import DISCOVERY_TAG
from agentenv.core.plan import ExistingRanges, Plan

T = TypeVar("T")

# States of a VPC's CIDR block in which its addresses may be in use.
IN_USE_STATES = ("associating", "associated", "disassociating")


class ExistingError(pulumi.RunError):
    """Existing resources that cannot be adopted: all shortcomings at once, each with a fix."""

    def __init__(self, problems: Sequence[AdoptionProblem]) -> None:
        lines = "\n".join(f"  {problem}" for problem in problems)
        super().__init__(f"existing resources cannot be adopted as they are:\n{lines}")


@dataclass(frozen=True)
class ExistingNetworkFacts:
    """The facts of an existing VPC."""

    cidr: str
    cidrs: Sequence[str]  # all CIDR blocks in use, with the primary one
    zones: Sequence[str]


@dataclass(frozen=True)
class ExistingClusterFacts:
    """The facts of an existing cluster."""

    arn: str
    endpoint: str
    authority: str
    security_group_id: str
    issuer: str
    vpc_id: str
    service_cidr: str


@dataclass(frozen=True)
class ExistingFileSystemFacts:
    """The facts of existing file systems."""

    arns: Sequence[str]
    dns_names: Sequence[str]
    key_arns: Sequence[str]


def adopted(value: T | None, path: str) -> T:
    """Return an existing resource of the settings; raise an error if they name none."""
    if not value:
        raise ArgumentError(path, "nothing", "the existing resource to adopt")
    return value


def read_network(existing: ExistingNetwork, cluster: str, invoke_options: pulumi.InvokeOptions) -> ExistingNetworkFacts:
    """Return the facts of the VPC; raise with every reason why a cluster of that name cannot use it."""
    # The state of a VPC is a filter of the function and not among its results.
    vpc = _invoke(
        existing.vpc_id,
        lambda: ec2.get_vpc(id=existing.vpc_id, state=AVAILABLE, opts=invoke_options),
        problem="cannot be read as an available VPC",
        fix="wait until it is available, or name one of this account and region",
    )
    filters: Any = [{"name": f"tag:{DISCOVERY_TAG}", "values": [cluster]}]
    discovered = _invoke("its subnets", lambda: ec2.get_subnets(filters=filters, opts=invoke_options))
    private = [_subnet(id_, invoke_options) for id_ in existing.private_subnet_ids]
    public = [_subnet(id_, invoke_options) for id_ in existing.public_subnet_ids]
    facts = FoundVpc(vpc.id, AVAILABLE, vpc.enable_dns_support, vpc.enable_dns_hostnames)
    _raise_problems(network_problems(facts, private, public, discovered.ids, cluster))
    ranges = [block.cidr_block for block in vpc.cidr_block_associations or [] if block.state in IN_USE_STATES]
    return ExistingNetworkFacts(vpc.cidr_block, ranges or [vpc.cidr_block], [subnet.zone for subnet in private])


def read_cluster(
    name: str, version: str, vpc_id: str | None, invoke_options: pulumi.InvokeOptions
) -> ExistingClusterFacts:
    """Return the facts of the cluster; raise with every reason why it cannot be adopted."""
    cluster = _invoke(f"cluster {name}", lambda: eks.get_cluster(name=name, opts=invoke_options))
    vpc = cluster.vpc_config
    issuer = next((oidc.issuer for identity in cluster.identities for oidc in identity.oidcs), "")
    facts = FoundCluster(
        name,
        cluster.status,
        cluster.version,
        next((access.authentication_mode for access in cluster.access_configs), ""),
        vpc.vpc_id,
        bool(vpc.endpoint_private_access),
        issuer,
    )
    _raise_problems(cluster_problems(facts, version, vpc_id))
    authority = cluster.certificate_authorities[0].data
    services = next((network.service_ipv4_cidr for network in cluster.kubernetes_network_configs or []), "")
    return ExistingClusterFacts(
        cluster.arn, cluster.endpoint, authority, vpc.cluster_security_group_id, issuer, vpc.vpc_id, services
    )


def read_file_systems(ids: Sequence[str], invoke_options: pulumi.InvokeOptions) -> ExistingFileSystemFacts:
    """Return the facts of the file systems; raise with every reason why they cannot be adopted.

    No function of the provider returns their policies and mount targets; `agentenv preflight` reads these from AWS.
    """
    file_systems = [
        _invoke(id_, lambda id_=id_: efs.get_file_system(file_system_id=id_, opts=invoke_options)) for id_ in ids
    ]
    systems = [
        FoundFileSystem(each.file_system_id, each.encrypted, each.availability_zone_name or "", each.performance_mode)
        for each in file_systems
    ]
    _raise_problems([problem for system in systems for problem in file_system_problems(system)])
    return ExistingFileSystemFacts(
        [each.arn for each in file_systems],
        [each.dns_name for each in file_systems],
        [each.kms_key_id for each in file_systems],
    )


def _read_existing(settings: Settings, invoke_options: pulumi.InvokeOptions) -> ExistingRanges:
    """Check every existing resource, and return the ranges that network rules of sandboxes must exclude."""
    network, cluster = settings.network.existing, settings.cluster
    network_facts = read_network(network, settings.cluster_name, invoke_options) if network else None
    cluster_facts = None
    if cluster.existing is not None:
        vpc_id = network.vpc_id if network else None
        cluster_facts = read_cluster(cluster.existing, cluster.version, vpc_id, invoke_options)
    if settings.storage.existing:
        read_file_systems(settings.storage.existing, invoke_options)
    return ExistingRanges(
        tuple(network_facts.cidrs) if network_facts else (), cluster_facts.service_cidr if cluster_facts else ""
    )


def plan_with_existing(plan: Plan, invoke_options: pulumi.InvokeOptions) -> Plan:
    """Check every existing resource, and return the plan with the address ranges of the adopted ones."""
    try:
        return plan.with_existing(_read_existing(plan.settings, invoke_options))
    except RefusedGrantError as error:
        raise ExistingError([AdoptionProblem("its address range", f"excludes {error.found}", error.hint)]) from None


def _invoke(
    resource: str, function: Callable[[], T], *, problem: str = "cannot be read", fix: str = "name one that is there"
) -> T:
    """Return the result of a provider function; raise its error as a shortcoming of the resource."""
    try:
        return function()
    except Exception as error:  # noqa: BLE001 - the engine raises nothing more exact
        # The official provider lists its errors, one per line.
        message = " ".join(str(error).rpartition("returned an error: ")[2].split()).rstrip(".")
        raise ExistingError([AdoptionProblem(resource, f"{problem}: {message}", fix)]) from None


def _subnet(id_: str, invoke_options: pulumi.InvokeOptions) -> FoundSubnet:
    subnet = _invoke(id_, lambda: ec2.get_subnet(id=id_, opts=invoke_options))
    return FoundSubnet(
        subnet.id,
        subnet.vpc_id,
        subnet.availability_zone,
        int(subnet.available_ip_address_count),
        subnet.map_public_ip_on_launch,
        subnet.tags or {},
    )


def _raise_problems(problems: Sequence[AdoptionProblem]) -> None:
    if problems:
        raise ExistingError(problems)
