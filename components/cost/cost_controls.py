"""The cost controls in AWS: budget, anomaly alerts, usage export and a dashboard. `ClusterCosts` meters in the cluster.

Creates, in this order: cost allocation tags, the budget and the anomaly monitor, the hourly usage export with its
queries, and the dashboard. None of it needs a cluster, so the budget exists before anything that costs money.
"""

import re
from decimal import Decimal
from typing import NotRequired, TypedDict

import pulumi
from pulumi_aws import cloudwatch

from agentenv.components._lib.arguments import ArgumentError, ArgumentReader
from agentenv.components._lib.aws_context import aws_context
from agentenv.components._lib.options import ChildOptions, child_options, component_outputs
from agentenv.components._lib.tags import Labels, Ownership
from agentenv.components.cost.budgets import BudgetAlert, activate_cost_tags, create_anomaly_alerts, create_budget
from agentenv.components.cost.usage_export import create_usage_export
from agentenv.components.cost.usage_queries import create_usage_queries
from agentenv.config.settings import is_production
from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import USER_LABEL
from agentenv.core.metering.cloudwatch_dashboard import Watched, dashboard

COST_TAGS = ("none", "active", "activate")
TAGS = ("environment", "component", "owner", "cost-center")
LABELS = (USER_LABEL, CLASS_LABEL)
# The limits of bytes scanned that Athena accepts
LEAST_SCAN, MOST_SCAN = 10 * 2**20, 7 * 2**50
_DOLLARS = re.compile(r"\d{1,10}(\.\d{1,2})?")


class CostLayout(TypedDict):
    """The configuration of cost controls."""

    monthly_budget: NotRequired[str]
    """The monthly budget in dollars, such as `500` or `500.50`. Default: no budget."""

    notice_at: NotRequired[int]
    """Percentage of the budget for a first notification, besides 100 percent spent or forecast. Default: 80."""

    alert_to: NotRequired[str]
    """The email address of notifications, required by budgets and alerts."""

    cost_tags: NotRequired[str]
    """`active` if the payer account has activated the cost allocation tags; `activate` to do so now, which only the
    payer account can, a day after their first use; `none` (default) for a budget of the whole account."""

    cost_labels: NotRequired[bool]
    """Whether labels of sandboxes are activated besides the tags. Default: false."""

    usage_export: NotRequired[bool]
    """Whether hourly usage is exported, with Athena queries over it. Default: false."""

    usage_export_days: NotRequired[int]
    """The retention of the export in days. Default: 400."""

    query_scan_bytes: NotRequired[float]
    """The limit of bytes that one query scans. Default: 10 GiB."""

    anomaly_alerts: NotRequired[bool]
    """Whether to alert about cost anomalies. Default: false."""

    anomaly_from: NotRequired[str]
    """The minimum impact of an alert in dollars. Default: 10."""

    anomaly_monitor_arn: NotRequired[str]
    """An existing anomaly monitor. Default: create one."""

    platform_dashboard: NotRequired[bool]
    """Whether to create a CloudWatch dashboard. Default: false."""


class CostControlsArgs(TypedDict):
    """The arguments of cost controls."""

    ownership: Ownership
    """The owner of the environment, for tags and names."""

    layout: CostLayout
    """The configuration."""

    cluster_name: str
    """The name of the cluster, by which queries find its pods in the export."""

    file_system_ids: NotRequired[pulumi.Input[list[pulumi.Input[str]]]]
    """The file systems on the dashboard. Default: none."""

    log_groups: NotRequired[list[pulumi.Input[str]]]
    """The log groups on the dashboard. Default: none."""

    keep_data: NotRequired[bool]
    """Whether the export's bucket is protected, and retained when the stack is destroyed. Default: true in `prod`."""


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

    def __init__(self, name: str, args: CostControlsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Create what the arguments enable; a wrong plain argument raises before anything is created."""
        reader = ArgumentReader.of("cost_controls", args, CostControlsArgs)
        layout = reader.part("layout", CostLayout)
        labels = Labels.of(reader, "cost-controls", name)
        cluster = reader.text("cluster_name")
        tags = layout.choice("cost_tags", COST_TAGS, default="none")
        amount = _dollars(layout, "monthly_budget")
        alerts = layout.flag("anomaly_alerts", default=False)
        dollars = _dollars(layout, "anomaly_from", "10")
        monitor = layout.text("anomaly_monitor_arn") if layout.has("anomaly_monitor_arn") else None
        address = layout.text("alert_to") if amount or alerts else ""
        notice_at = layout.whole("notice_at", 1, 100, default=80)
        exported = layout.flag("usage_export", default=False)
        days = layout.whole("usage_export_days", 62, 3653, default=400)
        limit = layout.whole("query_scan_bytes", LEAST_SCAN, MOST_SCAN, default=10 * 2**30)
        with_labels = layout.flag("cost_labels", default=False)
        if with_labels and tags != "activate":
            raise ArgumentError(f"{layout.path}.cost_labels", f"true with cost_tags '{tags}'", "true with 'activate'")
        with_dashboard = layout.flag("platform_dashboard", default=False)
        protected = reader.flag("keep_data", default=is_production(labels.environment))

        super().__init__("agent-environment:index:CostControls", name, {}, opts)
        child: ChildOptions = child_options(self, opts)
        aws, nothing = aws_context(self), pulumi.Output.from_input("")
        self.budget_name = self.usage_bucket = self.usage_database = self.usage_workgroup = nothing

        if tags == "activate":
            activate_cost_tags(labels, child, (*TAGS, *(LABELS if with_labels else ())))
        if amount:
            alert = BudgetAlert(address, notice_at)
            self.budget_name = create_budget(labels, aws, child, amount, alert, tagged=tags != "none")
        if alerts:
            create_anomaly_alerts(
                labels, child, address, dollars, existing_monitor=monitor, payer_account=tags == "activate"
            )
        if exported:
            usage = create_usage_export(labels, aws, child, days=days, protected=protected)
            usage_queries = create_usage_queries(
                labels, child, usage, cluster=cluster, tagged=tags != "none", limit_bytes=limit
            )
            self.usage_bucket, self.usage_database, self.usage_workgroup = (
                usage.bucket,
                usage_queries.database,
                usage_queries.workgroup,
            )
        if with_dashboard:
            files = pulumi.Output.from_input(args.get("file_system_ids") or [])
            logs = pulumi.Output.all(*(args.get("log_groups") or []))
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


def _dollars(layout: ArgumentReader, key: str, default: str = "") -> str:
    """Return an amount of dollars as text, because a float could lose a cent."""
    if not layout.has(key):
        return default
    amount = layout.text(key)
    if not _DOLLARS.fullmatch(amount) or Decimal(amount) == 0:
        raise ArgumentError(f"{layout.path}.{key}", f"'{amount}'", "dollars as text, such as '500' or '500.50'")
    return amount
