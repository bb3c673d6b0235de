"""Cost Explorer and data exports: tags of the bill, monitors of what is unusual, exports. All of one region only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws import api_calls as calls
from agentenv.rehearsal.providers.aws import name_mapping as spelling
from agentenv.rehearsal.providers.aws.api_calls import CloudError
from agentenv.rehearsal.providers.aws.row import Call, Do, Look, Make, Name, Row, Tags
from agentenv.rehearsal.providers.aws.value_kinds import JSON, among

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Situation

HOME: Final = "us-east-1"
BY_ARN: Final = Tags(
    put="TagResource",
    drop="UntagResource",
    on={"ResourceArn": "$id"},
    member="ResourceTags",
    keys="ResourceTagKeys",
    at="ResourceTags",
)
ITS_TAGS: Final = Look("ListTagsForResource", {"ResourceArn": "$id"}, puts={"ResourceTags": "ResourceTags"})
SLOWLY: Final = "nothing here takes long"


# -- tags of the bill -------------------------------------------------------------------------------------------------


def _switch(s: Situation, key: str, status: str) -> Mapping[str, Any]:
    """Switched, or an error: the operation answers with success and says beside it which keys it could not."""
    operation = "UpdateCostAllocationTagsStatus"
    answer = s.call(operation, CostAllocationTagsStatus=[{"TagKey": key, "Status": status}])
    for failed in answer.get("Errors") or []:
        raise CloudError("ce", operation, failed.get("Code", "Failed"), failed.get("Message", ""))
    return answer


def _switch_again(s: Situation) -> None:
    if not s.creating:
        _switch(s, s.id, s.inputs["status"])


def _switch_off(s: Situation) -> None:
    _switch(s, s.id, "Inactive")


COST_ALLOCATION_TAG = Row(
    type="aws:costexplorer/costAllocationTag:CostAllocationTag",
    service="ce",
    create=Make(lambda s: _switch(s, s.inputs["tagKey"], s.inputs["status"]), ("status", "tagKey")),
    id="$in.tagKey",
    find=Look("ListCostAllocationTags", {"TagKeys": ["$id"], "MaxResults": 1}, "CostAllocationTags[0]"),
    sets=(Do(_switch_again, ("status",)),),
    delete=(Do(_switch_off),),
    kinds={"status": among("Active", "Inactive")},
    replaces=frozenset({"tagKey"}),
    parse=lambda text: (text, {"tagKey": text}),
    regional=False,
    home=HOME,
)


# -- what is unusual --------------------------------------------------------------------------------------------------

PARTS: Final = ("And", "CostCategories", "Dimensions", "Not", "Or", "Tags")


def _said(value: Any) -> Any:
    """Without what is said to be nothing."""
    if isinstance(value, dict):
        return {key: _said(item) for key, item in value.items() if item is not None}
    return [_said(item) for item in value] if isinstance(value, list) else value


def _spelt(specification: Mapping[str, Any] | None) -> str | None:
    """A specification as the official provider reads it: whatever it could have is there, if only as nothing."""
    if not specification:
        return None
    out: dict[str, Any] = dict.fromkeys(PARTS)
    for part, said in specification.items():
        filled = {"MatchOptions": None, "Values": None, **said} if isinstance(said, dict) and "Key" in said else said
        out[part] = filled
    return json.dumps(out, separators=(",", ":"), sort_keys=True)


def _make_monitor(s: Situation) -> Mapping[str, Any]:
    monitor: dict[str, Any] = {"MonitorName": s.inputs["name"], "MonitorType": s.inputs["monitorType"]}
    if s.inputs.get("monitorDimension"):
        monitor["MonitorDimension"] = s.inputs["monitorDimension"]
    if s.inputs.get("monitorSpecification"):
        monitor["MonitorSpecification"] = _said(json.loads(s.inputs["monitorSpecification"]))
    return s.call("CreateAnomalyMonitor", AnomalyMonitor=monitor)


ANOMALY_MONITOR = Row(
    type="aws:costexplorer/anomalyMonitor:AnomalyMonitor",
    service="ce",
    create=Make(_make_monitor, ("monitorDimension", "monitorSpecification", "monitorType", "name")),
    id="MonitorArn",
    find=Look(
        "GetAnomalyMonitors", {"MonitorArnList": ["$id"]}, "AnomalyMonitors[0]", gone=("UnknownMonitorException",)
    ),
    also=(ITS_TAGS,),
    sets=(
        Call(
            "UpdateAnomalyMonitor",
            ("name",),
            names={"name": "MonitorName"},
            given={"MonitorArn": "$id"},
            when=lambda s: not s.creating,
        ),
    ),
    delete=(Call("DeleteAnomalyMonitor", given={"MonitorArn": "$id"}, forgives=("UnknownMonitorException",)),),
    shows={
        "arn": "MonitorArn",
        "name": "MonitorName",
        "monitorSpecification": lambda _, d: _spelt(d.get("MonitorSpecification")),
    },
    name=Name(longest=1024, prefix_input=""),
    tags=BY_ARN,
    kinds={
        "monitorType": among("DIMENSIONAL", "CUSTOM"),
        "monitorDimension": among("SERVICE", "LINKED_ACCOUNT", "TAG", "COST_CATEGORY"),
        "monitorSpecification": JSON,
    },
    regional=False,
    home=HOME,
)

WATCHED: Final = ("frequency", "monitorArnLists", "subscribers", "thresholdExpression")


def _subscription(s: Situation, operation: str, names: tuple[str, ...]) -> dict[str, Any]:
    members = calls.members("ce", operation)
    shape = members["AnomalySubscription"].members if "AnomalySubscription" in members else members
    spelt = {"name": "SubscriptionName"}
    out: dict[str, Any] = {}
    for name in names:
        if s.inputs.get(name) is not None:
            member = spelt.get(name) or spelling.member(shape, name) or name
            out[member] = spelling.send(s.inputs[name], shape[member], {}, name)
    return out


def _make_subscription(s: Situation) -> Mapping[str, Any]:
    operation = "CreateAnomalySubscription"
    return s.call(operation, AnomalySubscription=_subscription(s, operation, ("name", "accountId", *WATCHED)))


def _renew_subscription(s: Situation) -> None:
    if not s.creating:
        operation = "UpdateAnomalySubscription"
        s.call(operation, SubscriptionArn=s.id, **_subscription(s, operation, WATCHED))


ANOMALY_SUBSCRIPTION = Row(
    type="aws:costexplorer/anomalySubscription:AnomalySubscription",
    service="ce",
    create=Make(_make_subscription, ("accountId", "name", *WATCHED)),
    id="SubscriptionArn",
    find=Look(
        "GetAnomalySubscriptions",
        {"SubscriptionArnList": ["$id"]},
        "AnomalySubscriptions[0]",
        gone=("UnknownSubscriptionException",),
    ),
    also=(ITS_TAGS,),
    sets=(Do(_renew_subscription, WATCHED),),
    delete=(
        Call("DeleteAnomalySubscription", given={"SubscriptionArn": "$id"}, forgives=("UnknownSubscriptionException",)),
    ),
    shows={"arn": "SubscriptionArn", "name": "SubscriptionName"},
    name=Name(longest=1024, prefix_input=""),
    tags=BY_ARN,
    kinds={"frequency": among("DAILY", "IMMEDIATE", "WEEKLY"), "subscribers.type": among("EMAIL", "SNS")},
    regional=False,
    home=HOME,
)


# -- exports ----------------------------------------------------------------------------------------------------------


def _export(s: Situation, operation: str) -> dict[str, Any]:
    said = {key: item for key, item in s.inputs["export"].items() if key != "exportArn"}
    return spelling.send(said, calls.members("bcm-data-exports", operation)["Export"], {}, "export")


def _renew_export(s: Situation) -> None:
    if not s.creating:
        s.call("UpdateExport", ExportArn=s.id, Export=_export(s, "UpdateExport"))


def _tables(inputs: Mapping[str, Any]) -> list[Any]:
    said = inputs.get("export")
    queries = said.get("dataQueries") if isinstance(said, dict) else None
    return [one.get("tableConfigurations") for one in queries or [] if isinstance(one, dict)]


EXPORT = Row(
    type="aws:bcmdata/export:Export",
    service="bcm-data-exports",
    create=Make(lambda s: s.call("CreateExport", Export=_export(s, "CreateExport")), ("export",)),
    id="ExportArn",
    find=Look("GetExport", {"ExportArn": "$id"}, gone=("ResourceNotFoundException",)),
    also=(ITS_TAGS,),
    sets=(Do(_renew_export, ("export",)),),
    delete=(Call("DeleteExport", given={"ExportArn": "$id"}, forgives=("ResourceNotFoundException",)),),
    shows={"arn": "Export.ExportArn"},
    tags=BY_ARN,
    refused={"timeouts": SLOWLY},
    fills=frozenset({"export.exportArn"}),
    # Another query is an update; another kind of table is another export.
    replaces_when=lambda old, new: {"export"} if _tables(old) != _tables(new) else set(),
    regional=False,
    home=HOME,
)

ROWS: Final = (COST_ALLOCATION_TAG, ANOMALY_MONITOR, ANOMALY_SUBSCRIPTION, EXPORT)
