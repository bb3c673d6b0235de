"""The capacity: nodes that Karpenter launches when something has to run, and ends when nothing does.

In the order it comes to life: what nodes are to AWS, the queue that warns of their end, Karpenter's definitions and
controller, node classes and pools, runtime classes, and room kept free. It goes the other way round, and each step
waits for the one before: pools with their nodes, classes, the controller, its definitions, and only then what the
controller worked with. The cluster, with the profile that the controller runs on, is a matter of `depends_on`.
"""

from typing import NotRequired, TypedDict

import pulumi
from pulumi_aws import kms

from components import documents
from components.children import Child, children_of
from components.headroom import Holders, hold_room
from components.identities import Issuer, Roles
from components.interruptions import interruption_queue
from components.karpenter import Surroundings, install, node_role
from components.node_objects import Supplies, make_nodes, make_runtime_classes
from components.ownership import Labels, Ownership
from components.plain import ArgumentError, Plain
from components.whereabouts import whereabouts
from model.node_pools import Demand, NodeLayout, node_pools
from model.releases import releases

MONTH = 30 * 24 * 3600


class CapacityLayout(TypedDict):
    """How nodes are to be. Amounts are written as Kubernetes writes them, times in seconds."""

    families: list[str]
    """Instance families for sandboxes, those preferred first; Graviton ones are tried before the others."""

    nested_families: list[str]
    """Families for sandboxes that have a kernel of their own by nested virtualization."""

    gpu_families: list[str]
    """Families with graphics processors."""

    system_families: list[str]
    """Families for what is neither a sandbox nor on Fargate."""

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

    consolidate_after: int
    """How long a node is empty before it goes."""

    expire_after: int
    """The longest that a node lives."""

    termination_grace: int
    """How long a node that has to go waits for what runs on it."""

    disruption_budget: str
    """How many nodes may be disrupted at once, as a share such as `10%` or a number."""


class CapacityDemand(TypedDict):
    """What one class of sandboxes asks of nodes."""

    tier: str
    """`verified`, `standard` or `untrusted`."""

    kernel: NotRequired[str]
    """Where an untrusted sandbox has its kernel from: `kata` (unless told) or `nitro`."""

    capacity: str
    """How its nodes are bought: `spot`, `on-demand` or `both`."""

    gpu: NotRequired[bool]
    """Whether it has graphics processors."""


class CapacityHeadroom(TypedDict):
    """Room kept free on each kind of node that sandboxes run on."""

    pods: int
    """How many pods hold room."""

    cpu: str
    """Cores that each holds."""

    memory: str
    """Memory that each holds."""


class CapacityArgs(TypedDict):
    """What capacity is made from."""

    ownership: Ownership
    """Whose it is."""

    cluster_name: str
    """The cluster that nodes join; subnets and groups are found by its name in their tags."""

    cluster_endpoint: pulumi.Input[str]
    """The address of its API."""

    issuer_url: pulumi.Input[str]
    """Who signs the tokens of its service accounts."""

    issuer_arn: pulumi.Input[str]
    """The same, as an identity provider of IAM."""

    layout: CapacityLayout
    """How nodes are to be."""

    demands: list[CapacityDemand]
    """What the classes of sandboxes ask for; a pool for the system is always there."""

    headroom: NotRequired[CapacityHeadroom]
    """Room kept free; none unless told."""

    isolated: NotRequired[bool]
    """Whether there is no way out of the VPC but its endpoints, so that prices are taken from the controller's own
    list; false unless told."""

    replicas: NotRequired[int]
    """How many controllers there are, of which one works: 2 unless told."""

    permissions_boundary: NotRequired[str]
    """The permissions boundary of every role that is made."""


class Capacity(pulumi.ComponentResource):
    """Karpenter with its roles and its queue, node classes and pools, runtime classes and headroom."""

    node_role_arn: pulumi.Output[str]
    """What nodes are to AWS."""

    queue_name: pulumi.Output[str]
    """The queue of warnings."""

    volume_key_arn: pulumi.Output[str]
    """The key of nodes' volumes."""

    pool_names: pulumi.Output[list[str]]
    """The node pools."""

    def __init__(self, name: str, args: CapacityArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Make it; a wrong plain argument raises before anything is made."""
        given = Plain.of("capacity", args, CapacityArgs)
        labels = Labels.of(given, "capacity", name)
        cluster = given.text("cluster_name")
        layout = _layout(given.part("layout", CapacityLayout))
        pools = node_pools(layout, _demands(given))
        holders = _holders(given)
        replicas = given.whole("replicas", 1, 3, default=2)
        isolated = given.flag("isolated", default=False)
        boundary = given.text("permissions_boundary") if given.has("permissions_boundary") else None

        super().__init__("agent-environment:index:Capacity", name, {}, opts)
        self._labels, self._place = labels, whereabouts(self)
        self._child: Child = children_of(self, opts)
        roles = Roles(labels, self._child, boundary)
        issuer = Issuer(pulumi.Output.from_input(args["issuer_arn"]), pulumi.Output.from_input(args["issuer_url"]))
        around = Surroundings(
            cluster, args["cluster_endpoint"], issuer, self._place, isolated=isolated, replicas=replicas
        )

        key = self._volume_key()
        nodes = node_role(around, roles)
        queue, filled = interruption_queue(labels, self._child)
        controller = install(around, nodes, queue, roles)
        supplies = Supplies(cluster, nodes.role.name, key.arn, [controller, *filled, *nodes.ready])
        made = make_nodes(layout, pools, supplies, labels, self._child)
        make_runtime_classes(pools, labels, self._child)
        hold_room(pools, made, holders, labels, self._child)

        self.node_role_arn = nodes.role.arn
        self.queue_name = queue.name
        self.volume_key_arn = key.arn
        self.pool_names = pulumi.Output.from_input([pool.name for pool in pools])
        self.register_outputs({output: getattr(self, output) for output in Capacity.__annotations__})

    def _volume_key(self) -> kms.Key:
        key = kms.Key(
            f"{self._labels.base}-volumes",
            description=f"Volumes of the nodes of environment {self._labels.environment}",
            enable_key_rotation=True,
            # Nodes hold nothing that is to be kept.
            deletion_window_in_days=7,
            policy=documents.written(self._place.apply(documents.volume_key)),
            tags=self._labels.tags("volumes"),
            opts=self._child(),
        )
        kms.Alias(
            f"{self._labels.base}-volumes",
            name=self._labels.name("kms-alias", "volumes", prefix="alias/"),
            target_key_id=key.key_id,
            opts=self._child(),
        )
        return key


def _layout(given: Plain) -> NodeLayout:
    families = ("families", "nested_families", "gpu_families", "system_families")
    for key in families:
        if not given.texts(key):
            raise ArgumentError(f"{given.path}.{key}", "an empty list", "instance families such as m8g")
    return NodeLayout(
        **{key: tuple(given.texts(key)) for key in families},
        cpu_limit=given.text("cpu_limit"),
        memory_limit=given.text("memory_limit"),
        system_cpu_limit=given.text("system_cpu_limit"),
        system_memory_limit=given.text("system_memory_limit"),
        gpu_limit=given.whole("gpu_limit", 0, 1000),
        pods_per_node=given.whole("pods_per_node", 8, 250),
        root_volume=given.text("root_volume"),
        image=given.text("image", default=releases().node_image),
        consolidate_after=given.whole("consolidate_after", 0, MONTH),
        expire_after=given.whole("expire_after", 3600, 12 * MONTH),
        termination_grace=given.whole("termination_grace", 0, MONTH),
        disruption_budget=given.text("disruption_budget"),
    )


def _demands(given: Plain) -> list[Demand]:
    found: list[Demand] = []
    for number, item in enumerate(given.values["demands"]):
        one = Plain.of(f"{given.path}.demands[{number}]", item, CapacityDemand)
        found.append(
            Demand(
                one.choice("tier", ("verified", "standard", "untrusted")),
                one.choice("kernel", ("kata", "nitro"), default="kata"),
                one.choice("capacity", ("spot", "on-demand", "both")),
                one.flag("gpu", default=False),
            )
        )
    return found


def _holders(given: Plain) -> Holders:
    if not given.has("headroom"):
        return Holders(0, "0", "0")
    asked = given.part("headroom", CapacityHeadroom)
    return Holders(asked.whole("pods", 0, 1000), asked.text("cpu"), asked.text("memory"))
