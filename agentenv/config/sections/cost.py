"""Settings of costs: budgets, notifications, tags, usage export and metering."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field

from agentenv.config.sections.base import Section
from agentenv.config.values import Email, Label, Memory, Money, TagText
from agentenv.core.values.quantities import Quantity

# At four kilobytes per entry and $0.03 per gigabyte this is at most 2.5 cents a day.
ENTRIES_A_DAY = 200_000

CostTags = Literal["none", "active", "activate"]


class Tag(Section):
    """An additional tag of every AWS resource."""

    key: Annotated[TagText, Field(description="Key of the tag.")]
    value: Annotated[TagText, Field(description="Value of the tag.")]


class StorageMetering(Section):
    """The daily job that measures the size of homes, so that each owner is charged for stored bytes instead of
    requested ones. It needs the workspace service."""

    enabled: Annotated[bool, Field(description="Whether the job runs.")] = True
    hour: Annotated[
        int,
        Field(ge=0, le=23, description="Hour of the day in UTC. The minute derives from the name of the environment."),
    ] = 2
    entries_per_day: Annotated[
        int,
        Field(
            ge=1_000,
            le=1_000_000_000,
            description="Maximum number of files and folders that are scanned per day, on all file systems together."
            " With Elastic throughput each is billed as a read of 4 KB, so 200,000 cost $0.75 a month.",
        ),
    ] = ENTRIES_A_DAY


class Alertmanager(Section):
    """An existing Alertmanager in the cluster, which notifies people of alarms. Its network policies must admit
    Prometheus."""

    namespace: Annotated[Label, Field(description="Its namespace.")]
    service: Annotated[Label, Field(description="Its Service.")] = "alertmanager"
    port: Annotated[int, Field(ge=1, le=65535, description="The port of the Service and of its pods.")] = 9093


class Cost(Section):
    """Budgets, notifications, tags, usage export and metering."""

    monthly_budget: Annotated[Money | None, Field(description="Budget of the environment in dollars per month.")] = None
    per_user_cap: Annotated[
        Money | None,
        Field(description="Budget of a user in dollars per month. At 100 % the user's workspaces are suspended."),
    ] = None
    expected_users: Annotated[
        int, Field(ge=1, le=1_000_000, description="Number of users that estimates and reviews assume.")
    ] = 100
    active_hours: Annotated[
        int, Field(ge=0, le=730, description="Hours per month in which each user has a running workspace.")
    ] = 40
    notice_at: Annotated[
        int, Field(ge=1, le=100, description="Percentage of a budget at which its owner is notified.")
    ] = 80
    alert_to: Annotated[Email | None, Field(description="E-mail address for notifications.")] = None
    owner: Annotated[TagText, Field(description="The team that owns the environment; sets the tag `owner`.")] = (
        "platform"
    )
    cost_center: Annotated[TagText, Field(description="The cost center that pays; sets the tag `cost-center`.")] = (
        "unassigned"
    )
    tags: Annotated[tuple[Tag, ...], Field(max_length=40, description="Additional tags of all AWS resources.")] = ()
    cost_tags: Annotated[
        CostTags,
        Field(
            description="Whether the tags are cost allocation tags. `active`: the payer account has activated them."
            " `activate`: this stack activates them, which needs the payer account and a day after the first `up`."
            " `none`: the budget covers the whole account.",
        ),
    ] = "none"
    cost_labels: Annotated[
        bool,
        Field(
            description="Whether the labels of sandboxes are activated as cost allocation tags, too. AWS lists them a"
            " day after the opt-in to split cost allocation data.",
        ),
    ] = False
    usage_export: Annotated[bool, Field(description="Whether hourly cost and usage data is exported for reports.")] = (
        False
    )
    # AWS rewrites the data of a month until its bill is final, some days into the next month.
    usage_export_days: Annotated[
        int, Field(ge=62, le=3653, description="Retention of exported cost and usage data in days.")
    ] = 400
    query_scan_limit: Annotated[
        Memory, Field(description="Maximum data that a query of the export may scan before it is cancelled.")
    ] = Quantity.parse("10Gi")
    anomaly_alerts: Annotated[bool, Field(description="Whether unusual spending is reported to `alertTo`.")] = False
    anomaly_from: Annotated[Money, Field(description="Minimum impact in dollars of an anomaly that is reported.")] = (
        Decimal(10)
    )
    anomaly_monitor: Annotated[
        str | None,
        Field(
            pattern=r"^arn:aws[a-z-]*:ce::[0-9]{12}:anomalymonitor/[A-Za-z0-9-]+$",
            title="the ARN of an anomaly monitor",
            description="An existing anomaly monitor. An account has one for all services, often created by AWS.",
        ),
    ] = None
    dashboards: Annotated[
        bool,
        Field(
            description="Whether Prometheus, OpenCost and Grafana run in the cluster. Without them metering uses the"
            " requests of sandboxes instead of their usage."
        ),
    ] = True
    alertmanager: Annotated[
        Alertmanager | None,
        Field(
            description="An existing Alertmanager in the cluster, to which Prometheus sends its alarms. Without one"
            " they are on the dashboard only."
        ),
    ] = None
    platform_dashboard: Annotated[
        bool,
        Field(
            description="Whether to create a CloudWatch dashboard of the platform. The first three are free, others $3."
        ),
    ] = False
    storage_metering: Annotated[
        StorageMetering, Field(description="The daily job that measures the size of homes.")
    ] = StorageMetering()
