"""Metering in the cluster: Prometheus with rules that attribute usage to owners, OpenCost, and Grafana.

They only measure and display. Charges are recorded in the ledger, which does not depend on them.
"""

from decimal import Decimal
from importlib.resources import files
from typing import Any, NotRequired, TypedDict

import pulumi
from pulumi_kubernetes.core import v1 as core
from pulumi_kubernetes.helm import v3 as helm

from agentenv.components._lib.arguments import ArgumentReader
from agentenv.components._lib.namespaces import create_restricted_namespace
from agentenv.components._lib.options import child_options, child_options_without_dependencies
from agentenv.components._lib.tags import Labels, Ownership
from agentenv.components.cost import metering_policies, metering_values
from agentenv.core.metering import locations
from agentenv.core.metering.rules import rule_file
from agentenv.core.metering.scraping import scrape_configs
from agentenv.core.metering.sizes import sizes
from agentenv.core.metering.tariff import Tariff
from agentenv.core.nodes.mirrors import Mirrors
from agentenv.core.pinned_versions import releases


class ClusterTariff(TypedDict):
    """Costs and limits, in dollars, that no metric in the cluster has."""

    storage: NotRequired[str]
    """The price of storage per GiB and month. Default: a built-in price."""

    fixed: NotRequired[dict[str, str]]
    """Fixed costs per month, by part, without nodes, whose prices OpenCost knows."""

    monthly_budget: NotRequired[str]
    """The monthly budget of the environment."""

    per_user_cap: NotRequired[str]
    """The monthly cap per user."""


class MeteringLayout(TypedDict):
    """The layout of metering."""

    sandboxes: int
    """The maximum number of sandboxes at once; it determines the resources of all three."""

    tariff: NotRequired[ClusterTariff]
    """Costs and limits, in dollars, that no metric in the cluster has."""

    registry: NotRequired[str]
    """A registry with copies of images, under their names without the original registry."""


class ClusterCostsArgs(TypedDict):
    """The arguments of metering in the cluster."""

    ownership: Ownership
    """The owner, for tags and names."""

    cluster_name: str
    """The name of the cluster."""

    layout: MeteringLayout
    """The layout of metering."""

    service: NotRequired[bool]
    """Whether there is a workspace service, which is scraped and queries Prometheus. Default: false."""


class ClusterCosts(pulumi.ComponentResource):
    """Prometheus, OpenCost and Grafana, in their own namespace."""

    namespace: pulumi.Output[str]
    """Their namespace."""

    prometheus_address: pulumi.Output[str]
    """The address of Prometheus, for pods that its network policy admits."""

    def __init__(self, name: str, args: ClusterCostsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Create it; a wrong plain argument raises before anything is created."""
        reader = ArgumentReader.of("cluster_costs", args, ClusterCostsArgs)
        Labels.of(reader, "cost", name)
        cluster = reader.text("cluster_name")
        layout = reader.part("layout", MeteringLayout)
        amounts = sizes(layout.whole("sandboxes", 0, 1_000_000))
        service = reader.flag("service", default=False)
        tariff = _tariff(layout)
        mirrors = Mirrors(layout.text("registry") if layout.has("registry") else None)

        super().__init__("agent-environment:index:ClusterCosts", name, {}, opts)
        namespace = create_restricted_namespace(f"{name}-namespace", locations.NAMESPACE, child_options(self, opts))
        inner, namespace_name = child_options_without_dependencies(self), namespace.metadata.name

        def child(more: pulumi.ResourceOptions | None = None) -> pulumi.ResourceOptions:
            # Only the namespace depends on what the component depends on; the rest depends on the namespace.
            return inner(pulumi.ResourceOptions.merge(pulumi.ResourceOptions(depends_on=[namespace]), more))

        roles = metering_policies.create_roles(name, child, service=service)
        network_policies = metering_policies.create_network_policies(name, namespace_name, child, service=service)
        config_map = core.ConfigMap(
            f"{name}-configuration",
            metadata={"name": f"{locations.PROMETHEUS}-{metering_values.CONFIGURATION}", "namespace": namespace_name},
            data=metering_values.configuration(scrape_configs(service=service), rule_file(tariff)),
            opts=child(),
        )
        dashboards_map = core.ConfigMap(
            f"{name}-dashboards",
            metadata={"name": locations.DASHBOARDS, "namespace": namespace_name},
            data=dashboards(),
            opts=child(),
        )

        def release(chart: str, values: dict[str, Any], after: list[pulumi.Resource]) -> helm.Release:
            pinned = releases().charts[chart]
            return helm.Release(
                f"{name}-{chart}",
                name=chart,
                namespace=namespace_name,
                chart=pinned.address,
                version=pinned.version,
                max_history=3,
                timeout=600,
                values=values,
                opts=child(pulumi.ResourceOptions(depends_on=after)),
            )

        # OpenCost does not start before Prometheus responds, and Grafana shows nothing before it.
        prometheus_release = release(
            locations.PROMETHEUS, metering_values.prometheus(amounts, mirrors), [config_map, *network_policies, *roles]
        )
        release(locations.OPENCOST, metering_values.opencost(amounts, mirrors, cluster), [prometheus_release])
        release(locations.GRAFANA, metering_values.grafana(amounts, mirrors), [prometheus_release, dashboards_map])

        self.namespace = namespace_name
        self.prometheus_address = pulumi.Output.from_input(locations.PROMETHEUS_ADDRESS)
        self.register_outputs({output: getattr(self, output) for output in ClusterCosts.__annotations__})


def dashboards() -> dict[str, str]:
    """Return the generated dashboards by file name."""
    folder = files("agentenv.core.metering").joinpath("generated")
    dashboards_by_name = {
        file.name: file.read_text(encoding="utf-8") for file in folder.iterdir() if file.name.endswith(".json")
    }
    return {name: dashboards_by_name[name] for name in sorted(dashboards_by_name)}


def _tariff(reader: ArgumentReader) -> Tariff:
    tariff = (
        reader.part("tariff", ClusterTariff) if reader.has("tariff") else ArgumentReader(f"{reader.path}.tariff", {})
    )
    amounts: dict[str, Any] = dict(tariff.values)
    fixed: dict[str, str] = amounts.get("fixed") or {}

    def dollars(key: str) -> Decimal | None:
        return Decimal(tariff.text(key)) if tariff.has(key) else None

    return Tariff(
        storage=dollars("storage") or Tariff.storage,
        fixed={part: Decimal(amount) for part, amount in fixed.items()},
        monthly_budget=dollars("monthly_budget"),
        per_user_cap=dollars("per_user_cap"),
    )
