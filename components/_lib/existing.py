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

    def __init__(self, wrong: Sequence[AdoptionProblem]) -> None:
        lines = "\n".join(f"  {one}" for one in wrong)
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
    named: ExistingFileSystems = {"ids": reader.texts("ids")}
    if not named["ids"]:
        raise ArgumentError(f"{reader.path}.ids", "an empty list", "ids of file systems")
    if reader.has("mount_group_id"):
        named["mount_group_id"] = reader.text("mount_group_id")
    return named


def existing_arguments(reader: ArgumentReader) -> Existing:
    """Return the `existing` argument, checked."""
    if not reader.has("existing"):
        return {}
    named = reader.part("existing", Existing)
    existing: Existing = {}
    if named.has("network"):
        existing["network"] = network_arguments(named.part("network", ExistingNetwork))
    if named.flag("cluster", default=False):
        existing["cluster"] = True
    if named.has("file_systems"):
        existing["file_systems"] = file_system_arguments(named.part("file_systems", ExistingFileSystems))
    return existing


def read_network(named: ExistingNetwork, cluster: str, asked: pulumi.InvokeOptions) -> ExistingNetworkFacts:
    """Return the facts of the VPC; raise with every reason why a cluster of that name cannot use it."""
    # The state of a VPC is a filter of the function and not among its results.
    vpc = _answer(
        named["vpc_id"],
        lambda: ec2.get_vpc(id=named["vpc_id"], state=AVAILABLE, opts=asked),
        lack="cannot be read as an available VPC",
        way_out="wait until it is available, or name one of this account and region",
    )
    tagged: Any = [{"name": f"tag:{DISCOVERY_TAG}", "values": [cluster]}]
    discovered = _answer("its subnets", lambda: ec2.get_subnets(filters=tagged, opts=asked))
    private = [_subnet(id_, asked) for id_ in named["private_subnet_ids"]]
    public = [_subnet(id_, asked) for id_ in named.get("public_subnet_ids") or []]
    known = FoundVpc(vpc.id, AVAILABLE, vpc.enable_dns_support, vpc.enable_dns_hostnames)
    _refuse(network_problems(known, private, public, discovered.ids, cluster))
    ranges = [one.cidr_block for one in vpc.cidr_block_associations or [] if one.state in IN_USE_STATES]
    return ExistingNetworkFacts(vpc.cidr_block, ranges or [vpc.cidr_block], [one.zone for one in private])


def read_cluster(name: str, version: str, vpc_id: str | None, asked: pulumi.InvokeOptions) -> ExistingClusterFacts:
    """Return the facts of the cluster; raise with every reason why it cannot be adopted."""
    found = _answer(f"cluster {name}", lambda: eks.get_cluster(name=name, opts=asked))
    vpc = found.vpc_config
    issuer = next((oidc.issuer for one in found.identities for oidc in one.oidcs), "")
    known = FoundCluster(
        name,
        found.status,
        found.version,
        next((one.authentication_mode for one in found.access_configs), ""),
        vpc.vpc_id,
        bool(vpc.endpoint_private_access),
        issuer,
    )
    _refuse(cluster_problems(known, version, vpc_id))
    authority = found.certificate_authorities[0].data
    services = next((one.service_ipv4_cidr for one in found.kubernetes_network_configs or []), "")
    return ExistingClusterFacts(
        found.arn, found.endpoint, authority, vpc.cluster_security_group_id, issuer, vpc.vpc_id, services
    )


def read_file_systems(named: ExistingFileSystems, asked: pulumi.InvokeOptions) -> ExistingFileSystemFacts:
    """Return the facts of the file systems; raise with every reason why they cannot be adopted.

    No function of the provider returns their policies and mount targets; `agentenv preflight` reads these from AWS.
    """
    found = [_answer(id_, lambda id_=id_: efs.get_file_system(file_system_id=id_, opts=asked)) for id_ in named["ids"]]
    systems = [
        FoundFileSystem(one.file_system_id, one.encrypted, one.availability_zone_name or "", one.performance_mode)
        for one in found
    ]
    _refuse([wrong for one in systems for wrong in file_system_problems(one)])
    return ExistingFileSystemFacts(
        [one.arn for one in found], [one.dns_name for one in found], [one.kms_key_id for one in found]
    )


@dataclass(frozen=True)
class ExistingRanges:
    """The address ranges of adopted resources; empty where the environment creates its own."""

    vpc_cidrs: Sequence[str] = ()
    service_cidr: str = ""


def read_existing(existing: Existing, cluster: str, version: str, asked: pulumi.InvokeOptions) -> ExistingRanges:
    """Check every existing resource, and return the ranges that network rules of sandboxes must exclude."""
    network, files = existing.get("network"), existing.get("file_systems")
    around = read_network(network, cluster, asked) if network is not None else None
    there = None
    if existing.get("cluster"):
        there = read_cluster(cluster, version, network["vpc_id"] if network else None, asked)
    if files is not None:
        read_file_systems(files, asked)
    return ExistingRanges(around.cidrs if around else (), there.service_cidr if there else "")


def _answer(
    thing: str, ask: Callable[[], T], *, lack: str = "cannot be read", way_out: str = "name one that is there"
) -> T:
    """Return the result of a provider function; raise its error as a shortcoming of the resource."""
    try:
        return ask()
    except Exception as silence:  # noqa: BLE001 - the engine raises nothing more exact
        # The official provider lists its errors, one per line.
        told = " ".join(str(silence).rpartition("returned an error: ")[2].split()).rstrip(".")
        raise ExistingError([AdoptionProblem(thing, f"{lack}: {told}", way_out)]) from None


def _subnet(id_: str, asked: pulumi.InvokeOptions) -> FoundSubnet:
    found = _answer(id_, lambda: ec2.get_subnet(id=id_, opts=asked))
    return FoundSubnet(
        found.id,
        found.vpc_id,
        found.availability_zone,
        int(found.available_ip_address_count),
        found.map_public_ip_on_launch,
        found.tags or {},
    )


def _refuse(wrong: Sequence[AdoptionProblem]) -> None:
    if wrong:
        raise ExistingError(wrong)
