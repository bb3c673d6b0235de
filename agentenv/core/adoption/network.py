"""Checks of an existing VPC and of its subnets."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agentenv.core.adoption import AdoptionProblem
from agentenv.core.nodes.node_pools import DISCOVERY_TAG

# EKS needs six free addresses in each subnet of its interfaces, also during updates.
MIN_FREE_ADDRESSES = 6
AVAILABLE = "available"
BALANCERS = {"private": "kubernetes.io/role/internal-elb", "public": "kubernetes.io/role/elb"}


@dataclass(frozen=True)
class FoundVpc:
    """The attributes of an existing VPC."""

    id: str
    state: str
    dns_support: bool
    dns_hostnames: bool


@dataclass(frozen=True)
class FoundSubnet:
    """The attributes of an existing subnet."""

    id: str
    vpc_id: str
    zone: str
    free: int
    public_addresses: bool
    tags: Mapping[str, str]


def network_problems(
    vpc: FoundVpc,
    private: Sequence[FoundSubnet],
    public: Sequence[FoundSubnet],
    discovered: Collection[str],
    cluster: str,
) -> list[AdoptionProblem]:
    """Return the problems of a VPC and its subnets; `discovered` are the ids of subnets with the cluster's tag."""
    return [
        *_vpc_problems(vpc),
        *(problem for subnet in private for problem in _private_problems(subnet, vpc, cluster)),
        *(problem for subnet in public for problem in _public_problems(subnet, vpc)),
        *_duplicate_zones(private),
        *_unlisted_subnets(private, discovered, cluster),
    ]


def _vpc_problems(vpc: FoundVpc) -> Iterator[AdoptionProblem]:
    if vpc.state != AVAILABLE:
        yield AdoptionProblem(vpc.id, f"is {vpc.state}", "wait until it is available, or use another VPC")
    for word, attribute, on in (
        ("DNS support", "enable-dns-support", vpc.dns_support),
        ("DNS host names", "enable-dns-hostnames", vpc.dns_hostnames),
    ):
        if not on:
            yield AdoptionProblem(
                vpc.id,
                f"has no {word}, which nodes need to resolve the cluster and the file systems",
                f"aws ec2 modify-vpc-attribute --vpc-id {vpc.id} --{attribute}",
            )


def _private_problems(subnet: FoundSubnet, vpc: FoundVpc, cluster: str) -> Iterator[AdoptionProblem]:
    yield from _vpc_mismatch(subnet, vpc)
    tag = subnet.tags.get(DISCOVERY_TAG)
    if tag != cluster:
        mismatch = f"has {DISCOVERY_TAG}={tag}, which is another cluster's" if tag else f"has no tag {DISCOVERY_TAG}"
        yield AdoptionProblem(
            subnet.id, f"{mismatch}, by which Karpenter discovers subnets", _tag(subnet.id, DISCOVERY_TAG, cluster)
        )
    if BALANCERS["private"] not in subnet.tags:
        yield AdoptionProblem(
            subnet.id,
            f"has no tag {BALANCERS['private']}, which internal load balancers need",
            _tag(subnet.id, BALANCERS["private"], "1"),
        )
    if subnet.public_addresses:
        yield AdoptionProblem(
            subnet.id,
            "assigns public addresses, and nodes must be in private subnets",
            f"aws ec2 modify-subnet-attribute --subnet-id {subnet.id} --no-map-public-ip-on-launch, or use another",
        )
    if subnet.free < MIN_FREE_ADDRESSES:
        yield AdoptionProblem(
            subnet.id,
            f"has {subnet.free} free addresses, and EKS needs {MIN_FREE_ADDRESSES}",
            "free some, or use a larger subnet",
        )


def _public_problems(subnet: FoundSubnet, vpc: FoundVpc) -> Iterator[AdoptionProblem]:
    yield from _vpc_mismatch(subnet, vpc)
    if BALANCERS["public"] not in subnet.tags:
        yield AdoptionProblem(
            subnet.id,
            f"has no tag {BALANCERS['public']}, which public load balancers need",
            _tag(subnet.id, BALANCERS["public"], "1"),
        )


def _vpc_mismatch(subnet: FoundSubnet, vpc: FoundVpc) -> Iterator[AdoptionProblem]:
    if subnet.vpc_id != vpc.id:
        yield AdoptionProblem(subnet.id, f"is in {subnet.vpc_id} and not in {vpc.id}", "use subnets of one VPC")


def _duplicate_zones(private: Sequence[FoundSubnet]) -> Iterator[AdoptionProblem]:
    seen: dict[str, str] = {}
    for subnet in private:
        if subnet.zone in seen:
            yield AdoptionProblem(
                subnet.id,
                f"is in {subnet.zone}, like {seen[subnet.zone]}",
                "use one private subnet in each zone: a file system has one mount target in each",
            )
        seen.setdefault(subnet.zone, subnet.id)


def _unlisted_subnets(
    private: Sequence[FoundSubnet], discovered: Collection[str], cluster: str
) -> Iterator[AdoptionProblem]:
    named = {subnet.id for subnet in private}
    for subnet_id in sorted(set(discovered) - named):
        yield AdoptionProblem(
            subnet_id,
            f"has the tag {DISCOVERY_TAG}={cluster} and is not a private subnet of the settings, so nodes may use it",
            f"add it to them, or aws ec2 delete-tags --resources {subnet_id} --tags Key={DISCOVERY_TAG}",
        )


def _tag(id_: str, key: str, value: str) -> str:
    return f"aws ec2 create-tags --resources {id_} --tags Key={key},Value={value}"
