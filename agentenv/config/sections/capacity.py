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
    Field(title='a percentage or a number such as "10%" or "2"', pattern=r"^(100|[1-9]?[0-9])%$|^[0-9]{1,4}$"),
]


class Limits(Section):
    """Limits of the total resources of a node pool."""

    cpu: Annotated[Cpu, Field(description="CPU limit in cores.")] = Quantity.parse("100")
    memory: Annotated[Memory, Field(description="Memory limit.")] = Quantity.parse("400Gi")


class Headroom(Section):
    """Spare capacity for new sandboxes, reserved by low-priority placeholder pods that are preempted on demand."""

    pods: Annotated[int, Field(ge=0, le=1000, description="Number of placeholder pods.")] = 0
    cpu: Annotated[Cpu, Field(description="CPU request of a placeholder pod.")] = Quantity.parse("500m")
    memory: Annotated[Memory, Field(description="Memory request of a placeholder pod.")] = Quantity.parse("1Gi")


class System(Section):
    """Nodes for platform pods that do not run on Fargate."""

    families: Annotated[tuple[Family, ...], Field(min_length=1, description="Instance families.")] = ("t4g", "m7g")
    capacity: Annotated[
        Literal["spot", "on-demand", "both"],
        Field(
            description="Capacity type. A Spot interruption moves the pods on these nodes (storage driver, metrics,"
            " dashboards and the workspace service), and does not affect sandboxes."
        ),
    ] = "on-demand"
    limits: Annotated[Limits, Field(description="Limits of the system node pool.")] = Limits(
        cpu=Quantity.parse("16"), memory=Quantity.parse("64Gi")
    )


class Controller(Section):
    """The Karpenter controller. With Fargate's overhead the defaults fill a billed size: 0.5 vCPU and 1 GB."""

    replicas: Annotated[
        int,
        Field(
            ge=1,
            le=3,
            description="Number of replicas, of which one is the leader. With a single replica no nodes are launched"
            " for the minute or two that Fargate needs to replace it.",
        ),
    ] = 2
    cpu: Annotated[
        Cpu,
        Field(description="CPU request of a replica. 250m is enough for a few dozen nodes, with slower decisions."),
    ] = Quantity.parse("500m")
    memory: Annotated[Memory, Field(description="Memory request of a replica.")] = Quantity.parse("768Mi")


class Gpu(Section):
    """Nodes with GPUs."""

    families: Annotated[tuple[Family, ...], Field(min_length=1, description="Instance families.")] = ("g6", "g5")
    limit: Annotated[int, Field(ge=0, le=1000, description="Maximum number of GPUs. `0` creates no GPU node pool.")] = 0


class Capacity(Section):
    """The nodes that Karpenter launches: instance families, limits and lifetime."""

    families: Annotated[
        tuple[Family, ...], Field(min_length=1, description="Instance families, in order of preference.")
    ] = ("m8g", "m7g", "c8g", "c7g", "m7i", "m7a")
    nested_families: Annotated[
        tuple[Family, ...],
        Field(
            min_length=1,
            description="Instance families for sandboxes with their own kernel: with nested virtualization, or bare"
            " metal, which is a family with the suffix `-metal`.",
        ),
    ] = ("c8i", "m8i", "r8i")
    limits: Annotated[Limits, Field(description="Limits of each node pool.")] = Limits()
    headroom: Annotated[Headroom, Field(description="Spare capacity for new sandboxes.")] = Headroom()
    system: Annotated[System, Field(description="Nodes for platform pods.")] = System()
    gpu: Annotated[Gpu, Field(description="Nodes with GPUs.")] = Gpu()
    controller: Annotated[Controller, Field(description="The Karpenter controller, which runs on Fargate.")] = (
        Controller()
    )
    pods_per_node: Annotated[
        int, Field(ge=8, le=250, description="Maximum pods on a node; the address plan of the VPC depends on it.")
    ] = 110
    root_volume: Annotated[Memory, Field(description="Size of a node's root volume.")] = Quantity.parse("50Gi")
    ami: Annotated[
        str | None,
        Field(
            title="a release such as al2023@v20261103",
            pattern=r"^al2023@v[0-9]{8}$",
            description="Release of the node image. Defaults to the release that this package pins.",
        ),
    ] = None
    nitro_images: Annotated[
        tuple[Annotated[str, Field(title="the id of an AMI", pattern=r"^ami-[0-9a-f]{8,17}$")], ...],
        Field(
            max_length=2,
            description="AMIs with the Nitro sandbox runtime, one for each architecture of `families`. AWS has no"
            " public one; classes with `kernel: nitro` need one that you build.",
        ),
    ] = ()
    consolidate_after: Annotated[
        Duration,
        Field(
            description="How long no pod may have been added to or removed from a node before Karpenter may consolidate"
            " it: because it is empty, or because its unclaimed sandboxes fit on other nodes."
        ),
    ] = timedelta(minutes=5)
    expire_after: Annotated[Duration, Field(description="Maximum lifetime of a node.")] = timedelta(days=14)
    termination_grace: Annotated[
        Duration, Field(description="How long a draining node waits for claimed sandboxes.")
    ] = timedelta(hours=4)
    disruption_budget: Annotated[
        Budget, Field(description="How many nodes may be disrupted at once, as a percentage or a number.")
    ] = "10%"
    failed_nodes_alarm: Annotated[
        int,
        Field(
            ge=1,
            le=1000,
            description="How many NodeClaims of a pool may fail to become nodes in an hour. With more of them the alarm"
            " `NodesDoNotRegister` fires in the Prometheus of `cost.dashboards`.",
        ),
    ] = 3
    drift_budget: Annotated[
        Budget,
        Field(
            description="How many sandbox nodes may be replaced at once because of drift. Such a replacement ends"
            " claimed sandboxes after `terminationGrace`. With `0` a drifted node is replaced only when it is empty or"
            " expires."
        ),
    ] = "0"
