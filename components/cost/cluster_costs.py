"""What is metered in the cluster: Prometheus with the rules that say whose each minute is, OpenCost, and Grafana.

They measure and show. What people are charged for is in the ledger, which outlives all of this.
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
from agentenv.core.metering import locations as places
from agentenv.core.metering.rules import rule_file
from agentenv.core.metering.scraping import scrape_configs
from agentenv.core.metering.sizes import sizes
from agentenv.core.metering.tariff import Tariff
from agentenv.core.nodes.mirrors import Mirrors
from agentenv.core.pinned_versions import releases


class ClusterTariff(TypedDict):
    """Dollars that nothing in the cluster knows of."""

    storage: NotRequired[str]
    """A GiB and month of files: the one that is built in unless told."""

    fixed: NotRequired[dict[str, str]]
    """Dollars a month by what they are paid for, whoever is there; without nodes, whose price is known."""

    monthly_budget: NotRequired[str]
    """Dollars a month for the environment."""

    per_user_cap: NotRequired[str]
    """Dollars a user and month."""


class MeteringLayout(TypedDict):
    """How it is metered."""

    sandboxes: int
    """The most sandboxes that there may be at once: sizes follow from it."""

    tariff: NotRequired[ClusterTariff]
    """Dollars that nothing in the cluster knows of."""

    registry: NotRequired[str]
    """A registry with copies of images, each by its name without its own registry's."""


class ClusterCostsArgs(TypedDict):
    """What it is made from."""

    ownership: Ownership
    """Whose it is."""

    cluster_name: str
    """The cluster that is metered."""

    layout: MeteringLayout
    """How it is metered."""

    service: NotRequired[bool]
    """Whether there is a workspace service, which is scraped and may ask; false unless told."""


class ClusterCosts(pulumi.ComponentResource):
    """Prometheus, OpenCost and Grafana, in a namespace of their own."""

    namespace: pulumi.Output[str]
    """Where they run."""

    prometheus_address: pulumi.Output[str]
    """Where Prometheus answers, to those in the cluster whom its policy names."""

    def __init__(self, name: str, args: ClusterCostsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Make it; a wrong plain argument raises before anything is made."""
        reader = ArgumentReader.of("cluster_costs", args, ClusterCostsArgs)
        Labels.of(reader, "cost", name)
        cluster = reader.text("cluster_name")
        layout = reader.part("layout", MeteringLayout)
        amounts = sizes(layout.whole("sandboxes", 0, 1_000_000))
        service = reader.flag("service", default=False)
        tariff = _tariff(layout)
        mirrors = Mirrors(layout.text("registry") if layout.has("registry") else None)

        super().__init__("agent-environment:index:ClusterCosts", name, {}, opts)
        space = create_restricted_namespace(f"{name}-namespace", places.NAMESPACE, child_options(self, opts))
        inner, inside = child_options_without_dependencies(self), space.metadata.name

        def child(more: pulumi.ResourceOptions | None = None) -> pulumi.ResourceOptions:
            # What all of it waits for is said of the namespace, and once.
            return inner(pulumi.ResourceOptions.merge(pulumi.ResourceOptions(depends_on=[space]), more))

        rights = metering_policies.create_roles(name, child, service=service)
        network_policies = metering_policies.create_network_policies(name, inside, child, service=service)
        read = core.ConfigMap(
            f"{name}-configuration",
            metadata={"name": f"{places.PROMETHEUS}-{metering_values.CONFIGURATION}", "namespace": inside},
            data=metering_values.configuration(scrape_configs(service=service), rule_file(tariff)),
            opts=child(),
        )
        shown = core.ConfigMap(
            f"{name}-dashboards",
            metadata={"name": places.DASHBOARDS, "namespace": inside},
            data=dashboards(),
            opts=child(),
        )

        def release(chart: str, values: dict[str, Any], after: list[pulumi.Resource]) -> helm.Release:
            pinned = releases().charts[chart]
            return helm.Release(
                f"{name}-{chart}",
                name=chart,
                namespace=inside,
                chart=pinned.address,
                version=pinned.version,
                max_history=3,
                timeout=600,
                values=values,
                opts=child(pulumi.ResourceOptions(depends_on=after)),
            )

        # OpenCost does not come up before Prometheus answers; Grafana shows nothing before it does.
        first = release(
            places.PROMETHEUS, metering_values.prometheus(amounts, mirrors), [read, *network_policies, *rights]
        )
        release(places.OPENCOST, metering_values.opencost(amounts, mirrors, cluster), [first])
        release(places.GRAFANA, metering_values.grafana(amounts, mirrors), [first, shown])

        self.namespace = inside
        self.prometheus_address = pulumi.Output.from_input(places.PROMETHEUS_ADDRESS)
        self.register_outputs({output: getattr(self, output) for output in ClusterCosts.__annotations__})


def dashboards() -> dict[str, str]:
    """The generated dashboards, by the names of their files."""
    folder = files("agentenv.core.metering").joinpath("generated")
    found = {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir() if file.name.endswith(".json")}
    return {name: found[name] for name in sorted(found)}


def _tariff(reader: ArgumentReader) -> Tariff:
    told = reader.part("tariff", ClusterTariff) if reader.has("tariff") else ArgumentReader(f"{reader.path}.tariff", {})
    amounts: dict[str, Any] = dict(told.values)
    fixed: dict[str, str] = amounts.get("fixed") or {}

    def dollars(key: str) -> Decimal | None:
        return Decimal(told.text(key)) if told.has(key) else None

    return Tariff(
        storage=dollars("storage") or Tariff.storage,
        fixed={part: Decimal(amount) for part, amount in fixed.items()},
        monthly_budget=dollars("monthly_budget"),
        per_user_cap=dollars("per_user_cap"),
    )
