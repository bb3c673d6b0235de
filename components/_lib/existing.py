"""Existing resources to adopt: their arguments, how they are read through the provider, and the checks they must pass.

They are read with synchronous invokes while the program runs. So a resource that cannot be adopted ends the program
before anything is registered, and the number and names of resources do not depend on an output.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict, TypeVar

import pulumi
from pulumi_aws import ec2, efs, eks

from agentenv.components._lib.arguments import ArgumentError, ArgumentReader
from agentenv.core.adoption import AdoptionProblem
from agentenv.core.adoption.cluster import FoundCluster, cluster_problems
from agentenv.core.adoption.file_systems import FoundFileSystem, file_system_problems
from agentenv.core.adoption.network import AVAILABLE, FoundSubnet, FoundVpc, network_problems
from agentenv.core.nodes.node_pools import DISCOVERY_TAG

T = TypeVar("T")

# States of a VPC's CIDR block in which its addresses may be in use.
IN_USE_STATES = ("associating", "associated", "disassociating")


class ExistingNetwork(TypedDict):
    """An existing VPC."""

    vpc_id: str
    """The VPC."""

    private_subnet_ids: list[str]
    """Its private subnets, one per zone, in an order that must not change afterwards."""

    public_subnet_ids: NotRequired[list[str]]
    """Its public subnets, for load balancers."""


class ExistingFileSystems(TypedDict):
    """Existing EFS file systems."""

    ids: list[str]
    """The file systems, by shard."""

    mount_group_id: NotRequired[str]
    """The security group of their mount targets. If it is not set, mount targets are created."""


class Existing(TypedDict):
    """The existing resources that an environment adopts. All others are created."""

    network: NotRequired[ExistingNetwork]
    """The VPC."""

    cluster: NotRequired[bool]
    """Whether the cluster of that name exists. Default: false."""

    file_systems: NotRequired[ExistingFileSystems]
    """The file systems of homes."""


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


def network_arguments(reader: ArgumentReader) -> ExistingNetwork:
    """Return the arguments of an existing VPC, which must have at least two private subnets."""
    private = reader.texts("private_subnet_ids")
    if len(private) < 2:
        raise ArgumentError(f"{reader.path}.private_subnet_ids", f"{len(private)}", "subnets in at least two zones")
    return {
        "vpc_id": reader.text("vpc_id"),
        "private_subnet_ids": private,
        "public_subnet_ids": reader.texts("public_subnet_ids"),
    }


def file_system_arguments(reader: ArgumentReader) -> ExistingFileSystems:
    """Return the arguments of existing file systems, at least one."""
    existing_args: ExistingFileSystems = {"ids": reader.texts("ids")}
    if not existing_args["ids"]:
        raise ArgumentError(f"{reader.path}.ids", "an empty list", "ids of file systems")
    if reader.has("mount_group_id"):
        existing_args["mount_group_id"] = reader.text("mount_group_id")
    return existing_args


def existing_arguments(reader: ArgumentReader) -> Existing:
    """Return the `existing` argument, checked."""
    if not reader.has("existing"):
        return {}
    existing_args = reader.part("existing", Existing)
    existing: Existing = {}
    if existing_args.has("network"):
        existing["network"] = network_arguments(existing_args.part("network", ExistingNetwork))
    if existing_args.flag("cluster", default=False):
        existing["cluster"] = True
    if existing_args.has("file_systems"):
        existing["file_systems"] = file_system_arguments(existing_args.part("file_systems", ExistingFileSystems))
    return existing


def read_network(
    existing_args: ExistingNetwork, cluster: str, invoke_options: pulumi.InvokeOptions
) -> ExistingNetworkFacts:
    """Return the facts of the VPC; raise with every reason why a cluster of that name cannot use it."""
    # The state of a VPC is a filter of the function and not among its results.
    vpc = _invoke(
        existing_args["vpc_id"],
        lambda: ec2.get_vpc(id=existing_args["vpc_id"], state=AVAILABLE, opts=invoke_options),
        problem="cannot be read as an available VPC",
        fix="wait until it is available, or name one of this account and region",
    )
    filters: Any = [{"name": f"tag:{DISCOVERY_TAG}", "values": [cluster]}]
    discovered = _invoke("its subnets", lambda: ec2.get_subnets(filters=filters, opts=invoke_options))
    private = [_subnet(id_, invoke_options) for id_ in existing_args["private_subnet_ids"]]
    public = [_subnet(id_, invoke_options) for id_ in existing_args.get("public_subnet_ids") or []]
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


def read_file_systems(
    existing_args: ExistingFileSystems, invoke_options: pulumi.InvokeOptions
) -> ExistingFileSystemFacts:
    """Return the facts of the file systems; raise with every reason why they cannot be adopted.

    No function of the provider returns their policies and mount targets; `agentenv preflight` reads these from AWS.
    """
    file_systems = [
        _invoke(id_, lambda id_=id_: efs.get_file_system(file_system_id=id_, opts=invoke_options))
        for id_ in existing_args["ids"]
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


@dataclass(frozen=True)
class ExistingRanges:
    """The address ranges of adopted resources; empty where the environment creates its own."""

    vpc_cidrs: Sequence[str] = ()
    service_cidr: str = ""


def read_existing(
    existing: Existing, cluster: str, version: str, invoke_options: pulumi.InvokeOptions
) -> ExistingRanges:
    """Check every existing resource, and return the ranges that network rules of sandboxes must exclude."""
    network, files = existing.get("network"), existing.get("file_systems")
    network_facts = read_network(network, cluster, invoke_options) if network is not None else None
    cluster_facts = None
    if existing.get("cluster"):
        cluster_facts = read_cluster(cluster, version, network["vpc_id"] if network else None, invoke_options)
    if files is not None:
        read_file_systems(files, invoke_options)
    return ExistingRanges(
        network_facts.cidrs if network_facts else (), cluster_facts.service_cidr if cluster_facts else ""
    )


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
