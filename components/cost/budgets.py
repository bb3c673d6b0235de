"""Who is told that money goes: a budget with its notices, a monitor of what is unusual, and the tags of the bill."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_aws import budgets, costexplorer

from agentenv.components._lib.aws_context import AwsContext
from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.tags import Labels
from agentenv.core.usage_export.columns import billing_view


@dataclass(frozen=True)
class Told:
    """Who is told, and of which part of a budget."""

    address: str
    at_percent: int


def budget(
    labels: Labels, aws: pulumi.Output[AwsContext], child: ChildOptions, amount: str, told: Told, *, tagged: bool
) -> pulumi.Output[str]:
    """A monthly budget: told of when a part of it is spent, when all of it is, and as soon as it is going to be.

    A filter by a tag that is not active finds nothing, and a budget of nothing is never spent: without tags it watches
    the whole account.
    """
    notices = [("ACTUAL", told.at_percent), ("ACTUAL", 100), ("FORECASTED", 100)]
    return budgets.Budget(
        f"{labels.base}-month",
        name=labels.name("budget", "month"),
        budget_type="COST",
        time_unit="MONTHLY",
        limit_amount=amount,
        limit_unit="USD",
        # AWS says so of every budget, and would be held to have changed it.
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
                "subscriber_email_addresses": [told.address],
            }
            # All of it is said once, where that is also the part that was asked for.
            for kind, percent in dict.fromkeys(notices)
        ],
        tags=labels.tags("month"),
        opts=child(),
    ).name


def create_anomaly_alerts(
    labels: Labels, child: ChildOptions, address: str, dollars: str, *, standing: str | None, paying: bool
) -> None:
    """Tell somebody once a day of spending that is unusual and more than so many dollars.

    What is watched follows from who pays: the account that does may watch a tag; another one only all of its own
    services, of which it has one monitor, that may stand already.
    """
    costexplorer.AnomalySubscription(
        f"{labels.base}-unusual",
        name=labels.name("anomaly-subscription", "unusual"),
        frequency="DAILY",
        monitor_arn_lists=[standing or _monitor(labels, child, paying=paying)],
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


def _monitor(labels: Labels, child: ChildOptions, *, paying: bool) -> pulumi.Output[str]:
    name, tags = f"{labels.base}-unusual", labels.tags("unusual")
    physical = labels.name("anomaly-monitor", "unusual")
    if not paying:
        return costexplorer.AnomalyMonitor(
            name, name=physical, monitor_type="DIMENSIONAL", monitor_dimension="SERVICE", tags=tags, opts=child()
        ).arn
    return costexplorer.AnomalyMonitor(
        name,
        name=physical,
        monitor_type="CUSTOM",
        monitor_specification=pulumi.Output.json_dumps(
            # With what it does not have, too: that is how the provider reads it back, and what is left out would be a
            # change, and another monitor.
            {
                **dict.fromkeys(("And", "CostCategories", "Dimensions", "Not", "Or")),
                "Tags": {"Key": "environment", "MatchOptions": None, "Values": [labels.environment]},
            },
            sort_keys=True,
        ),
        tags=tags,
        opts=child(),
    ).arn


def activate(labels: Labels, child: ChildOptions, keys: Sequence[str]) -> None:
    """Split the bill by these tags from now on. They stay active when the stack goes: they are the whole account's, and
    an environment beside this one is split by them, too.
    """
    kept = pulumi.ResourceOptions(retain_on_delete=True)
    for key in keys:
        name = f"{labels.base}-{key.replace('/', '-')}"
        costexplorer.CostAllocationTag(name, tag_key=key, status="Active", opts=child(kept))
