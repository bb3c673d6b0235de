"""Cost Explorer: cost allocation tags, anomaly monitors and subscriptions. Kept only: there is no spending to watch."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.pagination import page
from agentenv.rehearsal.cloud.request_context import Row
from agentenv.rehearsal.cloud.responses import Answer, Refused

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import Desk
    from agentenv.rehearsal.cloud.store import Record

# Active ones are things to be switched off again; those that were switched off are memory only.
ACTIVE_TAGS, INACTIVE_TAGS = "ce.cost_allocation_tags", "_ce.inactive_cost_allocation_tags"
MONITORS, SUBSCRIPTIONS = "ce.anomaly_monitors", "ce.anomaly_subscriptions"
TAGS = "_ce.tags"


def _invalid(text: str) -> Refused:
    return Refused("ValidationException", text, 400)


def _shelf(desk: Desk, kind: str) -> dict[str, Record]:
    return desk.shelf(kind, everywhere=True)


def _today() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d")


def update_tags(desk: Desk) -> dict[str, Any]:
    """Switch keys on and off; a key counts as known, because AWS knows it once a resource has had it for a day."""
    for entry in desk.asked["CostAllocationTagsStatus"]:
        key, status = entry["TagKey"], entry["Status"]
        on, off = _shelf(desk, ACTIVE_TAGS), _shelf(desk, INACTIVE_TAGS)
        moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        kind = "AWSGenerated" if key.startswith("aws:") else "UserDefined"
        record = {"TagKey": key, "Type": kind, "Status": status, "LastUpdatedDate": moment}
        into, out_of = (on, off) if status == "Active" else (off, on)
        out_of.pop(key, None)
        into[key] = record
    return {"Errors": []}


def tags(desk: Desk) -> dict[str, Any]:
    """The keys that were switched on or off."""
    asked = desk.asked
    found = [
        record
        for record in [*_shelf(desk, ACTIVE_TAGS).values(), *_shelf(desk, INACTIVE_TAGS).values()]
        if asked.get("Status", record["Status"]) == record["Status"]
        and asked.get("Type", record["Type"]) == record["Type"]
        and record["TagKey"] in asked.get("TagKeys", [record["TagKey"]])
    ]
    shown, token = page(found, asked.get("MaxResults"), asked.get("NextToken"), "InvalidNextTokenException")
    return {"CostAllocationTags": shown, "NextToken": token}


def _keep_tags(desk: Desk, arn: str) -> None:
    said = {tag["Key"]: tag["Value"] for tag in desk.asked.get("ResourceTags", [])}
    _shelf(desk, TAGS)[arn] = said


def create_monitor(desk: Desk) -> dict[str, Any]:
    """A monitor over a dimension (one of each an account) or over what a specification picks."""
    said = desk.asked["AnomalyMonitor"]
    kind = said["MonitorType"]
    dimension, specification = said.get("MonitorDimension"), said.get("MonitorSpecification")
    if kind == "DIMENSIONAL" and (not dimension or specification):
        raise _invalid("A monitor of type DIMENSIONAL has a MonitorDimension and no MonitorSpecification.")
    if kind == "CUSTOM" and (dimension or not specification):
        raise _invalid("A monitor of type CUSTOM has a MonitorSpecification and no MonitorDimension.")
    own = _shelf(desk, MONITORS)
    if dimension and any(one.get("MonitorDimension") == dimension for one in own.values()):
        raise Refused("LimitExceededException", "Limit exceeded on dimensional spend monitor creation", 400)
    arn = f"arn:aws:ce::{desk.account}:anomalymonitor/{uuid.uuid4()}"
    own[arn] = {**said, "MonitorArn": arn, "CreationDate": _today(), "LastUpdatedDate": _today()}
    _keep_tags(desk, arn)
    return {"MonitorArn": arn}


def _monitor(desk: Desk, arn: str) -> Record:
    found = _shelf(desk, MONITORS).get(arn)
    if found is None:
        raise Refused("UnknownMonitorException", f"The cost anomaly monitor does not exist for the account: {arn}", 400)
    return found


def monitors(desk: Desk) -> dict[str, Any]:
    """The monitors asked for, or all."""
    wanted = desk.asked.get("MonitorArnList") or list(_shelf(desk, MONITORS))
    found = [_monitor(desk, arn) for arn in wanted]
    asked = desk.asked
    shown, token = page(found, asked.get("MaxResults"), asked.get("NextPageToken"), "InvalidNextTokenException")
    return {"AnomalyMonitors": shown, "NextPageToken": token}


def update_monitor(desk: Desk) -> dict[str, Any]:
    """Another name; the rest stays."""
    monitor = _monitor(desk, desk.asked["MonitorArn"])
    if "MonitorName" in desk.asked:
        monitor["MonitorName"] = desk.asked["MonitorName"]
    monitor["LastUpdatedDate"] = _today()
    return {"MonitorArn": monitor["MonitorArn"]}


def delete_monitor(desk: Desk) -> dict[str, Any]:
    """Gone, and out of every subscription."""
    arn = _monitor(desk, desk.asked["MonitorArn"])["MonitorArn"]
    del _shelf(desk, MONITORS)[arn]
    _shelf(desk, TAGS).pop(arn, None)
    for one in _shelf(desk, SUBSCRIPTIONS).values():
        one["MonitorArnList"] = [other for other in one["MonitorArnList"] if other != arn]
    return {}


def _check_subscription(desk: Desk, said: Record) -> None:
    for arn in said["MonitorArnList"]:
        _monitor(desk, arn)
    kinds = {one.get("Type") for one in said["Subscribers"]}
    wanted = "SNS" if said["Frequency"] == "IMMEDIATE" else "EMAIL"
    if kinds != {wanted}:
        raise _invalid(f"Subscriptions of frequency {said['Frequency']} have subscribers of type {wanted}.")
    if ("Threshold" in said) == ("ThresholdExpression" in said):
        raise _invalid("A subscription has either a Threshold or a ThresholdExpression.")


def create_subscription(desk: Desk) -> dict[str, Any]:
    """Who is told of anomalies, how often, from which amount."""
    said = desk.asked["AnomalySubscription"]
    _check_subscription(desk, said)
    arn = f"arn:aws:ce::{desk.account}:anomalysubscription/{uuid.uuid4()}"
    subscribers = [{"Status": "CONFIRMED", **one} for one in said["Subscribers"]]
    _shelf(desk, SUBSCRIPTIONS)[arn] = {
        **said,
        "SubscriptionArn": arn,
        "AccountId": desk.account,
        "Subscribers": subscribers,
    }
    _keep_tags(desk, arn)
    return {"SubscriptionArn": arn}


def _subscription(desk: Desk, arn: str) -> Record:
    found = _shelf(desk, SUBSCRIPTIONS).get(arn)
    if found is None:
        text = f"The cost anomaly subscription does not exist for the account: {arn}"
        raise Refused("UnknownSubscriptionException", text, 400)
    return found


def subscriptions(desk: Desk) -> dict[str, Any]:
    """The subscriptions asked for, of one monitor, or all."""
    asked = desk.asked
    wanted = asked.get("SubscriptionArnList") or list(_shelf(desk, SUBSCRIPTIONS))
    found = [_subscription(desk, arn) for arn in wanted]
    if monitor := asked.get("MonitorArn"):
        found = [one for one in found if monitor in one["MonitorArnList"]]
    shown, token = page(found, asked.get("MaxResults"), asked.get("NextPageToken"), "InvalidNextTokenException")
    return {"AnomalySubscriptions": shown, "NextPageToken": token}


def update_subscription(desk: Desk) -> dict[str, Any]:
    """What is said changes; a threshold of one form takes the other's place."""
    kept = _subscription(desk, desk.asked["SubscriptionArn"])
    changed = {**kept, **desk.asked}
    if "ThresholdExpression" in desk.asked:
        changed.pop("Threshold", None)
    elif "Threshold" in desk.asked:
        changed.pop("ThresholdExpression", None)
    _check_subscription(desk, changed)
    kept.clear()
    kept.update(changed)
    return {"SubscriptionArn": kept["SubscriptionArn"]}


def delete_subscription(desk: Desk) -> dict[str, Any]:
    """Gone."""
    arn = _subscription(desk, desk.asked["SubscriptionArn"])["SubscriptionArn"]
    del _shelf(desk, SUBSCRIPTIONS)[arn]
    _shelf(desk, TAGS).pop(arn, None)
    return {}


def _own_tags(desk: Desk) -> Record | None:
    """The tags of a monitor or subscription; None for cost categories, which moto keeps."""
    arn = desk.asked["ResourceArn"]
    own = _shelf(desk, TAGS).get(arn)
    if own is None and arn not in desk.backend("ce").cost_categories:
        raise Refused("ResourceNotFoundException", f"No resource of Cost Explorer has the ARN {arn}.", 400)
    return own


def tag(desk: Desk) -> Answer | dict[str, Any]:
    """More tags."""
    own = _own_tags(desk)
    if own is None:
        return desk.forward()
    own.update({one["Key"]: one["Value"] for one in desk.asked["ResourceTags"]})
    return {}


def untag(desk: Desk) -> Answer | dict[str, Any]:
    """Fewer tags."""
    own = _own_tags(desk)
    if own is None:
        return desk.forward()
    for key in desk.asked["ResourceTagKeys"]:
        own.pop(key, None)
    return {}


def list_tags(desk: Desk) -> Answer | dict[str, Any]:
    """The tags of a thing."""
    own = _own_tags(desk)
    if own is None:
        return desk.forward()
    return {"ResourceTags": [{"Key": key, "Value": value} for key, value in own.items()]}


ROWS = (
    Row("ce", "UpdateCostAllocationTagsStatus", update_tags, kept=True),
    Row("ce", "ListCostAllocationTags", tags),
    Row("ce", "CreateAnomalyMonitor", create_monitor, kept=True),
    Row("ce", "GetAnomalyMonitors", monitors),
    Row("ce", "UpdateAnomalyMonitor", update_monitor, kept=True),
    Row("ce", "DeleteAnomalyMonitor", delete_monitor),
    Row("ce", "CreateAnomalySubscription", create_subscription, kept=True),
    Row("ce", "GetAnomalySubscriptions", subscriptions),
    Row("ce", "UpdateAnomalySubscription", update_subscription, kept=True),
    Row("ce", "DeleteAnomalySubscription", delete_subscription),
    Row("ce", "TagResource", tag),
    Row("ce", "UntagResource", untag),
    Row("ce", "ListTagsForResource", list_tags),
)
