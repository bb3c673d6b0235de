"""SQS queues and their policies; EventBridge rules and targets."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws import api_calls, name_mapping
from agentenv.rehearsal.providers.aws.api_calls import CloudError
from agentenv.rehearsal.providers.aws.name_mapping import attribute_text
from agentenv.rehearsal.providers.aws.row import (
    AutoName,
    Call,
    CustomCreate,
    CustomStep,
    Problem,
    ReadCall,
    ResourceType,
    Tagging,
)
from agentenv.rehearsal.providers.aws.value_kinds import JSON, POLICY, at_least_one, at_most_one, between, one_of
from agentenv.rehearsal.providers.common.property_values import UNKNOWN

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Operation

# -- queues -----------------------------------------------------------------------------------------------------------

QUEUE_GONE: Final = ("AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist")
ATTRIBUTES: Final = {
    "contentBasedDeduplication": "ContentBasedDeduplication",
    "deduplicationScope": "DeduplicationScope",
    "delaySeconds": "DelaySeconds",
    "fifoThroughputLimit": "FifoThroughputLimit",
    "kmsDataKeyReusePeriodSeconds": "KmsDataKeyReusePeriodSeconds",
    "kmsMasterKeyId": "KmsMasterKeyId",
    "maxMessageSize": "MaximumMessageSize",
    "messageRetentionSeconds": "MessageRetentionPeriod",
    "policy": "Policy",
    "receiveWaitTimeSeconds": "ReceiveMessageWaitTimeSeconds",
    "redriveAllowPolicy": "RedriveAllowPolicy",
    "redrivePolicy": "RedrivePolicy",
    "sqsManagedSseEnabled": "SqsManagedSseEnabled",
    "visibilityTimeoutSeconds": "VisibilityTimeout",
}


def _create_queue(op: Operation) -> Mapping[str, Any]:
    attributes = {
        member: attribute_text(op.inputs[n]) for n, member in ATTRIBUTES.items() if op.inputs.get(n) is not None
    }
    if op.inputs.get("fifoQueue"):
        attributes["FifoQueue"] = "true"
    else:
        attributes.pop("ContentBasedDeduplication", None)  # a plain queue refuses even to hear it is off
    tags = {"tags": op.inputs["tags"]} if op.inputs.get("tags") else {}
    return op.call("CreateQueue", QueueName=op.inputs["name"], Attributes=attributes, **tags)


def _set_attributes(op: Operation) -> None:
    if op.creating:
        return
    changed = {name: op.inputs.get(name) for name in ATTRIBUTES if name in op.changed}
    attributes = {ATTRIBUTES[name]: "" if value is None else attribute_text(value) for name, value in changed.items()}
    op.call("SetQueueAttributes", QueueUrl=op.id, Attributes=attributes)


def _queue_name_problems(inputs: Mapping[str, Any]) -> list[Problem]:
    name, fifo = inputs.get("name"), inputs.get("fifoQueue") is True
    pattern = r"[0-9A-Za-z_-]{1,75}\.fifo" if fifo else r"[0-9A-Za-z_-]{1,80}"
    if not isinstance(name, str) or inputs.get("fifoQueue") is UNKNOWN or re.fullmatch(pattern, name):
        return []
    ending = ", and ends with .fifo" if fifo else ""
    return [("name", f"{name!r} is not a queue's name: it has up to 80 letters, digits, - and _{ending}")]


QUEUE = ResourceType(
    type="aws:sqs/queue:Queue",
    service="sqs",
    create=CustomCreate(_create_queue, (*ATTRIBUTES, "fifoQueue")),
    id="QueueUrl",
    read=ReadCall(
        "GetQueueAttributes", {"QueueUrl": "$id", "AttributeNames": ["All"]}, "Attributes", not_found_errors=QUEUE_GONE
    ),
    more_reads=(ReadCall("ListQueueTags", {"QueueUrl": "$id"}, fields={"Tags": "Tags"}),),
    updates=(CustomStep(_set_attributes, tuple(ATTRIBUTES)),),
    delete=(Call("DeleteQueue", constants={"QueueUrl": "$id"}),),
    output_sources={
        **ATTRIBUTES,
        "arn": "QueueArn",
        "fifoQueue": "FifoQueue",
        "name": lambda _, d: str(d["QueueArn"]).rsplit(":", 1)[-1],
        "url": lambda op, _: op.id,
    },
    auto_name=AutoName(max_length=80, suffix=lambda inputs: ".fifo" if inputs.get("fifoQueue") else ""),
    tags=Tagging("", "", "TagQueue", "UntagQueue", {"QueueUrl": "$id"}, key_value_members=None),
    write_only=frozenset({"namePrefix"}),
    value_kinds={
        "policy": POLICY,
        "redrivePolicy": JSON,
        "redriveAllowPolicy": JSON,
        "deduplicationScope": one_of("messageGroup", "queue"),
        "delaySeconds": between(0, 900),
        "fifoThroughputLimit": one_of("perQueue", "perMessageGroupId"),
        "kmsDataKeyReusePeriodSeconds": between(60, 86400),
        "maxMessageSize": between(1024, 1048576),
        "messageRetentionSeconds": between(60, 1209600),
        "receiveWaitTimeSeconds": between(0, 20),
        "visibilityTimeoutSeconds": between(0, 43200),
    },
    defaults={
        "contentBasedDeduplication": False,
        "delaySeconds": 0,
        "fifoQueue": False,
        "maxMessageSize": 262144,
        "messageRetentionSeconds": 345600,
        "receiveWaitTimeSeconds": 0,
        "visibilityTimeoutSeconds": 30,
    },
    validators=(at_most_one("kmsMasterKeyId", "sqsManagedSseEnabled"), _queue_name_problems),
)


def _queue_policy(op: Operation) -> Mapping[str, Any] | None:
    response = op.call("GetQueueAttributes", QueueUrl=op.id, AttributeNames=["Policy"], ignored_errors=QUEUE_GONE)
    policy = response.get("Attributes", {}).get("Policy")
    return {"Policy": policy, "QueueUrl": op.id} if policy else None


def _put_policy(op: Operation) -> Mapping[str, Any]:
    op.call("SetQueueAttributes", QueueUrl=op.inputs["queueUrl"], Attributes={"Policy": op.inputs["policy"]})
    return {}


def _update_policy(op: Operation) -> None:
    if not op.creating:
        _put_policy(op)


def _delete_policy(op: Operation) -> None:
    op.call("SetQueueAttributes", QueueUrl=op.id, Attributes={"Policy": ""}, ignored_errors=QUEUE_GONE)


QUEUE_POLICY = ResourceType(
    type="aws:sqs/queuePolicy:QueuePolicy",
    service="sqs",
    create=CustomCreate(_put_policy, ("policy", "queueUrl")),
    id="$in.queueUrl",
    read=_queue_policy,
    updates=(CustomStep(_update_policy, ("policy",)),),
    delete=(CustomStep(_delete_policy),),
    value_kinds={"policy": POLICY},
)

# -- events -----------------------------------------------------------------------------------------------------------

RULE_GONE: Final = ("ResourceNotFoundException",)
DEFAULT_BUS: Final = "default"
NOT_HERE: Final = "this kind of target is not simulated"


def _rule_arn(op: Operation) -> str:
    bus = op.value("eventBusName") or DEFAULT_BUS
    path = op.value("name") if bus == DEFAULT_BUS else f"{bus}/{op.value('name')}"
    return op.format("arn:{partition}:events:{region}:{account}:rule/", {}) + str(path)


def _rule_id(op: Operation, _: Mapping[str, Any]) -> str:
    bus = op.inputs.get("eventBusName") or DEFAULT_BUS
    return op.inputs["name"] if bus == DEFAULT_BUS else f"{bus}/{op.inputs['name']}"


def _parse_rule(text: str) -> tuple[str, dict[str, Any]]:
    bus, slash, name = text.rpartition("/")
    return (text, {"name": name, "eventBusName": bus}) if slash else (text, {"name": text, "eventBusName": DEFAULT_BUS})


RULE_INPUTS: Final = ("description", "eventBusName", "eventPattern", "name", "roleArn", "scheduleExpression", "state")
RULE: Final = {"Name": "$in.name", "EventBusName": "$in.eventBusName"}
EVENT_RULE = ResourceType(
    type="aws:cloudwatch/eventRule:EventRule",
    service="events",
    create=Call("PutRule", RULE_INPUTS),
    id=_rule_id,
    read=ReadCall("DescribeRule", RULE, not_found_errors=RULE_GONE),
    more_reads=(ReadCall("ListTagsForResource", {"ResourceARN": _rule_arn}, fields={"Tags": "Tags"}),),
    updates=(
        Call(
            "PutRule",
            ("description", "eventPattern", "roleArn", "scheduleExpression", "state"),
            constants=RULE,
            condition=lambda op: not op.creating,
        ),
    ),
    delete=(
        Call(
            "DeleteRule",
            ("forceDestroy",),
            member_names={"forceDestroy": "Force"},
            constants=RULE,
            ignored_errors=RULE_GONE,
        ),
    ),
    auto_name=AutoName(max_length=64),
    tags=Tagging("Tags", "", "TagResource", "UntagResource", {"ResourceARN": _rule_arn}),
    write_only=frozenset({"forceDestroy", "namePrefix"}),
    value_kinds={
        "eventPattern": JSON,
        "state": one_of("ENABLED", "DISABLED", "ENABLED_WITH_ALL_CLOUDTRAIL_MANAGEMENT_EVENTS"),
    },
    defaults={"eventBusName": DEFAULT_BUS, "forceDestroy": False},
    compared_if_set=frozenset({"state"}),
    unsupported={"isEnabled": "it is deprecated; use state"},
    validators=(at_least_one("eventPattern", "scheduleExpression"),),
    retry_delete_on=("ValidationException",),  # its targets are still there
    parse_import_id=_parse_rule,
)


TARGET_NAMES: Final = {
    "targetId": "Id",
    "arn": "Arn",
    "sqsTarget": "SqsParameters",
    "kinesisTarget": "KinesisParameters",
    "inputTransformer.inputPaths": "InputPathsMap",
}
TARGET_INPUTS: Final = (
    *("arn", "deadLetterConfig", "input", "inputPath", "inputTransformer", "kinesisTarget", "retryPolicy", "roleArn"),
    "sqsTarget",
)


def _put_target(op: Operation) -> Mapping[str, Any]:
    """Put a target. PutTargets succeeds even if it fails for a target, which the response lists."""
    op.inputs["targetId"] = op.value("targetId") or f"target-{secrets.token_hex(13)}"
    parameters = {name: op.inputs[name] for name in (*TARGET_INPUTS, "targetId") if op.inputs.get(name)}
    shape = api_calls.members("events", "PutTargets")["Targets"].member
    target = name_mapping.send(parameters, shape, TARGET_NAMES)
    bus = op.value("eventBusName") or DEFAULT_BUS
    response = op.call("PutTargets", Rule=op.value("rule"), EventBusName=bus, Targets=[target])
    for failed in response.get("FailedEntries") or []:
        raise CloudError("events", "PutTargets", failed.get("ErrorCode", "Failed"), failed.get("ErrorMessage", ""))
    return response


def _update_target(op: Operation) -> None:
    if not op.creating:
        _put_target(op)


def _target_id(op: Operation, _: Mapping[str, Any]) -> str:
    bus = op.value("eventBusName") or DEFAULT_BUS
    parts = [op.value("rule"), op.value("targetId")]
    return "-".join(parts if bus == DEFAULT_BUS else [bus, *parts])


def _read_target(op: Operation) -> Mapping[str, Any] | None:
    bus = op.value("eventBusName") or DEFAULT_BUS
    token: dict[str, str] = {}
    while True:
        identifiers = {"Rule": op.value("rule"), "EventBusName": bus}
        response = op.call("ListTargetsByRule", ignored_errors=RULE_GONE, **identifiers, **token)
        for target in response.get("Targets", []):
            if target["Id"] == op.value("targetId"):
                return {**target, **identifiers}
        if not response.get("NextToken"):
            return None
        token = {"NextToken": response["NextToken"]}


def _delete_target(op: Operation) -> None:
    identifiers = {"Rule": op.value("rule"), "EventBusName": op.value("eventBusName") or DEFAULT_BUS}
    force: dict[str, Any] = {"Force": True} if op.inputs.get("forceDestroy") else {}
    op.call("RemoveTargets", Ids=[op.value("targetId")], ignored_errors=RULE_GONE, **identifiers, **force)


def _parse_target(text: str) -> tuple[str, dict[str, Any]]:
    parts = text.split("/")
    if len(parts) not in {2, 3}:
        raise ValueError("write RULE/TARGETID or BUS/RULE/TARGETID")
    bus, rule, target = parts if len(parts) == 3 else (DEFAULT_BUS, *parts)
    own = f"{rule}-{target}" if bus == DEFAULT_BUS else f"{bus}-{rule}-{target}"
    return own, {"eventBusName": bus, "rule": rule, "targetId": target}


EVENT_TARGET = ResourceType(
    type="aws:cloudwatch/eventTarget:EventTarget",
    service="events",
    create=CustomCreate(_put_target, (*TARGET_INPUTS, "eventBusName", "rule", "targetId")),
    id=_target_id,
    read=_read_target,
    updates=(CustomStep(_update_target, TARGET_INPUTS),),
    delete=(CustomStep(_delete_target, ("forceDestroy",)),),
    output_sources={"targetId": "Id", "sqsTarget": "SqsParameters", "kinesisTarget": "KinesisParameters"},
    member_names={"inputTransformer.inputPaths": "InputPathsMap"},
    write_only=frozenset({"forceDestroy"}),
    defaults={"eventBusName": DEFAULT_BUS, "forceDestroy": False},
    unsupported={
        "appsyncTarget": NOT_HERE,
        "batchTarget": NOT_HERE,
        "ecsTarget": NOT_HERE,
        "httpTarget": NOT_HERE,
        "redshiftTarget": NOT_HERE,
        "runCommandTargets": NOT_HERE,
        "sagemakerPipelineTarget": NOT_HERE,
    },
    validators=(at_most_one("input", "inputPath", "inputTransformer"),),
    parse_import_id=_parse_target,
)

ROWS: Final = (QUEUE, QUEUE_POLICY, EVENT_RULE, EVENT_TARGET)
