"""The environment: creates every component of a plan, in dependency order."""

from collections.abc import Callable, Sequence
from typing import Any

import pulumi

from agentenv.components._lib.existing import plan_with_existing
from agentenv.components._lib.options import child_options, component_outputs, output_after
from agentenv.components.capacity.capacity import Capacity
from agentenv.components.cluster.adopted_cluster import AdoptedCluster
from agentenv.components.cluster.cluster import Cluster
from agentenv.components.cluster.cluster_addons import ClusterAddons
from agentenv.components.cost.cluster_costs import ClusterCosts
from agentenv.components.cost.cost_controls import CostControls
from agentenv.components.gateway.gateway import Gateway
from agentenv.components.gateway.load_balancer import LoadBalancer
from agentenv.components.network.adopted_network import AdoptedNetwork
from agentenv.components.network.network import Network
from agentenv.components.sandboxes.agent_sandbox import AgentSandbox
from agentenv.components.sandboxes.guardrails import Guardrails
from agentenv.components.sandboxes.sandbox_class import SandboxClass
from agentenv.components.sandboxes.schedules import create_schedules_namespace
from agentenv.components.sandboxes.workspace import Workspace, check_seat_conflicts
from agentenv.components.service.workspace_service import WorkspaceService
from agentenv.components.storage.adopted_storage import AdoptedStorage
from agentenv.components.storage.home_metering import StorageMetering
from agentenv.components.storage.storage import Storage
from agentenv.core.gateway.documents import NAMESPACE
from agentenv.core.plan import Plan
from agentenv.core.service.rbac import NAME


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
    """The load balancer's DNS name, the target of the records of `serviceHosts`; null without a domain."""

    service_hosts: pulumi.Output[list[str]]
    """The hosts whose DNS records lead to the load balancer; empty without a domain."""

    def __init__(self, name: str, plan: Plan, opts: pulumi.ResourceOptions | None = None) -> None:
        """Create the environment of a plan."""
        super().__init__("agent-environment:index:Environment", name, {}, opts)
        # Check all existing resources before creating anything next to them.
        invoke_options = pulumi.InvokeOptions(parent=self)
        plan = plan_with_existing(plan, invoke_options)
        check_seat_conflicts(plan.seats, plan.environment.name, invoke_options)
        self._name, self._plan, self._child = name, plan, child_options(self, opts)

        self.network = self._network()
        self.cluster = self._cluster()
        self.storage = self._storage()
        self.costs = self._costs()
        # Objects in the cluster are created after all of it and deleted before any of it.
        kubernetes_provider: list[pulumi.ProviderResource] = [self.cluster.provider]

        def after(*resources: pulumi.Resource) -> pulumi.ResourceOptions:
            return self._child(pulumi.ResourceOptions(depends_on=list(resources), providers=kubernetes_provider))

        self.capacity = Capacity(f"{name}-capacity", plan.capacity, self.cluster.context, after(self.cluster))
        self.addons = ClusterAddons(
            f"{name}-addons",
            plan.cluster,
            self.storage.file_system_arns,
            self.cluster.efs_client_role_arns.apply(lambda arns: arns[0]),
            after(self.capacity),
        )
        # It may run, or have run, on system nodes: it is created after them and deleted before them.
        self.sandboxes = AgentSandbox(f"{name}-sandboxes", plan.sandbox_controller, after(self.capacity))
        # A new API server is reachable once the security group rules exist: depend on the whole cluster.
        guardrails = Guardrails(
            f"{name}-guardrails", plan.guardrails, self.storage.file_system_ids, after(self.cluster)
        )
        # A sandbox needs nodes, its files and its controller for as long as it exists.
        dependencies: list[pulumi.Resource] = [self.storage, self.addons, self.sandboxes, guardrails]
        self._cluster_context = self.cluster.context.with_file_systems(self.storage.file_system_ids)
        self.classes = self._classes(after, dependencies)
        self._seats(kubernetes_provider)
        balancer = self._balancer()
        self.service = self._service(dependencies, kubernetes_provider, balancer)
        self._gateway(kubernetes_provider)
        if plan.home_metering:
            StorageMetering(f"{name}-storage-metering", plan.home_metering, self._cluster_context, after(*dependencies))
        if plan.metering:
            # After the components that it scrapes: its RBAC roles are in their namespaces.
            scraped: list[pulumi.Resource] = [self.addons, self.sandboxes, *([self.service] if self.service else [])]
            ClusterCosts(f"{name}-metering", plan.metering, after(*scraped))

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
        self.service_address = balancer.address.apply(str) if balancer else no_url
        self.service_hosts = balancer.hosts if balancer else pulumi.Output.from_input(list[str]())
        self.register_outputs(component_outputs(self))

    def _network(self) -> Network | AdoptedNetwork:
        kind = AdoptedNetwork if self._plan.network.settings.existing else Network
        return kind(f"{self._name}-network", self._plan.network, self._child())

    def _cluster(self) -> Cluster | AdoptedCluster:
        kind = AdoptedCluster if self._plan.cluster.settings.existing else Cluster
        # Depends on the whole network: until they end, pods pull images and controllers call AWS over its routes.
        after = pulumi.ResourceOptions(depends_on=[self.network])
        return kind(f"{self._name}-cluster", self._plan.cluster, self.network.context, self._child(after))

    def _storage(self) -> Storage | AdoptedStorage:
        kind = AdoptedStorage if self._plan.storage.settings.existing else Storage
        return kind(
            f"{self._name}-storage",
            self._plan.storage,
            self.network.context,
            client_role_arns=self.cluster.efs_client_role_arns,
            opts=self._child(),
        )

    def _costs(self) -> CostControls | None:
        if not self._plan.costs.enabled:
            return None
        return CostControls(
            f"{self._name}-costs",
            self._plan.costs,
            file_system_ids=self.storage.file_system_ids,
            log_groups=[self.network.flow_log_group, f"/aws/eks/{self._plan.environment.cluster_name}/cluster"],
            opts=self._child(),
        )

    def _classes(
        self, after: Callable[..., pulumi.ResourceOptions], dependencies: Sequence[pulumi.Resource]
    ) -> dict[str, SandboxClass]:
        """Create the sandbox classes, and before them the namespace of schedule jobs if a class has schedules."""
        plans = self._plan.classes
        if any(plan.settings.pool.schedules for plan in plans.values()):
            version, options = self._plan.cluster.settings.version, after(*dependencies)
            dependencies = [*dependencies, *create_schedules_namespace(self._name, version, options)]
        return {
            name: SandboxClass(f"{self._name}-class-{name}", plan, self._cluster_context, after(*dependencies))
            for name, plan in plans.items()
        }

    def _seats(self, kubernetes_provider: list[pulumi.ProviderResource]) -> None:
        for seat in self._plan.seats:
            sandbox_class = self.classes[seat.sandbox_class]
            Workspace(
                f"{self._name}-seat-{seat.name}",
                seat,
                self._plan.environment,
                # Always the first one: the files of a workspace stay where they are when file systems are added.
                file_system_id=self.storage.file_system_ids.apply(lambda ids: ids[0]),
                template=sandbox_class.seat_template,
                namespace=sandbox_class.ready,
                opts=self._child(pulumi.ResourceOptions(providers=kubernetes_provider)),
            )

    def _balancer(self) -> LoadBalancer | None:
        if self._plan.gateway is None:
            return None
        return LoadBalancer(f"{self._name}-gateway", self._plan.gateway, self.network.context, self._child())

    def _gateway(self, kubernetes_provider: list[pulumi.ProviderResource]) -> None:
        if self._plan.gateway is None or self.service is None:
            return
        Gateway(
            f"{self._name}-envoy",
            self._plan.gateway,
            # It reaches sandboxes, which the service's own dependencies precede.
            place=output_after(NAMESPACE, [self.service]),
            opts=self._child(pulumi.ResourceOptions(providers=kubernetes_provider)),
        )

    def _service(
        self,
        dependencies: Sequence[pulumi.Resource],
        kubernetes_provider: list[pulumi.ProviderResource],
        balancer: LoadBalancer | None,
    ) -> WorkspaceService | None:
        if self._plan.service is None:
            return None
        return WorkspaceService(
            f"{self._name}-service",
            self._plan.service,
            self._cluster_context,
            self.network.context,
            class_namespaces={name: each.ready for name, each in self.classes.items()},
            target_group_arn=balancer.target_group_arn if balancer else None,
            place=output_after(NAME, dependencies),
            opts=self._child(pulumi.ResourceOptions(providers=kubernetes_provider)),
        )
