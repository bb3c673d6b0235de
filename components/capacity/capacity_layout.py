"""What is told of nodes: how they are to be, what classes of sandboxes ask for, room kept free, and mirrors."""

from typing import NotRequired, TypedDict

from agentenv.components._lib.arguments import ArgumentError, ArgumentReader
from agentenv.components.capacity.headroom import HeadroomPods
from agentenv.core.nodes.controller_resources import KARPENTER, Amounts
from agentenv.core.nodes.mirrors import Mirrors
from agentenv.core.nodes.node_pools import Demand, NodeLayout
from agentenv.core.pinned_versions import releases

MONTH = 30 * 24 * 3600


class CapacityLayout(TypedDict):
    """How nodes are to be. Amounts are written as Kubernetes writes them, times in seconds."""

    families: list[str]
    """Instance families for sandboxes, those preferred first; Graviton ones are tried before the others."""

    nested_families: list[str]
    """Families for sandboxes that have a kernel of their own: by nested virtualization, or with `-metal` at the end
    of a family on its whole machines."""

    gpu_families: list[str]
    """Families with graphics processors."""

    system_families: list[str]
    """Families for what is neither a sandbox nor on Fargate."""

    system_capacity: NotRequired[str]
    """How these are bought: `on-demand` (unless told), `spot` or `both`, which prefers Spot."""

    cpu_limit: str
    """The most cores that the nodes of one pool may have together."""

    memory_limit: str
    """The most memory that the nodes of one pool may have together."""

    system_cpu_limit: str
    """The same for the system's pool."""

    system_memory_limit: str
    """The same for the system's pool."""

    gpu_limit: int
    """The most graphics processors at once."""

    pods_per_node: int
    """The most pods on a node."""

    root_volume: str
    """The size of a node's root volume."""

    image: NotRequired[str]
    """The node image by its release, such as `al2023@v20261103`; the pinned one unless told."""

    controller_replicas: NotRequired[int]
    """How many controllers there are, of which one works: 2 unless told."""

    controller_cpu: NotRequired[str]
    """Cores of each controller, half a one unless told."""

    controller_memory: NotRequired[str]
    """Memory of each controller, 768Mi unless told."""

    consolidate_after: int
    """How long a node is empty before it goes."""

    expire_after: int
    """The longest that a node lives."""

    termination_grace: int
    """How long a node that has to go waits for what runs on it."""

    disruption_budget: str
    """How many nodes may be disrupted at once, as a share such as `10%` or a number."""

    drift_budget: str
    """How many nodes with sandboxes may be replaced at once because they are no longer as declared: `0` for none."""


class CapacityDemand(TypedDict):
    """What one class of sandboxes asks of nodes."""

    tier: str
    """`verified`, `standard` or `untrusted`."""

    kernel: NotRequired[str]
    """Where an untrusted sandbox has its kernel from: `kata` (unless told) or `nitro`."""

    capacity: str
    """How its nodes are bought: `spot`, `on-demand` or `both`."""

    gpu: NotRequired[bool]
    """Whether it has graphics processors, which is for `verified` only."""


class CapacityMirrors(TypedDict):
    """Where copies are of what the internet has, for a network without a way out."""

    registry: NotRequired[str]
    """The registry with copies of images, each by its name without its own registry's."""

    files: NotRequired[str]
    """An https address with copies of the runtimes that nodes install, below their names and versions."""


class CapacityHeadroom(TypedDict):
    """Room kept free on each kind of node that sandboxes run on."""

    pods: int
    """How many pods hold room."""

    cpu: str
    """Cores that each holds."""

    memory: str
    """Memory that each holds."""


def read_layout(reader: ArgumentReader) -> NodeLayout:
    """How nodes are to be."""
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
    """How many controllers there are, and what each is given."""
    layout = reader.part("layout", CapacityLayout)
    amounts = Amounts(
        layout.text("controller_cpu", default=KARPENTER.cpu), layout.text("controller_memory", default=KARPENTER.memory)
    )
    return layout.whole("controller_replicas", 1, 3, default=2), amounts


def read_demands(reader: ArgumentReader) -> list[Demand]:
    """What classes ask for."""
    found: list[Demand] = []
    for number, item in enumerate(reader.values["demands"]):
        one = ArgumentReader.of(f"{reader.path}.demands[{number}]", item, CapacityDemand)
        tier, gpu = one.choice("tier", ("verified", "standard", "untrusted")), one.flag("gpu", default=False)
        if gpu and tier != "verified":
            raise ArgumentError(f"{one.path}.gpu", f"true in tier {tier}", "graphics processors in tier verified")
        found.append(
            Demand(
                tier,
                one.choice("kernel", ("kata", "nitro"), default="kata"),
                one.choice("capacity", ("spot", "on-demand", "both")),
                gpu,
            )
        )
    return found


def read_mirrors(reader: ArgumentReader) -> Mirrors:
    """Where copies are."""
    if not reader.has("mirrors"):
        return Mirrors()
    named = reader.part("mirrors", CapacityMirrors)
    places = {key: named.text(key).rstrip("/") for key in ("registry", "files") if named.has(key)}
    return Mirrors(**places)


def read_headroom(reader: ArgumentReader, mirrors: Mirrors) -> HeadroomPods:
    """Who holds room, and how much."""
    image = mirrors.image(releases().images["pause"])
    if not reader.has("headroom"):
        return HeadroomPods(0, "0", "0", image)
    asked = reader.part("headroom", CapacityHeadroom)
    return HeadroomPods(asked.whole("pods", 0, 1000), asked.text("cpu"), asked.text("memory"), image)
