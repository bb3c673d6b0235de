"""A monthly budget with notifications, an anomaly monitor, and cost allocation tags."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_aws import budgets, costexplorer

from agentenv.components._lib.aws_context import AwsContext
from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.tags import Labels
from agentenv.core.usage_export.columns import billing_view


@dataclass(frozen=True)
class BudgetAlert:
    """The recipient of budget notifications, and the share of the budget that triggers the first."""

    address: str
    at_percent: int


def create_budget(
    labels: Labels,
    aws: pulumi.Output[AwsContext],
    child: ChildOptions,
    amount: str,
    alert: BudgetAlert,
    *,
    tagged: bool,
) -> pulumi.Output[str]:
    """Create a monthly budget that notifies at a share of it, at all of it, and when the forecast exceeds it.

    A filter by a tag that is not activated matches no costs. So without activated tags the budget covers the account.
    """
    notifications_at = [("ACTUAL", alert.at_percent), ("ACTUAL", 100), ("FORECASTED", 100)]
    return budgets.Budget(
        f"{labels.base}-month",
        name=labels.name("budget", "month"),
        budget_type="COST",
        time_unit="MONTHLY",
        limit_amount=amount,
        limit_unit="USD",
        # AWS sets this on every budget; undeclared it would show as a change.
        billing_view_arn=aws.apply(lambda context: billing_view(context.account, context.partition)),
        cost_filters=[{"name": "TagKeyValue", "values": [f"user:environment${labels.environment}"]}]
        if tagged
        else None,
        notifications=[
            {
                "notification_type": kind,
                "comparison_operator": "GREATER_THAN",
                "threshold": percent,
                "threshold_type": "PERCENTAGE",
                "subscriber_email_addresses": [alert.address],
            }
            # Without duplicates, in case the first share is 100 percent.
            for kind, percent in dict.fromkeys(notifications_at)
        ],
        tags=labels.tags("month"),
        opts=child(),
    ).name


def create_anomaly_alerts(
    labels: Labels,
    child: ChildOptions,
    address: str,
    dollars: str,
    *,
    existing_monitor: str | None,
    payer_account: bool,
) -> None:
    """Create a daily alert about anomalies with an impact of at least so many dollars.

    The payer account may monitor a tag. A member account may only monitor all of its services, and has a single such
    monitor, which may exist already.
    """
    costexplorer.AnomalySubscription(
        f"{labels.base}-unusual",
        name=labels.name("anomaly-subscription", "unusual"),
        frequency="DAILY",
        monitor_arn_lists=[existing_monitor or _monitor(labels, child, payer_account=payer_account)],
        subscribers=[{"type": "EMAIL", "address": address}],
        threshold_expression={
            "dimension": {
                "key": "ANOMALY_TOTAL_IMPACT_ABSOLUTE",
                "match_options": ["GREATER_THAN_OR_EQUAL"],
                "values": [dollars],
            }
        },
        tags=labels.tags("unusual"),
        opts=child(),
    )


def _monitor(labels: Labels, child: ChildOptions, *, payer_account: bool) -> pulumi.Output[str]:
    name, tags = f"{labels.base}-unusual", labels.tags("unusual")
    physical = labels.name("anomaly-monitor", "unusual")
    if not payer_account:
        return costexplorer.AnomalyMonitor(
            name, name=physical, monitor_type="DIMENSIONAL", monitor_dimension="SERVICE", tags=tags, opts=child()
        ).arn
    return costexplorer.AnomalyMonitor(
        name,
        name=physical,
        monitor_type="CUSTOM",
        monitor_specification=pulumi.Output.json_dumps(
            # With explicit nulls, because the provider reads it back like this: an omitted key would be a change, and
            # replace the monitor.
            {
                **dict.fromkeys(("And", "CostCategories", "Dimensions", "Not", "Or")),
                "Tags": {"Key": "environment", "MatchOptions": None, "Values": [labels.environment]},
            },
            sort_keys=True,
        ),
        tags=tags,
        opts=child(),
    ).arn


def activate_cost_tags(labels: Labels, child: ChildOptions, keys: Sequence[str]) -> None:
    """Activate cost allocation tags. They stay active when the stack is destroyed: they apply to the whole account, and
    other environments use them too.
    """
    retained = pulumi.ResourceOptions(retain_on_delete=True)
    for key in keys:
        name = f"{labels.base}-{key.replace('/', '-')}"
        costexplorer.CostAllocationTag(name, tag_key=key, status="Active", opts=child(retained))
