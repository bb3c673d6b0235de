"""Settings of the nodes that Karpenter launches."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from agentenv.config.sections.base import Section
from agentenv.config.values import Cpu, Duration, Memory
from agentenv.core.values.quantities import Quantity

Family = Annotated[
    str, Field(title="an instance family such as m8g", pattern=r"^[a-z]{1,3}[0-9]{1,2}[a-z-]{0,8}$", max_length=16)
]


Budget = Annotated[
    str,
    Field(title='a share or a number such as "10%" or "2"', pattern=r"^(100|[1-9]?[0-9])%$|^[0-9]{1,4}$"),
]


class Limits(Section):
    """The most that all nodes of one pool may have together."""

    cpu: Annotated[Cpu, Field(description="Cores.")] = Quantity.parse("100")
    memory: Annotated[Memory, Field(description="Memory.")] = Quantity.parse("400Gi")


class Headroom(Section):
    """Room kept free for sandboxes that are not there yet, held by pods that give way."""

    pods: Annotated[int, Field(ge=0, le=1000, description="How many pods hold room.")] = 0
    cpu: Annotated[Cpu, Field(description="Cores a pod holds.")] = Quantity.parse("500m")
    memory: Annotated[Memory, Field(description="Memory a pod holds.")] = Quantity.parse("1Gi")


class System(Section):
    """Nodes for what is neither a sandbox nor on Fargate."""

    families: Annotated[tuple[Family, ...], Field(min_length=1, description="Instance families.")] = ("t4g", "m7g")
    capacity: Annotated[
        Literal["spot", "on-demand", "both"],
        Field(
            description="How they are bought. On Spot what is there moves when a node is taken back, which no sandbox"
            " feels: the storage driver, metrics, dashboards and the service."
        ),
    ] = "on-demand"
    limits: Annotated[Limits, Field(description="The most they may have together.")] = Limits(
        cpu=Quantity.parse("16"), memory=Quantity.parse("64Gi")
    )


class Controller(Section):
    """Karpenter itself. With what Fargate adds, the defaults are just the size that is paid for: half a core and one
    gigabyte."""

    replicas: Annotated[
        int,
        Field(
            ge=1,
            le=3,
            description="How many there are, of which one works. Without a second, no node is launched for the minute"
            " or two in which Fargate starts one anew.",
        ),
    ] = 2
    cpu: Annotated[
        Cpu, Field(description="Cores of each; a quarter is enough for some dozens of nodes, and decides slower.")
    ] = Quantity.parse("500m")
    memory: Annotated[Memory, Field(description="Memory of each.")] = Quantity.parse("768Mi")


class Gpu(Section):
    """Nodes with graphics processors."""

    families: Annotated[tuple[Family, ...], Field(min_length=1, description="Instance families.")] = ("g6", "g5")
    limit: Annotated[int, Field(ge=0, le=1000, description="The most processors at once; 0 makes no such pool.")] = 0


class Capacity(Section):
    """The nodes that Karpenter launches: which, how many, and for how long."""

    families: Annotated[
        tuple[Family, ...], Field(min_length=1, description="Instance families, those preferred first.")
    ] = ("m8g", "m7g", "c8g", "c7g", "m7i", "m7a")
    nested_families: Annotated[
        tuple[Family, ...],
        Field(
            min_length=1,
            description="Families for sandboxes with a kernel of their own: by nested virtualization, or"
            " on whole machines, which are named by `-metal` at the end of a family.",
        ),
    ] = ("c8i", "m8i", "r8i")
    limits: Annotated[Limits, Field(description="The most the nodes of one pool may have together.")] = Limits()
    headroom: Annotated[Headroom, Field(description="Room kept free.")] = Headroom()
    system: Annotated[System, Field(description="Nodes of the platform itself.")] = System()
    gpu: Annotated[Gpu, Field(description="Nodes with graphics processors.")] = Gpu()
    controller: Annotated[Controller, Field(description="Karpenter itself, which runs on Fargate.")] = Controller()
    pods_per_node: Annotated[
        int, Field(ge=8, le=250, description="The most pods on a node; with it the VPC's room is reckoned.")
    ] = 110
    root_volume: Annotated[Memory, Field(description="Size of a node's root volume.")] = Quantity.parse("50Gi")
    ami: Annotated[
        str | None,
        Field(
            title="a release such as al2023@v20261103",
            pattern=r"^al2023@v[0-9]{8}$",
            description="The node image by its release; without one, the release that the components pin.",
        ),
    ] = None
    consolidate_after: Annotated[
        Duration,
        Field(
            description="How long nothing has come to a node or gone from it before it may be given up: because it is"
            " empty, or because other nodes have room for the unclaimed sandboxes on it."
        ),
    ] = timedelta(minutes=5)
    expire_after: Annotated[Duration, Field(description="The longest a node lives.")] = timedelta(days=14)
    termination_grace: Annotated[
        Duration, Field(description="How long a node that must go waits for claimed sandboxes.")
    ] = timedelta(hours=4)
    disruption_budget: Annotated[
        Budget, Field(description="How many nodes may be disrupted at once, as a share or a number.")
    ] = "10%"
    drift_budget: Annotated[
        Budget,
        Field(
            description="How many of the nodes that hold sandboxes may be replaced at once because they are no longer"
            " as declared. Such a replacement ends claimed sandboxes once `terminationGrace` is over. With `0` a node"
            " is replaced when it is empty or at the end of its life."
        ),
    ] = "0"
