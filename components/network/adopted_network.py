"""An adopted network: an existing VPC that is used as it is.

The environment adds the security group of its nodes, the KMS key of its log groups and the bucket of runtimes, and
deletes them again. The VPC, its subnets, routes, endpoints and flow logs stay with their owner.
"""

import pulumi

from agentenv.components._lib.aws_context import aws_context
from agentenv.components._lib.existing import adopted, read_network
from agentenv.components._lib.options import ChildOptions, child_options, component_outputs
from agentenv.components._lib.planned_documents import OUTPUT, PlannedDocuments
from agentenv.components._lib.tags import Labels
from agentenv.components.network.flow_logs import create_logs_key
from agentenv.components.network.network import NetworkContext
from agentenv.components.network.node_security_group import create_nodes_security_group
from agentenv.components.network.runtime_bucket import create_runtime_bucket
from agentenv.core.plan import NetworkPlan


class AdoptedNetwork(pulumi.ComponentResource):
    """An existing VPC with the security group of an environment's nodes."""

    vpc_id: pulumi.Output[str]
    """The VPC."""

    cidr: pulumi.Output[str]
    """Its CIDR block."""

    zone_names: pulumi.Output[list[str]]
    """The zones of its private subnets, by number."""

    public_subnet_ids: pulumi.Output[list[str]]
    """The public subnets, for load balancers."""

    private_subnet_ids: pulumi.Output[list[str]]
    """The private subnets, one per zone, for nodes, pods and mount targets."""

    nodes_security_group_id: pulumi.Output[str]
    """The security group of the nodes. It has only the rules that other components add."""

    nat_addresses: pulumi.Output[list[str]]
    """Empty: the NAT gateways belong to the owner of the VPC."""

    flow_log_group: pulumi.Output[str]
    """Empty: the flow logs belong to the owner of the VPC."""

    logs_key_arn: pulumi.Output[str]
    """The KMS key of log groups under `/agent-environment/<environment>/` and of the cluster's control plane."""

    def __init__(self, name: str, plan: NetworkPlan, opts: pulumi.ResourceOptions | None = None) -> None:
        """Adopt the network; raise before creating anything if it cannot be adopted."""
        labels, cluster = Labels.of(plan.environment, "network", name), plan.environment.cluster_name
        existing = adopted(plan.settings.existing, "network.existing")

        super().__init__("agent-environment:index:AdoptedNetwork", name, {}, opts)
        facts = read_network(existing, cluster, pulumi.InvokeOptions(parent=self))
        child: ChildOptions = child_options(self, opts)
        group = create_nodes_security_group(labels, child, existing.vpc_id, cluster)
        aws, planned_documents = aws_context(self), PlannedDocuments()
        key = create_logs_key(labels, aws, child, cluster=cluster)
        if plan.runtime_bucket:
            create_runtime_bucket(existing.vpc_id, labels, aws, child, planned_documents)

        to_output = pulumi.Output.from_input
        subnet_ids = [to_output(id_) for id_ in existing.private_subnet_ids]
        self.vpc_id = to_output(existing.vpc_id)
        self.cidr = to_output(facts.cidr)
        self.zone_names = to_output(list(facts.zones))
        self.public_subnet_ids = to_output(list(existing.public_subnet_ids))
        self.private_subnet_ids = to_output(list(existing.private_subnet_ids))
        self.nodes_security_group_id = group.id
        self.nat_addresses = to_output([])
        self.flow_log_group = to_output("")
        self.logs_key_arn = key.arn
        self.context = NetworkContext(
            self.vpc_id, subnet_ids, group.id, key.arn, public_subnet_ids=list(existing.public_subnet_ids)
        )
        self.register_outputs({**component_outputs(self), OUTPUT: planned_documents.entries})
