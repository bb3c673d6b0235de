"""Budgets: their tags, and notifications with their subscribers, as one consistent whole on moto's budgets."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.pagination import page
from agentenv.rehearsal.cloud.request_context import Row
from agentenv.rehearsal.cloud.responses import Answer, Refused
from agentenv.rehearsal.cloud.rows import resource_tags

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import Desk
    from agentenv.rehearsal.cloud.store import Record

TAGS = "_budgets.tags"
FOREVER = 3706473600  # 2087-06-15
NOTIFICATIONS, EMAILS, TOPICS = 10, 10, 1
AMOUNT = re.compile(r"\d+(\.\d+)?")
MAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
TOPIC = re.compile(r"arn:aws[\w-]*:sns:[a-z0-9-]+:\d{12}:.+")
Notification = dict[str, Any]


def _invalid(text: str) -> Refused:
    return Refused("InvalidParameterException", text)


def _missing(text: str) -> Refused:
    return Refused("NotFoundException", text)


def _budget(desk: Desk, name: str | None = None) -> Any:
    wanted = name or desk.asked["BudgetName"]
    found = desk.backend("budgets").budgets[desk.asked["AccountId"]].get(wanted)
    if found is None:
        raise _missing(f"Unable to get budget: {wanted} - the budget doesn't exist.")
    return found


def _same(one: Notification, other: Notification) -> bool:
    names = ("NotificationType", "ComparisonOperator", "Threshold")
    kinds = {note.get("ThresholdType", "PERCENTAGE") for note in (one, other)}
    return all(one[name] == other[name] for name in names) and len(kinds) == 1


def _notification(budget: Any, said: Notification) -> Any:
    found = next((note for note in budget.notifications if _same(note.details, said)), None)
    if found is None:
        raise _missing("Unable to find the notification - it doesn't exist in the budget.")
    return found


def _subscribers(said: list[dict[str, str]]) -> None:
    seen: set[tuple[str, str]] = set()
    counts = {"EMAIL": 0, "SNS": 0}
    for one in said:
        kind, address = one["SubscriptionType"], one["Address"]
        if not (MAIL if kind == "EMAIL" else TOPIC).fullmatch(address):
            raise _invalid(f"The address of a subscriber of type {kind} is not valid.")
        if (kind, address) in seen:
            raise Refused("DuplicateRecordException", "A subscriber is said twice for one notification.")
        seen.add((kind, address))
        counts[kind] += 1
    if counts["EMAIL"] > EMAILS or counts["SNS"] > TOPICS:
        text = f"A notification has at most {EMAILS} subscribers by mail and {TOPICS} by SNS."
        raise Refused("CreationLimitExceededException", text)


def _notifications(said: list[dict[str, Any]]) -> None:
    if len(said) > NOTIFICATIONS:
        raise Refused("CreationLimitExceededException", f"A budget has at most {NOTIFICATIONS} notifications.")
    for number, one in enumerate(said):
        _subscribers(one["Subscribers"])
        if any(_same(one["Notification"], other["Notification"]) for other in said[:number]):
            raise Refused("DuplicateRecordException", "A notification is said twice for one budget.")


def _limits(budget: dict[str, Any]) -> None:
    limit = budget.get("BudgetLimit")
    if limit and (not AMOUNT.fullmatch(limit["Amount"]) or float(limit["Amount"]) <= 0):
        raise _invalid(f"Budget limit amount must be a positive number, not {limit['Amount']}.")
    if limit and budget["BudgetType"] == "COST" and limit["Unit"] != "USD":
        raise _invalid(f"Unsupported budget unit for a cost budget: {limit['Unit']}; it is USD.")
    if "CostFilters" in budget and budget["CostFilters"] and "FilterExpression" in budget:
        raise _invalid("A budget has either CostFilters or a FilterExpression.")


def arn(desk: Desk, name: str) -> str:
    """A budget's name among all resources."""
    return f"arn:aws:budgets::{desk.asked.get('AccountId', desk.account)}:budget/{name}"


def _tags(desk: Desk) -> Record:
    wanted = desk.asked["ResourceARN"]
    name = wanted.partition(":budget/")[2]
    if name not in desk.backend("budgets").budgets[desk.account]:
        raise _missing(f"Unable to find the resource {wanted}.")
    return desk.shelf(TAGS, everywhere=True).setdefault(wanted, {})


def create(desk: Desk) -> Answer:
    """A budget with its notifications and tags, or none of them."""
    asked = desk.asked
    budget = asked["Budget"]
    _limits(budget)
    _notifications(asked.get("NotificationsWithSubscribers", []))
    answer = desk.forward()
    if answer.ok:
        _filled(desk, _budget(desk, budget["BudgetName"]).budget)
        tags = {tag["Key"]: tag["Value"] for tag in asked.get("ResourceTags", [])}
        desk.shelf(TAGS, everywhere=True)[arn(desk, budget["BudgetName"])] = tags
    return answer


def _filled(desk: Desk, budget: dict[str, Any]) -> None:
    """What AWS says of a budget beside what it was told: which bill it looks at, since when; amounts as fractions."""
    budget.setdefault("BillingViewArn", f"arn:aws:billing::{desk.account}:billingview/primary")
    first = datetime.now(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    budget["TimePeriod"] = {"Start": first.timestamp(), "End": FOREVER, **budget.get("TimePeriod", {})}
    if limit := budget.get("BudgetLimit"):
        amount = limit["Amount"]
        budget["BudgetLimit"] = {**limit, "Amount": amount if "." in amount else f"{amount}.0"}


def update(desk: Desk) -> dict[str, Any]:
    """Everything about a budget but its name, its notifications and its tags."""
    new = desk.asked["NewBudget"]
    _limits(new)
    kept = _budget(desk, new["BudgetName"])
    changed = dict(new)
    for name in ("Start", "End"):
        if name in changed.get("TimePeriod", {}):
            changed["TimePeriod"] = {**changed["TimePeriod"], name: changed["TimePeriod"][name].timestamp()}
    changed.setdefault("TimePeriod", kept.budget["TimePeriod"])
    _filled(desk, changed)
    kept.budget = {**changed, "LastUpdatedTime": kept.budget["LastUpdatedTime"]}
    return {}


def delete(desk: Desk) -> Answer:
    """A budget goes with its tags."""
    answer = desk.forward()
    if answer.ok:
        desk.shelf(TAGS, everywhere=True).pop(arn(desk, desk.asked["BudgetName"]), None)
    return answer


def create_notification(desk: Desk) -> dict[str, Any]:
    """One more notification, with someone to tell."""
    budget, asked = _budget(desk), desk.asked
    others = [{"Notification": note.details, "Subscribers": note.subscribers} for note in budget.notifications]
    _notifications([*others, {name: asked[name] for name in ("Notification", "Subscribers")}])
    budget.add_notification(asked["Notification"], asked["Subscribers"])
    return {}


def update_notification(desk: Desk) -> dict[str, Any]:
    """Another threshold for the same people."""
    budget, asked = _budget(desk), desk.asked
    found = _notification(budget, asked["OldNotification"])
    if any(_same(note.details, asked["NewNotification"]) for note in budget.notifications if note is not found):
        raise Refused("DuplicateRecordException", "The budget has that notification already.")
    found.details = asked["NewNotification"]
    return {}


def delete_notification(desk: Desk) -> dict[str, Any]:
    """One notification less."""
    budget = _budget(desk)
    budget.notifications.remove(_notification(budget, desk.asked["Notification"]))
    return {}


def notifications(desk: Desk) -> dict[str, Any]:
    """The notifications of a budget."""
    found = [{"NotificationState": "OK", **note.details} for note in _budget(desk).notifications]
    shown, token = page(found, desk.asked.get("MaxResults"), desk.asked.get("NextToken"), "InvalidNextTokenException")
    return {"Notifications": shown, "NextToken": token}


def subscribers(desk: Desk) -> dict[str, Any]:
    """Who is told."""
    found = _notification(_budget(desk), desk.asked["Notification"]).subscribers
    shown, token = page(found, desk.asked.get("MaxResults"), desk.asked.get("NextToken"), "InvalidNextTokenException")
    return {"Subscribers": shown, "NextToken": token}


def create_subscriber(desk: Desk) -> dict[str, Any]:
    """One more to tell."""
    note = _notification(_budget(desk), desk.asked["Notification"])
    after = [*note.subscribers, desk.asked["Subscriber"]]
    _subscribers(after)
    note.subscribers = after
    return {}


def update_subscriber(desk: Desk) -> dict[str, Any]:
    """Another to tell instead."""
    note = _notification(_budget(desk), desk.asked["Notification"])
    old, new = desk.asked["OldSubscriber"], desk.asked["NewSubscriber"]
    if old not in note.subscribers:
        raise _missing("Unable to find the subscriber - it doesn't exist in the notification.")
    after = [new if one == old else one for one in note.subscribers]
    _subscribers(after)
    note.subscribers = after
    return {}


def delete_subscriber(desk: Desk) -> dict[str, Any]:
    """One less to tell; with the last, the notification goes too."""
    budget = _budget(desk)
    note = _notification(budget, desk.asked["Notification"])
    if desk.asked["Subscriber"] not in note.subscribers:
        raise _missing("Unable to find the subscriber - it doesn't exist in the notification.")
    note.subscribers = [one for one in note.subscribers if one != desk.asked["Subscriber"]]
    if not note.subscribers:
        budget.notifications.remove(note)
    return {}


ROWS = (
    Row("budgets", "CreateBudget", create, kept=True),
    Row("budgets", "UpdateBudget", update, kept=True),
    Row("budgets", "DeleteBudget", delete),
    Row("budgets", "CreateNotification", create_notification, kept=True),
    Row("budgets", "UpdateNotification", update_notification, kept=True),
    Row("budgets", "DeleteNotification", delete_notification),
    Row("budgets", "DescribeNotificationsForBudget", notifications),
    Row("budgets", "DescribeSubscribersForNotification", subscribers),
    Row("budgets", "CreateSubscriber", create_subscriber, kept=True),
    Row("budgets", "UpdateSubscriber", update_subscriber, kept=True),
    Row("budgets", "DeleteSubscriber", delete_subscriber),
    *resource_tags.rows("budgets", _tags),
)
