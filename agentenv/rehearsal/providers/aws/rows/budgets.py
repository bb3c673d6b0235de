"""AWS Budgets with their notifications. The service has one endpoint only."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws import api_calls, name_mapping
from agentenv.rehearsal.providers.aws.row import AutoName, CustomCreate, CustomStep, Problem, ResourceType, Tagging
from agentenv.rehearsal.providers.aws.value_kinds import ValueKind, between, one_of

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Operation

NOT_FOUND: Final = ("NotFoundException",)
NOT_SIMULATED: Final = "this form of a budget is not simulated"
TIME_FORMAT: Final = "%Y-%m-%d_%H:%M"
PLAIN: Final = ("budgetType", "timeUnit", "costTypes", "billingViewArn")
INPUTS: Final = (*PLAIN, "costFilters", "limitAmount", "limitUnit", "timePeriodStart", "timePeriodEnd")
Notification = tuple[dict[str, Any], list[dict[str, str]]]


def _account(op: Operation) -> str:
    return op.value("accountId") or op.cloud.account()


def _identifiers(op: Operation) -> dict[str, str]:
    account, _, name = op.id.partition(":")
    return {"AccountId": account, "BudgetName": name}


def _arn(op: Operation) -> str:
    return op.format("arn:{partition}:budgets::{account}:budget/", {}) + _identifiers(op)["BudgetName"]


def _time(text: str) -> datetime:
    return datetime.strptime(text, TIME_FORMAT).replace(tzinfo=UTC)


def _budget(op: Operation, name: str) -> dict[str, Any]:
    shape = api_calls.members("budgets", "CreateBudget")["Budget"].members
    budget: dict[str, Any] = {"BudgetName": name}
    for key in PLAIN:
        if op.inputs.get(key) is not None:
            member = name_mapping.member(shape, key) or key
            budget[member] = name_mapping.send(op.inputs[key], shape[member], {}, key)
    if op.inputs.get("limitAmount"):
        budget["BudgetLimit"] = {"Amount": str(op.inputs["limitAmount"]), "Unit": op.inputs.get("limitUnit") or "USD"}
    if op.inputs.get("costFilters"):
        budget["CostFilters"] = {item["name"]: list(item["values"]) for item in op.inputs["costFilters"]}
    period = {"Start": op.inputs.get("timePeriodStart"), "End": op.inputs.get("timePeriodEnd")}
    if any(period.values()):
        budget["TimePeriod"] = {key: _time(text) for key, text in period.items() if text}
    return budget


def _notifications(rows: Any) -> list[Notification]:
    """Return each notification with its subscribers, in the form of the API."""
    out: list[Notification] = []
    for row in rows or []:
        notification = {
            "NotificationType": row["notificationType"],
            "ComparisonOperator": row["comparisonOperator"],
            "Threshold": float(row["threshold"]),
            "ThresholdType": row["thresholdType"],
        }
        subscribers = [
            {"SubscriptionType": "EMAIL", "Address": item} for item in row.get("subscriberEmailAddresses") or []
        ]
        subscribers += [
            {"SubscriptionType": "SNS", "Address": item} for item in row.get("subscriberSnsTopicArns") or []
        ]
        out.append((notification, subscribers))
    return out


def _create(op: Operation) -> Mapping[str, Any]:
    account = _account(op)
    parameters = [
        {"Notification": notification, "Subscribers": subscribers}
        for notification, subscribers in _notifications(op.inputs.get("notifications"))
    ]
    more: dict[str, Any] = {"NotificationsWithSubscribers": parameters} if parameters else {}
    op.call("CreateBudget", AccountId=account, Budget=_budget(op, op.inputs["name"]), **more)
    return {"BudgetId": f"{account}:{op.inputs['name']}"}


def _read(op: Operation) -> Mapping[str, Any] | None:
    identifiers = _identifiers(op)
    budget = op.call("DescribeBudget", **identifiers, ignored_errors=NOT_FOUND).get("Budget")
    if not budget:
        return None
    notifications: list[dict[str, Any]] = []
    for notification in op.call("DescribeNotificationsForBudget", **identifiers).get("Notifications", []):
        identity = {key: item for key, item in notification.items() if key != "NotificationState"}
        subscribers = op.call("DescribeSubscribersForNotification", **identifiers, Notification=identity).get(
            "Subscribers", []
        )
        notifications.append({**identity, "Subscribers": subscribers})
    arn = _arn(op)
    tags = op.call("ListTagsForResource", ResourceARN=arn).get("ResourceTags", [])
    return {
        **budget,
        "Notifications": notifications,
        "ResourceTags": tags,
        "AccountId": identifiers["AccountId"],
        "Arn": arn,
    }


def _update(op: Operation) -> None:
    if not op.creating:
        identifiers = _identifiers(op)
        op.call("UpdateBudget", AccountId=identifiers["AccountId"], NewBudget=_budget(op, identifiers["BudgetName"]))


def _update_notifications(op: Operation) -> None:
    """Delete the notifications that are no longer set, and create the new ones."""
    if op.creating:
        return
    identifiers, expected = _identifiers(op), _notifications(op.inputs.get("notifications"))
    existing = _notifications(op.state.get("notifications"))
    for notification, subscribers in existing:
        if (notification, subscribers) not in expected:
            op.call("DeleteNotification", **identifiers, Notification=notification, ignored_errors=NOT_FOUND)
    for notification, subscribers in expected:
        if (notification, subscribers) not in existing:
            op.call("CreateNotification", **identifiers, Notification=notification, Subscribers=subscribers)


def _notification_outputs(_: Operation, document: Mapping[str, Any]) -> list[dict[str, Any]]:
    def of(notification: Mapping[str, Any], kind: str) -> list[str]:
        return [item["Address"] for item in notification["Subscribers"] if item["SubscriptionType"] == kind]

    return [
        {
            "NotificationType": notification["NotificationType"],
            "ComparisonOperator": notification["ComparisonOperator"],
            "Threshold": notification["Threshold"],
            "ThresholdType": notification.get("ThresholdType", "PERCENTAGE"),
            "SubscriberEmailAddresses": of(notification, "EMAIL"),
            "SubscriberSnsTopicArns": of(notification, "SNS"),
        }
        for notification in document["Notifications"]
    ]


def _restore_notifications(op: Operation, document: Mapping[str, Any], out: dict[str, Any]) -> None:
    """Keep the previous notifications of a budget that has lost them all, as the official plugin does."""
    if not document["Notifications"] and op.inputs.get("notifications") and op.state.get("notifications"):
        out["notifications"] = op.state["notifications"]


def _time_output(which: str) -> Any:
    def show(_: Operation, document: Mapping[str, Any]) -> str:
        return document["TimePeriod"][which].astimezone(UTC).strftime(TIME_FORMAT)

    return show


def _amount(value: Any) -> Decimal | None:
    try:
        return Decimal(str(value))
    except InvalidOperation:
        return None


def _amount_problem(value: Any) -> str | None:
    amount = _amount(value)
    return None if amount is not None and amount > 0 else f"{value!r} is no amount of more than nothing"


def _check_subscribers(inputs: Mapping[str, Any]) -> list[Problem]:
    """Report notifications without a subscriber, which the service refuses."""
    rows = inputs.get("notifications")
    ways = ("subscriberEmailAddresses", "subscriberSnsTopicArns")
    return [
        (f"notifications[{number}]", f"tells nobody: give {' or '.join(ways)}")
        for number, row in enumerate(rows if isinstance(rows, list) else [])
        if isinstance(row, dict) and not any(row.get(way) for way in ways)
    ]


BUDGET = ResourceType(
    type="aws:budgets/budget:Budget",
    service="budgets",
    create=CustomCreate(_create, ("accountId", "name", "notifications", *INPUTS)),
    id="BudgetId",
    read=_read,
    updates=(CustomStep(_update, INPUTS), CustomStep(_update_notifications, ("notifications",))),
    delete=(CustomStep(lambda op: op.call("DeleteBudget", **_identifiers(op), ignored_errors=NOT_FOUND)),),
    output_sources={
        "name": "BudgetName",
        "limitAmount": "BudgetLimit.Amount",
        "limitUnit": "BudgetLimit.Unit",
        "costFilters": lambda _, d: [{"Name": k, "Values": v} for k, v in sorted((d.get("CostFilters") or {}).items())],
        "notifications": _notification_outputs,
        "timePeriodStart": _time_output("Start"),
        "timePeriodEnd": _time_output("End"),
    },
    auto_name=AutoName(max_length=100),
    tags=Tagging(
        tag_operation="TagResource",
        untag_operation="UntagResource",
        constants={"ResourceARN": _arn},
        tags_member="ResourceTags",
        keys_member="ResourceTagKeys",
        path="ResourceTags",
    ),
    write_only=frozenset({"namePrefix"}),
    adjust_outputs=_restore_notifications,
    value_kinds={
        "budgetType": one_of("COST", "USAGE", "RI_UTILIZATION", "RI_COVERAGE", "SAVINGS_PLANS_UTILIZATION"),
        "timeUnit": one_of("DAILY", "MONTHLY", "QUARTERLY", "ANNUALLY"),
        # The service answers 500.0 to 500
        "limitAmount": ValueKind(_amount_problem, lambda left, right: _amount(left) == _amount(right)),
        "notifications.threshold": between(0.1, 1_000_000_000),
        "notifications.notificationType": one_of("ACTUAL", "FORECASTED"),
        "notifications.comparisonOperator": one_of("GREATER_THAN", "LESS_THAN", "EQUAL_TO"),
        "notifications.thresholdType": one_of("PERCENTAGE", "ABSOLUTE_VALUE"),
    },
    defaults={"timePeriodEnd": "2087-06-15_00:00"},
    unsupported=dict.fromkeys(("autoAdjustData", "filterExpression", "metrics", "plannedLimits"), NOT_SIMULATED),
    validators=(_check_subscribers,),
    parse_import_id=lambda text: (text, {"accountId": text.partition(":")[0], "name": text.partition(":")[2]}),
    regional=False,
    fixed_region="us-east-1",
)

ROWS: Final = (BUDGET,)
