"""Settings of money: budgets, who is told, and whom things belong to."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field

from agentenv.config.sections.base import Section
from agentenv.config.values import Email, Memory, Money, TagText
from agentenv.core.values.quantities import Quantity

# At four kilobytes an entry and $0.03 a gigabyte: two and a half cents a day, whatever there is.
ENTRIES_A_DAY = 200_000

CostTags = Literal["none", "active", "activate"]


class Tag(Section):
    """A tag that every AWS resource carries beside our own."""

    key: Annotated[TagText, Field(description="Its key.")]
    value: Annotated[TagText, Field(description="Its value.")]


class StorageMetering(Section):
    """The daily job that looks how large homes are, so that each owner is charged for what is stored and not for what
    was asked for. It runs where the workspace service does."""

    enabled: Annotated[bool, Field(description="Whether it runs.")] = True
    hour: Annotated[
        int,
        Field(ge=0, le=23, description="The hour of the day in UTC; the minute follows from the environment's name."),
    ] = 2
    entries_per_day: Annotated[
        int,
        Field(
            ge=1_000,
            le=1_000_000_000,
            description="The most files and folders that are looked at in a day, on all file systems together: with"
            " Elastic throughput each is paid for as four kilobytes read, so 200,000 are $0.75 a month.",
        ),
    ] = ENTRIES_A_DAY


class Cost(Section):
    """What it may cost, who is told, and whom things belong to."""

    monthly_budget: Annotated[Money | None, Field(description="Dollars a month for the environment.")] = None
    per_user_cap: Annotated[
        Money | None, Field(description="Dollars a user and month; at 100 % the user's workspaces sleep.")
    ] = None
    expected_users: Annotated[
        int, Field(ge=1, le=1_000_000, description="How many users it is reckoned for, in estimates and reviews.")
    ] = 100
    active_hours: Annotated[
        int, Field(ge=0, le=730, description="Hours a month in which each of them has a workspace awake.")
    ] = 40
    notice_at: Annotated[int, Field(ge=1, le=100, description="Percent of a budget at which its owner is told.")] = 80
    alert_to: Annotated[Email | None, Field(description="Who is told.")] = None
    owner: Annotated[TagText, Field(description="The team it belongs to; tag `owner`.")] = "platform"
    cost_center: Annotated[TagText, Field(description="Who pays; tag `cost-center`.")] = "unassigned"
    tags: Annotated[tuple[Tag, ...], Field(max_length=40, description="Tags beside ours, on everything.")] = ()
    cost_tags: Annotated[
        CostTags,
        Field(
            description="Whether AWS splits the bill by our tags: `active` where the account that pays has activated"
            " them, `activate` to do so from here (in the account that pays, a day after the first `up`). With `none`"
            " the budget watches the whole account.",
        ),
    ] = "none"
    cost_labels: Annotated[
        bool,
        Field(
            description="Whether the labels of sandboxes are activated as cost allocation tags, too; AWS knows them a"
            " day after split cost allocation data was opted into.",
        ),
    ] = False
    usage_export: Annotated[bool, Field(description="Whether hourly cost and usage data is exported for reports.")] = (
        False
    )
    # A month's data is written anew until its bill is final, some days into the next.
    usage_export_days: Annotated[
        int, Field(ge=62, le=3653, description="Days that exported cost and usage data is kept.")
    ] = 400
    query_scan_limit: Annotated[
        Memory, Field(description="The most that one query may read of exported data; more is cancelled.")
    ] = Quantity.parse("10Gi")
    anomaly_alerts: Annotated[bool, Field(description="Whether unusual spending is reported to `alertTo`.")] = False
    anomaly_from: Annotated[Money, Field(description="Dollars from which unusual spending is reported.")] = Decimal(10)
    anomaly_monitor: Annotated[
        str | None,
        Field(
            pattern=r"^arn:aws[a-z-]*:ce::[0-9]{12}:anomalymonitor/[A-Za-z0-9-]+$",
            title="the ARN of an anomaly monitor",
            description="A monitor that stands already; an account has one for all its services, often made by AWS.",
        ),
    ] = None
    dashboards: Annotated[
        bool,
        Field(
            description="Whether Prometheus, OpenCost and Grafana run in the cluster: without them what is metered is"
            " what sandboxes asked for, not what they used."
        ),
    ] = True
    platform_dashboard: Annotated[
        bool, Field(description="Whether CloudWatch gets a dashboard of the platform; from the fourth on it costs $3.")
    ] = False
    storage_metering: Annotated[StorageMetering, Field(description="How it is found out how large homes are.")] = (
        StorageMetering()
    )
