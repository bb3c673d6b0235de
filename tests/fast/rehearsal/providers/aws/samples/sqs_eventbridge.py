"""Samples of queues and events."""

import json
from typing import Any

from tests.fast.rehearsal.providers.aws.samples.sample import ALLOW, DENY, MORE_TAGS, TAGS, Ground, Sample


def _queue(ground: Ground) -> str:
    return ground.client("sqs").create_queue(QueueName=ground.fresh("queue"))["QueueUrl"]


def _queue_arn(ground: Ground) -> str:
    sqs = ground.client("sqs")
    return sqs.get_queue_attributes(QueueUrl=_queue(ground), AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]


def _rule(ground: Ground) -> str:
    name = ground.fresh("rule")
    ground.client("events").put_rule(Name=name, ScheduleExpression="rate(1 hour)")
    return name


def _retarget(ground: Ground, _: str, outputs: dict[str, Any]) -> object:
    target = {"Id": outputs["targetId"], "Arn": _queue_arn(ground)}
    return ground.client("events").put_targets(Rule=outputs["rule"], Targets=[target])


PATTERN = json.dumps({"source": ["aws.ec2"], "detail-type": ["EC2 Spot Instance Interruption Warning"]})
OTHER = json.dumps({"source": ["aws.health"]})
SAMPLES = {
    "aws:sqs/queue:Queue": Sample(
        inputs=lambda _: {"messageRetentionSeconds": 300, "sqsManagedSseEnabled": True, "tags": TAGS},
        update={"messageRetentionSeconds": 600, "policy": ALLOW, "tags": MORE_TAGS},
        replace={"name": "another"},
        behind=lambda g, i, _: g.client("sqs").set_queue_attributes(
            QueueUrl=i, Attributes={"MessageRetentionPeriod": "3600"}
        ),
        drift=("messageRetentionSeconds",),
    ),
    "aws:sqs/queuePolicy:QueuePolicy": Sample(
        inputs=lambda g: {"queueUrl": _queue(g), "policy": ALLOW},
        update={"policy": DENY},
        replace={"queueUrl": "http://127.0.0.1/other"},
        behind=lambda g, i, _: g.client("sqs").set_queue_attributes(QueueUrl=i, Attributes={"Policy": ALLOW}),
        drift=("policy",),
    ),
    "aws:cloudwatch/eventRule:EventRule": Sample(
        inputs=lambda _: {"description": "for a test", "eventPattern": PATTERN, "state": "ENABLED", "tags": TAGS},
        update={"description": "changed", "eventPattern": OTHER, "tags": MORE_TAGS},
        replace={"name": "another"},
        behind=lambda g, i, _: g.client("events").disable_rule(Name=i),
        drift=("state",),
    ),
    "aws:cloudwatch/eventTarget:EventTarget": Sample(
        inputs=lambda g: {"rule": _rule(g), "arn": _queue_arn(g), "retryPolicy": {"maximumRetryAttempts": 3}},
        update={"inputPath": "$.detail"},
        update_more=lambda g, _: {"arn": _queue_arn(g)},
        replace={"targetId": "another"},
        behind=_retarget,
        drift=("arn", "inputPath"),
        imports=lambda _, out: f"{out['rule']}/{out['targetId']}",
    ),
}
