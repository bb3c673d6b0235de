"""Refusals of budgets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agentenv.config.constraints.constraint import Finding, Row

if TYPE_CHECKING:
    from agentenv.config.settings import Settings


def _nobody_told(settings: Settings) -> Iterator[Finding]:
    cost = settings.cost
    if cost.alert_to is None:
        for key, wanted in (("monthlyBudget", cost.monthly_budget), ("anomalyAlerts", cost.anomaly_alerts)):
            if wanted:
                yield Finding(("cost", key), f"{str(wanted).lower()} without alertTo", also=(("cost", "alertTo"),))


def _cap_over_budget(settings: Settings) -> Iterator[Finding]:
    cost = settings.cost
    if cost.per_user_cap is not None and cost.monthly_budget is not None and cost.per_user_cap > cost.monthly_budget:
        found = f"{cost.per_user_cap} with monthlyBudget {cost.monthly_budget}"
        yield Finding(("cost", "perUserCap"), found, also=(("cost", "monthlyBudget"),))


def _monitor_for_nobody(settings: Settings) -> Iterator[Finding]:
    cost = settings.cost
    if cost.anomaly_monitor is not None and not cost.anomaly_alerts:
        yield Finding(("cost", "anomalyMonitor"), "a monitor without anomalyAlerts", also=(("cost", "anomalyAlerts"),))


def _labels_before_tags(settings: Settings) -> Iterator[Finding]:
    cost = settings.cost
    if not cost.cost_labels:
        return
    if cost.cost_tags != "activate":
        found = f"true with costTags {cost.cost_tags}"
        yield Finding(("cost", "costLabels"), found, also=(("cost", "costTags"),))
    elif not cost.usage_export:
        yield Finding(("cost", "costLabels"), "true without usageExport", also=(("cost", "usageExport"),))


ROWS = (
    Row(
        "alert-without-recipient",
        "a budget that tells nobody is not noticed until the bill",
        "a budget or anomaly alerts with alertTo",
        "set cost.alertTo",
        _nobody_told,
    ),
    Row(
        "cap-over-budget",
        "one user could spend what the whole environment may",
        "a cap a user of at most the budget",
        "lower perUserCap, or raise monthlyBudget",
        _cap_over_budget,
    ),
    Row(
        "monitor-for-nobody",
        "a monitor that stands already is only named to be told of what it finds",
        "anomalyMonitor with anomalyAlerts",
        "set cost.anomalyAlerts, or take the monitor out",
        _monitor_for_nobody,
    ),
    Row(
        "labels-without-tags",
        "labels are activated where tags are, and stand on the lines of pods, which only the export has",
        "costLabels with usageExport and costTags: activate",
        "set cost.costTags to activate and cost.usageExport, or take costLabels out",
        _labels_before_tags,
    ),
)
