"""The cost controls in AWS: budget, anomaly alerts, usage export and a dashboard. `ClusterCosts` meters in the cluster.

Creates, in this order: cost allocation tags, the budget and the anomaly monitor, the hourly usage export with its
queries, and the dashboard. None of it needs a cluster, so the budget exists before anything that costs money.
"""

from collections.abc import Sequence

import pulumi
from pulumi_aws import cloudwatch

from agentenv.components._lib.aws_context import aws_context
from agentenv.components._lib.options import ChildOptions, child_options, component_outputs
from agentenv.components._lib.tags import Labels
from agentenv.components.cost.budgets import BudgetAlert, activate_cost_tags, create_anomaly_alerts, create_budget
from agentenv.components.cost.usage_export import create_usage_export
from agentenv.components.cost.usage_queries import create_usage_queries
from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import USER_LABEL
from agentenv.core.metering.cloudwatch_dashboard import Watched, dashboard
from agentenv.core.plan import CostPlan

TAGS = ("environment", "component", "owner", "cost-center")
LABELS = (USER_LABEL, CLASS_LABEL)


class CostControls(pulumi.ComponentResource):
    """Budget, alerts, cost allocation tags, hourly usage export with queries, and a dashboard."""

    usage_bucket: pulumi.Output[str]
    """The bucket of the usage export; empty without one."""

    usage_database: pulumi.Output[str]
    """The Athena database of the usage export; empty without one."""

    usage_workgroup: pulumi.Output[str]
    """The Athena workgroup for queries over the export; empty without one."""

    budget_name: pulumi.Output[str]
    """The name of the budget; empty without one."""

    def __init__(
        self,
        name: str,
        plan: CostPlan,
        *,
        file_system_ids: pulumi.Input[Sequence[pulumi.Input[str]]] = (),
        log_groups: Sequence[pulumi.Input[str]] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Create what the plan enables; the dashboard has the file systems and log groups."""
        labels, settings = Labels.of(plan.environment, "cost-controls", name), plan.settings
        cluster, protected = plan.environment.cluster_name, plan.environment.keep_data
        tagged, activated = settings.cost_tags != "none", settings.cost_tags == "activate"
        address = settings.alert_to or ""

        super().__init__("agent-environment:index:CostControls", name, {}, opts)
        child: ChildOptions = child_options(self, opts)
        aws, nothing = aws_context(self), pulumi.Output.from_input("")
        self.budget_name = self.usage_bucket = self.usage_database = self.usage_workgroup = nothing

        if activated:
            activate_cost_tags(labels, child, (*TAGS, *(LABELS if settings.cost_labels else ())))
        if settings.monthly_budget is not None:
            alert, amount = BudgetAlert(address, settings.notice_at), f"{settings.monthly_budget:f}"
            self.budget_name = create_budget(labels, aws, child, amount, alert, tagged=tagged)
        if settings.anomaly_alerts:
            create_anomaly_alerts(
                labels,
                child,
                address,
                f"{settings.anomaly_from:f}",
                existing_monitor=settings.anomaly_monitor,
                payer_account=activated,
            )
        if settings.usage_export:
            usage = create_usage_export(labels, aws, child, days=settings.usage_export_days, protected=protected)
            limit = int(settings.query_scan_limit.value)
            usage_queries = create_usage_queries(
                labels, child, usage, cluster=cluster, tagged=tagged, limit_bytes=limit
            )
            self.usage_bucket, self.usage_database, self.usage_workgroup = (
                usage.bucket,
                usage_queries.database,
                usage_queries.workgroup,
            )
        if settings.platform_dashboard:
            files = pulumi.Output.from_input(file_system_ids)
            logs = pulumi.Output.all(*log_groups)
            cloudwatch.Dashboard(
                f"{name}-platform",
                dashboard_name=labels.name("cloudwatch-dashboard", "platform"),
                dashboard_body=pulumi.Output.json_dumps(
                    pulumi.Output.all(aws, files, logs).apply(
                        lambda values: dashboard(
                            Watched(labels.environment, values[0].region, cluster, values[1], values[2])
                        )
                    ),
                    sort_keys=True,
                ),
                opts=child(),
            )
        self.register_outputs(component_outputs(self))
