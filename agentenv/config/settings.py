"""All settings of one environment."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Annotated

from pydantic import Field

from agentenv.config.regions import Region
from agentenv.config.sections.base import Section
from agentenv.config.sections.capacity import Capacity
from agentenv.config.sections.classes import Daemon, SandboxClass, Sharing
from agentenv.config.sections.cluster import Cluster
from agentenv.config.sections.cost import Cost
from agentenv.config.sections.network import Network
from agentenv.config.sections.service import Service
from agentenv.config.sections.storage import Storage
from agentenv.config.sections.workspaces import Seat

PRODUCTION = ("prod", "production")


def is_production(environment: str) -> bool:
    """Return whether an environment is a production environment: `prod`, `production`, or one of them with a suffix."""
    return environment.startswith(tuple(f"{name}-" for name in PRODUCTION)) or environment in PRODUCTION


class Settings(Section):
    """The settings of an environment, from a stack file and defaults."""

    environment: Annotated[
        str,
        Field(
            pattern=r"^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$",
            title="at most 32 of a-z, 0-9 and '-', a letter first",
            description="Name of the stack.",
        ),
    ]
    region: Annotated[Region, Field(description="The AWS region.")]
    protect: Annotated[
        bool,
        Field(description="Whether resources with data, or that cannot be recreated, are protected. True in prod."),
    ] = False
    network: Annotated[Network, Field(description="The VPC, its zones, NAT, endpoints, flow logs and mirrors.")] = (
        Network()
    )
    cluster: Annotated[Cluster, Field(description="The EKS cluster.")] = Cluster()
    capacity: Annotated[Capacity, Field(description="The nodes that Karpenter launches.")] = Capacity()
    storage: Annotated[Storage, Field(description="The EFS file systems for homes.")] = Storage()
    sandbox_classes: Annotated[tuple[SandboxClass, ...], Field(max_length=200, description="The sandbox classes.")] = ()
    workspaces: Annotated[
        tuple[Seat, ...], Field(max_length=10_000, description="Seats: workspaces that the stack declares.")
    ] = ()
    service: Annotated[Service, Field(description="The workspace service.")] = Service()
    cost: Annotated[Cost, Field(description="Budgets, notifications, tags, usage export and metering.")] = Cost()

    @property
    def production(self) -> bool:
        """Return whether this is a production environment, which has more protection and more constraints."""
        return is_production(self.environment)

    def daemon_of(self, sandbox_class: SandboxClass) -> Daemon:
        """Return the program that callers reach in the sandboxes of a class."""
        return sandbox_class.daemon or ("none" if self.service.workspaced is None else "workspaced")

    def sharing_of(self, sandbox_class: SandboxClass) -> tuple[Sharing, ...]:
        """Return how the ports of the workspaces of a class may be shared."""
        link: tuple[Sharing, ...] = () if self.service.workspace_domain is None else ("link",)
        return sandbox_class.sharing or ("private", "team", *link)

    @property
    def cluster_name(self) -> str:
        """Return the name of the cluster: that of an existing one, the configured one, or project and stack."""
        return self.cluster.existing or self.cluster.name or f"agent-environment-{self.environment}"

    @property
    def private_access(self) -> tuple[IPv4Network, ...]:
        """Return the ranges outside of the VPC that may reach the private API endpoint."""
        chosen = self.cluster.private_access_from
        return self.network.peers if chosen is None else chosen

    @property
    def tags(self) -> dict[str, str]:
        """Return the tags of every AWS resource, except for `component`, which each component adds."""
        chosen = {tag.key: tag.value for tag in self.cost.tags}
        return {
            **chosen,
            "environment": self.environment,
            "owner": self.cost.owner,
            "cost-center": self.cost.cost_center,
        }
