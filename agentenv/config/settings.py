"""All settings of one environment."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from agentenv.config.regions import Region
from agentenv.config.sections.base import Section
from agentenv.config.sections.capacity import Capacity
from agentenv.config.sections.classes import SandboxClass
from agentenv.config.sections.cluster import Cluster
from agentenv.config.sections.cost import Cost
from agentenv.config.sections.network import Network
from agentenv.config.sections.service import Service
from agentenv.config.sections.storage import Storage
from agentenv.config.sections.workspaces import Seat

PRODUCTION = ("prod", "production")


def is_production(environment: str) -> bool:
    """Whether an environment is one of production: `prod`, or `prod-` and more."""
    return environment.startswith(tuple(f"{name}-" for name in PRODUCTION)) or environment in PRODUCTION


class Settings(Section):
    """Everything a stack file says about an environment, and what follows where it says nothing."""

    environment: Annotated[
        str,
        Field(
            pattern=r"^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$",
            title="at most 32 of a-z, 0-9 and '-', a letter first",
            description="The stack's name.",
        ),
    ]
    region: Annotated[Region, Field(description="The AWS region.")]
    protect: Annotated[
        bool,
        Field(description="Whether what holds data or cannot be made again is protected. True in prod when not said."),
    ] = False
    network: Annotated[Network, Field(description="The VPC, its zones, and its ways out.")] = Network()
    cluster: Annotated[Cluster, Field(description="The EKS cluster.")] = Cluster()
    capacity: Annotated[Capacity, Field(description="The nodes that Karpenter launches.")] = Capacity()
    storage: Annotated[Storage, Field(description="The file systems that homes live on.")] = Storage()
    sandbox_classes: Annotated[
        tuple[SandboxClass, ...], Field(max_length=200, description="The kinds of sandbox there are.")
    ] = ()
    workspaces: Annotated[tuple[Seat, ...], Field(max_length=10_000, description="Seats that are always there.")] = ()
    service: Annotated[Service, Field(description="The workspace service.")] = Service()
    cost: Annotated[Cost, Field(description="Budgets, and whom things belong to.")] = Cost()

    @property
    def production(self) -> bool:
        """Whether this is production, where more is protected and more is refused."""
        return is_production(self.environment)

    @property
    def cluster_name(self) -> str:
        """The cluster's name: the one to use, the one that was chosen, or project and stack."""
        return self.cluster.existing or self.cluster.name or f"agent-environment-{self.environment}"

    @property
    def tags(self) -> dict[str, str]:
        """The tags of every AWS resource, less `component`, which each component adds."""
        chosen = {tag.key: tag.value for tag in self.cost.tags}
        return {
            **chosen,
            "environment": self.environment,
            "owner": self.cost.owner,
            "cost-center": self.cost.cost_center,
        }
