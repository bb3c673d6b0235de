"""Fargate: what of the platform runs without a node of ours, the role it is started with, and where its logs go."""

from collections.abc import Mapping, Sequence
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
from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import namespace
from agentenv.core.values.names import KINDS, fit

# What has to run before there are nodes, or decides over them, and the agent-sandbox controller, which may as well be
# on the system's. A profile each, because a profile cannot be changed: another controller then replaces none of these.
SANDBOXES = "agent-sandbox"
CONTROLLERS: Mapping[str, dict[str, object]] = {
    "coredns": {"namespace": "kube-system", "labels": {"k8s-app": "kube-dns"}},
    "karpenter": {"namespace": "karpenter"},
    SANDBOXES: {"namespace": "agent-sandbox-system"},
}


@dataclass(frozen=True)
class Ground:
    """What profiles stand on."""

    cluster: pulumi.Output[str]
    cluster_name: str
    subnets: Sequence[pulumi.Input[str]]
    aws: pulumi.Output[AwsContext]
    logs_key: pulumi.Input[str] | None  # none in a cluster that stays, whose owner says where its pods' logs go
    log_days: int
    api: pulumi.ProviderResource
    controllers: Sequence[str] = tuple(CONTROLLERS)
    classes: Sequence[str] = ()  # of sandboxes that run here

    @property
    def selectors(self) -> dict[str, dict[str, object]]:
        """Which pods run here, by profile: never a whole namespace of sandboxes, so that no other pod gets in there."""
        sandboxes: dict[str, dict[str, object]] = {
            f"class-{name}": {"namespace": namespace(name), "labels": {CLASS_LABEL: name}} for name in self.classes
        }
        return {**{word: CONTROLLERS[word] for word in self.controllers}, **sandboxes}


def controllers(words: Sequence[str] = tuple(CONTROLLERS), *, sandboxes: bool) -> tuple[str, ...]:
    """Those of some that run here; the agent-sandbox controller where that is wanted."""
    return tuple(word for word in words if sandboxes or word != SANDBOXES)


def fargate_trust_policy(aws: AwsContext, cluster: str) -> Document:
    """Who starts pods: Fargate, for profiles of this cluster only."""
    return iam_policies.document(
        {
            "Sid": "ForOurOwn",
            "Effect": "Allow",
            "Action": "sts:AssumeRole",
            "Principal": {"Service": "eks-fargate-pods.amazonaws.com"},
            "Condition": {"ArnLike": {"aws:SourceArn": aws.arn("eks", f"fargateprofile/{cluster}/*")}},
        }
    )


def log_output(region: str, group: str) -> str:
    """The log router's configuration; the group is there already, with a retention, so it may not make one."""
    lines = {
        "Name": "cloudwatch_logs",
        "Match": "*",
        "region": region,
        "log_group_name": group,
        "log_stream_prefix": "fargate-",
        "auto_create_group": "false",
    }
    return "[OUTPUT]\n" + "".join(f"    {key} {value}\n" for key, value in lines.items())


def fargate(ground: Ground, labels: Labels, roles: Roles, child: ChildOptions) -> dict[str, eks.FargateProfile]:
    """Make the role, the logs and the profiles."""
    role = roles.create_role(
        "fargate",
        "Starts pods on Fargate and writes their logs",
        iam_policies.policy_json(ground.aws.apply(lambda context: fargate_trust_policy(context, ground.cluster_name))),
    )
    allowed = roles.attach_aws_policies(role, "fargate", ground.aws, ["AmazonEKSFargatePodExecutionRolePolicy"])
    if ground.logs_key is not None:
        allowed += _logs(ground, labels, roles, role, child)
    else:
        allowed.append(_entry(ground, labels, role, child))
    return _profiles(ground, labels, role, allowed, child)


def _entry(ground: Ground, labels: Labels, role: iam.Role, child: ChildOptions) -> eks.AccessEntry:
    """Let what the role starts into the cluster.

    EKS does so itself for a profile, with an entry that goes with the cluster at the latest. In a cluster that stays it
    has to be ours, so that it goes with the role.
    """
    return eks.AccessEntry(
        f"{labels.base}-fargate",
        cluster_name=ground.cluster,
        principal_arn=role.arn,
        type="FARGATE_LINUX",
        tags=labels.tags("fargate"),
        opts=child(),
    )


def _logs(ground: Ground, labels: Labels, roles: Roles, role: iam.Role, child: ChildOptions) -> list[pulumi.Resource]:
    group = cloudwatch.LogGroup(
        f"{labels.base}-fargate",
        name=fit(f"/agent-environment/{labels.environment}/{labels.base}/fargate", KINDS["log-group"].limit),
        retention_in_days=ground.log_days,
        kms_key_id=ground.logs_key,
        tags=labels.tags("fargate"),
        opts=child(),
    )
    return [
        roles.add_policy(
            role,
            "fargate-logs",
            PlannedDocument(ground.aws, _log_writing, (Reference(group.arn, placeholder_log_group_arn),)),
        ),
        # A pod reads where its logs go when it starts, so this is there before anything that makes one.
        _log_router(ground, group, labels, child),
    ]


def _log_writing(_: AwsContext, group: str) -> Document:
    return iam_policies.log_writer_policy(group)


def _log_router(ground: Ground, group: cloudwatch.LogGroup, labels: Labels, child: ChildOptions) -> core.ConfigMap:
    speaking = pulumi.ResourceOptions(provider=ground.api)
    namespace = core.Namespace(
        f"{labels.base}-observability",
        metadata={
            "name": "aws-observability",
            "labels": {"aws-observability": "enabled"},
            # Nothing has to wait until it is gone: what comes after it is the end of the cluster.
            "annotations": {"pulumi.com/skipAwait": "true"},
        },
        opts=child(speaking),
    )
    written = pulumi.Output.all(ground.aws, group.name).apply(lambda known: log_output(known[0].region, known[1]))
    return core.ConfigMap(
        f"{labels.base}-fargate-logging",
        metadata={"name": "aws-logging", "namespace": namespace.metadata.name},
        # The router's own log would cost as much as what it carries.
        data={"flb_log_cw": "false", "output.conf": written},
        opts=child(speaking),
    )


def _profiles(
    ground: Ground, labels: Labels, role: iam.Role, first: Sequence[pulumi.Resource], child: ChildOptions
) -> dict[str, eks.FargateProfile]:
    made: dict[str, eks.FargateProfile] = {}
    for word, selector in ground.selectors.items():
        # EKS makes, and deletes, one profile at a time.
        before: list[pulumi.Resource] = [*first, *list(made.values())[-1:]]
        made[word] = eks.FargateProfile(
            f"{labels.base}-{word}",
            cluster_name=ground.cluster,
            pod_execution_role_arn=role.arn,
            selectors=[selector],  # pyright: ignore[reportArgumentType] - plain data of its shape
            subnet_ids=list(ground.subnets),
            tags=labels.tags(word),
            opts=child(pulumi.ResourceOptions(depends_on=before)),
        )
    return made
