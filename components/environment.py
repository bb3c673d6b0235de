"""The environment: creates every other component, in dependency order."""

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
    ClusterContext,
    create_classes,
    create_seats,
    create_service,
    create_storage_metering,
    declared_seats,
    seat_security_groups,
    with_existing_ranges,
)
from agentenv.components.sandboxes.agent_sandbox import AgentSandbox, SandboxControllerLayout
from agentenv.components.sandboxes.fargate_security_groups import FargateClass
from agentenv.components.sandboxes.guardrails import Guardrails, GuardrailsArgs
from agentenv.components.sandboxes.workspace import SeatLayout, check_seat_conflicts
from agentenv.components.storage.adopted_storage import AdoptedStorage, AdoptedStorageArgs
from agentenv.components.storage.storage import Storage, StorageArgs, StorageLayout


class EnvironmentArgs(TypedDict):
    """The arguments of an environment."""

    ownership: Ownership
    """The owner, for tags and names."""

    network: NetworkLayout
    """The layout of its network."""

    cluster: ClusterLayout
    """The layout of its cluster."""

    capacity: CapacityLayout
    """The layout of its nodes."""

    storage: StorageLayout
    """The layout of its file systems."""

    existing: NotRequired[Existing]
    """Existing resources to adopt, used as they are whatever the layouts above say. Default: none."""

    demands: NotRequired[list[CapacityDemand]]
    """The node requirements of the sandbox classes. Default: none."""

    settings: NotRequired[dict[str, Any]]
    """All settings, as in a stack file under `config`; they define the sandbox classes. Default: no classes."""

    workspaces: NotRequired[list[SeatLayout]]
    """The declared workspaces, which always exist. Default: none."""

    fargate_classes: NotRequired[list[FargateClass]]
    """The sandbox classes on Fargate and the rules of their security groups. Default: none."""

    costs: NotRequired[CostLayout]
    """The cost controls. Default: none."""

    metering: NotRequired[MeteringLayout]
    """The metering in the cluster. Default: no metering."""

    headroom: NotRequired[CapacityHeadroom]
    """The headroom kept free on nodes. Default: none."""

    mirrors: NotRequired[CapacityMirrors]
    """Mirrors of what nodes and controllers download. Default: download from the internet."""

    sandbox_controller: NotRequired[SandboxControllerLayout]
    """The source and configuration of the agent-sandbox controller. Default: as released."""

    cluster_name: NotRequired[str]
    """The name of its cluster. Default: built from the names of the environment and this component."""

    keep_data: NotRequired[bool]
    """Whether resources with data are protected, and retained when the stack is destroyed. Default: true in `prod`."""

    deletion_protection: NotRequired[bool]
    """Whether EKS and Pulumi refuse to delete the cluster. Default: true in `prod`."""

    permissions_boundary: NotRequired[str]
    """The permissions boundary of every IAM role that is created."""


class Environment(pulumi.ComponentResource):
    """A complete platform that gives users, chat sessions and agents a sandbox each."""

    cluster_name: pulumi.Output[str]
    """The name of the cluster, known once it is created."""

    kubeconfig: pulumi.Output[str]
    """The kubeconfig of the cluster. It holds no credential: clients run `aws eks get-token`."""

    pool_names: pulumi.Output[list[str]]
    """The node pools."""

    vpc_id: pulumi.Output[str]
    """The VPC."""

    zone_names: pulumi.Output[list[str]]
    """The availability zones in use."""

    public_subnet_ids: pulumi.Output[list[str]]
    """The public subnets, one per zone, for load balancers."""

    private_subnet_ids: pulumi.Output[list[str]]
    """The private subnets, one per zone, for nodes and pods."""

    nat_addresses: pulumi.Output[list[str]]
    """The public addresses of its NAT gateways."""

    nodes_security_group_id: pulumi.Output[str]
    """The security group of the nodes."""

    flow_log_group: pulumi.Output[str]
    """The log group of the VPC flow logs."""

    file_system_ids: pulumi.Output[list[str]]
    """The file systems, by shard."""

    usage_database: pulumi.Output[str]
    """The Athena database of the hourly usage export; empty without an export."""

    usage_workgroup: pulumi.Output[str]
    """The Athena workgroup for queries over the export; empty without an export."""

    sandbox_classes: pulumi.Output[dict[str, Any]]
    """For each class its namespace, its releases by channel, their pool size, and the expected miss rate."""

    service_url: pulumi.Output[str | None]
    """The URL of the workspace service inside the cluster; null without a service."""

    service_address: pulumi.Output[str | None]
    """The load balancer's DNS name, the target of the record of the service's domain; null without a domain."""

    def __init__(self, name: str, args: EnvironmentArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Create the environment; a wrong plain argument raises before its component is created."""
        reader = ArgumentReader.of("environment", args, EnvironmentArgs)
        labels = Labels.of(reader, "environment", name)
        cluster = reader.text("cluster_name", default=labels.name("eks-cluster", ""))

        super().__init__("agent-environment:index:Environment", name, {}, opts)
        self._name, self._args, self._reader, self._cluster_name = name, args, reader, cluster
        self._existing = existing_arguments(reader)
        # Check all existing resources before creating anything next to them.
        invoke_options = pulumi.InvokeOptions(parent=self)
        existing_ranges = read_existing(self._existing, cluster, args["cluster"]["version"], invoke_options)
        self._args = with_existing_ranges(args, existing_ranges)
        check_seat_conflicts(declared_seats(reader, "workspaces"), labels.environment, invoke_options)
        self._child = child_options(self, opts)

        self.network = self._network()
        self.cluster = self._cluster()
        self.storage = self._storage()
        self.costs = self._costs()
        # Objects in the cluster are created after all of it and deleted before any of it.
        kubernetes_provider: list[pulumi.ProviderResource] = [self.cluster.provider]
        self.capacity = self._capacity(pulumi.ResourceOptions(depends_on=[self.cluster], providers=kubernetes_provider))
        self.addons = self._addons(pulumi.ResourceOptions(depends_on=[self.capacity], providers=kubernetes_provider))
        self.sandboxes = AgentSandbox(
            f"{name}-sandboxes",
            {"ownership": args["ownership"], "layout": args.get("sandbox_controller") or {}},
            # It may run, or have run, on system nodes: it is created after them and deleted before them.
            self._child(pulumi.ResourceOptions(depends_on=[self.capacity], providers=kubernetes_provider)),
        )
        guardrails = self._guardrails(kubernetes_provider)
        # A sandbox needs nodes, its files and its controller for as long as it exists.
        dependencies: list[pulumi.Resource] = [self.storage, self.addons, self.sandboxes, guardrails]
        sandbox_options = pulumi.ResourceOptions(depends_on=dependencies, providers=kubernetes_provider)
        cluster_context = ClusterContext(
            name, self._cluster_name, self.cluster, self.storage.file_system_ids, existing_ranges, self._child
        )
        self.classes = create_classes(cluster_context, args, sandbox_options)
        create_seats(cluster_context, args, self.classes, kubernetes_provider)
        self.service = create_service(
            cluster_context,
            args,
            self.classes,
            self.network,
            dependencies=dependencies,
            kubernetes_provider=kubernetes_provider,
        )
        self.storage_metering = create_storage_metering(cluster_context, args, dependencies, kubernetes_provider)
        self.metering = self._metering(kubernetes_provider)

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
        self.sandbox_classes = pulumi.Output.all(
            **{name: sandbox_class.summary for name, sandbox_class in self.classes.items()}
        )
        no_url: pulumi.Output[str | None] = pulumi.Output.from_input(None)
        self.service_url = self.service.url.apply(str) if self.service else no_url
        self.service_address = self.service.address if self.service else no_url
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
        args: ClusterArgs = {
            "ownership": self._args["ownership"],
            "name": self._cluster_name,
            "layout": self._args["cluster"],
            "vpc_id": network.vpc_id,
            "subnet_ids": list(network.private_subnets_by_zone),
            "nodes_security_group_id": network.nodes_security_group_id,
            "logs_key_arn": network.logs_key_arn,
        }
        if isinstance(network, Network) and self._args["network"].get("endpoints"):
            args["endpoints_security_group_id"] = network.endpoints_security_group_id
        if self._reader.has("deletion_protection"):
            args["deletion_protection"] = self._reader.flag("deletion_protection", default=False)
        if self._reader.has("permissions_boundary"):
            args["permissions_boundary"] = self._reader.text("permissions_boundary")
        if "fargate_classes" in self._args:
            args["fargate_classes"] = self._args["fargate_classes"]
        # Depends on the whole network: until they end, pods pull images and controllers call AWS over its routes.
        return Cluster(f"{self._name}-cluster", args, self._child(pulumi.ResourceOptions(depends_on=[network])))

    def _adopted_cluster(self) -> AdoptedCluster:
        args: AdoptedClusterArgs = {
            "ownership": self._args["ownership"],
            "name": self._cluster_name,
            "version": self._args["cluster"]["version"],
            "subnet_ids": list(self.network.private_subnets_by_zone),
            "nodes_security_group_id": self.network.nodes_security_group_id,
        }
        if "sandbox_controller" in self._args["cluster"]:
            args["sandbox_controller"] = self._args["cluster"]["sandbox_controller"]
        if "fargate_classes" in self._args:
            args["fargate_classes"] = self._args["fargate_classes"]
        if "network" in self._existing:
            args["vpc_id"] = self._existing["network"]["vpc_id"]
        if self._reader.has("permissions_boundary"):
            args["permissions_boundary"] = self._reader.text("permissions_boundary")
        after = pulumi.ResourceOptions(depends_on=[self.network])
        return AdoptedCluster(f"{self._name}-cluster", args, self._child(after))

    def _storage(self) -> Storage | AdoptedStorage:
        clients: pulumi.Output[list[pulumi.Input[str]]] = self.cluster.efs_client_role_arns.apply(lambda arns: [*arns])
        name = f"{self._name}-storage"
        seat_groups = seat_security_groups(self.cluster, self._args)
        if "file_systems" in self._existing:
            adopted: AdoptedStorageArgs = {
                "ownership": self._args["ownership"],
                "existing": self._existing["file_systems"],
                "vpc_id": self.network.vpc_id,
                "subnet_ids": list(self.network.private_subnets_by_zone),
                "nodes_security_group_id": self.network.nodes_security_group_id,
                "client_role_arns": clients,
                "class_group_ids": seat_groups,
            }
            return AdoptedStorage(name, adopted, self._child())
        files: StorageArgs = {
            "ownership": self._args["ownership"],
            "layout": self._args["storage"],
            "vpc_id": self.network.vpc_id,
            "subnet_ids": list(self.network.private_subnets_by_zone),
            "nodes_security_group_id": self.network.nodes_security_group_id,
            "client_role_arns": clients,
            "class_group_ids": seat_groups,
        }
        if self._reader.has("keep_data"):
            files["keep_data"] = self._reader.flag("keep_data", default=False)
        return Storage(name, files, self._child())

    def _costs(self) -> CostControls | None:
        layout = self._args.get("costs")
        if not layout:
            return None
        files: pulumi.Output[list[pulumi.Input[str]]] = self.storage.file_system_ids.apply(lambda ids: [*ids])
        args: CostControlsArgs = {
            "ownership": self._args["ownership"],
            "layout": layout,
            "cluster_name": self._cluster_name,
            "file_system_ids": files,
            "log_groups": [self.network.flow_log_group, f"/aws/eks/{self._cluster_name}/cluster"],
        }
        if self._reader.has("keep_data"):
            args["keep_data"] = self._reader.flag("keep_data", default=False)
        return CostControls(f"{self._name}-costs", args, self._child())

    def _capacity(self, after: pulumi.ResourceOptions) -> Capacity:
        args: CapacityArgs = {
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
            args["mirrors"] = self._args["mirrors"]
        if "headroom" in self._args:
            args["headroom"] = self._args["headroom"]
        if self._reader.has("permissions_boundary"):
            args["permissions_boundary"] = self._reader.text("permissions_boundary")
        return Capacity(f"{self._name}-capacity", args, self._child(after))

    def _addons(self, after: pulumi.ResourceOptions) -> ClusterAddons:
        layout = self._args["cluster"]
        files: pulumi.Output[list[pulumi.Input[str]]] = self.storage.file_system_arns.apply(lambda arns: [*arns])
        args: ClusterAddonsArgs = {
            "ownership": self._args["ownership"],
            "cluster_name": self._cluster_name,
            "version": layout["version"],
            "addon_versions": layout.get("addon_versions") or {},
            "file_system_arns": files,
            "efs_node_role_arn": self.cluster.efs_client_role_arns.apply(lambda arns: arns[0]),
        }
        if self._reader.has("permissions_boundary"):
            args["permissions_boundary"] = self._reader.text("permissions_boundary")
        return ClusterAddons(f"{self._name}-addons", args, self._child(after))

    def _metering(self, kubernetes_provider: list[pulumi.ProviderResource]) -> ClusterCosts | None:
        layout = self._args.get("metering")
        if layout is None:
            return None
        args: ClusterCostsArgs = {
            "ownership": self._args["ownership"],
            "cluster_name": self._cluster_name,
            "layout": layout,
            "service": self.service is not None,
        }
        # After the components that it scrapes: its RBAC roles are in their namespaces.
        scraped: list[pulumi.Resource] = [self.addons, self.sandboxes, *([self.service] if self.service else [])]
        after = pulumi.ResourceOptions(depends_on=scraped, providers=kubernetes_provider)
        return ClusterCosts(f"{self._name}-metering", args, self._child(after))

    def _guardrails(self, kubernetes_provider: list[pulumi.ProviderResource]) -> Guardrails:
        args: GuardrailsArgs = {
            "ownership": self._args["ownership"],
            "file_system_ids": self.storage.file_system_ids,
            "outlived": bool(self._existing.get("cluster")),
        }
        # A new API server is reachable once the security group rules exist: depend on the whole cluster.
        after = pulumi.ResourceOptions(depends_on=[self.cluster], providers=kubernetes_provider)
        return Guardrails(f"{self._name}-guardrails", args, self._child(after))
