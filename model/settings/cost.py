"""Settings of money: budgets, who is told, and whom things belong to."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from model.settings.section import Section
from model.settings.values import Email, Money, TagText


class Tag(Section):
    """A tag that every AWS resource carries beside our own."""

    key: Annotated[TagText, Field(description="Its key.")]
    value: Annotated[TagText, Field(description="Its value.")]


class Cost(Section):
    """What it may cost, who is told, and whom things belong to."""

    monthly_budget: Annotated[Money | None, Field(description="Dollars a month for the environment.")] = None
    per_user_cap: Annotated[
        Money | None, Field(description="Dollars a user and month; at 100 % the user's workspaces sleep.")
    ] = None
    notice_at: Annotated[int, Field(ge=1, le=100, description="Percent of a budget at which its owner is told.")] = 80
    alert_to: Annotated[Email | None, Field(description="Who is told.")] = None
    owner: Annotated[TagText, Field(description="The team it belongs to; tag `owner`.")] = "platform"
    cost_center: Annotated[TagText, Field(description="Who pays; tag `cost-center`.")] = "unassigned"
    tags: Annotated[tuple[Tag, ...], Field(max_length=40, description="Tags beside ours, on everything.")] = ()
    usage_export: Annotated[bool, Field(description="Whether hourly cost and usage data is exported for reports.")] = (
        False
    )
    anomaly_alerts: Annotated[bool, Field(description="Whether unusual spending is reported to `alertTo`.")] = False
