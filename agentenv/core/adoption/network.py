"""A VPC that stands already, with its subnets."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agentenv.core.adoption.problem import Shortcoming
from agentenv.core.nodes.node_pools import DISCOVERY_TAG

# EKS asks for six in each subnet that its own interfaces are in, and for as many again when it updates them.
LEAST_FREE = 6
AVAILABLE = "available"
BALANCERS = {"private": "kubernetes.io/role/internal-elb", "public": "kubernetes.io/role/elb"}


@dataclass(frozen=True)
class FoundVpc:
    """What there is to know of a VPC."""

    id: str
    state: str
    dns_support: bool
    dns_hostnames: bool


@dataclass(frozen=True)
class FoundSubnet:
    """What there is to know of a subnet."""

    id: str
    vpc_id: str
    zone: str
    free: int
    public_addresses: bool
    tags: Mapping[str, str]


def network_shortcomings(
    vpc: FoundVpc,
    private: Sequence[FoundSubnet],
    public: Sequence[FoundSubnet],
    discovered: Collection[str],
    cluster: str,
) -> list[Shortcoming]:
    """What keeps an environment with that cluster out of a VPC; `discovered` are the subnets that its nodes find."""
    return [
        *_of_vpc(vpc),
        *(wrong for one in private for wrong in _of_private(one, vpc, cluster)),
        *(wrong for one in public for wrong in _of_public(one, vpc)),
        *_zones(private),
        *_strangers(private, discovered, cluster),
    ]


def _of_vpc(vpc: FoundVpc) -> Iterator[Shortcoming]:
    if vpc.state != AVAILABLE:
        yield Shortcoming(vpc.id, f"is {vpc.state}", "wait until it is available, or name another")
    for word, attribute, on in (
        ("DNS support", "enable-dns-support", vpc.dns_support),
        ("DNS host names", "enable-dns-hostnames", vpc.dns_hostnames),
    ):
        if not on:
            yield Shortcoming(
                vpc.id,
                f"has no {word}, and nodes find neither the cluster nor their files without",
                f"aws ec2 modify-vpc-attribute --vpc-id {vpc.id} --{attribute}",
            )


def _of_private(one: FoundSubnet, vpc: FoundVpc, cluster: str) -> Iterator[Shortcoming]:
    yield from _belongs(one, vpc)
    found = one.tags.get(DISCOVERY_TAG)
    if found != cluster:
        has = f"has {DISCOVERY_TAG}={found}, which is another cluster's" if found else f"has no tag {DISCOVERY_TAG}"
        yield Shortcoming(one.id, f"{has}, and nodes find their subnets by it", _tag(one.id, DISCOVERY_TAG, cluster))
    if BALANCERS["private"] not in one.tags:
        yield Shortcoming(
            one.id,
            f"has no tag {BALANCERS['private']}, and load balancers inside the VPC find no place",
            _tag(one.id, BALANCERS["private"], "1"),
        )
    if one.public_addresses:
        yield Shortcoming(
            one.id,
            "gives every interface a public address, and nodes belong in a private one",
            f"aws ec2 modify-subnet-attribute --subnet-id {one.id} --no-map-public-ip-on-launch, or name another",
        )
    if one.free < LEAST_FREE:
        yield Shortcoming(
            one.id, f"has {one.free} free addresses, and EKS takes {LEAST_FREE}", "free some, or name a larger one"
        )


def _of_public(one: FoundSubnet, vpc: FoundVpc) -> Iterator[Shortcoming]:
    yield from _belongs(one, vpc)
    if BALANCERS["public"] not in one.tags:
        yield Shortcoming(
            one.id,
            f"has no tag {BALANCERS['public']}, and public load balancers find no place",
            _tag(one.id, BALANCERS["public"], "1"),
        )


def _belongs(one: FoundSubnet, vpc: FoundVpc) -> Iterator[Shortcoming]:
    if one.vpc_id != vpc.id:
        yield Shortcoming(one.id, f"is in {one.vpc_id} and not in {vpc.id}", "name subnets of one VPC")


def _zones(private: Sequence[FoundSubnet]) -> Iterator[Shortcoming]:
    seen: dict[str, str] = {}
    for one in private:
        if one.zone in seen:
            yield Shortcoming(
                one.id,
                f"is in {one.zone}, where {seen[one.zone]} is already",
                "name one private subnet a zone: a file system has one mount target in each",
            )
        seen.setdefault(one.zone, one.id)


def _strangers(private: Sequence[FoundSubnet], discovered: Collection[str], cluster: str) -> Iterator[Shortcoming]:
    named = {one.id for one in private}
    for stranger in sorted(set(discovered) - named):
        yield Shortcoming(
            stranger,
            f"has the tag {DISCOVERY_TAG}={cluster} and is not among the private subnets, so nodes would land in it",
            f"add it to them, or aws ec2 delete-tags --resources {stranger} --tags Key={DISCOVERY_TAG}",
        )


def _tag(id_: str, key: str, value: str) -> str:
    return f"aws ec2 create-tags --resources {id_} --tags Key={key},Value={value}"
