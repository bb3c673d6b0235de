"""VPC flow logs in an encrypted log group, written by a role that can do nothing else."""

from dataclasses import dataclass

import pulumi
from pulumi_aws import cloudwatch, ec2, iam, kms

from agentenv.components._lib import iam_policies
from agentenv.components._lib.aws_context import AwsContext
from agentenv.components._lib.encryption_key import create_key
from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.planned_documents import PlannedDocuments, placeholder_log_group_arn
from agentenv.components._lib.tags import Labels
from agentenv.config.sections.network import Network
from agentenv.core.values.names import KINDS, fit

TRAFFIC = {"all": "ALL", "accepted": "ACCEPT", "rejected": "REJECT"}


@dataclass(frozen=True)
class FlowLogs:
    """The log group of flow logs, and its key."""

    group: cloudwatch.LogGroup
    key: kms.Key


def create_logs_key(labels: Labels, aws: pulumi.Output[AwsContext], child: ChildOptions, *, cluster: str) -> kms.Key:
    """Create the KMS key of all log groups of the environment and of its cluster's control plane."""
    ours = (f"/agent-environment/{labels.environment}/*", f"/aws/eks/{cluster}/*")
    policy = aws.apply(lambda context: iam_policies.logs_key_policy(context, *ours))
    return create_key("logs", "Log groups", policy, labels, child)


def create_flow_logs(
    vpc: ec2.Vpc,
    settings: Network,
    labels: Labels,
    aws: pulumi.Output[AwsContext],
    child: ChildOptions,
    *,
    planned_documents: PlannedDocuments,
    cluster: str,
) -> FlowLogs:
    """Create the flow logs of the VPC, and the KMS key of all log groups of the environment."""
    name = labels.base
    key = create_logs_key(labels, aws, child, cluster=cluster)
    group = cloudwatch.LogGroup(
        f"{name}-flows",
        name=fit(f"/agent-environment/{labels.environment}/{name}/flows", KINDS["log-group"].limit),
        retention_in_days=settings.flow_log_days,
        kms_key_id=key.arn,
        tags=labels.tags("flows"),
        opts=child(),
    )
    role = iam.Role(
        f"{name}-flows",
        name=labels.name("iam-role", "flows"),
        description="Lets VPC flow logs write into their log group",
        assume_role_policy=iam_policies.policy_json(
            aws.apply(
                lambda context: iam_policies.service_trust_policy(
                    context, "vpc-flow-logs.amazonaws.com", context.arn("ec2", "vpc-flow-log/*")
                )
            )
        ),
        tags=labels.tags("flows"),
        opts=child(),
    )
    planned = aws.apply(lambda context: iam_policies.log_writer_policy(placeholder_log_group_arn(context)))
    planned_documents.add("aws:iam/rolePolicy:RolePolicy", f"{name}-flows", "policy", planned)
    write_policy = iam.RolePolicy(
        f"{name}-flows",
        name="write-flows",
        role=role.name,
        policy=iam_policies.policy_json(group.arn.apply(iam_policies.log_writer_policy)),
        opts=child(),
    )
    ec2.FlowLog(
        f"{name}-flows",
        vpc_id=vpc.id,
        traffic_type=TRAFFIC[settings.flow_log_traffic],
        log_destination_type="cloud-watch-logs",
        log_destination=group.arn,
        iam_role_arn=role.arn,
        # Interfaces of Nitro instances, which all are here, have a minute at most whatever is set.
        max_aggregation_interval=60,
        tags=labels.tags("flows"),
        opts=child(pulumi.ResourceOptions(depends_on=[write_policy])),
    )
    return FlowLogs(group, key)
