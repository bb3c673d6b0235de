"""Budgets: tags, notifications and subscribers, consistently on moto's budgets."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.pagination import page
from agentenv.rehearsal.cloud.request_context import OperationHandler
from agentenv.rehearsal.cloud.responses import AwsError, Response
from agentenv.rehearsal.cloud.rows import resource_tags

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import RequestContext
    from agentenv.rehearsal.cloud.store import Record

TAGS = "_budgets.tags"
FOREVER = 3706473600  # 2087-06-15
NOTIFICATIONS, EMAILS, TOPICS = 10, 10, 1
AMOUNT = re.compile(r"\d+(\.\d+)?")
MAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
TOPIC = re.compile(r"arn:aws[\w-]*:sns:[a-z0-9-]+:\d{12}:.+")
Notification = dict[str, Any]


def _invalid(text: str) -> AwsError:
    return AwsError("InvalidParameterException", text)


def _missing(text: str) -> AwsError:
    return AwsError("NotFoundException", text)


def _budget(context: RequestContext, name: str | None = None) -> Any:
    budget_name = name or context.parameters["BudgetName"]
    budget = context.backend("budgets").budgets[context.parameters["AccountId"]].get(budget_name)
    if budget is None:
        raise _missing(f"Unable to get budget: {budget_name} - the budget doesn't exist.")
    return budget


def _is_same(notification: Notification, other: Notification) -> bool:
    names = ("NotificationType", "ComparisonOperator", "Threshold")
    kinds = {note.get("ThresholdType", "PERCENTAGE") for note in (notification, other)}
    return all(notification[name] == other[name] for name in names) and len(kinds) == 1


def _notification(budget: Any, details: Notification) -> Any:
    notification = next((note for note in budget.notifications if _is_same(note.details, details)), None)
    if notification is None:
        raise _missing("Unable to find the notification - it doesn't exist in the budget.")
    return notification


def _check_subscribers(subscribers: list[dict[str, str]]) -> None:
    seen: set[tuple[str, str]] = set()
    counts = {"EMAIL": 0, "SNS": 0}
    for subscriber in subscribers:
        kind, address = subscriber["SubscriptionType"], subscriber["Address"]
        if not (MAIL if kind == "EMAIL" else TOPIC).fullmatch(address):
            raise _invalid(f"The address of a subscriber of type {kind} is not valid.")
        if (kind, address) in seen:
            raise AwsError("DuplicateRecordException", "A subscriber is said twice for one notification.")
        seen.add((kind, address))
        counts[kind] += 1
    if counts["EMAIL"] > EMAILS or counts["SNS"] > TOPICS:
        text = f"A notification has at most {EMAILS} subscribers by mail and {TOPICS} by SNS."
        raise AwsError("CreationLimitExceededException", text)


def _check_notifications(notifications: list[dict[str, Any]]) -> None:
    if len(notifications) > NOTIFICATIONS:
        raise AwsError("CreationLimitExceededException", f"A budget has at most {NOTIFICATIONS} notifications.")
    for number, notification in enumerate(notifications):
        _check_subscribers(notification["Subscribers"])
        if any(_is_same(notification["Notification"], other["Notification"]) for other in notifications[:number]):
            raise AwsError("DuplicateRecordException", "A notification is said twice for one budget.")


def _check_limits(budget: dict[str, Any]) -> None:
    limit = budget.get("BudgetLimit")
    if limit and (not AMOUNT.fullmatch(limit["Amount"]) or float(limit["Amount"]) <= 0):
        raise _invalid(f"Budget limit amount must be a positive number, not {limit['Amount']}.")
    if limit and budget["BudgetType"] == "COST" and limit["Unit"] != "USD":
        raise _invalid(f"Unsupported budget unit for a cost budget: {limit['Unit']}; it is USD.")
    if "CostFilters" in budget and budget["CostFilters"] and "FilterExpression" in budget:
        raise _invalid("A budget has either CostFilters or a FilterExpression.")


def arn(context: RequestContext, name: str) -> str:
    """Return a budget's ARN."""
    return f"arn:aws:budgets::{context.parameters.get('AccountId', context.account)}:budget/{name}"


def _tags(context: RequestContext) -> Record:
    resource_arn = context.parameters["ResourceARN"]
    name = resource_arn.partition(":budget/")[2]
    if name not in context.backend("budgets").budgets[context.account]:
        raise _missing(f"Unable to find the resource {resource_arn}.")
    return context.records(TAGS, is_global=True).setdefault(resource_arn, {})


def create(context: RequestContext) -> Response:
    """Create a budget with its notifications and tags, or none of them."""
    parameters = context.parameters
    budget = parameters["Budget"]
    _check_limits(budget)
    _check_notifications(parameters.get("NotificationsWithSubscribers", []))
    response = context.forward()
    if response.ok:
        _set_defaults(context, _budget(context, budget["BudgetName"]).budget)
        tags = {tag["Key"]: tag["Value"] for tag in parameters.get("ResourceTags", [])}
        context.records(TAGS, is_global=True)[arn(context, budget["BudgetName"])] = tags
    return response


def _set_defaults(context: RequestContext, budget: dict[str, Any]) -> None:
    """Set what AWS adds to a budget: the billing view and the start; amounts get a fraction."""
    budget.setdefault("BillingViewArn", f"arn:aws:billing::{context.account}:billingview/primary")
    first = datetime.now(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    budget["TimePeriod"] = {"Start": first.timestamp(), "End": FOREVER, **budget.get("TimePeriod", {})}
    if limit := budget.get("BudgetLimit"):
        amount = limit["Amount"]
        budget["BudgetLimit"] = {**limit, "Amount": amount if "." in amount else f"{amount}.0"}


def update(context: RequestContext) -> dict[str, Any]:
    """Update everything of a budget except its name, notifications and tags."""
    new = context.parameters["NewBudget"]
    _check_limits(new)
    existing = _budget(context, new["BudgetName"])
    changed = dict(new)
    for name in ("Start", "End"):
        if name in changed.get("TimePeriod", {}):
            changed["TimePeriod"] = {**changed["TimePeriod"], name: changed["TimePeriod"][name].timestamp()}
    changed.setdefault("TimePeriod", existing.budget["TimePeriod"])
    _set_defaults(context, changed)
    existing.budget = {**changed, "LastUpdatedTime": existing.budget["LastUpdatedTime"]}
    return {}


def delete(context: RequestContext) -> Response:
    """Delete a budget with its tags."""
    response = context.forward()
    if response.ok:
        context.records(TAGS, is_global=True).pop(arn(context, context.parameters["BudgetName"]), None)
    return response


def create_notification(context: RequestContext) -> dict[str, Any]:
    """Add a notification with subscribers."""
    budget, parameters = _budget(context), context.parameters
    others = [{"Notification": note.details, "Subscribers": note.subscribers} for note in budget.notifications]
    _check_notifications([*others, {name: parameters[name] for name in ("Notification", "Subscribers")}])
    budget.add_notification(parameters["Notification"], parameters["Subscribers"])
    return {}


def update_notification(context: RequestContext) -> dict[str, Any]:
    """Change a notification and keep its subscribers."""
    budget, parameters = _budget(context), context.parameters
    notification = _notification(budget, parameters["OldNotification"])
    if any(
        _is_same(note.details, parameters["NewNotification"])
        for note in budget.notifications
        if note is not notification
    ):
        raise AwsError("DuplicateRecordException", "The budget has that notification already.")
    notification.details = parameters["NewNotification"]
    return {}


def delete_notification(context: RequestContext) -> dict[str, Any]:
    """Delete a notification."""
    budget = _budget(context)
    budget.notifications.remove(_notification(budget, context.parameters["Notification"]))
    return {}


def list_notifications(context: RequestContext) -> dict[str, Any]:
    """Return the notifications of a budget."""
    rows = [{"NotificationState": "OK", **note.details} for note in _budget(context).notifications]
    shown, token = page(
        rows, context.parameters.get("MaxResults"), context.parameters.get("NextToken"), "InvalidNextTokenException"
    )
    return {"Notifications": shown, "NextToken": token}


def list_subscribers(context: RequestContext) -> dict[str, Any]:
    """Return the subscribers of a notification."""
    rows = _notification(_budget(context), context.parameters["Notification"]).subscribers
    shown, token = page(
        rows, context.parameters.get("MaxResults"), context.parameters.get("NextToken"), "InvalidNextTokenException"
    )
    return {"Subscribers": shown, "NextToken": token}


def create_subscriber(context: RequestContext) -> dict[str, Any]:
    """Add a subscriber."""
    note = _notification(_budget(context), context.parameters["Notification"])
    after = [*note.subscribers, context.parameters["Subscriber"]]
    _check_subscribers(after)
    note.subscribers = after
    return {}


def update_subscriber(context: RequestContext) -> dict[str, Any]:
    """Replace a subscriber."""
    note = _notification(_budget(context), context.parameters["Notification"])
    old, new = context.parameters["OldSubscriber"], context.parameters["NewSubscriber"]
    if old not in note.subscribers:
        raise _missing("Unable to find the subscriber - it doesn't exist in the notification.")
    after = [new if subscriber == old else subscriber for subscriber in note.subscribers]
    _check_subscribers(after)
    note.subscribers = after
    return {}


def delete_subscriber(context: RequestContext) -> dict[str, Any]:
    """Delete a subscriber; with the last one, the notification is deleted too."""
    budget = _budget(context)
    note = _notification(budget, context.parameters["Notification"])
    if context.parameters["Subscriber"] not in note.subscribers:
        raise _missing("Unable to find the subscriber - it doesn't exist in the notification.")
    note.subscribers = [subscriber for subscriber in note.subscribers if subscriber != context.parameters["Subscriber"]]
    if not note.subscribers:
        budget.notifications.remove(note)
    return {}


ROWS = (
    OperationHandler("budgets", "CreateBudget", create, stored_only=True),
    OperationHandler("budgets", "UpdateBudget", update, stored_only=True),
    OperationHandler("budgets", "DeleteBudget", delete),
    OperationHandler("budgets", "CreateNotification", create_notification, stored_only=True),
    OperationHandler("budgets", "UpdateNotification", update_notification, stored_only=True),
    OperationHandler("budgets", "DeleteNotification", delete_notification),
    OperationHandler("budgets", "DescribeNotificationsForBudget", list_notifications),
    OperationHandler("budgets", "DescribeSubscribersForNotification", list_subscribers),
    OperationHandler("budgets", "CreateSubscriber", create_subscriber, stored_only=True),
    OperationHandler("budgets", "UpdateSubscriber", update_subscriber, stored_only=True),
    OperationHandler("budgets", "DeleteSubscriber", delete_subscriber),
    *resource_tags.rows("budgets", _tags),
)
