"""The capacity: nodes that Karpenter launches for pending pods and terminates when they are empty.

Creates, in this order: the IAM role of nodes, the interruption queue, Karpenter's CRDs and controller, node classes and
node pools, runtime classes, and headroom. Deletion is the reverse, and each step awaits the one before: node pools with
their nodes, node classes, the controller, its CRDs, and only then the resources that the controller uses. The cluster,
with the Fargate profile of the controller, is passed as `depends_on`.
"""

from dataclasses import replace

import pulumi

from agentenv.components._lib import iam_policies
from agentenv.components._lib.aws_context import AwsContext, aws_context
from agentenv.components._lib.encryption_key import create_key
from agentenv.components._lib.options import ChildOptions, child_options, component_outputs
from agentenv.components._lib.planned_documents import OUTPUT
from agentenv.components._lib.tags import Labels
from agentenv.components.capacity.headroom import create_headroom
from agentenv.components.capacity.interruption_queue import interruption_queue
from agentenv.components.capacity.karpenter import KarpenterContext, create_node_role, install_karpenter
from agentenv.components.capacity.node_objects import LaunchContext, create_node_pools, create_runtime_classes
from agentenv.components.cluster.context import ClusterContext
from agentenv.components.cluster.gpu_plugin import NAME as PLUGIN
from agentenv.components.cluster.gpu_plugin import create_device_plugin
from agentenv.components.cluster.irsa import Roles
from agentenv.core.nodes.mirrors import bucket_address, runtime_bucket
from agentenv.core.pinned_versions import Runtime, releases
from agentenv.core.plan import CapacityPlan


class Capacity(pulumi.ComponentResource):
    """Karpenter with its IAM roles and interruption queue, node classes, node pools, runtime classes and headroom."""

    node_role_arn: pulumi.Output[str]
    """The IAM role of the nodes."""

    queue_name: pulumi.Output[str]
    """The SQS queue of interruption events."""

    volume_key_arn: pulumi.Output[str]
    """The KMS key of the nodes' volumes."""

    pool_names: pulumi.Output[list[str]]
    """The node pools."""

    def __init__(
        self, name: str, plan: CapacityPlan, cluster: ClusterContext, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        """Create the capacity of a cluster; nodes discover its subnets and security groups by a tag with its name."""
        labels, mirrors = Labels.of(plan.environment, "capacity", name), plan.mirrors

        super().__init__("agent-environment:index:Capacity", name, {}, opts)
        self._labels, self._aws = labels, aws_context(self)
        self._child: ChildOptions = child_options(self, opts)
        roles = Roles(labels, self._child, plan.environment.permissions_boundary)
        karpenter = KarpenterContext(plan, cluster, self._aws)

        key = create_key(
            "volumes",
            "Volumes of the nodes",
            self._aws.apply(iam_policies.volume_key_policy),
            labels,
            self._child,
        )
        nodes = create_node_role(karpenter, roles)
        queue, queue_targets = interruption_queue(labels, self._child, self._aws, roles.planned_documents)
        controller = install_karpenter(karpenter, nodes, queue, roles)
        node_dependencies = [controller, *queue_targets, *nodes.ready]
        node_dependencies += create_device_plugin(
            plan.pools, mirrors.image(releases().images[PLUGIN]), node_dependencies, labels, self._child
        )
        launch = LaunchContext(cluster.name, nodes.identity, key.arn, self._runtimes(plan), node_dependencies)
        node_pool_objects = create_node_pools(plan.settings, plan.pools, launch, labels, self._child)
        create_runtime_classes(plan.pools, labels, self._child)
        create_headroom(plan, node_pool_objects, labels, self._child)

        self.node_role_arn = nodes.role.arn
        self.queue_name = queue.name
        self.volume_key_arn = key.arn
        self.pool_names = pulumi.Output.from_input([pool.name for pool in plan.pools])
        self.register_outputs({**component_outputs(self), OUTPUT: roles.planned_documents.entries})

    def _runtimes(self, plan: CapacityPlan) -> pulumi.Output[dict[str, Runtime]]:
        """Return the runtimes that nodes install; with a bucket, from there first."""

        def mirrored(context: AwsContext) -> dict[str, Runtime]:
            bucket = runtime_bucket(plan.environment.name, context.account)
            address = bucket_address(bucket, context.region, context.dns_suffix)
            mirrors = replace(plan.mirrors, files=address) if plan.runtime_bucket else plan.mirrors
            return mirrors.runtimes(releases().runtimes, isolated=plan.isolated)

        return self._aws.apply(mirrored)
