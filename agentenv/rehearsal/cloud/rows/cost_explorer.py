"""Cost Explorer: cost allocation tags, anomaly monitors and subscriptions; stored only, as there is no spending."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.pagination import page
from agentenv.rehearsal.cloud.request_context import OperationHandler
from agentenv.rehearsal.cloud.responses import AwsError, Response

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import RequestContext
    from agentenv.rehearsal.cloud.store import Record

# Active ones are things to be switched off again; those that were switched off are memory only.
ACTIVE_TAGS, INACTIVE_TAGS = "ce.cost_allocation_tags", "_ce.inactive_cost_allocation_tags"
MONITORS, SUBSCRIPTIONS = "ce.anomaly_monitors", "ce.anomaly_subscriptions"
# AWS itself creates a monitor of all services in a new account; one that was deleted stays away.
DEFAULT_MONITORS = "_ce.default_anomaly_monitors"
TAGS = "_ce.tags"


def _invalid(text: str) -> AwsError:
    return AwsError("ValidationException", text, 400)


def _records(context: RequestContext, kind: str) -> dict[str, Record]:
    return context.records(kind, is_global=True)


def _today() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d")


def update_cost_allocation_tags(context: RequestContext) -> dict[str, Any]:
    """Activate and deactivate keys; every key counts as known, as in AWS after a day of use."""
    for entry in context.parameters["CostAllocationTagsStatus"]:
        key, status = entry["TagKey"], entry["Status"]
        on, off = _records(context, ACTIVE_TAGS), _records(context, INACTIVE_TAGS)
        moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        kind = "AWSGenerated" if key.startswith("aws:") else "UserDefined"
        record = {"TagKey": key, "Type": kind, "Status": status, "LastUpdatedDate": moment}
        into, out_of = (on, off) if status == "Active" else (off, on)
        out_of.pop(key, None)
        into[key] = record
    return {"Errors": []}


def list_cost_allocation_tags(context: RequestContext) -> dict[str, Any]:
    """Return the keys that were activated or deactivated."""
    parameters = context.parameters
    tag_records = [
        record
        for record in [*_records(context, ACTIVE_TAGS).values(), *_records(context, INACTIVE_TAGS).values()]
        if parameters.get("Status", record["Status"]) == record["Status"]
        and parameters.get("Type", record["Type"]) == record["Type"]
        and record["TagKey"] in parameters.get("TagKeys", [record["TagKey"]])
    ]
    shown, token = page(
        tag_records, parameters.get("MaxResults"), parameters.get("NextToken"), "InvalidNextTokenException"
    )
    return {"CostAllocationTags": shown, "NextToken": token}


def _store_tags(context: RequestContext, arn: str) -> None:
    tags = {tag["Key"]: tag["Value"] for tag in context.parameters.get("ResourceTags", [])}
    _records(context, TAGS)[arn] = tags


def _monitors(context: RequestContext) -> dict[str, Record]:
    """Return the monitors of the account by ARN, with the default one unless another has its dimension."""
    own, defaults = _records(context, MONITORS), _records(context, DEFAULT_MONITORS)
    if not defaults:
        arn = f"arn:aws:ce::{context.account}:anomalymonitor/{uuid.uuid5(uuid.NAMESPACE_OID, context.account)}"
        default = {"MonitorName": "Default-Services-Monitor", "MonitorType": "DIMENSIONAL"}
        dates = {"CreationDate": _today(), "LastUpdatedDate": _today()}
        defaults[arn] = {**default, **dates, "MonitorDimension": "SERVICE", "MonitorArn": arn}
    replaced = any(record.get("MonitorDimension") == "SERVICE" for record in own.values())
    present = {arn: record for arn, record in defaults.items() if not replaced and not record.get("deleted")}
    return {**present, **own}


def create_monitor(context: RequestContext) -> dict[str, Any]:
    """Create a monitor of a dimension (one of each in an account) or of a specification."""
    monitor = context.parameters["AnomalyMonitor"]
    kind = monitor["MonitorType"]
    dimension, specification = monitor.get("MonitorDimension"), monitor.get("MonitorSpecification")
    if kind == "DIMENSIONAL" and (not dimension or specification):
        raise _invalid("A monitor of type DIMENSIONAL has a MonitorDimension and no MonitorSpecification.")
    if kind == "CUSTOM" and (dimension or not specification):
        raise _invalid("A monitor of type CUSTOM has a MonitorSpecification and no MonitorDimension.")
    own = _records(context, MONITORS)
    if dimension and any(record.get("MonitorDimension") == dimension for record in _monitors(context).values()):
        raise _invalid("Limit exceeded on dimensional spend monitor creation")
    arn = f"arn:aws:ce::{context.account}:anomalymonitor/{uuid.uuid4()}"
    own[arn] = {**monitor, "MonitorArn": arn, "CreationDate": _today(), "LastUpdatedDate": _today()}
    _store_tags(context, arn)
    return {"MonitorArn": arn}


def _monitor(context: RequestContext, arn: str) -> Record:
    monitor = _monitors(context).get(arn)
    if monitor is None:
        raise AwsError(
            "UnknownMonitorException", f"The cost anomaly monitor does not exist for the account: {arn}", 400
        )
    return monitor


def list_monitors(context: RequestContext) -> dict[str, Any]:
    """Return the requested monitors, or all."""
    arns = context.parameters.get("MonitorArnList") or list(_monitors(context))
    rows = [_monitor(context, arn) for arn in arns]
    parameters = context.parameters
    shown, token = page(
        rows, parameters.get("MaxResults"), parameters.get("NextPageToken"), "InvalidNextTokenException"
    )
    return {"AnomalyMonitors": shown, "NextPageToken": token}


def update_monitor(context: RequestContext) -> dict[str, Any]:
    """Change a monitor's name."""
    monitor = _monitor(context, context.parameters["MonitorArn"])
    if "MonitorName" in context.parameters:
        monitor["MonitorName"] = context.parameters["MonitorName"]
    monitor["LastUpdatedDate"] = _today()
    return {"MonitorArn": monitor["MonitorArn"]}


def delete_monitor(context: RequestContext) -> dict[str, Any]:
    """Delete a monitor, and remove it from every subscription."""
    arn = _monitor(context, context.parameters["MonitorArn"])["MonitorArn"]
    if _records(context, MONITORS).pop(arn, None) is None:
        _records(context, DEFAULT_MONITORS)[arn]["deleted"] = True
    _records(context, TAGS).pop(arn, None)
    for subscription in _records(context, SUBSCRIPTIONS).values():
        subscription["MonitorArnList"] = [other for other in subscription["MonitorArnList"] if other != arn]
    return {}


IMPACTS = ("ANOMALY_TOTAL_IMPACT_ABSOLUTE", "ANOMALY_TOTAL_IMPACT_PERCENTAGE")


def _check_subscription(context: RequestContext, subscription: Record) -> None:
    for arn in subscription["MonitorArnList"]:
        _monitor(context, arn)
    kinds = {subscriber.get("Type") for subscriber in subscription["Subscribers"]}
    kind = "SNS" if subscription["Frequency"] == "IMMEDIATE" else "EMAIL"
    if kinds != {kind}:
        raise _invalid(f"Subscriptions of frequency {subscription['Frequency']} have subscribers of type {kind}.")
    if ("Threshold" in subscription) == ("ThresholdExpression" in subscription):
        raise _invalid("A subscription has either a Threshold or a ThresholdExpression.")
    if "ThresholdExpression" in subscription:
        _check_threshold(subscription["ThresholdExpression"])


def _check_threshold(expression: dict[str, Any]) -> None:
    """Check one condition on the impact of an anomaly, or two that are joined."""
    parts = expression.get("And") or expression.get("Or") or [expression]
    for dimension in (part.get("Dimensions", {}) for part in parts):
        try:
            (amount,) = map(float, dimension.get("Values", []))
        except ValueError:
            raise _invalid("A ThresholdExpression has one number as its value.") from None
        if dimension.get("Key") not in IMPACTS or dimension.get("MatchOptions") != ["GREATER_THAN_OR_EQUAL"]:
            raise _invalid(f"A ThresholdExpression compares {' or '.join(IMPACTS)} with GREATER_THAN_OR_EQUAL.")
        if not 0 <= amount <= 10_000_000_000:
            raise _invalid("The value of a ThresholdExpression is between 0 and 10000000000.")


def create_subscription(context: RequestContext) -> dict[str, Any]:
    """Create a subscription: subscribers, frequency and threshold."""
    subscription = context.parameters["AnomalySubscription"]
    _check_subscription(context, subscription)
    arn = f"arn:aws:ce::{context.account}:anomalysubscription/{uuid.uuid4()}"
    subscribers = [{"Status": "CONFIRMED", **subscriber} for subscriber in subscription["Subscribers"]]
    _records(context, SUBSCRIPTIONS)[arn] = {
        **subscription,
        "SubscriptionArn": arn,
        "AccountId": context.account,
        "Subscribers": subscribers,
    }
    _store_tags(context, arn)
    return {"SubscriptionArn": arn}


def _subscription(context: RequestContext, arn: str) -> Record:
    subscription = _records(context, SUBSCRIPTIONS).get(arn)
    if subscription is None:
        text = f"The cost anomaly subscription does not exist for the account: {arn}"
        raise AwsError("UnknownSubscriptionException", text, 400)
    return subscription


def list_subscriptions(context: RequestContext) -> dict[str, Any]:
    """Return the requested subscriptions, those of a monitor, or all."""
    parameters = context.parameters
    arns = parameters.get("SubscriptionArnList") or list(_records(context, SUBSCRIPTIONS))
    rows = [_subscription(context, arn) for arn in arns]
    if monitor := parameters.get("MonitorArn"):
        rows = [row for row in rows if monitor in row["MonitorArnList"]]
    shown, token = page(
        rows, parameters.get("MaxResults"), parameters.get("NextPageToken"), "InvalidNextTokenException"
    )
    return {"AnomalySubscriptions": shown, "NextPageToken": token}


def update_subscription(context: RequestContext) -> dict[str, Any]:
    """Update the given members; a threshold of one form replaces the other."""
    subscription = _subscription(context, context.parameters["SubscriptionArn"])
    changed = {**subscription, **context.parameters}
    if "ThresholdExpression" in context.parameters:
        changed.pop("Threshold", None)
    elif "Threshold" in context.parameters:
        changed.pop("ThresholdExpression", None)
    _check_subscription(context, changed)
    subscription.clear()
    subscription.update(changed)
    return {"SubscriptionArn": subscription["SubscriptionArn"]}


def delete_subscription(context: RequestContext) -> dict[str, Any]:
    """Delete a subscription."""
    arn = _subscription(context, context.parameters["SubscriptionArn"])["SubscriptionArn"]
    del _records(context, SUBSCRIPTIONS)[arn]
    _records(context, TAGS).pop(arn, None)
    return {}


def _own_tags(context: RequestContext) -> Record | None:
    """Return the tags of a monitor or subscription; None for cost categories, which moto stores."""
    arn = context.parameters["ResourceArn"]
    own = _records(context, TAGS).get(arn)
    if own is None and arn not in context.backend("ce").cost_categories:
        raise AwsError("ResourceNotFoundException", f"No resource of Cost Explorer has the ARN {arn}.", 400)
    return own


def tag(context: RequestContext) -> Response | dict[str, Any]:
    """Add tags."""
    own = _own_tags(context)
    if own is None:
        return context.forward()
    own.update({tag["Key"]: tag["Value"] for tag in context.parameters["ResourceTags"]})
    return {}


def untag(context: RequestContext) -> Response | dict[str, Any]:
    """Remove tags."""
    own = _own_tags(context)
    if own is None:
        return context.forward()
    for key in context.parameters["ResourceTagKeys"]:
        own.pop(key, None)
    return {}


def list_tags(context: RequestContext) -> Response | dict[str, Any]:
    """Return the tags of a resource."""
    own = _own_tags(context)
    if own is None:
        return context.forward()
    return {"ResourceTags": [{"Key": key, "Value": value} for key, value in own.items()]}


ROWS = (
    OperationHandler("ce", "UpdateCostAllocationTagsStatus", update_cost_allocation_tags, stored_only=True),
    OperationHandler("ce", "ListCostAllocationTags", list_cost_allocation_tags),
    OperationHandler("ce", "CreateAnomalyMonitor", create_monitor, stored_only=True),
    OperationHandler("ce", "GetAnomalyMonitors", list_monitors),
    OperationHandler("ce", "UpdateAnomalyMonitor", update_monitor, stored_only=True),
    OperationHandler("ce", "DeleteAnomalyMonitor", delete_monitor),
    OperationHandler("ce", "CreateAnomalySubscription", create_subscription, stored_only=True),
    OperationHandler("ce", "GetAnomalySubscriptions", list_subscriptions),
    OperationHandler("ce", "UpdateAnomalySubscription", update_subscription, stored_only=True),
    OperationHandler("ce", "DeleteAnomalySubscription", delete_subscription),
    OperationHandler("ce", "TagResource", tag),
    OperationHandler("ce", "UntagResource", untag),
    OperationHandler("ce", "ListTagsForResource", list_tags),
)
