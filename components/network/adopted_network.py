"""A network that stands already: used as it is, with what an environment adds to it and takes away again.

That is the group of its nodes, and the key of its log groups. The VPC, its subnets, routes, endpoints and flow logs are
its owner's.
"""

from typing import TypedDict

import pulumi

from agentenv.components._lib.arguments import ArgumentReader
from agentenv.components._lib.aws_context import aws_context
from agentenv.components._lib.existing import ExistingNetwork, network_arguments, read_network
from agentenv.components._lib.options import ChildOptions, child_options, component_outputs
from agentenv.components._lib.tags import Labels, Ownership
from agentenv.components.network.flow_logs import logs_key
from agentenv.components.network.node_security_group import create_nodes_security_group


class AdoptedNetworkArgs(TypedDict):
    """What is used of a network, and by whom."""

    ownership: Ownership
    """Whose the environment is."""

    existing: ExistingNetwork
    """The VPC and its subnets."""

    cluster_name: str
    """The cluster that lives or will live here: the subnets have to carry its name in their tags."""


class AdoptedNetwork(pulumi.ComponentResource):
    """A VPC that stands already, with the group of an environment's nodes."""

    vpc_id: pulumi.Output[str]
    """The VPC."""

    cidr: pulumi.Output[str]
    """Its range."""

    zone_names: pulumi.Output[list[str]]
    """The zones of its private subnets, by number."""

    public_subnet_ids: pulumi.Output[list[str]]
    """The subnets for load balancers."""

    private_subnet_ids: pulumi.Output[list[str]]
    """A subnet a zone for nodes, pods and mount targets."""

    nodes_security_group_id: pulumi.Output[str]
    """The group that nodes are in. It lets nothing through but what other components add."""

    nat_addresses: pulumi.Output[list[str]]
    """None: which addresses the VPC is seen under is its owner's to say."""

    flow_log_group: pulumi.Output[str]
    """Empty: its owner records its flows."""

    logs_key_arn: pulumi.Output[str]
    """The key for log groups under `/agent-environment/<environment>/`, and for that of the cluster's control plane."""

    def __init__(self, name: str, args: AdoptedNetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Use it; nothing is added to a network that is not right."""
        reader = ArgumentReader.of("network", args, AdoptedNetworkArgs)
        labels = Labels.of(reader, "network", name)
        cluster = reader.text("cluster_name")
        named = network_arguments(reader.part("existing", ExistingNetwork))

        super().__init__("agent-environment:index:AdoptedNetwork", name, {}, opts)
        found = read_network(named, cluster, pulumi.InvokeOptions(parent=self))
        child: ChildOptions = child_options(self, opts)
        group = create_nodes_security_group(labels, child, named["vpc_id"], cluster)
        key = logs_key(labels, aws_context(self), child, cluster=cluster)

        known = pulumi.Output.from_input
        self.private_subnets_by_zone = [known(id_) for id_ in named["private_subnet_ids"]]
        self.vpc_id = known(named["vpc_id"])
        self.cidr = known(found.cidr)
        self.zone_names = known(list(found.zones))
        self.public_subnet_ids = known(list(named.get("public_subnet_ids") or []))
        self.private_subnet_ids = known(list(named["private_subnet_ids"]))
        self.nodes_security_group_id = group.id
        self.nat_addresses = known([])
        self.nat_addresses_by_gateway: list[pulumi.Output[str]] = []
        self.flow_log_group = known("")
        self.logs_key_arn = key.arn
        self.register_outputs(component_outputs(self))
