"""Fargate: the profiles of controllers and sandbox classes, their pod execution role, and their logs."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_aws import cloudwatch, eks, iam
from pulumi_kubernetes.core import v1 as core

from agentenv.components._lib import iam_policies
from agentenv.components._lib.aws_context import AwsContext
from agentenv.components._lib.iam_policies import Document
from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.planned_documents import PlannedDocument, Reference, placeholder_log_group_arn
from agentenv.components._lib.tags import Labels
from agentenv.components.cluster.irsa import Roles
from agentenv.core.iam.documents import policy_document
from agentenv.core.nodes.fargate_profiles import CONTROLLERS, Selector, class_selector
from agentenv.core.values.names import KINDS, fit


@dataclass(frozen=True)
class FargateContext:
    """The cluster and network of Fargate profiles."""

    cluster: pulumi.Output[str]
    cluster_name: str
    subnets: Sequence[pulumi.Input[str]]
    aws: pulumi.Output[AwsContext]
    logs_key: pulumi.Input[str] | None  # None in an adopted cluster, whose owner configures the log router
    log_days: int
    api: pulumi.ProviderResource
    controllers: Sequence[str]
    classes: Sequence[str] = ()  # the sandbox classes on Fargate

    @property
    def selectors(self) -> dict[str, Selector]:
        """Return the selector of each profile."""
        sandboxes = {f"class-{name}": class_selector(name) for name in self.classes}
        return {**{name: CONTROLLERS[name] for name in self.controllers}, **sandboxes}


def fargate_trust_policy(aws: AwsContext, cluster: str) -> Document:
    """Return the trust policy of the pod execution role, for profiles of this cluster only."""
    return policy_document(
        {
            "Sid": "ForOurOwn",
            "Effect": "Allow",
            "Action": "sts:AssumeRole",
            "Principal": {"Service": "eks-fargate-pods.amazonaws.com"},
            "Condition": {"ArnLike": {"aws:SourceArn": aws.arn("eks", f"fargateprofile/{cluster}/*")}},
        }
    )


def log_output(region: str, group: str) -> str:
    """Return the log router's configuration; the log group exists already, so the router must not create one."""
    lines = {
        "Name": "cloudwatch_logs",
        "Match": "*",
        "region": region,
        "log_group_name": group,
        "log_stream_prefix": "fargate-",
        "auto_create_group": "false",
    }
    return "[OUTPUT]\n" + "".join(f"    {key} {value}\n" for key, value in lines.items())


def create_fargate(
    fargate_context: FargateContext, labels: Labels, roles: Roles, child: ChildOptions
) -> dict[str, eks.FargateProfile]:
    """Create the pod execution role, the log configuration and the profiles."""
    role = roles.create_role(
        "fargate",
        "Starts pods on Fargate and writes their logs",
        iam_policies.policy_json(
            fargate_context.aws.apply(lambda context: fargate_trust_policy(context, fargate_context.cluster_name))
        ),
    )
    policies = roles.attach_aws_policies(
        role, "fargate", fargate_context.aws, ["AmazonEKSFargatePodExecutionRolePolicy"]
    )
    if fargate_context.logs_key is not None:
        policies += _logs(fargate_context, labels, roles, role, child)
    else:
        policies.append(_entry(fargate_context, labels, role, child))
    return _profiles(fargate_context, labels, role, policies, child)


def _entry(fargate_context: FargateContext, labels: Labels, role: iam.Role, child: ChildOptions) -> eks.AccessEntry:
    """Create the access entry of the pod execution role.

    EKS creates such an entry for a profile itself, and deletes it with the cluster at the latest. In an adopted cluster
    the stack owns the entry, so that it is deleted with the role.
    """
    return eks.AccessEntry(
        f"{labels.base}-fargate",
        cluster_name=fargate_context.cluster,
        principal_arn=role.arn,
        type="FARGATE_LINUX",
        tags=labels.tags("fargate"),
        opts=child(),
    )


def _logs(
    fargate_context: FargateContext, labels: Labels, roles: Roles, role: iam.Role, child: ChildOptions
) -> list[pulumi.Resource]:
    group = cloudwatch.LogGroup(
        f"{labels.base}-fargate",
        name=fit(f"/agent-environment/{labels.environment}/{labels.base}/fargate", KINDS["log-group"].limit),
        retention_in_days=fargate_context.log_days,
        kms_key_id=fargate_context.logs_key,
        tags=labels.tags("fargate"),
        opts=child(),
    )
    return [
        roles.add_policy(
            role,
            "fargate-logs",
            PlannedDocument(fargate_context.aws, _log_writing, (Reference(group.arn, placeholder_log_group_arn),)),
        ),
        # A pod reads the log configuration when it starts, so this exists before the profiles.
        _log_router(fargate_context, group, labels, child),
    ]


def _log_writing(_: AwsContext, group: str) -> Document:
    return iam_policies.log_writer_policy(group)


def _log_router(
    fargate_context: FargateContext, group: cloudwatch.LogGroup, labels: Labels, child: ChildOptions
) -> core.ConfigMap:
    kubernetes_provider = pulumi.ResourceOptions(provider=fargate_context.api)
    namespace = core.Namespace(
        f"{labels.base}-observability",
        metadata={
            "name": "aws-observability",
            "labels": {"aws-observability": "enabled"},
            # No need to await its deletion: next, the cluster itself is deleted.
            "annotations": {"pulumi.com/skipAwait": "true"},
        },
        opts=child(kubernetes_provider),
    )
    output_config = pulumi.Output.all(fargate_context.aws, group.name).apply(
        lambda values: log_output(values[0].region, values[1])
    )
    return core.ConfigMap(
        f"{labels.base}-fargate-logging",
        metadata={"name": "aws-logging", "namespace": namespace.metadata.name},
        # The router's own log would cost as much as the logs of the pods.
        data={"flb_log_cw": "false", "output.conf": output_config},
        opts=child(kubernetes_provider),
    )


def _profiles(
    fargate_context: FargateContext,
    labels: Labels,
    role: iam.Role,
    dependencies: Sequence[pulumi.Resource],
    child: ChildOptions,
) -> dict[str, eks.FargateProfile]:
    profiles: dict[str, eks.FargateProfile] = {}
    for name, selector in fargate_context.selectors.items():
        # EKS creates and deletes one profile at a time.
        depends_on: list[pulumi.Resource] = [*dependencies, *list(profiles.values())[-1:]]
        profiles[name] = eks.FargateProfile(
            f"{labels.base}-{name}",
            cluster_name=fargate_context.cluster,
            pod_execution_role_arn=role.arn,
            selectors=[eks.FargateProfileSelectorArgs(namespace=selector.namespace, labels=selector.labels or None)],
            subnet_ids=list(fargate_context.subnets),
            tags=labels.tags(name),
            opts=child(pulumi.ResourceOptions(depends_on=depends_on)),
        )
    return profiles
