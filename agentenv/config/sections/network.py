"""Settings of the network: the VPC, its zones, NAT, endpoints, flow logs and mirrors."""

from __future__ import annotations

import re
from ipaddress import IPv4Network
from typing import Annotated, Literal, cast

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from agentenv.config.regions import ZONE
from agentenv.config.sections.base import LogDays, Port, Section
from agentenv.config.values import Cidr, Label, Url, wrong

InterfaceEndpoint = Literal[
    "data-plane",
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

# The services that nodes and controllers call; without NAT they are reachable through endpoints only.
PLATFORM_ENDPOINTS = (
    "ec2",
    "ecr.api",
    "ecr.dkr",
    "eks",
    # The Pod Identity agent gets the credentials of pods from it.
    "eks-auth",
    "elasticfilesystem",
    "logs",
    "sqs",
    "ssm",
    "sts",
)

# The services that running sandboxes, new pods and new nodes need: credentials, addresses, homes, images and notices of
# interruptions. `data-plane` in `endpoints` stands for them.
DATA_PLANE_ENDPOINTS = ("ec2", "ecr.api", "ecr.dkr", "eks-auth", "elasticfilesystem", "sqs", "sts")


def _services(endpoints: tuple[str, ...]) -> tuple[str, ...]:
    """Return each service once, with those that `data-plane` stands for."""
    words = [(DATA_PLANE_ENDPOINTS if word == "data-plane" else (word,)) for word in endpoints]
    return tuple(dict.fromkeys(service for services in words for service in services))


def _zones(value: object) -> object:
    allowed = "2 to 6 zones, as a number or as a list of zones such as us-east-1a"
    if isinstance(value, bool) or not isinstance(value, int | tuple | list):
        raise wrong(allowed)
    if isinstance(value, int):
        if not 2 <= value <= 6:
            raise wrong(allowed, "EKS needs at least two zones" if value < 2 else "no region has more than six")
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
    """An existing VPC to adopt. Its subnets must have the tags that clusters discover them by."""

    vpc_id: Annotated[
        str, Field(title="the id of a VPC", pattern=r"^vpc-[0-9a-f]{8,17}$", description="Id of the VPC.")
    ]
    private_subnet_ids: Annotated[
        tuple[Annotated[str, Field(title="the id of a subnet", pattern=r"^subnet-[0-9a-f]{8,17}$")], ...],
        Field(min_length=2, description="Ids of its private subnets, one in each zone."),
    ]
    public_subnet_ids: Annotated[
        tuple[Annotated[str, Field(title="the id of a subnet", pattern=r"^subnet-[0-9a-f]{8,17}$")], ...],
        Field(description="Ids of its public subnets, for load balancers."),
    ] = ()


class EgressProxy(Section):
    """An egress proxy that allows domains by name, which a network policy cannot."""

    namespace: Annotated[Label, Field(description="Namespace of the proxy.")]
    app: Annotated[Label, Field(description="Value of the `app` label of its pods.")]
    port: Annotated[Port, Field(description="Port that it listens on.")] = 3128


class Mirrors(Section):
    """Copies of public images and runtimes, for nodes that start without the internet."""

    registry: Annotated[
        str | None,
        Field(
            title="a registry of ECR, with or without a prefix",
            pattern=r"^[0-9]{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(\.cn)?(/[a-z0-9._-]{1,128}){0,4}$",
            description="ECR registry with copies of the platform's images. Each has its public name without the"
            " public registry, such as `…/mirror/karpenter/controller`.",
        ),
    ] = None
    bucket: Annotated[
        bool,
        Field(
            description="Whether the stack creates a bucket for the runtimes that nodes install, which only the VPC"
            " reads. `agentenv mirror` fills it. What it lacks, nodes read from the public address, unless `nat` is"
            " `none`. True in prod, without `files`."
        ),
    ] = False
    files: Annotated[
        Url | None,
        Field(
            description="Address of a bucket of your own, in place of `bucket`, with each runtime below its name and"
            " version, such as `…/gvisor/20261005.0/x86_64/gvisor.tar.zstd`. Nodes read it through the S3 endpoint with"
            " unsigned requests."
        ),
    ] = None


class Network(Section):
    """The VPC, its zones, NAT, endpoints, flow logs and mirrors."""

    cidr: Annotated[
        Cidr, Field(description="Address range of the VPC, /16 to /27. A later change replaces all resources.")
    ] = IPv4Network("10.40.0.0/16")
    zones: Annotated[
        Zones,
        Field(description="Number of zones, or a list of them. Adding a zone later does not change existing subnets."),
    ] = 2
    nat: Annotated[
        Literal["none", "single", "per-zone"],
        Field(
            description="NAT gateways. `single`: the cheapest; without its zone there is no internet access, nor any"
            " AWS service without an endpoint. `per-zone`: survives the failure of a zone. `none`: needs `endpoints`"
            " for all services that the platform calls."
        ),
    ] = "single"
    endpoints: Annotated[
        tuple[InterfaceEndpoint, ...],
        AfterValidator(_services),
        Field(
            description="Interface endpoints to create, in every zone. `data-plane` stands for "
            + ", ".join(f"`{service}`" for service in DATA_PLANE_ENDPOINTS)
            + ", with which the loss of the zone of a single NAT gateway ends internet access only. The free gateway"
            " endpoints of S3 and DynamoDB always exist."
        ),
    ] = ()
    flow_log_days: Annotated[LogDays, Field(description="Retention of flow logs in days.")] = 14
    flow_log_traffic: Annotated[
        Literal["all", "accepted", "rejected"], Field(description="Traffic that flow logs record.")
    ] = "all"
    peers: Annotated[
        tuple[Cidr, ...],
        Field(description="Address ranges that the VPC is peered or routed with. They must not overlap its own."),
    ] = ()
    transit_gateway: Annotated[
        str | None,
        Field(
            title="the id of a transit gateway",
            pattern=r"^tgw-[0-9a-f]{8,17}$",
            description="An existing transit gateway. The VPC is attached to it, and routes `peers` to it. A gateway of"
            " another account must be shared with this one, and accept attachments by itself.",
        ),
    ] = None
    egress_proxy: Annotated[EgressProxy | None, Field(description="The proxy that enforces `domain` capabilities.")] = (
        None
    )
    mirrors: Annotated[Mirrors, Field(description="Copies of public images and runtimes.")] = Mirrors()
    existing: Annotated[
        ExistingNetwork | None, Field(description="An existing VPC to use instead of creating one.")
    ] = None

    @property
    def lost_with_nat(self) -> tuple[str, ...]:
        """Return the services of the data plane that are lost with the zone of a single NAT gateway."""
        if self.nat != "single" or self.existing is not None:
            return ()
        return tuple(service for service in DATA_PLANE_ENDPOINTS if service not in self.endpoints)

    @property
    def zone_count(self) -> int:
        """Return the number of zones."""
        return self.zones if isinstance(self.zones, int) else len(self.zones)
