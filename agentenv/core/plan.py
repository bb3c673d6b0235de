"""The plan of an environment: all that follows from its settings before anything is deployed.

`plan(settings)` is the only way from settings to components. Each component takes its part of the plan, and the ids
that other components create. A part refers to its section of the settings, so no setting is declared a second time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING

from agentenv.core.capabilities.from_settings import cluster_facts_with_existing
from agentenv.core.capabilities.policies.class_security_groups import ClassGroups, class_groups
from agentenv.core.classes.plan import ClassPlan, plans
from agentenv.core.classes.pools.sizes import max_sandboxes_with_rollover
from agentenv.core.cost.assumptions import Assumptions
from agentenv.core.cost.estimate import model
from agentenv.core.cost.sandboxes import HEADROOM
from agentenv.core.environment import EnvironmentFacts, environment_facts
from agentenv.core.gateway.documents import GatewaySettings
from agentenv.core.gateway.envoy import EnvoyPlan
from agentenv.core.guardrails import EKS, Principals
from agentenv.core.metering.locations import PROMETHEUS_ADDRESS
from agentenv.core.metering.tariff import Tariff
from agentenv.core.nodes.addon_builds import addon_builds
from agentenv.core.nodes.mirrors import Mirrors, runtime_files
from agentenv.core.nodes.node_pools import NodePool, demands, node_pools
from agentenv.core.pinned_versions import releases
from agentenv.core.prices.book import MissingPricesError
from agentenv.core.service.home_metering import ScanJob, scan_jobs
from agentenv.core.values import addresses
from agentenv.core.workspaces.seats import SeatPlan, seat_plans

if TYPE_CHECKING:
    from agentenv.config.sections.capacity import Capacity
    from agentenv.config.sections.cluster import Cluster
    from agentenv.config.sections.cost import Alertmanager, Cost
    from agentenv.config.sections.network import Network
    from agentenv.config.sections.sandbox_controller import SandboxController
    from agentenv.config.sections.storage import Storage
    from agentenv.config.settings import Settings

# OpenCost knows the prices of nodes, so their estimate is not among the fixed costs.
_NODES = ("system nodes", HEADROOM)
_HOMES = ("homes", "backups of homes")


@dataclass(frozen=True)
class ExistingRanges:
    """The address ranges of adopted resources; empty where the environment creates its own."""

    vpc_cidrs: tuple[str, ...] = ()
    service_cidr: str = ""


@dataclass(frozen=True)
class NetworkPlan:
    """The VPC, or the existing VPC to adopt."""

    environment: EnvironmentFacts
    settings: Network
    runtime_bucket: bool = False  # whether to create a bucket with copies of the runtimes that nodes install

    @cached_property
    def addresses(self) -> addresses.AddressPlan:
        """Return the blocks of its subnets."""
        return addresses.plan(str(self.settings.cidr), self.settings.zone_count)


@dataclass(frozen=True)
class ClusterPlan:
    """The EKS cluster with its add-ons, or the existing cluster to adopt."""

    environment: EnvironmentFacts
    settings: Cluster
    fargate_classes: tuple[ClassGroups, ...] = ()  # with the security groups of each sandbox class on Fargate
    existing_vpc: str | None = None  # that an existing cluster must be in
    private_access: tuple[str, ...] = ()  # the ranges that reach the private endpoint from outside of the VPC

    @property
    def addon_builds(self) -> Mapping[str, str]:
        """Return the build of every add-on."""
        return addon_builds(self.settings)


@dataclass(frozen=True)
class CapacityPlan:
    """The nodes that Karpenter launches."""

    environment: EnvironmentFacts
    settings: Capacity
    pools: tuple[NodePool, ...]
    mirrors: Mirrors
    runtime_bucket: bool = False  # whether nodes install runtimes from the network's bucket
    # Whether the VPC has no internet access. Karpenter then uses its built-in prices, and nodes a given instance
    # profile, because IAM has no VPC endpoint to create one over.
    isolated: bool = False


@dataclass(frozen=True)
class StoragePlan:
    """The file systems of homes, or the existing ones to adopt."""

    environment: EnvironmentFacts
    settings: Storage


@dataclass(frozen=True)
class SandboxControllerPlan:
    """The agent-sandbox controller."""

    settings: SandboxController
    image: str


@dataclass(frozen=True)
class GuardrailsPlan:
    """The admission policies."""

    # Whether the cluster outlives the stack. The policy that keeps parameters readable is retained then.
    cluster_retained: bool = False
    # The user names that some of the rules exempt. Deployers, who may change admission policies anyway, are not listed.
    principals: Principals = EKS


@dataclass(frozen=True)
class ServicePlan:
    """The workspace service. Its settings file has all settings, because it plans the classes too."""

    environment: EnvironmentFacts
    settings: Settings
    image: str
    existing: ExistingRanges = ExistingRanges()

    @property
    def ranges(self) -> tuple[str, ...]:
        """Return the address ranges of the VPC."""
        return self.existing.vpc_cidrs or (str(self.settings.network.cidr),)

    @property
    def authorizes(self) -> bool:
        """Return whether it answers for a gateway: there is a domain, and sandboxes that can be entered."""
        return self.settings.service.domain is not None and self.settings.service.workspaced is not None

    @property
    def prometheus(self) -> str | None:
        """Return the address of Prometheus from the settings, or of the cluster's own, if it has one."""
        return self.settings.service.prometheus or (PROMETHEUS_ADDRESS if self.settings.cost.dashboards else None)


@dataclass(frozen=True)
class GatewayPlan:
    """The load balancer and Envoy, which every request to a domain of the service passes."""

    environment: EnvironmentFacts
    settings: Settings
    image: str
    domain: str
    workspace_domain: str
    certificate: str
    ranges: tuple[str, ...]  # of the VPC

    @property
    def internal(self) -> bool:
        """Return whether it is reachable from the VPC and connected networks only."""
        return self.settings.service.reach == "internal"

    @property
    def callers(self) -> list[str]:
        """Return the ranges that may reach its domains: those of the settings, or the VPC and its peers."""
        chosen = [str(cidr) for cidr in self.settings.service.callers]
        return chosen or sorted({*self.ranges, *(str(cidr) for cidr in self.settings.network.peers)})

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the hosts that lead to it, as DNS records and certificates name them."""
        own = (self.domain, f"*.{self.domain}")
        return own if self.workspace_domain == self.domain else (*own, f"*.{self.workspace_domain}")

    @property
    def records(self) -> tuple[tuple[str, str], ...]:
        """Return the records to create: a host and its hosted zone."""
        dns = self.settings.service.dns
        if dns is None:
            return ()
        zones = (dns.zone, dns.zone, dns.workspace_zone or dns.zone)
        return tuple(zip(self.hosts, zones, strict=False))

    @property
    def deployment(self) -> GatewaySettings:
        """Return the settings of Envoy's Deployment."""
        gateway, service = self.settings.service.gateway, self.settings.service
        envoy = EnvoyPlan(self.domain, self.workspace_domain, service.port, memory=int(gateway.memory.value))
        return GatewaySettings(self.image, gateway.replicas, str(gateway.cpu), str(gateway.memory), envoy)


@dataclass(frozen=True)
class HomeMeteringPlan:
    """The jobs that measure the sizes of homes, if there are homes and a service that accounts for them."""

    environment: EnvironmentFacts
    settings: Settings
    jobs: tuple[ScanJob, ...]


@dataclass(frozen=True)
class CostPlan:
    """The cost controls in AWS."""

    environment: EnvironmentFacts
    settings: Cost

    @property
    def enabled(self) -> bool:
        """Return whether the settings enable any of them."""
        cost = self.settings
        enabled = (cost.monthly_budget, cost.usage_export, cost.anomaly_alerts, cost.platform_dashboard)
        return any(enabled) or cost.cost_tags == "activate"


@dataclass(frozen=True)
class MeteringPlan:
    """Metering in the cluster."""

    cluster_name: str
    sandboxes: int  # as many as the classes allow at once; they determine the resources of Prometheus and the others
    tariff: Tariff
    mirrors: Mirrors
    service: bool  # whether the workspace service is scraped, and queries Prometheus
    failed_nodes: int  # an hour that never become nodes, of a pool, from which an alarm fires
    alertmanager: Alertmanager | None = None  # to which alarms are sent


@dataclass(frozen=True)
class Plan:
    """Everything that an environment consists of."""

    settings: Settings
    environment: EnvironmentFacts
    network: NetworkPlan
    cluster: ClusterPlan
    capacity: CapacityPlan
    storage: StoragePlan
    sandbox_controller: SandboxControllerPlan
    guardrails: GuardrailsPlan
    classes: Mapping[str, ClassPlan]
    seats: tuple[SeatPlan, ...]
    service: ServicePlan | None
    gateway: GatewayPlan | None
    home_metering: HomeMeteringPlan | None
    costs: CostPlan

    @cached_property
    def metering(self) -> MeteringPlan | None:
        """Return the metering in the cluster, if the settings enable it."""
        if not self.settings.cost.dashboards:
            return None
        return MeteringPlan(
            self.environment.cluster_name,
            sum(max_sandboxes_with_rollover(each) for each in self.settings.sandbox_classes),
            _tariff(self.settings),
            Mirrors(self.settings.network.mirrors.registry),
            self.settings.service.deployed,
            self.settings.capacity.failed_nodes_alarm,
            self.settings.cost.alertmanager,
        )

    def with_existing(self, ranges: ExistingRanges) -> Plan:
        """Return the plan with the address ranges of adopted resources; raise `RefusedGrantError` for a grant that is
        not possible with them."""
        return self if ranges == ExistingRanges() else plan(self.settings, ranges)


def plan(settings: Settings, existing: ExistingRanges = ExistingRanges()) -> Plan:
    """Return the plan of an environment; `existing` has the address ranges of adopted resources."""
    environment = environment_facts(settings)
    facts = cluster_facts_with_existing(settings, existing.vpc_cidrs, existing.service_cidr)
    mirrors = Mirrors(settings.network.mirrors.registry, settings.network.mirrors.files)
    jobs = scan_jobs(settings)
    image = settings.service.image if settings.service.enabled else None
    controller, network = settings.cluster.sandbox_controller, settings.network
    pools = tuple(node_pools(settings.capacity, demands(settings)))
    runtime_bucket = network.mirrors.bucket and bool(runtime_files(pools))
    return Plan(
        settings=settings,
        environment=environment,
        network=NetworkPlan(environment, network, runtime_bucket),
        cluster=ClusterPlan(
            environment,
            settings.cluster,
            class_groups(settings, facts),
            network.existing.vpc_id if network.existing else None,
            tuple(map(str, settings.private_access)),
        ),
        capacity=CapacityPlan(
            environment,
            settings.capacity,
            pools,
            mirrors,
            runtime_bucket,
            isolated=network.nat == "none",
        ),
        storage=StoragePlan(environment, settings.storage),
        sandbox_controller=SandboxControllerPlan(
            controller, controller.image or mirrors.image(releases().images["agent-sandbox-controller"])
        ),
        guardrails=GuardrailsPlan(cluster_retained=settings.cluster.existing is not None),
        classes={each.name: each for each in plans(settings, facts)},
        seats=seat_plans(settings),
        service=ServicePlan(environment, settings, image, existing) if image else None,
        gateway=_gateway(settings, environment, mirrors, existing),
        home_metering=HomeMeteringPlan(environment, settings, jobs) if jobs else None,
        costs=CostPlan(environment, settings.cost),
    )


def _gateway(
    settings: Settings, environment: EnvironmentFacts, mirrors: Mirrors, existing: ExistingRanges
) -> GatewayPlan | None:
    """Return the gateway of a deployed service with a domain."""
    service = settings.service
    if not service.deployed or service.domain is None or service.certificate is None:
        return None
    return GatewayPlan(
        environment,
        settings,
        mirrors.image(releases().images["envoy"]),
        service.domain,
        service.domain_of_workspaces or service.domain,
        service.certificate,
        existing.vpc_cidrs or (str(settings.network.cidr),),
    )


def _tariff(settings: Settings) -> Tariff:
    """Return the costs and limits that no metric in the cluster has, from the estimate."""
    limits = Tariff(monthly_budget=settings.cost.monthly_budget, per_user_cap=settings.cost.per_user_cap)
    try:
        parts = model(settings).parts
    except MissingPricesError:
        # Without prices for the region there are still dashboards, only without fixed costs.
        return limits
    fixed = {
        part.name: part.cost.value
        for part in parts
        if part.scale == "fixed" and part.sandbox_class is None and not part.name.startswith(_NODES)
    }
    homes = sum((part.cost.value for part in parts if part.name in _HOMES), Decimal(0)) / Assumptions().home
    storage = homes.quantize(Decimal("0.000001")) if homes else Tariff.storage
    return replace(limits, storage=storage, fixed=fixed)
