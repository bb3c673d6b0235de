"""The interruption queue: events about nodes that AWS is about to reclaim, for Karpenter."""

import json
from collections.abc import Mapping

import pulumi
from pulumi_aws import cloudwatch, sqs

from agentenv.components._lib import iam_policies
from agentenv.components._lib.aws_context import AwsContext
from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.planned_documents import PlannedDocuments, placeholder_queue_arn, placeholder_rule_arn
from agentenv.components._lib.tags import Labels
from agentenv.components.capacity.karpenter_iam import queue_policy

EVENTS: Mapping[str, tuple[str, str]] = {
    "health": ("aws.health", "AWS Health Event"),
    "spot": ("aws.ec2", "EC2 Spot Instance Interruption Warning"),
    "rebalance": ("aws.ec2", "EC2 Instance Rebalance Recommendation"),
    "state": ("aws.ec2", "EC2 Instance State-change Notification"),
    "reservation": ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"),
}


def interruption_queue(
    labels: Labels, child: ChildOptions, aws: pulumi.Output[AwsContext], planned_documents: PlannedDocuments
) -> tuple[sqs.Queue, list[pulumi.Resource]]:
    """Create the queue, its policy and the event rules; return the queue, and its policy and rule targets."""
    name = labels.base
    queue = sqs.Queue(
        f"{name}-interruptions",
        name=labels.name("sqs-queue", "interruptions"),
        # An older event is about a node that is gone.
        message_retention_seconds=300,
        sqs_managed_sse_enabled=True,
        tags=labels.tags("interruptions"),
        opts=child(),
    )
    rules = [
        cloudwatch.EventRule(
            f"{name}-{word}",
            name=labels.name("events-rule", word),
            description=f"{kind}, for Karpenter",
            event_pattern=json.dumps({"source": [source], "detail-type": [kind]}, sort_keys=True),
            # Declared, so that an update enables a rule that was disabled by hand.
            state="ENABLED",
            tags=labels.tags(word),
            opts=child(),
        )
        for word, (source, kind) in EVENTS.items()
    ]
    policy = sqs.QueuePolicy(
        f"{name}-interruptions",
        queue_url=queue.url,
        policy=pulumi.Output.all(queue.arn, *[rule.arn for rule in rules]).apply(
            lambda known: iam_policies.to_json(queue_policy(known[0], known[1:]))
        ),
        opts=child(),
    )
    planned_documents.add(
        "aws:sqs/queuePolicy:QueuePolicy",
        f"{name}-interruptions",
        "policy",
        aws.apply(lambda context: queue_policy(placeholder_queue_arn(context), [placeholder_rule_arn(context)])),
    )
    targets = [
        cloudwatch.EventTarget(
            f"{name}-{word}",
            rule=rule.name,
            target_id="karpenter",
            arn=queue.arn,
            opts=child(pulumi.ResourceOptions(depends_on=[policy])),
        )
        for word, rule in zip(EVENTS, rules, strict=True)
    ]
    return queue, [policy, *targets]
