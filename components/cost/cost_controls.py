"""The cost controls: who is told that money goes, and how anybody finds out where it went.

This is AWS's side; what runs in the cluster for it is `ClusterCosts`.

In the order it comes to life: tags that split the bill, a budget and a monitor, the bill by the hour with what can be
asked of it, a dashboard. Nothing of it needs a cluster: a budget is there before there is anything to pay for.
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
from agentenv.components.cost.budgets import Told, activate, budget, create_anomaly_alerts
from agentenv.components.cost.usage_export import create_usage_export
from agentenv.components.cost.usage_queries import create_usage_queries
from agentenv.config.settings import is_production
from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import USER_LABEL
from agentenv.core.metering.cloudwatch_dashboard import Watched, dashboard

COST_TAGS = ("none", "active", "activate")
TAGS = ("environment", "component", "owner", "cost-center")
LABELS = (USER_LABEL, CLASS_LABEL)
# What Athena takes as a query's limit
LEAST_SCAN, MOST_SCAN = 10 * 2**20, 7 * 2**50
_DOLLARS = re.compile(r"\d{1,10}(\.\d{1,2})?")


class CostLayout(TypedDict):
    """What is controlled, and how."""

    monthly_budget: NotRequired[str]
    """Dollars a month, such as `500` or `500.50`; no budget unless told."""

    notice_at: NotRequired[int]
    """Percent of the budget at which somebody is told, 80 unless told; all of it and a forecast of it are told, too."""

    alert_to: NotRequired[str]
    """The mail address of whoever is told; budgets and alerts cannot do without."""

    cost_tags: NotRequired[str]
    """`active` where the account that pays splits its bill by our tags, `activate` to have it do so from now on, which
    only that account may, a day after the tags appeared. `none` unless told: the budget watches all of the account."""

    cost_labels: NotRequired[bool]
    """Whether labels of sandboxes are activated beside the tags; not unless told."""

    usage_export: NotRequired[bool]
    """Whether the bill is exported by the hour, and can be asked about; not unless told."""

    usage_export_days: NotRequired[int]
    """Days that the export is kept: 400 unless told."""

    query_scan_bytes: NotRequired[float]
    """Bytes that one query may read: 10 GiB unless told."""

    anomaly_alerts: NotRequired[bool]
    """Whether unusual spending is told of; not unless told."""

    anomaly_from: NotRequired[str]
    """Dollars from which it is: 10 unless told."""

    anomaly_monitor_arn: NotRequired[str]
    """A monitor that stands already; one is made unless told."""

    platform_dashboard: NotRequired[bool]
    """Whether CloudWatch gets a dashboard; not unless told."""


class CostControlsArgs(TypedDict):
    """What cost controls are made from."""

    ownership: Ownership
    """Whose the environment is."""

    layout: CostLayout
    """What is controlled."""

    cluster_name: str
    """The cluster, by whose name its pods are found on the bill."""

    file_system_ids: NotRequired[pulumi.Input[list[pulumi.Input[str]]]]
    """The file systems, for the dashboard; none unless told."""

    log_groups: NotRequired[list[pulumi.Input[str]]]
    """The log groups, for the dashboard; none unless told."""

    keep_data: NotRequired[bool]
    """Whether the bill's bucket is protected, and outlives the stack; true in `prod` unless told."""


class CostControls(pulumi.ComponentResource):
    """Budgets, alerts, cost allocation tags, the bill by the hour with queries over it, and a dashboard."""

    usage_bucket: pulumi.Output[str]
    """The bucket that the bill is written to; empty without an export."""

    usage_database: pulumi.Output[str]
    """The database that Athena knows it by; empty without an export."""

    usage_workgroup: pulumi.Output[str]
    """The workgroup that it is asked about from; empty without an export."""

    budget_name: pulumi.Output[str]
    """The budget; empty without one."""

    def __init__(self, name: str, args: CostControlsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Make what was asked for; a wrong plain argument raises before anything is made."""
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
        drawn = layout.flag("platform_dashboard", default=False)
        kept = reader.flag("keep_data", default=is_production(labels.environment))

        super().__init__("agent-environment:index:CostControls", name, {}, opts)
        child: ChildOptions = child_options(self, opts)
        aws, nothing = aws_context(self), pulumi.Output.from_input("")
        self.budget_name = self.usage_bucket = self.usage_database = self.usage_workgroup = nothing

        if tags == "activate":
            activate(labels, child, (*TAGS, *(LABELS if with_labels else ())))
        if amount:
            told = Told(address, notice_at)
            self.budget_name = budget(labels, aws, child, amount, told, tagged=tags != "none")
        if alerts:
            create_anomaly_alerts(labels, child, address, dollars, standing=monitor, paying=tags == "activate")
        if exported:
            usage = create_usage_export(labels, aws, child, days=days, kept=kept)
            asking = create_usage_queries(
                labels, child, usage, cluster=cluster, tagged=tags != "none", limit_bytes=limit
            )
            self.usage_bucket, self.usage_database, self.usage_workgroup = (
                usage.bucket,
                asking.database,
                asking.workgroup,
            )
        if drawn:
            files = pulumi.Output.from_input(args.get("file_system_ids") or [])
            logs = pulumi.Output.all(*(args.get("log_groups") or []))
            cloudwatch.Dashboard(
                f"{name}-platform",
                dashboard_name=labels.name("cloudwatch-dashboard", "platform"),
                dashboard_body=pulumi.Output.json_dumps(
                    pulumi.Output.all(aws, files, logs).apply(
                        lambda known: dashboard(
                            Watched(labels.environment, known[0].region, cluster, known[1], known[2])
                        )
                    ),
                    sort_keys=True,
                ),
                opts=child(),
            )
        self.register_outputs(component_outputs(self))


def _dollars(layout: ArgumentReader, key: str, default: str = "") -> str:
    """An amount as text: what became a float on its way may have lost a cent."""
    if not layout.has(key):
        return default
    said = layout.text(key)
    if not _DOLLARS.fullmatch(said) or Decimal(said) == 0:
        raise ArgumentError(f"{layout.path}.{key}", f"'{said}'", "dollars as text, such as '500' or '500.50'")
    return said
