"""COST rules about unnecessary costs, such as logs without retention and empty nodes."""

from __future__ import annotations

from collections.abc import Iterator

from agentenv.core.classes.names import USER_LABEL
from agentenv.policies.rules.cluster.control_plane import CLUSTER
from agentenv.policies.rules.registry import (
    GRAPH,
    Outcome,
    fail,
    forbid,
    not_applicable,
    objects,
    resources,
    rule,
    unknown,
)
from agentenv.policies.view.cluster.clusters import Cluster
from agentenv.policies.view.cluster.images import parse_image
from agentenv.policies.view.fields import Field
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.iam.statements import one_or_more
from agentenv.policies.view.resource import KubernetesObject, Resource

LOG_GROUP = "aws:cloudwatch/logGroup:LogGroup"
NAT, ENDPOINT = "aws:ec2/natGateway:NatGateway", "aws:ec2/vpcEndpoint:VpcEndpoint"
EFS = "aws:efs/fileSystem:FileSystem"
ECR, ECR_LIFECYCLE = "aws:ecr/repository:Repository", "aws:ecr/lifecyclePolicy:LifecyclePolicy"
ADDON = "aws:eks/addon:Addon"
METRICS = "kube-state-metrics"


@rule(
    id="COST-10",
    title="Log groups have a retention",
    severity="Medium",
    why="A log group without retention keeps all logs forever, and costs more every month.",
    fix="Set retentionInDays to what audits require.",
    equivalents={"Checkov": ("CKV_AWS_66",), "Security Hub": ("CloudWatch.16",)},
    applies_to=resources(LOG_GROUP),
    defaults="Forever by default (CloudWatch Logs API reference, PutRetentionPolicy).",
)
def retention(group: Resource) -> Iterator[Outcome]:
    """Check for a number of days."""
    days = group.at("retentionInDays")
    if days.unknown:
        yield unknown(days)
    elif not days.number and group.at("logGroupClass").raw != "DELIVERY":
        yield fail(days, "its logs are kept forever")


@rule(
    id="COST-11",
    title="The log group of the control plane has a retention",
    severity="Medium",
    why="If the group is missing, EKS creates one that keeps logs forever, without encryption and tags.",
    fix="Create the log group /aws/eks/<cluster>/cluster before the cluster.",
    applies_to=CLUSTER,
    defaults="EKS creates a missing group (EKS user guide, control plane logs).",
)
def control_plane_group(cluster: Cluster, graph: Graph) -> Iterator[Outcome]:
    """Check for a log group with the name that EKS uses."""
    logs, name = cluster.at("logs"), cluster.at("name")
    if not logs.elements():
        return
    groups = [group.at("name") for group in graph.of_type(LOG_GROUP)]
    if name.known and any(group.raw == f"/aws/eks/{name.raw}/cluster" for group in groups):
        return
    possible = [field for field in (*groups, name) if field.unknown] if groups else []
    if possible:
        yield unknown(possible[0])
    else:
        yield fail(logs, "EKS creates the log group, which keeps logs forever")


@rule(
    id="COST-12",
    title="Pod metrics have the label of the owner",
    severity="Medium",
    why="Without this label in kube_pod_labels, the use of a pod cannot be assigned to a user.",
    fix="Set metricLabelsAllowlist to "
    f"pods=[{USER_LABEL},agents.x-k8s.io/claim-uid,agents.x-k8s.io/warm-pool-sandbox].",
    applies_to=GRAPH,
    defaults="Metrics have no labels of pods by default (kube-state-metrics, command line arguments).",
)
def metric_labels(graph: Graph) -> Iterator[Outcome]:
    """Check the configuration of the add-on, the arguments of a pod, and the values of a Helm release."""
    for addon in graph.of_type(ADDON):
        if addon.at("addonName").raw == METRICS:
            yield from _allowlist(addon.at("configurationValues").parsed().at("metricLabelsAllowlist"))
    for release in graph.of_type("kubernetes:helm.sh/v3:Release", "kubernetes:helm.sh/v4:Chart"):
        chart = release.at("chart").raw
        if isinstance(chart, str) and chart.rstrip("/").endswith(METRICS):
            yield from _allowlist(release.at("values", "metricLabelsAllowlist"))
    for pod in graph.pods:
        for container in pod.containers:
            image = container.at("image").raw
            if isinstance(image, str) and parse_image(image).path.endswith(METRICS):
                yield from _allowlist(container.at("args"))


def _allowlist(field: Field) -> Iterator[Outcome]:
    text = " ".join(str(element.raw) for element in one_or_more(field))
    if field.holds_unknown():
        yield unknown(field)
    elif USER_LABEL not in text and "pods=[*]" not in text:
        yield fail(field, f"metrics do not have the label {USER_LABEL}")


@rule(
    id="COST-13",
    title="The cluster does not enter extended support",
    severity="Medium",
    why="Extended support costs six times as much, from one day to the next.",
    fix="Set upgradePolicy.supportType to STANDARD, so that EKS upgrades the version at the end of its support.",
    applies_to=CLUSTER,
    defaults="EXTENDED by default (EKS API reference, UpgradePolicyRequest).",
)
def extended_support(cluster: Cluster, graph: Graph) -> Iterator[Outcome]:
    """Check the support policy, unless the stack file requests extended support. Its estimate includes the cost."""
    support = cluster.at("support")
    settings = graph.context.settings
    if settings is not None and settings.cluster.support_policy == "extended":
        yield not_applicable(support, "the stack file requests extended support")
        return
    yield from forbid(
        support, lambda value: value != "STANDARD", "the cluster will enter extended support, at six times the price"
    )


@rule(
    id="COST-14",
    title="Empty nodes are removed",
    severity="Medium",
    why="An empty node costs as much as a full one.",
    fix="Set disruption.consolidateAfter to minutes.",
    applies_to=objects("karpenter.sh", "NodePool"),
    defaults="Immediately, if empty or underused, by default (Karpenter's NodePool reference).",
)
def consolidation(pool: KubernetesObject) -> Iterator[Outcome]:
    """Check that consolidation is not disabled."""
    after = pool.at("spec", "disruption", "consolidateAfter")
    yield from forbid(after, lambda value: value == "Never", "empty nodes are never removed")


@rule(
    id="COST-15",
    title="Traffic to S3 does not use NAT",
    severity="Medium",
    why="Layers of images come from S3. NAT charges for each gigabyte, and a gateway endpoint is free.",
    fix="Add a VPC endpoint of type Gateway for S3 to the route tables of the private subnets.",
    applies_to=GRAPH,
    defaults="No endpoint by default (VPC user guide, gateway endpoints).",
)
def s3_endpoint(graph: Graph) -> Iterator[Outcome]:
    """Check stacks with NAT gateways."""
    gateways = [gateway for gateway in graph.of_type(NAT) if gateway.at("connectivityType").raw != "private"]
    if not gateways:
        return
    services = [endpoint.at("serviceName") for endpoint in graph.of_type(ENDPOINT)]
    if any(isinstance(service.raw, str) and service.raw.endswith(".s3") for service in services):
        return
    possible = [service for service in services if service.unknown]
    if possible:
        yield unknown(possible[0])
    else:
        yield fail(gateways[0].root, "there is no gateway endpoint for S3")


@rule(
    id="COST-16",
    title="Files that are not read move to infrequent access",
    severity="Low",
    why="Homes of absent users cost twelve times as much in standard storage.",
    fix="Add the lifecycle policy transitionToIa to the file system.",
    applies_to=resources(EFS),
    defaults="Files do not move by default (EFS API reference, PutLifecycleConfiguration).",
)
def efs_lifecycle(system: Resource) -> Iterator[Outcome]:
    """Check for a policy, unless the environment is short-lived."""
    policies = system.at("lifecyclePolicies")
    if system.context.short_lived:
        yield not_applicable(policies, "the environment is short-lived")
        return
    if any(not policy.at("transitionToIa").missing and policy.known for policy in policies.elements()):
        return
    if policies.holds_unknown():
        yield unknown(policies)
    else:
        yield fail(policies, "no file moves to infrequent access")


@rule(
    id="COST-17",
    title="Old images are deleted from a repository",
    severity="Low",
    why="Otherwise every build is stored, and paid for, until somebody deletes it.",
    fix="Add a LifecyclePolicy to the repository.",
    applies_to=resources(ECR),
    defaults="Images are kept forever by default (ECR user guide, lifecycle policies).",
)
def ecr_lifecycle(repository: Resource, graph: Graph) -> Iterator[Outcome]:
    """Check for a policy that names the repository or depends on it."""
    possible: Field | None = None
    for policy in graph.of_type(ECR_LIFECYCLE):
        named, targets = policy.at("repository"), graph.targets(policy, "repository", ECR)
        if repository in targets or (named.known and named.raw == repository.at("name").raw):
            return
        if (named.unknown and not targets) or (named.known and repository.at("name").unknown):
            possible = named
    if possible is not None:
        yield unknown(possible)
    else:
        yield fail(repository.root, "no image is ever deleted")
