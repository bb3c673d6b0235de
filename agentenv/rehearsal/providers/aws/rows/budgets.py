"""Budgets, with whom they tell of what; a service of one region only."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws import api_calls as calls
from agentenv.rehearsal.providers.aws import name_mapping as spelling
from agentenv.rehearsal.providers.aws.row import Do, Make, Name, Problem, Row, Tags
from agentenv.rehearsal.providers.aws.value_kinds import Kind, among, between

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Situation

GONE: Final = ("NotFoundException",)
NOT_HERE: Final = "this form of a budget is not simulated"
MOMENT: Final = "%Y-%m-%d_%H:%M"
PLAIN: Final = ("budgetType", "timeUnit", "costTypes", "billingViewArn")
INPUTS: Final = (*PLAIN, "costFilters", "limitAmount", "limitUnit", "timePeriodStart", "timePeriodEnd")
Notice = tuple[dict[str, Any], list[dict[str, str]]]


def _account(s: Situation) -> str:
    return s.value("accountId") or s.cloud.account()


def _at(s: Situation) -> dict[str, str]:
    account, _, name = s.id.partition(":")
    return {"AccountId": account, "BudgetName": name}


def _arn(s: Situation) -> str:
    return s.form("arn:{partition}:budgets::{account}:budget/", {}) + _at(s)["BudgetName"]


def _moment(text: str) -> datetime:
    return datetime.strptime(text, MOMENT).replace(tzinfo=UTC)


def _budget(s: Situation, name: str) -> dict[str, Any]:
    shape = calls.members("budgets", "CreateBudget")["Budget"].members
    said: dict[str, Any] = {"BudgetName": name}
    for key in PLAIN:
        if s.inputs.get(key) is not None:
            member = spelling.member(shape, key) or key
            said[member] = spelling.send(s.inputs[key], shape[member], {}, key)
    if s.inputs.get("limitAmount"):
        said["BudgetLimit"] = {"Amount": str(s.inputs["limitAmount"]), "Unit": s.inputs.get("limitUnit") or "USD"}
    if s.inputs.get("costFilters"):
        said["CostFilters"] = {one["name"]: list(one["values"]) for one in s.inputs["costFilters"]}
    period = {"Start": s.inputs.get("timePeriodStart"), "End": s.inputs.get("timePeriodEnd")}
    if any(period.values()):
        said["TimePeriod"] = {key: _moment(text) for key, text in period.items() if text}
    return said


def _notices(rows: Any) -> list[Notice]:
    """Each notification with its subscribers, as the service takes them."""
    out: list[Notice] = []
    for row in rows or []:
        note = {
            "NotificationType": row["notificationType"],
            "ComparisonOperator": row["comparisonOperator"],
            "Threshold": float(row["threshold"]),
            "ThresholdType": row["thresholdType"],
        }
        told = [{"SubscriptionType": "EMAIL", "Address": one} for one in row.get("subscriberEmailAddresses") or []]
        told += [{"SubscriptionType": "SNS", "Address": one} for one in row.get("subscriberSnsTopicArns") or []]
        out.append((note, told))
    return out


def _make(s: Situation) -> Mapping[str, Any]:
    account = _account(s)
    asked = [{"Notification": note, "Subscribers": told} for note, told in _notices(s.inputs.get("notifications"))]
    more: dict[str, Any] = {"NotificationsWithSubscribers": asked} if asked else {}
    s.call("CreateBudget", AccountId=account, Budget=_budget(s, s.inputs["name"]), **more)
    return {"BudgetId": f"{account}:{s.inputs['name']}"}


def _find(s: Situation) -> Mapping[str, Any] | None:
    where = _at(s)
    found = s.call("DescribeBudget", **where, forgives=GONE).get("Budget")
    if not found:
        return None
    notes: list[dict[str, Any]] = []
    for note in s.call("DescribeNotificationsForBudget", **where).get("Notifications", []):
        named = {key: item for key, item in note.items() if key != "NotificationState"}
        told = s.call("DescribeSubscribersForNotification", **where, Notification=named).get("Subscribers", [])
        notes.append({**named, "Subscribers": told})
    arn = _arn(s)
    tags = s.call("ListTagsForResource", ResourceARN=arn).get("ResourceTags", [])
    return {**found, "Notifications": notes, "ResourceTags": tags, "AccountId": where["AccountId"], "Arn": arn}


def _renew(s: Situation) -> None:
    if not s.creating:
        where = _at(s)
        s.call("UpdateBudget", AccountId=where["AccountId"], NewBudget=_budget(s, where["BudgetName"]))


def _tell(s: Situation) -> None:
    """What is there and not wanted goes, and what is wanted and not there comes."""
    if s.creating:
        return
    where, wanted = _at(s), _notices(s.inputs.get("notifications"))
    there = _notices(s.state.get("notifications"))
    for note, told in there:
        if (note, told) not in wanted:
            s.call("DeleteNotification", **where, Notification=note, forgives=GONE)
    for note, told in wanted:
        if (note, told) not in there:
            s.call("CreateNotification", **where, Notification=note, Subscribers=told)


def _shown_notices(_: Situation, document: Mapping[str, Any]) -> list[dict[str, Any]]:
    def of(note: Mapping[str, Any], kind: str) -> list[str]:
        return [one["Address"] for one in note["Subscribers"] if one["SubscriptionType"] == kind]

    return [
        {
            "NotificationType": note["NotificationType"],
            "ComparisonOperator": note["ComparisonOperator"],
            "Threshold": note["Threshold"],
            "ThresholdType": note.get("ThresholdType", "PERCENTAGE"),
            "SubscriberEmailAddresses": of(note, "EMAIL"),
            "SubscriberSnsTopicArns": of(note, "SNS"),
        }
        for note in document["Notifications"]
    ]


def _as_before(s: Situation, document: Mapping[str, Any], out: dict[str, Any]) -> None:
    """Take a budget that has lost all its notifications for one that has those of before, as the official plugin."""
    if not document["Notifications"] and s.inputs.get("notifications") and s.state.get("notifications"):
        out["notifications"] = s.state["notifications"]


def _shown_moment(which: str) -> Any:
    def show(_: Situation, document: Mapping[str, Any]) -> str:
        return document["TimePeriod"][which].astimezone(UTC).strftime(MOMENT)

    return show


def _amount(value: Any) -> Decimal | None:
    try:
        return Decimal(str(value))
    except InvalidOperation:
        return None


def _amount_wrong(value: Any) -> str | None:
    amount = _amount(value)
    return None if amount is not None and amount > 0 else f"{value!r} is no amount of more than nothing"


def _somebody_told(inputs: Mapping[str, Any]) -> list[Problem]:
    """The service takes no notification without a subscriber."""
    rows = inputs.get("notifications")
    ways = ("subscriberEmailAddresses", "subscriberSnsTopicArns")
    return [
        (f"notifications[{number}]", f"tells nobody: give {' or '.join(ways)}")
        for number, row in enumerate(rows if isinstance(rows, list) else [])
        if isinstance(row, dict) and not any(row.get(way) for way in ways)
    ]


BUDGET = Row(
    type="aws:budgets/budget:Budget",
    service="budgets",
    create=Make(_make, ("accountId", "name", "notifications", *INPUTS)),
    id="BudgetId",
    find=_find,
    sets=(Do(_renew, INPUTS), Do(_tell, ("notifications",))),
    delete=(Do(lambda s: s.call("DeleteBudget", **_at(s), forgives=GONE)),),
    shows={
        "name": "BudgetName",
        "limitAmount": "BudgetLimit.Amount",
        "limitUnit": "BudgetLimit.Unit",
        "costFilters": lambda _, d: [{"Name": k, "Values": v} for k, v in sorted((d.get("CostFilters") or {}).items())],
        "notifications": _shown_notices,
        "timePeriodStart": _shown_moment("Start"),
        "timePeriodEnd": _shown_moment("End"),
    },
    name=Name(longest=100),
    tags=Tags(
        put="TagResource",
        drop="UntagResource",
        on={"ResourceARN": _arn},
        member="ResourceTags",
        keys="ResourceTagKeys",
        at="ResourceTags",
    ),
    unread=frozenset({"namePrefix"}),
    repairs=_as_before,
    kinds={
        "budgetType": among("COST", "USAGE", "RI_UTILIZATION", "RI_COVERAGE", "SAVINGS_PLANS_UTILIZATION"),
        "timeUnit": among("DAILY", "MONTHLY", "QUARTERLY", "ANNUALLY"),
        # The service answers 500.0 to 500
        "limitAmount": Kind(_amount_wrong, lambda left, right: _amount(left) == _amount(right)),
        "notifications.threshold": between(0.1, 1_000_000_000),
        "notifications.notificationType": among("ACTUAL", "FORECASTED"),
        "notifications.comparisonOperator": among("GREATER_THAN", "LESS_THAN", "EQUAL_TO"),
        "notifications.thresholdType": among("PERCENTAGE", "ABSOLUTE_VALUE"),
    },
    defaults={"timePeriodEnd": "2087-06-15_00:00"},
    refused=dict.fromkeys(("autoAdjustData", "filterExpression", "metrics", "plannedLimits"), NOT_HERE),
    rules=(_somebody_told,),
    parse=lambda text: (text, {"accountId": text.partition(":")[0], "name": text.partition(":")[2]}),
    regional=False,
    home="us-east-1",
)

ROWS: Final = (BUDGET,)
