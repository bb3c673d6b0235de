"""Check what an account already has or still lacks: its policies, service-linked roles and leftovers of a stack."""

from __future__ import annotations

import json
from collections.abc import Iterator

from agentenv.cli.preflight.aws_calls import Account, AwsCallError, find_cluster
from agentenv.cli.preflight.check import Answer, Question
from agentenv.config import Settings
from agentenv.core.iam.evaluation import effect, request_keys
from agentenv.core.iam.principals import SPOT, SPOT_ROLE
from agentenv.core.nodes.node_pools import demands, node_pools

MOUNT_ACTIONS = ("elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite")


def questions(settings: Settings) -> list[Question]:
    """Return the questions for what the stack uses."""
    return list(_questions(settings))


def _questions(settings: Settings) -> Iterator[Question]:
    if any(pool.capacity == "spot" for pool in node_pools(settings.capacity, demands(settings))):
        yield Question(
            SPOT_ROLE, "for Spot", lambda account: _spot_role(account, settings.cluster.permissions_boundary)
        )
    if settings.cluster.existing is None:
        name = settings.cluster_name
        yield Question("a log group of a former cluster", "none", lambda account: _log_group(account, name))
    cost = settings.cost
    if cost.anomaly_alerts and cost.anomaly_monitor is None and cost.cost_tags != "activate":
        yield Question("a monitor of all services", "none", lambda account: _other_monitor(account, settings))
    if boundary := settings.cluster.permissions_boundary:
        yield Question(
            "the permissions boundary", "allows mounts", lambda account: _boundary_allows_mounts(account, boundary)
        )


def _log_group(account: Account, cluster: str) -> Answer:
    """Check that no log group is left of a deleted cluster of that name: EKS writes its last lines after a destroy."""
    name = f"/aws/eks/{cluster}/cluster"
    groups = account.list_all("logs", "describe_log_groups", "logGroups", logGroupNamePrefix=name)
    if not any(group["logGroupName"] == name for group in groups):
        return Answer("none", ok=True, why="")
    if find_cluster(account, cluster) is not None:
        return Answer("that of the cluster", ok=True, why="")
    why = f"it is left of a deleted cluster: aws logs delete-log-group --log-group-name {name}"
    return Answer("exists", ok=False, why=why)


def _other_monitor(account: Account, settings: Settings) -> Answer:
    """Check that no other monitor of all services exists: an account has one, and AWS creates it in new accounts."""
    monitors = account.list_all("ce", "get_anomaly_monitors", "AnomalyMonitors")
    for monitor in monitors:
        if monitor.get("MonitorDimension") == "SERVICE" and not _is_own(monitor["MonitorName"], settings):
            arn = monitor["MonitorArn"]
            why = f"an account has one: set cost.anomalyMonitor to {arn}"
            return Answer(monitor["MonitorName"], ok=False, why=why)
    return Answer("none", ok=True, why="")


def _is_own(name: str, settings: Settings) -> bool:
    return name.startswith(f"{settings.environment}-agents-costs")


def _spot_role(account: Account, boundary: str | None) -> Answer:
    """Check that EC2's role for Spot exists, or that Karpenter's role may let EC2 create it."""
    try:
        account.call("iam", "get_role", RoleName=SPOT_ROLE)
    except AwsCallError as error:
        if error.code != "NoSuchEntity":
            raise
    else:
        return Answer("exists", ok=True, why="")
    partition = account.identity["Arn"].split(":")[1]
    role = f"arn:{partition}:iam::{account.identity['Account']}:role/aws-service-role/{SPOT}/{SPOT_ROLE}"
    keys = request_keys(**{"iam:AWSServiceName": SPOT})
    allowed = boundary is None or effect([_policy(account, boundary)], "iam:CreateServiceLinkedRole", role, keys)
    if allowed in {True, "Allow"}:
        return Answer("none yet", ok=True, why="EC2 creates it at the first Spot request, as Karpenter's role allows")
    why = f"{boundary} does not allow it: aws iam create-service-linked-role --aws-service-name {SPOT}"
    return Answer("none", ok=False, why=why)


def _policy(account: Account, arn: str) -> str:
    policy = account.call("iam", "get_policy", PolicyArn=arn)["Policy"]
    version = {"PolicyArn": arn, "VersionId": policy["DefaultVersionId"]}
    return json.dumps(account.call("iam", "get_policy_version", **version)["PolicyVersion"]["Document"])


def _boundary_allows_mounts(account: Account, boundary: str) -> Answer:
    """Check that the boundary allows what the file system policy grants to the role of the storage driver on nodes."""
    document = _policy(account, boundary)
    partition, owner = boundary.split(":")[1], account.identity["Account"]
    prefix = f"arn:{partition}:elasticfilesystem:{account.region}:{owner}"
    keys = request_keys(
        **{
            "aws:SecureTransport": "true",
            "elasticfilesystem:AccessedViaMountTarget": "true",
            "elasticfilesystem:AccessPointArn": f"{prefix}:access-point/fsap-0123456789abcdef0",
        }
    )
    system = f"{prefix}:file-system/fs-0123456789abcdef0"
    missing = [name for name in MOUNT_ACTIONS if effect([document], name, system, keys) != "Allow"]
    if not missing:
        return Answer("allows mounts", ok=True, why="")
    why = (
        f"allow {' and '.join(missing)} in {boundary}: it limits what the file system policy grants to the role that"
        " mounts homes"
    )
    return Answer("does not", ok=False, why=why)
