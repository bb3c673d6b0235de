"""The state of an account before the first update."""

from __future__ import annotations

from typing import Any

import pytest

from agentenv.cli.preflight import account_state
from agentenv.cli.preflight.check import Check
from agentenv.core.iam.principals import SPOT_ROLE
from tests.fast.cli.preflight.conftest import StubbedSession
from tests.fast.config.stack_samples import sandbox, settings
from tests.fast.rehearsal.cloud.calls import allow, refused, remove, subnets, trust


def run_check(session: StubbedSession, name: str, sections: dict[str, Any]) -> Check:
    return session.check(account_state.questions(settings(sections)), name)


@pytest.mark.parametrize(
    ("action", "ok"),
    [
        ("*", True),
        ("elasticfilesystem:*", True),
        ("elasticfilesystem:ClientMount", False),
        ("s3:*", False),
    ],
)
def test_a_permissions_boundary_has_to_allow_mounts(simulated: StubbedSession, action: str, ok: bool) -> None:
    iam = simulated.client("iam")
    arn = iam.create_policy(PolicyName="bounds", PolicyDocument=allow(Action=action))["Policy"]["Arn"]
    found = run_check(simulated, "the permissions boundary", {"cluster": {"permissionsBoundary": arn}})
    iam.delete_policy(PolicyArn=arn)
    assert found.ok is ok
    assert ok or "elasticfilesystem:ClientWrite" in found.why


def test_a_missing_permissions_boundary_has_no_result(simulated: StubbedSession) -> None:
    arn = "arn:aws:iam::123456789012:policy/none"
    found = run_check(simulated, "the permissions boundary", {"cluster": {"permissionsBoundary": arn}})
    assert found.ok is None
    assert "NoSuchEntity" in found.why


SPOT: dict[str, Any] = {"sandboxClasses": [sandbox(capacity="spot")]}


def test_spot_needs_a_role_of_the_account_that_karpenter_may_create(simulated: StubbedSession) -> None:
    iam = simulated.client("iam")
    new = run_check(simulated, SPOT_ROLE, SPOT)
    assert (new.ok, new.limit) == (True, "none yet")
    arn = iam.create_policy(PolicyName="narrow", PolicyDocument=allow(Action="ec2:*"))["Policy"]["Arn"]
    bounded = {**SPOT, "cluster": {"permissionsBoundary": arn}}
    refused = run_check(simulated, SPOT_ROLE, bounded)
    assert refused.ok is False
    assert "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com" in refused.why
    iam.create_service_linked_role(AWSServiceName="spot.amazonaws.com")
    assert run_check(simulated, SPOT_ROLE, bounded).limit == "exists"
    iam.delete_policy(PolicyArn=arn)
    iam.delete_role(RoleName=SPOT_ROLE)


def test_no_spot_role_is_required_without_spot() -> None:
    assert SPOT_ROLE not in {question.name for question in account_state.questions(settings())}


WATCHED: dict[str, Any] = {"cost": {"anomalyAlerts": True, "alertTo": "platform@example.com"}}
OWN_MONITOR = {"MonitorName": "dev-agents-costs-unusual", "MonitorType": "DIMENSIONAL", "MonitorDimension": "SERVICE"}


def test_the_monitor_that_aws_created_is_named(simulated: StubbedSession) -> None:
    ce, name = simulated.client("ce"), "a monitor of all services"
    (default,) = ce.get_anomaly_monitors()["AnomalyMonitors"]
    check = run_check(simulated, name, WATCHED)
    assert check.ok is False
    assert f"set cost.anomalyMonitor to {default['MonitorArn']}" in check.why
    with refused("ValidationException"):
        ce.create_anomaly_monitor(AnomalyMonitor=OWN_MONITOR)
    ce.delete_anomaly_monitor(MonitorArn=default["MonitorArn"])
    assert run_check(simulated, name, WATCHED).ok is True
    own = ce.create_anomaly_monitor(AnomalyMonitor=OWN_MONITOR)["MonitorArn"]
    assert run_check(simulated, name, WATCHED).ok is True
    ce.delete_anomaly_monitor(MonitorArn=own)


def test_monitors_are_not_listed_for_stacks_without_one() -> None:
    used = {**WATCHED["cost"], "anomalyMonitor": "arn:aws:ce::123456789012:anomalymonitor/1"}
    for cost in (used, {**WATCHED["cost"], "costTags": "activate"}, {}):
        names = {question.name for question in account_state.questions(settings({"cost": cost}))}
        assert "a monitor of all services" not in names


def test_a_log_group_of_a_deleted_cluster_is_named_with_its_command(simulated: StubbedSession) -> None:
    eks, iam, ec2, logs = map(simulated.client, ("eks", "iam", "ec2", "logs"))
    name, sections = "a log group of a former cluster", {"cluster": {"name": "again"}}
    group = "/aws/eks/again/cluster"
    assert run_check(simulated, name, sections).ok is True
    vpc, places = subnets(ec2)
    role = iam.create_role(RoleName="again", AssumeRolePolicyDocument=trust())["Role"]["Arn"]
    setup = {"clusterLogging": [{"types": ["api"], "enabled": True}]}
    logs.create_log_group(logGroupName=group)
    logs.put_retention_policy(logGroupName=group, retentionInDays=7)
    eks.create_cluster(name="again", roleArn=role, resourcesVpcConfig={"subnetIds": places}, logging=setup)
    assert run_check(simulated, name, sections).limit == "that of the cluster"
    eks.delete_cluster(name="again")
    logs.delete_log_group(logGroupName=group)

    (created,) = logs.describe_log_groups(logGroupNamePrefix=group)["logGroups"]
    assert "retentionInDays" not in created
    with refused("ResourceAlreadyExistsException"):
        logs.create_log_group(logGroupName=group)
    check = run_check(simulated, name, sections)
    assert check.ok is False
    assert check.why.endswith(f"aws logs delete-log-group --log-group-name {group}")
    logs.delete_log_group(logGroupName=group)
    assert run_check(simulated, name, sections).ok is True
    iam.delete_role(RoleName="again")
    remove(ec2, vpc, places)
