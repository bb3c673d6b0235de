"""Metering in the cluster: Prometheus with rules that attribute usage to owners, OpenCost, and Grafana.

They only measure and display. Charges are recorded in the ledger, which does not depend on them.
"""

from importlib.resources import files
from typing import Any

import pulumi
from pulumi_kubernetes.core import v1 as core
from pulumi_kubernetes.helm import v3 as helm

from agentenv.components._lib.namespaces import create_restricted_namespace
from agentenv.components._lib.options import child_options, child_options_without_dependencies, component_outputs
from agentenv.components.cost import metering_policies, metering_values
from agentenv.core.metering import locations
from agentenv.core.metering.rules import rule_file
from agentenv.core.metering.scraping import scrape_configs
from agentenv.core.metering.sizes import sizes
from agentenv.core.pinned_versions import releases
from agentenv.core.plan import MeteringPlan


class ClusterCosts(pulumi.ComponentResource):
    """Prometheus, OpenCost and Grafana, in their own namespace."""

    namespace: pulumi.Output[str]
    """Their namespace."""

    prometheus_address: pulumi.Output[str]
    """The address of Prometheus, for pods that its network policy admits."""

    def __init__(self, name: str, plan: MeteringPlan, opts: pulumi.ResourceOptions | None = None) -> None:
        """Create metering in a cluster."""
        amounts, mirrors, service = sizes(plan.sandboxes), plan.mirrors, plan.service

        super().__init__("agent-environment:index:ClusterCosts", name, {}, opts)
        namespace = create_restricted_namespace(f"{name}-namespace", locations.NAMESPACE, child_options(self, opts))
        inner, namespace_name = child_options_without_dependencies(self), namespace.metadata.name

        def child(more: pulumi.ResourceOptions | None = None) -> pulumi.ResourceOptions:
            # Only the namespace depends on what the component depends on; the rest depends on the namespace.
            return inner(pulumi.ResourceOptions.merge(pulumi.ResourceOptions(depends_on=[namespace]), more))

        roles = metering_policies.create_roles(name, child, service=service)
        network_policies = metering_policies.create_network_policies(
            name, namespace_name, child, service=service, alertmanager=plan.alertmanager
        )
        config_map = core.ConfigMap(
            f"{name}-configuration",
            metadata={"name": f"{locations.PROMETHEUS}-{metering_values.CONFIGURATION}", "namespace": namespace_name},
            data=metering_values.configuration(
                scrape_configs(service=service),
                rule_file(plan.tariff, failed_nodes=plan.failed_nodes),
                plan.alertmanager,
            ),
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
        release(locations.OPENCOST, metering_values.opencost(amounts, mirrors, plan.cluster_name), [prometheus_release])
        release(locations.GRAFANA, metering_values.grafana(amounts, mirrors), [prometheus_release, dashboards_map])

        self.namespace = namespace_name
        self.prometheus_address = pulumi.Output.from_input(locations.PROMETHEUS_ADDRESS)
        self.register_outputs(component_outputs(self))


def dashboards() -> dict[str, str]:
    """Return the generated dashboards by file name."""
    folder = files("agentenv.core.metering").joinpath("generated")
    dashboards_by_name = {
        file.name: file.read_text(encoding="utf-8") for file in folder.iterdir() if file.name.endswith(".json")
    }
    return {name: dashboards_by_name[name] for name in sorted(dashboards_by_name)}
