"""Constraints on budgets, alerts and cost allocation tags."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agentenv.config.constraints.constraint import Constraint, Finding

if TYPE_CHECKING:
    from agentenv.config.settings import Settings


def _no_recipient(settings: Settings) -> Iterator[Finding]:
    cost = settings.cost
    if cost.alert_to is None:
        for key, value in (("monthlyBudget", cost.monthly_budget), ("anomalyAlerts", cost.anomaly_alerts)):
            if value:
                yield Finding(("cost", key), f"{str(value).lower()} without alertTo", also=(("cost", "alertTo"),))


def _cap_over_budget(settings: Settings) -> Iterator[Finding]:
    cost = settings.cost
    if cost.per_user_cap is not None and cost.monthly_budget is not None and cost.per_user_cap > cost.monthly_budget:
        found = f"{cost.per_user_cap} with monthlyBudget {cost.monthly_budget}"
        yield Finding(("cost", "perUserCap"), found, also=(("cost", "monthlyBudget"),))


def _monitor_without_alerts(settings: Settings) -> Iterator[Finding]:
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


def _alertmanager_without_prometheus(settings: Settings) -> Iterator[Finding]:
    cost = settings.cost
    if cost.alertmanager is not None and not cost.dashboards:
        yield Finding(("cost", "alertmanager"), "an Alertmanager with dashboards false", also=(("cost", "dashboards"),))


CONSTRAINTS = (
    Constraint(
        "alert-without-recipient",
        "nobody would be notified before the bill arrives",
        "a budget or anomaly alerts with alertTo",
        "set cost.alertTo",
        _no_recipient,
    ),
    Constraint(
        "cap-over-budget",
        "one user could spend the budget of the whole environment",
        "perUserCap of at most monthlyBudget",
        "lower perUserCap, or raise monthlyBudget",
        _cap_over_budget,
    ),
    Constraint(
        "monitor-for-nobody",
        "an existing monitor is used for alerts only",
        "anomalyMonitor with anomalyAlerts",
        "set cost.anomalyAlerts, or remove the monitor",
        _monitor_without_alerts,
    ),
    Constraint(
        "labels-without-tags",
        "labels are activated together with tags, and appear only on the pod lines of the usage export",
        "costLabels with usageExport and costTags: activate",
        "set cost.costTags to activate and enable cost.usageExport, or remove costLabels",
        _labels_before_tags,
    ),
    Constraint(
        "alertmanager-without-prometheus",
        "the Prometheus that evaluates alarms comes with the dashboards",
        "alertmanager with dashboards",
        "enable cost.dashboards, or remove alertmanager",
        _alertmanager_without_prometheus,
    ),
)
