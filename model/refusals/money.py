"""Refusals of budgets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from model.refusals.row import Finding, Row

if TYPE_CHECKING:
    from model.settings.whole import Settings


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
)
