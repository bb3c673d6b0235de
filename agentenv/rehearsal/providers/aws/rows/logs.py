"""CloudWatch Logs: log groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws.row import Call, Do, Form, Name, Row, Tags
from agentenv.rehearsal.providers.aws.value_kinds import IS_ARN, among

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Situation

GONE: Final = ("ResourceNotFoundException",)
FOREVER: Final = 0
RETENTION: Final = (
    *(FOREVER, 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922),
    *(3288, 3653),
)
GROUP: Final = {"logGroupName": "$id"}


def _arn(s: Situation) -> str:
    return s.form("arn:{partition}:logs:{region}:{account}:log-group:{id}", {})


def _find(s: Situation) -> Mapping[str, Any] | None:
    """Log groups can only be asked for by the beginning of their name."""
    token: dict[str, str] = {}
    while True:
        answer = s.call("DescribeLogGroups", logGroupNamePrefix=s.id, **token)
        for group in answer["logGroups"]:
            if group["logGroupName"] == s.id:
                return {**group, "tags": s.call("ListTagsForResource", resourceArn=_arn(s)).get("tags", {})}
        if not answer.get("nextToken"):
            return None
        token = {"nextToken": answer["nextToken"]}


def _retain(s: Situation) -> None:
    days = s.inputs.get("retentionInDays") or FOREVER
    if days == FOREVER:
        s.call("DeleteRetentionPolicy", logGroupName=s.id)
    else:
        s.call("PutRetentionPolicy", logGroupName=s.id, retentionInDays=days)


def _encrypt(s: Situation) -> None:
    if s.creating:
        return
    if s.inputs.get("kmsKeyId"):
        s.call("AssociateKmsKey", logGroupName=s.id, kmsKeyId=s.inputs["kmsKeyId"])
    else:
        s.call("DisassociateKmsKey", logGroupName=s.id)


LOG_GROUP = Row(
    type="aws:cloudwatch/logGroup:LogGroup",
    service="logs",
    create=Call(
        "CreateLogGroup",
        ("deletionProtectionEnabled", "kmsKeyId", "logGroupClass", "name"),
        names={"name": "logGroupName"},
    ),
    id="$in.name",
    find=_find,
    sets=(
        Do(_retain, ("retentionInDays",)),
        Do(_encrypt, ("kmsKeyId",)),
        Call(
            "PutLogGroupDeletionProtection",
            ("deletionProtectionEnabled",),
            given={"logGroupIdentifier": "$id"},
            when=lambda s: not s.creating,
        ),
    ),
    delete=(
        Call(
            "DeleteLogGroup",
            given=GROUP,
            forgives=GONE,
            when=lambda s: not s.inputs.get("skipDestroy"),
        ),
        Do(lambda _: None, ("skipDestroy",)),
    ),
    shows={
        "name": "logGroupName",
        "arn": Form("arn:{partition}:logs:{region}:{account}:log-group:{id}"),
        "retentionInDays": lambda _, d: d.get("retentionInDays", FOREVER),
    },
    name=Name(longest=512),
    tags=Tags(
        "tags", "", "TagResource", "UntagResource", {"resourceArn": _arn}, "tags", "tagKeys", pair=None, at="tags"
    ),
    unread=frozenset({"namePrefix", "skipDestroy"}),
    kinds={
        "retentionInDays": among(*RETENTION),
        "logGroupClass": among("STANDARD", "INFREQUENT_ACCESS", "DELIVERY"),
        "kmsKeyId": IS_ARN,
    },
    defaults={"retentionInDays": FOREVER, "skipDestroy": False},
    parse=lambda text: (text, {"name": text}),
)

ROWS: Final = (LOG_GROUP,)
