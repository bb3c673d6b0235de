"""The environment: every component, in the order they come to life."""

from typing import Any, NotRequired, TypedDict

import pulumi

from agentenv.components._lib.arguments import ArgumentReader
from agentenv.components._lib.existing import Existing, existing_arguments, read_existing
from agentenv.components._lib.options import child_options, component_outputs
from agentenv.components._lib.tags import Labels, Ownership
from agentenv.components.capacity.capacity import Capacity, CapacityArgs
from agentenv.components.capacity.capacity_layout import (
    CapacityDemand,
    CapacityHeadroom,
    CapacityLayout,
    CapacityMirrors,
)
from agentenv.components.cluster.adopted_cluster import AdoptedCluster, AdoptedClusterArgs
from agentenv.components.cluster.cluster import Cluster, ClusterArgs, ClusterLayout
from agentenv.components.cluster.cluster_addons import ClusterAddons, ClusterAddonsArgs
from agentenv.components.cost.cluster_costs import ClusterCosts, ClusterCostsArgs, MeteringLayout
from agentenv.components.cost.cost_controls import CostControls, CostControlsArgs, CostLayout
from agentenv.components.network.adopted_network import AdoptedNetwork
from agentenv.components.network.network import Network, NetworkArgs, NetworkLayout
from agentenv.components.population import (
    Ground,
    among,
    create_classes,
    create_seats,
    create_service,
    create_storage_metering,
    declared_seats,
    seat_security_groups,
)
from agentenv.components.sandboxes.agent_sandbox import AgentSandbox, SandboxControllerLayout
from agentenv.components.sandboxes.fargate_security_groups import FargateClass
from agentenv.components.sandboxes.guardrails import Guardrails, GuardrailsArgs
from agentenv.components.sandboxes.workspace import SeatLayout, check_seat_conflicts
from agentenv.components.storage.adopted_storage import AdoptedStorage, AdoptedStorageArgs
from agentenv.components.storage.storage import Storage, StorageArgs, StorageLayout


class EnvironmentArgs(TypedDict):
    """What an environment is made from."""

    ownership: Ownership
    """Whose it is."""

    network: NetworkLayout
    """How its network is laid out."""

    cluster: ClusterLayout
    """What its cluster is to be."""

    capacity: CapacityLayout
    """How its nodes are to be."""

    storage: StorageLayout
    """Which file systems it has."""

    existing: NotRequired[Existing]
    """What stands already and is used as it is, whatever is said above of how it is to be; nothing unless told."""

    demands: NotRequired[list[CapacityDemand]]
    """What the classes of sandboxes ask of nodes; nothing unless told."""

    settings: NotRequired[dict[str, Any]]
    """All settings, as a stack file has them under `config`: its classes of sandboxes follow; none unless told."""

    workspaces: NotRequired[list[SeatLayout]]
    """The workspaces that are always there; none unless told."""

    fargate_classes: NotRequired[list[FargateClass]]
    """The classes of sandboxes on Fargate, and what their security groups hold; none unless told."""

    costs: NotRequired[CostLayout]
    """What is controlled of its costs; nothing unless told."""

    metering: NotRequired[MeteringLayout]
    """How it is metered in the cluster; not at all unless told."""

    headroom: NotRequired[CapacityHeadroom]
    """Room kept free on nodes; none unless told."""

    mirrors: NotRequired[CapacityMirrors]
    """Where copies are of what nodes and controllers take from the internet; there unless told."""

    sandbox_controller: NotRequired[SandboxControllerLayout]
    """Where the controller of sandboxes comes from, and how it runs; as released unless told."""

    cluster_name: NotRequired[str]
    """The name of its cluster; made of the environment's and this component's unless told."""

    keep_data: NotRequired[bool]
    """Whether what holds data is protected, and outlives the stack; true in `prod` unless told."""

    deletion_protection: NotRequired[bool]
    """Whether EKS and Pulumi refuse to delete the cluster; true in `prod` unless told."""

    permissions_boundary: NotRequired[str]
    """The permissions boundary of every role that is made."""


class Environment(pulumi.ComponentResource):
    """Everything that gives users, chat sessions and agents a computer of their own."""

    cluster_name: pulumi.Output[str]
    """The name of the cluster, once it is there."""

    kubeconfig: pulumi.Output[str]
    """How to reach the cluster: without a credential, for one is fetched with `aws eks get-token`."""

    pool_names: pulumi.Output[list[str]]
    """The node pools."""

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

    usage_database: pulumi.Output[str]
    """The database of Athena that the bill is in by the hour; empty without an export."""

    usage_workgroup: pulumi.Output[str]
    """Where it is asked about from; empty without an export."""

    sandbox_classes: pulumi.Output[dict[str, Any]]
    """Of each class its namespace, its releases by channel, the size of their pools, and the misses to expect."""

    service_url: pulumi.Output[str | None]
    """Where pods of the cluster find the workspace service, where there is one."""

    service_address: pulumi.Output[str | None]
    """The load balancer's name that the record of the service's domain points to, where it has one."""

    def __init__(self, name: str, args: EnvironmentArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Make all of it; a wrong plain argument raises before the part that it belongs to is made."""
        reader = ArgumentReader.of("environment", args, EnvironmentArgs)
        labels = Labels.of(reader, "environment", name)
        cluster = reader.text("cluster_name", default=labels.name("eks-cluster", ""))

        super().__init__("agent-environment:index:Environment", name, {}, opts)
        self._name, self._args, self._reader, self._cluster_name = name, args, reader, cluster
        self._existing = existing_arguments(reader)
        # All of what stands already is found to be right before anything is made beside any of it.
        asked = pulumi.InvokeOptions(parent=self)
        standing = read_existing(self._existing, cluster, args["cluster"]["version"], asked)
        self._args = among(args, standing)
        check_seat_conflicts(declared_seats(reader, "workspaces"), labels.environment, asked)
        self._child = child_options(self, opts)

        self.network = self._network()
        self.cluster = self._cluster()
        self.storage = self._storage()
        self.costs = self._costs()
        # What runs in the cluster comes after all of it and goes before any of it.
        speaking: list[pulumi.ProviderResource] = [self.cluster.provider]
        self.capacity = self._capacity(pulumi.ResourceOptions(depends_on=[self.cluster], providers=speaking))
        self.addons = self._addons(pulumi.ResourceOptions(depends_on=[self.capacity], providers=speaking))
        self.sandboxes = AgentSandbox(
            f"{name}-sandboxes",
            {"ownership": args["ownership"], "layout": args.get("sandbox_controller") or {}},
            # It may be on the system's nodes, now or from before: it comes after them and goes before them.
            self._child(pulumi.ResourceOptions(depends_on=[self.capacity], providers=speaking)),
        )
        guarded = self._guardrails(speaking)
        # A sandbox needs nodes, its files and its controller from its first moment to its last.
        needed: list[pulumi.Resource] = [self.storage, self.addons, self.sandboxes, guarded]
        ready = pulumi.ResourceOptions(depends_on=needed, providers=speaking)
        ground = Ground(name, self._cluster_name, self.cluster, self.storage.file_system_ids, standing, self._child)
        self.classes = create_classes(ground, args, ready)
        create_seats(ground, args, self.classes, speaking)
        self.service = create_service(ground, args, self.classes, self.network, needed=needed, speaking=speaking)
        self.storage_metering = create_storage_metering(ground, args, needed, speaking)
        self.metering = self._metering(speaking)

        self.cluster_name = self.cluster.name
        self.kubeconfig = self.cluster.kubeconfig
        self.pool_names = self.capacity.pool_names
        self.vpc_id = self.network.vpc_id
        self.zone_names = self.network.zone_names
        self.public_subnet_ids = self.network.public_subnet_ids
        self.private_subnet_ids = self.network.private_subnet_ids
        self.nat_addresses = self.network.nat_addresses
        self.nodes_security_group_id = self.network.nodes_security_group_id
        self.flow_log_group = self.network.flow_log_group
        self.file_system_ids = self.storage.file_system_ids
        self.usage_database = self.costs.usage_database if self.costs else pulumi.Output.from_input("")
        self.usage_workgroup = self.costs.usage_workgroup if self.costs else pulumi.Output.from_input("")
        self.sandbox_classes = pulumi.Output.all(**{of: one.summary for of, one in self.classes.items()})
        nothing: pulumi.Output[str | None] = pulumi.Output.from_input(None)
        self.service_url = self.service.url.apply(str) if self.service else nothing
        self.service_address = self.service.address if self.service else nothing
        self.register_outputs(component_outputs(self))

    def _network(self) -> Network | AdoptedNetwork:
        name = f"{self._name}-network"
        if "network" in self._existing:
            return AdoptedNetwork(
                name,
                {
                    "ownership": self._args["ownership"],
                    "existing": self._existing["network"],
                    "cluster_name": self._cluster_name,
                },
                self._child(),
            )
        layout: NetworkArgs = {
            "ownership": self._args["ownership"],
            "layout": self._args["network"],
            "cluster_name": self._cluster_name,
        }
        return Network(name, layout, self._child())

    def _cluster(self) -> Cluster | AdoptedCluster:
        network = self.network
        if self._existing.get("cluster"):
            return self._adopted_cluster()
        told: ClusterArgs = {
            "ownership": self._args["ownership"],
            "name": self._cluster_name,
            "layout": self._args["cluster"],
            "vpc_id": network.vpc_id,
            "subnet_ids": list(network.private_subnets_by_zone),
            "nodes_security_group_id": network.nodes_security_group_id,
            "logs_key_arn": network.logs_key_arn,
        }
        if isinstance(network, Network) and self._args["network"].get("endpoints"):
            told["endpoints_security_group_id"] = network.endpoints_security_group_id
        if self._reader.has("deletion_protection"):
            told["deletion_protection"] = self._reader.flag("deletion_protection", default=False)
        if self._reader.has("permissions_boundary"):
            told["permissions_boundary"] = self._reader.text("permissions_boundary")
        if "fargate_classes" in self._args:
            told["fargate_classes"] = self._args["fargate_classes"]
        # All of the network: pods pull images and controllers call AWS over its routes, to their last moment.
        return Cluster(f"{self._name}-cluster", told, self._child(pulumi.ResourceOptions(depends_on=[network])))

    def _adopted_cluster(self) -> AdoptedCluster:
        told: AdoptedClusterArgs = {
            "ownership": self._args["ownership"],
            "name": self._cluster_name,
            "version": self._args["cluster"]["version"],
            "subnet_ids": list(self.network.private_subnets_by_zone),
            "nodes_security_group_id": self.network.nodes_security_group_id,
        }
        if "sandbox_controller" in self._args["cluster"]:
            told["sandbox_controller"] = self._args["cluster"]["sandbox_controller"]
        if "fargate_classes" in self._args:
            told["fargate_classes"] = self._args["fargate_classes"]
        if "network" in self._existing:
            told["vpc_id"] = self._existing["network"]["vpc_id"]
        if self._reader.has("permissions_boundary"):
            told["permissions_boundary"] = self._reader.text("permissions_boundary")
        after = pulumi.ResourceOptions(depends_on=[self.network])
        return AdoptedCluster(f"{self._name}-cluster", told, self._child(after))

    def _storage(self) -> Storage | AdoptedStorage:
        clients: pulumi.Output[list[pulumi.Input[str]]] = self.cluster.efs_client_role_arns.apply(lambda arns: [*arns])
        name = f"{self._name}-storage"
        mounting = seat_security_groups(self.cluster, self._args)
        if "file_systems" in self._existing:
            adopted: AdoptedStorageArgs = {
                "ownership": self._args["ownership"],
                "existing": self._existing["file_systems"],
                "vpc_id": self.network.vpc_id,
                "subnet_ids": list(self.network.private_subnets_by_zone),
                "nodes_security_group_id": self.network.nodes_security_group_id,
                "client_role_arns": clients,
                "class_group_ids": mounting,
            }
            return AdoptedStorage(name, adopted, self._child())
        files: StorageArgs = {
            "ownership": self._args["ownership"],
            "layout": self._args["storage"],
            "vpc_id": self.network.vpc_id,
            "subnet_ids": list(self.network.private_subnets_by_zone),
            "nodes_security_group_id": self.network.nodes_security_group_id,
            "client_role_arns": clients,
            "class_group_ids": mounting,
        }
        if self._reader.has("keep_data"):
            files["keep_data"] = self._reader.flag("keep_data", default=False)
        return Storage(name, files, self._child())

    def _costs(self) -> CostControls | None:
        layout = self._args.get("costs")
        if not layout:
            return None
        files: pulumi.Output[list[pulumi.Input[str]]] = self.storage.file_system_ids.apply(lambda ids: [*ids])
        told: CostControlsArgs = {
            "ownership": self._args["ownership"],
            "layout": layout,
            "cluster_name": self._cluster_name,
            "file_system_ids": files,
            "log_groups": [self.network.flow_log_group, f"/aws/eks/{self._cluster_name}/cluster"],
        }
        if self._reader.has("keep_data"):
            told["keep_data"] = self._reader.flag("keep_data", default=False)
        return CostControls(f"{self._name}-costs", told, self._child())

    def _capacity(self, after: pulumi.ResourceOptions) -> Capacity:
        told: CapacityArgs = {
            "ownership": self._args["ownership"],
            "cluster_name": self._cluster_name,
            "cluster_endpoint": self.cluster.endpoint,
            "issuer_url": self.cluster.issuer_url,
            "issuer_arn": self.cluster.issuer_arn,
            "layout": self._args["capacity"],
            "demands": self._args.get("demands") or [],
            "isolated": self._args["network"].get("nat") == "none",
        }
        if "mirrors" in self._args:
            told["mirrors"] = self._args["mirrors"]
        if "headroom" in self._args:
            told["headroom"] = self._args["headroom"]
        if self._reader.has("permissions_boundary"):
            told["permissions_boundary"] = self._reader.text("permissions_boundary")
        return Capacity(f"{self._name}-capacity", told, self._child(after))

    def _addons(self, after: pulumi.ResourceOptions) -> ClusterAddons:
        layout = self._args["cluster"]
        files: pulumi.Output[list[pulumi.Input[str]]] = self.storage.file_system_arns.apply(lambda arns: [*arns])
        told: ClusterAddonsArgs = {
            "ownership": self._args["ownership"],
            "cluster_name": self._cluster_name,
            "version": layout["version"],
            "addon_versions": layout.get("addon_versions") or {},
            "file_system_arns": files,
            "efs_node_role_arn": self.cluster.efs_client_role_arns.apply(lambda arns: arns[0]),
        }
        if self._reader.has("permissions_boundary"):
            told["permissions_boundary"] = self._reader.text("permissions_boundary")
        return ClusterAddons(f"{self._name}-addons", told, self._child(after))

    def _metering(self, speaking: list[pulumi.ProviderResource]) -> ClusterCosts | None:
        layout = self._args.get("metering")
        if layout is None:
            return None
        told: ClusterCostsArgs = {
            "ownership": self._args["ownership"],
            "cluster_name": self._cluster_name,
            "layout": layout,
            "service": self.service is not None,
        }
        # After those that it scrapes: what it may look at in their namespaces is given there.
        scraped: list[pulumi.Resource] = [self.addons, self.sandboxes, *([self.service] if self.service else [])]
        after = pulumi.ResourceOptions(depends_on=scraped, providers=speaking)
        return ClusterCosts(f"{self._name}-metering", told, self._child(after))

    def _guardrails(self, speaking: list[pulumi.ProviderResource]) -> Guardrails:
        told: GuardrailsArgs = {
            "ownership": self._args["ownership"],
            "file_system_ids": self.storage.file_system_ids,
            "outlived": bool(self._existing.get("cluster")),
        }
        # The API server of a cluster that has just been made answers once its doors are open: so after all of it.
        after = pulumi.ResourceOptions(depends_on=[self.cluster], providers=speaking)
        return Guardrails(f"{self._name}-guardrails", told, self._child(after))
