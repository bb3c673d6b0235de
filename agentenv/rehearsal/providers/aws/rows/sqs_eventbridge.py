"""Queues and events: SQS, and EventBridge's rules and their targets."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws import api_calls as calls
from agentenv.rehearsal.providers.aws import name_mapping as spelling
from agentenv.rehearsal.providers.aws.api_calls import CloudError
from agentenv.rehearsal.providers.aws.row import Call, Do, Look, Make, Name, Row, Tags
from agentenv.rehearsal.providers.aws.value_kinds import JSON, POLICY, among, at_most_one, between

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Situation

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


def _text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _make_queue(s: Situation) -> Mapping[str, Any]:
    attributes = {member: _text(s.inputs[n]) for n, member in ATTRIBUTES.items() if s.inputs.get(n) is not None}
    if s.inputs.get("fifoQueue"):
        attributes["FifoQueue"] = "true"
    else:
        attributes.pop("ContentBasedDeduplication", None)  # a plain queue refuses even to hear it is off
    tags = {"tags": s.inputs["tags"]} if s.inputs.get("tags") else {}
    return s.call("CreateQueue", QueueName=s.inputs["name"], Attributes=attributes, **tags)


def _set_attributes(s: Situation) -> None:
    if s.creating:
        return
    changed = {name: s.inputs.get(name) for name in ATTRIBUTES if name in s.changed}
    attributes = {ATTRIBUTES[name]: "" if value is None else _text(value) for name, value in changed.items()}
    s.call("SetQueueAttributes", QueueUrl=s.id, Attributes=attributes)


QUEUE = Row(
    type="aws:sqs/queue:Queue",
    service="sqs",
    create=Make(_make_queue, (*ATTRIBUTES, "fifoQueue")),
    id="QueueUrl",
    find=Look("GetQueueAttributes", {"QueueUrl": "$id", "AttributeNames": ["All"]}, "Attributes", gone=QUEUE_GONE),
    also=(Look("ListQueueTags", {"QueueUrl": "$id"}, puts={"Tags": "Tags"}),),
    sets=(Do(_set_attributes, tuple(ATTRIBUTES)),),
    delete=(Call("DeleteQueue", given={"QueueUrl": "$id"}),),
    shows={
        **ATTRIBUTES,
        "arn": "QueueArn",
        "fifoQueue": "FifoQueue",
        "name": lambda _, d: str(d["QueueArn"]).rsplit(":", 1)[-1],
        "url": lambda s, _: s.id,
    },
    name=Name(longest=80, suffix=lambda inputs: ".fifo" if inputs.get("fifoQueue") else ""),
    tags=Tags("", "", "TagQueue", "UntagQueue", {"QueueUrl": "$id"}, pair=None),
    unread=frozenset({"namePrefix"}),
    kinds={
        "policy": POLICY,
        "redrivePolicy": JSON,
        "redriveAllowPolicy": JSON,
        "deduplicationScope": among("messageGroup", "queue"),
        "delaySeconds": between(0, 900),
        "fifoThroughputLimit": among("perQueue", "perMessageGroupId"),
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
        "maxMessageSize": 1048576,
        "messageRetentionSeconds": 345600,
        "receiveWaitTimeSeconds": 0,
        "visibilityTimeoutSeconds": 30,
    },
    rules=(at_most_one("kmsMasterKeyId", "sqsManagedSseEnabled"),),
)


def _queue_policy(s: Situation) -> Mapping[str, Any] | None:
    answer = s.call("GetQueueAttributes", QueueUrl=s.id, AttributeNames=["Policy"], forgives=QUEUE_GONE)
    policy = answer.get("Attributes", {}).get("Policy")
    return {"Policy": policy, "QueueUrl": s.id} if policy else None


def _put_policy(s: Situation) -> Mapping[str, Any]:
    s.call("SetQueueAttributes", QueueUrl=s.inputs["queueUrl"], Attributes={"Policy": s.inputs["policy"]})
    return {}


def _renew_policy(s: Situation) -> None:
    if not s.creating:
        _put_policy(s)


def _drop_policy(s: Situation) -> None:
    s.call("SetQueueAttributes", QueueUrl=s.id, Attributes={"Policy": ""}, forgives=QUEUE_GONE)


QUEUE_POLICY = Row(
    type="aws:sqs/queuePolicy:QueuePolicy",
    service="sqs",
    create=Make(_put_policy, ("policy", "queueUrl")),
    id="$in.queueUrl",
    find=_queue_policy,
    sets=(Do(_renew_policy, ("policy",)),),
    delete=(Do(_drop_policy),),
    kinds={"policy": POLICY},
)

# -- events -----------------------------------------------------------------------------------------------------------

RULE_GONE: Final = ("ResourceNotFoundException",)
DEFAULT_BUS: Final = "default"
NOT_HERE: Final = "this kind of target is not simulated"


def _rule_arn(s: Situation) -> str:
    bus = s.value("eventBusName") or DEFAULT_BUS
    path = s.value("name") if bus == DEFAULT_BUS else f"{bus}/{s.value('name')}"
    return s.form("arn:{partition}:events:{region}:{account}:rule/", {}) + str(path)


def _rule_id(s: Situation, _: Mapping[str, Any]) -> str:
    bus = s.inputs.get("eventBusName") or DEFAULT_BUS
    return s.inputs["name"] if bus == DEFAULT_BUS else f"{bus}/{s.inputs['name']}"


def _parse_rule(text: str) -> tuple[str, dict[str, Any]]:
    bus, slash, name = text.rpartition("/")
    return (text, {"name": name, "eventBusName": bus}) if slash else (text, {"name": text, "eventBusName": DEFAULT_BUS})


RULE_INPUTS: Final = ("description", "eventBusName", "eventPattern", "name", "roleArn", "scheduleExpression", "state")
RULE: Final = {"Name": "$in.name", "EventBusName": "$in.eventBusName"}
EVENT_RULE = Row(
    type="aws:cloudwatch/eventRule:EventRule",
    service="events",
    create=Call("PutRule", RULE_INPUTS),
    id=_rule_id,
    find=Look("DescribeRule", RULE, gone=RULE_GONE),
    also=(Look("ListTagsForResource", {"ResourceARN": _rule_arn}, puts={"Tags": "Tags"}),),
    sets=(
        Call(
            "PutRule",
            ("description", "eventPattern", "roleArn", "scheduleExpression", "state"),
            given=RULE,
            when=lambda s: not s.creating,
        ),
    ),
    delete=(Call("DeleteRule", ("forceDestroy",), names={"forceDestroy": "Force"}, given=RULE, forgives=RULE_GONE),),
    name=Name(longest=64),
    tags=Tags("Tags", "", "TagResource", "UntagResource", {"ResourceARN": _rule_arn}),
    unread=frozenset({"forceDestroy", "namePrefix"}),
    kinds={
        "eventPattern": JSON,
        "state": among("ENABLED", "DISABLED", "ENABLED_WITH_ALL_CLOUDTRAIL_MANAGEMENT_EVENTS"),
    },
    defaults={"eventBusName": DEFAULT_BUS, "forceDestroy": False},
    undeclared=frozenset({"state"}),
    refused={"isEnabled": "it is deprecated; use state"},
    busy=("ValidationException",),  # its targets are still there
    parse=_parse_rule,
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


def _put_target(s: Situation) -> Mapping[str, Any]:
    """PutTargets answers with success even if it put nothing: what it could not do stands beside."""
    s.inputs["targetId"] = s.value("targetId") or f"target-{secrets.token_hex(13)}"
    asked = {name: s.inputs[name] for name in (*TARGET_INPUTS, "targetId") if s.inputs.get(name)}
    shape = calls.members("events", "PutTargets")["Targets"].member
    target = spelling.send(asked, shape, TARGET_NAMES)
    bus = s.value("eventBusName") or DEFAULT_BUS
    answer = s.call("PutTargets", Rule=s.value("rule"), EventBusName=bus, Targets=[target])
    for failed in answer.get("FailedEntries") or []:
        raise CloudError("events", "PutTargets", failed.get("ErrorCode", "Failed"), failed.get("ErrorMessage", ""))
    return answer


def _renew_target(s: Situation) -> None:
    if not s.creating:
        _put_target(s)


def _target_id(s: Situation, _: Mapping[str, Any]) -> str:
    bus = s.value("eventBusName") or DEFAULT_BUS
    parts = [s.value("rule"), s.value("targetId")]
    return "-".join(parts if bus == DEFAULT_BUS else [bus, *parts])


def _find_target(s: Situation) -> Mapping[str, Any] | None:
    bus = s.value("eventBusName") or DEFAULT_BUS
    token: dict[str, str] = {}
    while True:
        where = {"Rule": s.value("rule"), "EventBusName": bus}
        answer = s.call("ListTargetsByRule", forgives=RULE_GONE, **where, **token)
        for target in answer.get("Targets", []):
            if target["Id"] == s.value("targetId"):
                return {**target, **where}
        if not answer.get("NextToken"):
            return None
        token = {"NextToken": answer["NextToken"]}


def _remove_target(s: Situation) -> None:
    where = {"Rule": s.value("rule"), "EventBusName": s.value("eventBusName") or DEFAULT_BUS}
    force: dict[str, Any] = {"Force": True} if s.inputs.get("forceDestroy") else {}
    s.call("RemoveTargets", Ids=[s.value("targetId")], forgives=RULE_GONE, **where, **force)


def _parse_target(text: str) -> tuple[str, dict[str, Any]]:
    parts = text.split("/")
    if len(parts) not in {2, 3}:
        raise ValueError("write RULE/TARGETID or BUS/RULE/TARGETID")
    bus, rule, target = parts if len(parts) == 3 else (DEFAULT_BUS, *parts)
    own = f"{rule}-{target}" if bus == DEFAULT_BUS else f"{bus}-{rule}-{target}"
    return own, {"eventBusName": bus, "rule": rule, "targetId": target}


EVENT_TARGET = Row(
    type="aws:cloudwatch/eventTarget:EventTarget",
    service="events",
    create=Make(_put_target, (*TARGET_INPUTS, "eventBusName", "rule", "targetId")),
    id=_target_id,
    find=_find_target,
    sets=(Do(_renew_target, TARGET_INPUTS),),
    delete=(Do(_remove_target, ("forceDestroy",)),),
    shows={"targetId": "Id", "sqsTarget": "SqsParameters", "kinesisTarget": "KinesisParameters"},
    names={"inputTransformer.inputPaths": "InputPathsMap"},
    unread=frozenset({"forceDestroy"}),
    defaults={"eventBusName": DEFAULT_BUS, "forceDestroy": False},
    refused={
        "appsyncTarget": NOT_HERE,
        "batchTarget": NOT_HERE,
        "ecsTarget": NOT_HERE,
        "httpTarget": NOT_HERE,
        "redshiftTarget": NOT_HERE,
        "runCommandTargets": NOT_HERE,
        "sagemakerPipelineTarget": NOT_HERE,
    },
    rules=(at_most_one("input", "inputPath", "inputTransformer"),),
    parse=_parse_target,
)

ROWS: Final = (QUEUE, QUEUE_POLICY, EVENT_RULE, EVENT_TARGET)
