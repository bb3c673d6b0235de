"""CloudWatch Logs: log groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws.row import AutoName, Call, CustomStep, ResourceType, Tagging, Template
from agentenv.rehearsal.providers.aws.value_kinds import IS_ARN, one_of

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Operation

NOT_FOUND: Final = ("ResourceNotFoundException",)
FOREVER: Final = 0
RETENTION: Final = (
    *(FOREVER, 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922),
    *(3288, 3653),
)
GROUP: Final = {"logGroupName": "$id"}


def _arn(op: Operation) -> str:
    return op.format("arn:{partition}:logs:{region}:{account}:log-group:{id}", {})


def _read(op: Operation) -> Mapping[str, Any] | None:
    """Return the log group. The API can only list by name prefix."""
    token: dict[str, str] = {}
    while True:
        response = op.call("DescribeLogGroups", logGroupNamePrefix=op.id, **token)
        for group in response["logGroups"]:
            if group["logGroupName"] == op.id:
                return {**group, "tags": op.call("ListTagsForResource", resourceArn=_arn(op)).get("tags", {})}
        if not response.get("nextToken"):
            return None
        token = {"nextToken": response["nextToken"]}


def _update_retention(op: Operation) -> None:
    days = op.inputs.get("retentionInDays") or FOREVER
    if days == FOREVER:
        op.call("DeleteRetentionPolicy", logGroupName=op.id)
    else:
        op.call("PutRetentionPolicy", logGroupName=op.id, retentionInDays=days)


def _update_key(op: Operation) -> None:
    if op.creating:
        return
    if op.inputs.get("kmsKeyId"):
        op.call("AssociateKmsKey", logGroupName=op.id, kmsKeyId=op.inputs["kmsKeyId"])
    else:
        op.call("DisassociateKmsKey", logGroupName=op.id)


LOG_GROUP = ResourceType(
    type="aws:cloudwatch/logGroup:LogGroup",
    service="logs",
    create=Call(
        "CreateLogGroup",
        ("deletionProtectionEnabled", "kmsKeyId", "logGroupClass", "name"),
        member_names={"name": "logGroupName"},
    ),
    id="$in.name",
    read=_read,
    updates=(
        CustomStep(_update_retention, ("retentionInDays",)),
        CustomStep(_update_key, ("kmsKeyId",)),
        Call(
            "PutLogGroupDeletionProtection",
            ("deletionProtectionEnabled",),
            constants={"logGroupIdentifier": "$id"},
            condition=lambda op: not op.creating,
        ),
    ),
    delete=(
        Call(
            "DeleteLogGroup",
            constants=GROUP,
            ignored_errors=NOT_FOUND,
            condition=lambda op: not op.inputs.get("skipDestroy"),
        ),
        CustomStep(lambda _: None, ("skipDestroy",)),
    ),
    output_sources={
        "name": "logGroupName",
        "arn": Template("arn:{partition}:logs:{region}:{account}:log-group:{id}"),
        "retentionInDays": lambda _, d: d.get("retentionInDays", FOREVER),
    },
    auto_name=AutoName(max_length=512),
    tags=Tagging(
        "tags",
        "",
        "TagResource",
        "UntagResource",
        {"resourceArn": _arn},
        "tags",
        "tagKeys",
        key_value_members=None,
        path="tags",
    ),
    write_only=frozenset({"namePrefix", "skipDestroy"}),
    value_kinds={
        "retentionInDays": one_of(*RETENTION),
        "logGroupClass": one_of("STANDARD", "INFREQUENT_ACCESS", "DELIVERY"),
        "kmsKeyId": IS_ARN,
    },
    defaults={"retentionInDays": FOREVER, "skipDestroy": False},
    parse_import_id=lambda text: (text, {"name": text}),
)

ROWS: Final = (LOG_GROUP,)
