"""Flow logs: who spoke with whom in a VPC, in an encrypted log group, written by a role that can do nothing else."""

from dataclasses import dataclass

import pulumi
from pulumi_aws import cloudwatch, ec2, iam, kms

from agentenv.components._lib import iam_policies as documents
from agentenv.components._lib.arguments import Plain
from agentenv.components._lib.aws_context import Whereabouts
from agentenv.components._lib.options import Child
from agentenv.components._lib.planned_documents import Promises, log_group_arn
from agentenv.components._lib.tags import Labels
from agentenv.core.values.names import KINDS, fit

# What CloudWatch takes as retention; another number is an error of its API.
RETENTION_DAYS = frozenset(
    {1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653}
)


TRAFFIC = {"all": "ALL", "accepted": "ACCEPT", "rejected": "REJECT"}


@dataclass(frozen=True)
class Record:
    """What is recorded, and for how long."""

    traffic: str
    days: int


def flow_record(layout: Plain) -> Record:
    """What was asked for."""
    return Record(
        TRAFFIC[layout.choice("flow_log_traffic", TRAFFIC, default="all")],
        layout.whole("flow_log_days", 1, 3653, default=14, among=RETENTION_DAYS),
    )


@dataclass(frozen=True)
class FlowLogs:
    """Where the record is kept."""

    group: cloudwatch.LogGroup
    key: kms.Key


def logs_key(labels: Labels, place: pulumi.Output[Whereabouts], child: Child, *, cluster: str | None) -> kms.Key:
    """The key of every log group of the environment, and of its cluster's control plane."""
    name = labels.base
    ours = (f"/agent-environment/{labels.environment}/*", *([f"/aws/eks/{cluster}/*"] if cluster else []))
    key = kms.Key(
        f"{name}-logs",
        description=f"Log groups of environment {labels.environment}",
        enable_key_rotation=True,
        # Logs are no data of users: the shortest wait that AWS has.
        deletion_window_in_days=7,
        policy=documents.written(place.apply(lambda at: documents.log_key(at, *ours))),
        tags=labels.tags("logs"),
        opts=child(),
    )
    kms.Alias(
        f"{name}-logs", name=labels.name("kms-alias", "logs", prefix="alias/"), target_key_id=key.key_id, opts=child()
    )
    return key


def record_flows(
    vpc: ec2.Vpc,
    record: Record,
    labels: Labels,
    place: pulumi.Output[Whereabouts],
    child: Child,
    *,
    promises: Promises,
    cluster: str | None,
) -> FlowLogs:
    """Record the flows of the VPC, with a key that serves the log groups of the environment and of its cluster."""
    name = labels.base
    key = logs_key(labels, place, child, cluster=cluster)
    group = cloudwatch.LogGroup(
        f"{name}-flows",
        name=fit(f"/agent-environment/{labels.environment}/{name}/flows", KINDS["log-group"].limit),
        retention_in_days=record.days,
        kms_key_id=key.arn,
        tags=labels.tags("flows"),
        opts=child(),
    )
    writer = iam.Role(
        f"{name}-flows",
        name=labels.name("iam-role", "flows"),
        description="Lets VPC flow logs write into their log group",
        assume_role_policy=documents.written(
            place.apply(
                lambda at: documents.service_trust(at, "vpc-flow-logs.amazonaws.com", at.arn("ec2", "vpc-flow-log/*"))
            )
        ),
        tags=labels.tags("flows"),
        opts=child(),
    )
    says = place.apply(lambda at: documents.log_writing(log_group_arn(at)))
    promises.of("aws:iam/rolePolicy:RolePolicy", f"{name}-flows", "policy", says)
    may_write = iam.RolePolicy(
        f"{name}-flows",
        name="write-flows",
        role=writer.name,
        policy=documents.written(group.arn.apply(documents.log_writing)),
        opts=child(),
    )
    ec2.FlowLog(
        f"{name}-flows",
        vpc_id=vpc.id,
        traffic_type=record.traffic,
        log_destination_type="cloud-watch-logs",
        log_destination=group.arn,
        iam_role_arn=writer.arn,
        # Ten minutes instead of one: a tenth of the records, and still enough to tell what happened.
        max_aggregation_interval=600,
        tags=labels.tags("flows"),
        opts=child(pulumi.ResourceOptions(depends_on=[may_write])),
    )
    return FlowLogs(group, key)
