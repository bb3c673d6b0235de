"""The arguments of nodes: their layout, the requirements of sandbox classes, headroom and mirrors."""

from typing import NotRequired, TypedDict

from agentenv.components._lib.arguments import ArgumentError, ArgumentReader
from agentenv.components.capacity.headroom import HeadroomPods
from agentenv.core.nodes.controller_resources import KARPENTER, Amounts
from agentenv.core.nodes.mirrors import Mirrors
from agentenv.core.nodes.node_pools import Demand, NodeLayout
from agentenv.core.pinned_versions import releases

MONTH = 30 * 24 * 3600


class CapacityLayout(TypedDict):
    """The layout of nodes. Amounts are Kubernetes quantities, durations are seconds."""

    families: list[str]
    """Instance families for sandboxes, preferred ones first; Graviton families are tried before the others."""

    nested_families: list[str]
    """Families for sandboxes with their own kernel: by nested virtualization, or with the suffix `-metal` on bare
    metal instances."""

    gpu_families: list[str]
    """Families with GPUs."""

    system_families: list[str]
    """Families for pods that are neither sandboxes nor on Fargate."""

    system_capacity: NotRequired[str]
    """Their capacity type: `on-demand` (default), `spot` or `both`, which prefers Spot."""

    cpu_limit: str
    """The CPU limit of one node pool."""

    memory_limit: str
    """The memory limit of one node pool."""

    system_cpu_limit: str
    """The CPU limit of the system node pool."""

    system_memory_limit: str
    """The memory limit of the system node pool."""

    gpu_limit: int
    """The limit of GPUs."""

    pods_per_node: int
    """The maximum number of pods on a node."""

    root_volume: str
    """The size of a node's root volume."""

    image: NotRequired[str]
    """The release of the node image, such as `al2023@v20261103`. Default: the pinned release."""

    controller_replicas: NotRequired[int]
    """The number of controller replicas, of which one is the leader. Default: 2."""

    controller_cpu: NotRequired[str]
    """The CPU of each controller replica. Default: `500m`."""

    controller_memory: NotRequired[str]
    """The memory of each controller replica. Default: `768Mi`."""

    consolidate_after: int
    """How long a node is empty before Karpenter removes it."""

    expire_after: int
    """The maximum lifetime of a node."""

    termination_grace: int
    """The termination grace period of a node: how long it waits for its pods."""

    disruption_budget: str
    """The number of nodes that may be disrupted at once, or a share such as `10%`."""

    drift_budget: str
    """The number of sandbox nodes that may be replaced at once because they drifted: `0` for none."""


class CapacityDemand(TypedDict):
    """The node requirements of one sandbox class."""

    tier: str
    """`verified`, `standard` or `untrusted`."""

    kernel: NotRequired[str]
    """What isolates the kernel of an untrusted sandbox: `kata` (default) or `nitro`."""

    capacity: str
    """The capacity type of its nodes: `spot`, `on-demand` or `both`."""

    gpu: NotRequired[bool]
    """Whether it has GPUs, which only `verified` may have. Default: false."""


class CapacityMirrors(TypedDict):
    """Mirrors of downloads, for a network without internet access."""

    registry: NotRequired[str]
    """The registry with copies of images, under their names without the original registry."""

    files: NotRequired[str]
    """An HTTPS address with copies of the runtimes that nodes install, under their names and versions."""


class CapacityHeadroom(TypedDict):
    """Headroom kept free on each kind of sandbox node."""

    pods: int
    """The number of headroom pods."""

    cpu: str
    """The CPU request of each."""

    memory: str
    """The memory request of each."""


def read_layout(reader: ArgumentReader) -> NodeLayout:
    """Return the layout of nodes, checked."""
    families = ("families", "nested_families", "gpu_families", "system_families")
    for key in families:
        if not reader.texts(key):
            raise ArgumentError(f"{reader.path}.{key}", "an empty list", "instance families such as m8g")
    return NodeLayout(
        **{key: tuple(reader.texts(key)) for key in families},
        system_capacity=reader.choice("system_capacity", ("on-demand", "spot", "both"), default="on-demand"),
        cpu_limit=reader.text("cpu_limit"),
        memory_limit=reader.text("memory_limit"),
        system_cpu_limit=reader.text("system_cpu_limit"),
        system_memory_limit=reader.text("system_memory_limit"),
        gpu_limit=reader.whole("gpu_limit", 0, 1000),
        pods_per_node=reader.whole("pods_per_node", 8, 250),
        root_volume=reader.text("root_volume"),
        image=reader.text("image", default=releases().node_image),
        consolidate_after=reader.whole("consolidate_after", 0, MONTH),
        expire_after=reader.whole("expire_after", 3600, 12 * MONTH),
        termination_grace=reader.whole("termination_grace", 0, MONTH),
        disruption_budget=reader.text("disruption_budget"),
        drift_budget=reader.text("drift_budget"),
    )


def read_controller(reader: ArgumentReader) -> tuple[int, Amounts]:
    """Return the number of controller replicas and the resources of each."""
    layout = reader.part("layout", CapacityLayout)
    amounts = Amounts(
        layout.text("controller_cpu", default=KARPENTER.cpu), layout.text("controller_memory", default=KARPENTER.memory)
    )
    return layout.whole("controller_replicas", 1, 3, default=2), amounts


def read_demands(reader: ArgumentReader) -> list[Demand]:
    """Return the node requirements of classes, checked."""
    demands: list[Demand] = []
    for number, item in enumerate(reader.values["demands"]):
        demand = ArgumentReader.of(f"{reader.path}.demands[{number}]", item, CapacityDemand)
        tier, gpu = demand.choice("tier", ("verified", "standard", "untrusted")), demand.flag("gpu", default=False)
        if gpu and tier != "verified":
            raise ArgumentError(f"{demand.path}.gpu", f"true in tier {tier}", "GPUs in tier verified only")
        demands.append(
            Demand(
                tier,
                demand.choice("kernel", ("kata", "nitro"), default="kata"),
                demand.choice("capacity", ("spot", "on-demand", "both")),
                gpu,
            )
        )
    return demands


def read_mirrors(reader: ArgumentReader) -> Mirrors:
    """Return the mirrors."""
    if not reader.has("mirrors"):
        return Mirrors()
    mirrors = reader.part("mirrors", CapacityMirrors)
    addresses = {key: mirrors.text(key).rstrip("/") for key in ("registry", "files") if mirrors.has(key)}
    return Mirrors(**addresses)


def read_headroom(reader: ArgumentReader, mirrors: Mirrors) -> HeadroomPods:
    """Return the headroom pods."""
    image = mirrors.image(releases().images["pause"])
    if not reader.has("headroom"):
        return HeadroomPods(0, "0", "0", image)
    headroom = reader.part("headroom", CapacityHeadroom)
    return HeadroomPods(headroom.whole("pods", 0, 1000), headroom.text("cpu"), headroom.text("memory"), image)
