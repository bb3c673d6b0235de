"""The environment: every component, in the order they come to life."""

from typing import NotRequired, TypedDict

import pulumi

from components.children import children_of, outputs_of
from components.network import Network, NetworkArgs, NetworkLayout
from components.ownership import Labels, Ownership
from components.plain import Plain
from components.storage import Storage, StorageArgs, StorageLayout


class EnvironmentArgs(TypedDict):
    """What an environment is made from."""

    ownership: Ownership
    """Whose it is."""

    network: NetworkLayout
    """How its network is laid out."""

    storage: StorageLayout
    """Which file systems it has."""

    cluster_name: NotRequired[str]
    """The name of its cluster; made of the environment's and this component's unless told."""

    keep_data: NotRequired[bool]
    """Whether what holds data is protected, and outlives the stack; true in `prod` unless told."""


class Environment(pulumi.ComponentResource):
    """Everything that gives users, chat sessions and agents a computer of their own."""

    cluster_name: pulumi.Output[str]
    """The name of the cluster."""

    vpc_id: pulumi.Output[str]
    """The VPC."""

    zone_names: pulumi.Output[list[str]]
    """The zones in use."""

    public_subnet_ids: pulumi.Output[list[str]]
    """A subnet a zone for load balancers."""

    private_subnet_ids: pulumi.Output[list[str]]
    """A subnet a zone for nodes and pods."""

    nat_addresses: pulumi.Output[list[str]]
    """The public addresses that it is seen under."""

    nodes_security_group_id: pulumi.Output[str]
    """The group that nodes are in."""

    flow_log_group: pulumi.Output[str]
    """The log group with the network's flow logs."""

    file_system_ids: pulumi.Output[list[str]]
    """The file systems, by shard."""

    def __init__(self, name: str, args: EnvironmentArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Make all of it; a wrong plain argument raises before the part that it belongs to is made."""
        given = Plain.of("environment", args, EnvironmentArgs)
        ownership = args["ownership"]
        labels = Labels.of(given, "environment", name)
        cluster = given.text("cluster_name", default=labels.name("eks-cluster", ""))

        super().__init__("agent-environment:index:Environment", name, {}, opts)
        child = children_of(self, opts)

        layout: NetworkArgs = {"ownership": ownership, "layout": args["network"], "cluster_name": cluster}
        self.network = Network(f"{name}-network", layout, child())

        files: StorageArgs = {
            "ownership": ownership,
            "layout": args["storage"],
            "vpc_id": self.network.vpc_id,
            "subnet_ids": [subnet.id for subnet in self.network.private_subnets],
            "nodes_security_group_id": self.network.nodes_security_group_id,
        }
        if given.has("keep_data"):
            files["keep_data"] = given.flag("keep_data", default=False)
        self.storage = Storage(f"{name}-storage", files, child())

        self.cluster_name = pulumi.Output.from_input(cluster)
        self.vpc_id = self.network.vpc_id
        self.zone_names = self.network.zone_names
        self.public_subnet_ids = self.network.public_subnet_ids
        self.private_subnet_ids = self.network.private_subnet_ids
        self.nat_addresses = self.network.nat_addresses
        self.nodes_security_group_id = self.network.nodes_security_group_id
        self.flow_log_group = self.network.flow_log_group
        self.file_system_ids = self.storage.file_system_ids
        self.register_outputs(outputs_of(self))
