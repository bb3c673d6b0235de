"""Cost Explorer and Data Exports: cost allocation tags, anomaly monitors, exports. Both have one endpoint only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws import api_calls, name_mapping
from agentenv.rehearsal.providers.aws.api_calls import CloudError
from agentenv.rehearsal.providers.aws.row import (
    AutoName,
    Call,
    CustomCreate,
    CustomStep,
    ReadCall,
    ResourceType,
    Tagging,
)
from agentenv.rehearsal.providers.aws.value_kinds import JSON, one_of
from agentenv.rehearsal.providers.common.property_values import without_none

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Operation

HOME: Final = "us-east-1"
BY_ARN: Final = Tagging(
    tag_operation="TagResource",
    untag_operation="UntagResource",
    constants={"ResourceArn": "$id"},
    tags_member="ResourceTags",
    keys_member="ResourceTagKeys",
    path="ResourceTags",
)
ITS_TAGS: Final = ReadCall("ListTagsForResource", {"ResourceArn": "$id"}, fields={"ResourceTags": "ResourceTags"})
SLOWLY: Final = "nothing here takes long"


# -- tags of the bill -------------------------------------------------------------------------------------------------


def _set_status(op: Operation, key: str, status: str) -> Mapping[str, Any]:
    """Set the status of a tag. The operation succeeds even if it fails for a key, which the response lists."""
    operation = "UpdateCostAllocationTagsStatus"
    response = op.call(operation, CostAllocationTagsStatus=[{"TagKey": key, "Status": status}])
    for failed in response.get("Errors") or []:
        raise CloudError("ce", operation, failed.get("Code", "Failed"), failed.get("Message", ""))
    return response


def _update_status(op: Operation) -> None:
    if not op.creating:
        _set_status(op, op.id, op.inputs["status"])


def _deactivate(op: Operation) -> None:
    _set_status(op, op.id, "Inactive")


COST_ALLOCATION_TAG = ResourceType(
    type="aws:costexplorer/costAllocationTag:CostAllocationTag",
    service="ce",
    create=CustomCreate(lambda op: _set_status(op, op.inputs["tagKey"], op.inputs["status"]), ("status", "tagKey")),
    id="$in.tagKey",
    read=ReadCall("ListCostAllocationTags", {"TagKeys": ["$id"], "MaxResults": 1}, "CostAllocationTags[0]"),
    updates=(CustomStep(_update_status, ("status",)),),
    delete=(CustomStep(_deactivate),),
    value_kinds={"status": one_of("Active", "Inactive")},
    replace_on_changes=frozenset({"tagKey"}),
    parse_import_id=lambda text: (text, {"tagKey": text}),
    regional=False,
    fixed_region=HOME,
)


# -- what is unusual --------------------------------------------------------------------------------------------------

PARTS: Final = ("And", "CostCategories", "Dimensions", "Not", "Or", "Tags")


def _normalized(specification: Mapping[str, Any] | None) -> str | None:
    """Return a specification as the official provider reads it: with every possible part, even if empty."""
    if not specification:
        return None
    out: dict[str, Any] = dict.fromkeys(PARTS)
    for part, members in specification.items():
        filled = (
            {"MatchOptions": None, "Values": None, **members}
            if isinstance(members, dict) and "Key" in members
            else members
        )
        out[part] = filled
    return json.dumps(out, separators=(",", ":"), sort_keys=True)


def _create_monitor(op: Operation) -> Mapping[str, Any]:
    monitor: dict[str, Any] = {"MonitorName": op.inputs["name"], "MonitorType": op.inputs["monitorType"]}
    if op.inputs.get("monitorDimension"):
        monitor["MonitorDimension"] = op.inputs["monitorDimension"]
    if op.inputs.get("monitorSpecification"):
        monitor["MonitorSpecification"] = without_none(json.loads(op.inputs["monitorSpecification"]))
    return op.call("CreateAnomalyMonitor", AnomalyMonitor=monitor)


ANOMALY_MONITOR = ResourceType(
    type="aws:costexplorer/anomalyMonitor:AnomalyMonitor",
    service="ce",
    create=CustomCreate(_create_monitor, ("monitorDimension", "monitorSpecification", "monitorType", "name")),
    id="MonitorArn",
    read=ReadCall(
        "GetAnomalyMonitors",
        {"MonitorArnList": ["$id"]},
        "AnomalyMonitors[0]",
        not_found_errors=("UnknownMonitorException",),
    ),
    more_reads=(ITS_TAGS,),
    updates=(
        Call(
            "UpdateAnomalyMonitor",
            ("name",),
            member_names={"name": "MonitorName"},
            constants={"MonitorArn": "$id"},
            condition=lambda op: not op.creating,
        ),
    ),
    delete=(
        Call("DeleteAnomalyMonitor", constants={"MonitorArn": "$id"}, ignored_errors=("UnknownMonitorException",)),
    ),
    output_sources={
        "arn": "MonitorArn",
        "name": "MonitorName",
        "monitorSpecification": lambda _, d: _normalized(d.get("MonitorSpecification")),
    },
    auto_name=AutoName(max_length=1024, prefix_input=""),
    tags=BY_ARN,
    value_kinds={
        "monitorType": one_of("DIMENSIONAL", "CUSTOM"),
        "monitorDimension": one_of("SERVICE", "LINKED_ACCOUNT", "TAG", "COST_CATEGORY"),
        "monitorSpecification": JSON,
    },
    regional=False,
    fixed_region=HOME,
)

WATCHED: Final = ("frequency", "monitorArnLists", "subscribers", "thresholdExpression")


def _subscription(op: Operation, operation: str, names: tuple[str, ...]) -> dict[str, Any]:
    members = api_calls.members("ce", operation)
    shape = members["AnomalySubscription"].members if "AnomalySubscription" in members else members
    spelt = {"name": "SubscriptionName"}
    out: dict[str, Any] = {}
    for name in names:
        if op.inputs.get(name) is not None:
            member = spelt.get(name) or name_mapping.member(shape, name) or name
            out[member] = name_mapping.send(op.inputs[name], shape[member], {}, name)
    return out


def _create_subscription(op: Operation) -> Mapping[str, Any]:
    operation = "CreateAnomalySubscription"
    return op.call(operation, AnomalySubscription=_subscription(op, operation, ("name", "accountId", *WATCHED)))


def _update_subscription(op: Operation) -> None:
    if not op.creating:
        operation = "UpdateAnomalySubscription"
        op.call(operation, SubscriptionArn=op.id, **_subscription(op, operation, WATCHED))


ANOMALY_SUBSCRIPTION = ResourceType(
    type="aws:costexplorer/anomalySubscription:AnomalySubscription",
    service="ce",
    create=CustomCreate(_create_subscription, ("accountId", "name", *WATCHED)),
    id="SubscriptionArn",
    read=ReadCall(
        "GetAnomalySubscriptions",
        {"SubscriptionArnList": ["$id"]},
        "AnomalySubscriptions[0]",
        not_found_errors=("UnknownSubscriptionException",),
    ),
    more_reads=(ITS_TAGS,),
    updates=(CustomStep(_update_subscription, WATCHED),),
    delete=(
        Call(
            "DeleteAnomalySubscription",
            constants={"SubscriptionArn": "$id"},
            ignored_errors=("UnknownSubscriptionException",),
        ),
    ),
    output_sources={"arn": "SubscriptionArn", "name": "SubscriptionName"},
    auto_name=AutoName(max_length=1024, prefix_input=""),
    tags=BY_ARN,
    value_kinds={"frequency": one_of("DAILY", "IMMEDIATE", "WEEKLY"), "subscribers.type": one_of("EMAIL", "SNS")},
    regional=False,
    fixed_region=HOME,
)


# -- exports ----------------------------------------------------------------------------------------------------------


def _export(op: Operation, operation: str) -> dict[str, Any]:
    members = {key: item for key, item in op.inputs["export"].items() if key != "exportArn"}
    return name_mapping.send(members, api_calls.members("bcm-data-exports", operation)["Export"], {}, "export")


def _update_export(op: Operation) -> None:
    if not op.creating:
        op.call("UpdateExport", ExportArn=op.id, Export=_export(op, "UpdateExport"))


def _tables(inputs: Mapping[str, Any]) -> list[Any]:
    members = inputs.get("export")
    queries = members.get("dataQueries") if isinstance(members, dict) else None
    return [query.get("tableConfigurations") for query in queries or [] if isinstance(query, dict)]


EXPORT = ResourceType(
    type="aws:bcmdata/export:Export",
    service="bcm-data-exports",
    create=CustomCreate(lambda op: op.call("CreateExport", Export=_export(op, "CreateExport")), ("export",)),
    id="ExportArn",
    read=ReadCall("GetExport", {"ExportArn": "$id"}, not_found_errors=("ResourceNotFoundException",)),
    more_reads=(ITS_TAGS,),
    updates=(CustomStep(_update_export, ("export",)),),
    delete=(Call("DeleteExport", constants={"ExportArn": "$id"}, ignored_errors=("ResourceNotFoundException",)),),
    output_sources={"arn": "Export.ExportArn"},
    tags=BY_ARN,
    unsupported={"timeouts": SLOWLY},
    computed=frozenset({"export.exportArn"}),
    # Another query is an update; another kind of table is another export.
    replaced_inputs=lambda old, new: {"export"} if _tables(old) != _tables(new) else set(),
    regional=False,
    fixed_region=HOME,
)

ROWS: Final = (COST_ALLOCATION_TAG, ANOMALY_MONITOR, ANOMALY_SUBSCRIPTION, EXPORT)
