"""The capacity: nodes that Karpenter launches when something has to run, and ends when nothing does.

In the order it comes to life: what nodes are to AWS, the queue that warns of their end, Karpenter's definitions and
controller, node classes and pools, runtime classes, and room kept free. It goes the other way round, and each step
waits for the one before: pools with their nodes, classes, the controller, its definitions, and only then what the
controller worked with. The cluster, with the profile that the controller runs on, is a matter of `depends_on`.
"""

from typing import NotRequired, TypedDict

import pulumi
from pulumi_aws import kms

from agentenv.components._lib import iam_policies
from agentenv.components._lib.arguments import ArgumentReader
from agentenv.components._lib.aws_context import aws_context
from agentenv.components._lib.options import ChildOptions, child_options
from agentenv.components._lib.planned_documents import OUTPUT
from agentenv.components._lib.tags import Labels, Ownership
from agentenv.components.capacity.capacity_layout import (
    CapacityDemand,
    CapacityHeadroom,
    CapacityLayout,
    CapacityMirrors,
    read_controller,
    read_demands,
    read_headroom,
    read_layout,
    read_mirrors,
)
from agentenv.components.capacity.headroom import create_headroom
from agentenv.components.capacity.interruption_queue import interruption_queue
from agentenv.components.capacity.karpenter import ClusterFacts, install, node_role
from agentenv.components.capacity.node_objects import LaunchContext, create_node_pools, create_runtime_classes
from agentenv.components.cluster.gpu_plugin import NAME as PLUGIN
from agentenv.components.cluster.gpu_plugin import create_device_plugin
from agentenv.components.cluster.irsa import Issuer, Roles
from agentenv.core.nodes.node_pools import node_pools
from agentenv.core.pinned_versions import releases


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
    list, and nodes get a profile of ours, for there is no endpoint to make one over; false unless told."""

    mirrors: NotRequired[CapacityMirrors]
    """Where copies are of what is taken from the internet; there unless told."""

    replicas: NotRequired[int]
    """How many controllers there are, of which one works: as the layout has it unless told."""

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
        reader = ArgumentReader.of("capacity", args, CapacityArgs)
        labels = Labels.of(reader, "capacity", name)
        cluster = reader.text("cluster_name")
        layout = read_layout(reader.part("layout", CapacityLayout))
        pools = node_pools(layout, read_demands(reader))
        mirrors = read_mirrors(reader)
        holders = read_headroom(reader, mirrors)
        told, amounts = read_controller(reader)
        replicas = reader.whole("replicas", 1, 3, default=told)
        isolated = reader.flag("isolated", default=False)
        boundary = reader.text("permissions_boundary") if reader.has("permissions_boundary") else None

        super().__init__("agent-environment:index:Capacity", name, {}, opts)
        self._labels, self._aws = labels, aws_context(self)
        self._child: ChildOptions = child_options(self, opts)
        roles = Roles(labels, self._child, boundary)
        issuer = Issuer(pulumi.Output.from_input(args["issuer_arn"]), pulumi.Output.from_input(args["issuer_url"]))
        around = ClusterFacts(
            cluster,
            args["cluster_endpoint"],
            issuer,
            self._aws,
            mirrors,
            isolated=isolated,
            replicas=replicas,
            amounts=amounts,
        )

        key = self._volume_key()
        nodes = node_role(around, roles)
        queue, filled = interruption_queue(labels, self._child, self._aws, roles.planned_documents)
        controller = install(around, nodes, queue, roles)
        there = [controller, *filled, *nodes.ready]
        there += create_device_plugin(pools, mirrors.image(releases().images[PLUGIN]), there, labels, self._child)
        runtimes = mirrors.runtimes(releases().runtimes)
        launch = LaunchContext(cluster, nodes.identity, key.arn, runtimes, there)
        made = create_node_pools(layout, pools, launch, labels, self._child)
        create_runtime_classes(pools, labels, self._child)
        create_headroom(pools, made, holders, labels, self._child)

        self.node_role_arn = nodes.role.arn
        self.queue_name = queue.name
        self.volume_key_arn = key.arn
        self.pool_names = pulumi.Output.from_input([pool.name for pool in pools])
        outputs = {output: getattr(self, output) for output in Capacity.__annotations__}
        self.register_outputs({**outputs, OUTPUT: roles.planned_documents.entries})

    def _volume_key(self) -> kms.Key:
        key = kms.Key(
            f"{self._labels.base}-volumes",
            description=f"Volumes of the nodes of environment {self._labels.environment}",
            enable_key_rotation=True,
            # Nodes hold nothing that is to be kept.
            deletion_window_in_days=7,
            policy=iam_policies.policy_json(self._aws.apply(iam_policies.volume_key_policy)),
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
