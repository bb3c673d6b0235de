"""Settings of the network: the VPC, its zones, and its ways out."""

from __future__ import annotations

import re
from ipaddress import IPv4Network
from typing import Annotated, Literal, cast

from pydantic import BeforeValidator, Field, WithJsonSchema

from agentenv.config.regions import ZONE
from agentenv.config.sections.base import LogDays, Port, Section
from agentenv.config.values import Cidr, Label, Url, wrong

InterfaceEndpoint = Literal[
    "autoscaling",
    "ec2",
    "ec2messages",
    "ecr.api",
    "ecr.dkr",
    "eks",
    "eks-auth",
    "elasticfilesystem",
    "elasticloadbalancing",
    "kms",
    "logs",
    "monitoring",
    "secretsmanager",
    "sqs",
    "ssm",
    "ssmmessages",
    "sts",
    "xray",
]

# What nodes and controllers call; without NAT there is no other way to reach it.
PLATFORM_ENDPOINTS = (
    "ec2",
    "ecr.api",
    "ecr.dkr",
    "eks",
    # Where the agent on a node gets the identities of its pods.
    "eks-auth",
    "elasticfilesystem",
    "logs",
    "sqs",
    "ssm",
    "sts",
)


def _zones(value: object) -> object:
    allowed = "2 to 6 zones, as a number or as a list of zones such as us-east-1a"
    if isinstance(value, bool) or not isinstance(value, int | tuple | list):
        raise wrong(allowed)
    if isinstance(value, int):
        if not 2 <= value <= 6:
            raise wrong(allowed, "EKS wants two zones at least" if value < 2 else "no region has more than six")
        return value
    names = tuple(cast("tuple[object, ...]", value))
    if not 2 <= len(names) <= 6:
        raise wrong(allowed, f"the list has {len(names)}")
    if not all(isinstance(name, str) and re.fullmatch(ZONE[1:-1], name) for name in names):
        raise wrong(allowed, "zones are named by their region and a letter")
    return names


Zones = Annotated[
    int | tuple[str, ...],
    BeforeValidator(_zones),
    WithJsonSchema(
        {
            "title": "2 to 6 zones, as a number or as a list of zones such as us-east-1a",
            "anyOf": [
                {"type": "integer", "minimum": 2, "maximum": 6},
                {"type": "array", "minItems": 2, "maxItems": 6, "items": {"type": "string", "pattern": ZONE}},
            ],
        }
    ),
]


class ExistingNetwork(Section):
    """A VPC that stands already, to be used and not made. Its subnets carry the tags that clusters look for."""

    vpc_id: Annotated[str, Field(title="the id of a VPC", pattern=r"^vpc-[0-9a-f]{8,17}$", description="The VPC.")]
    private_subnet_ids: Annotated[
        tuple[Annotated[str, Field(title="the id of a subnet", pattern=r"^subnet-[0-9a-f]{8,17}$")], ...],
        Field(min_length=2, description="Its private subnets, one a zone."),
    ]
    public_subnet_ids: Annotated[
        tuple[Annotated[str, Field(title="the id of a subnet", pattern=r"^subnet-[0-9a-f]{8,17}$")], ...],
        Field(description="Its public subnets, for load balancers."),
    ] = ()


class EgressProxy(Section):
    """A proxy that lets domains through by name, which no network policy can."""

    namespace: Annotated[Label, Field(description="Its namespace.")]
    app: Annotated[Label, Field(description="The value of the `app` label of its pods.")]
    port: Annotated[Port, Field(description="The port it listens on.")] = 3128


class Mirrors(Section):
    """Where copies are of what the internet has: without a way out, nothing else is reached."""

    registry: Annotated[
        str | None,
        Field(
            title="a registry of ECR, with or without a prefix",
            pattern=r"^[0-9]{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(\.cn)?(/[a-z0-9._-]{1,128}){0,4}$",
            description="The registry with the platform's images, each by its name without its own registry's, such as"
            " `…/mirror/karpenter/controller`.",
        ),
    ] = None
    files: Annotated[
        Url | None,
        Field(
            description="The address of a bucket with the runtimes that nodes install, each below its name and version,"
            " such as `…/gvisor/20261005.0/x86_64/gvisor.tar.zstd`. Nodes read it over the S3 endpoint, and without a"
            " signature."
        ),
    ] = None


class Network(Section):
    """The VPC, its zones, and its ways out."""

    cidr: Annotated[
        Cidr, Field(description="The VPC's range, /16 to /27. It cannot be changed later without replacing everything.")
    ] = IPv4Network("10.40.0.0/16")
    zones: Annotated[
        Zones,
        Field(
            description="How many zones, or which. A zone added later leaves the subnets of the others where they are."
        ),
    ] = 2
    nat: Annotated[
        Literal["none", "single", "per-zone"],
        Field(
            description="NAT gateways: `single` is the cheapest way out and fails with its zone, `per-zone` survives"
            " one, `none` needs `endpoints` for everything the platform calls."
        ),
    ] = "single"
    endpoints: Annotated[
        tuple[InterfaceEndpoint, ...],
        Field(description="Interface endpoints to make; S3 and DynamoDB always have one that costs nothing."),
    ] = ()
    flow_log_days: Annotated[LogDays, Field(description="How many days flow logs are kept.")] = 14
    flow_log_traffic: Annotated[
        Literal["all", "accepted", "rejected"], Field(description="Which traffic the flow logs record.")
    ] = "all"
    peers: Annotated[
        tuple[Cidr, ...], Field(description="Ranges this VPC will be peered or routed with; none may overlap ours.")
    ] = ()
    egress_proxy: Annotated[
        EgressProxy | None, Field(description="The proxy that enforces capabilities of kind `domain`.")
    ] = None
    mirrors: Annotated[Mirrors, Field(description="Copies to take things from instead of from the internet.")] = (
        Mirrors()
    )
    existing: Annotated[ExistingNetwork | None, Field(description="A VPC to use instead of making one.")] = None

    @property
    def zone_count(self) -> int:
        """How many zones, whichever way they were given."""
        return self.zones if isinstance(self.zones, int) else len(self.zones)
