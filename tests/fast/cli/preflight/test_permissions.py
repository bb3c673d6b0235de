"""Permissions: the simulated principal, the missing actions, and unknown results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentenv.cli.preflight import permissions
from agentenv.cli.preflight.actions import POINTS, PROFILE, Actions, actions_of
from agentenv.cli.preflight.check import Check
from agentenv.config.sections.network import PLATFORM_ENDPOINTS
from tests.fast.cli.preflight.conftest import StubbedSession
from tests.fast.components.test_stack_files import build
from tests.fast.config.stack_samples import sandbox, settings
from tests.fast.rehearsal.cloud.test_cloud_replay import operation

ACCOUNT = "123456789012"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/ci/pipeline"
EXISTING = {"vpcId": "vpc-01234567", "privateSubnetIds": ["subnet-01234567", "subnet-12345678"]}


def caller(stubbed: StubbedSession, arn: str) -> None:
    stubbed.stub("sts").add_response("get_caller_identity", {"Account": ACCOUNT, "Arn": arn, "UserId": "x"})


def results(names: list[str], **decisions: str) -> dict[str, Any]:
    """Return a simulation's response in which all actions are allowed, except the given decisions."""
    return {
        "EvaluationResults": [
            {
                "EvalActionName": name,
                "EvalDecision": decisions.get(name.split(":")[1], "allowed").removesuffix("?"),
                "MissingContextValues": ["aws:x"] if decisions.get(name.split(":")[1], "").endswith("?") else [],
            }
            for name in names
        ]
    }


def queue(stubbed: StubbedSession, **decisions: str) -> Check:
    """Return the check of one service with one row."""
    (row,) = [row for row in actions_of(settings(), ACCOUNT, "aws") if row.service == "sqs"]
    stubbed.stub("iam").add_response(
        "simulate_principal_policy",
        results(row.names, **decisions),
        {
            "PolicySourceArn": ROLE,
            "ActionNames": row.names,
            "ResourceArns": [f"arn:aws:sqs:us-east-1:{ACCOUNT}:dev-agents"],
        },
    )
    return run_check(stubbed, "sqs")


def run_check(stubbed: StubbedSession, service: str) -> Check:
    return stubbed.check(permissions.questions(settings()), f"permissions: {service}")


def session(stubbed: StubbedSession) -> None:
    """Stub a caller with a session of a role, whose path only IAM has."""
    caller(stubbed, f"arn:aws:sts::{ACCOUNT}:assumed-role/pipeline/run-1")
    role = {
        "Path": "/ci/",
        "RoleName": "pipeline",
        "RoleId": "AROAEXAMPLEEXAMPLE00",
        "Arn": ROLE,
        "CreateDate": "2026-01-01",
    }
    stubbed.stub("iam").add_response("get_role", {"Role": role}, {"RoleName": "pipeline"})


def test_a_session_is_simulated_as_its_role_with_its_path(stubbed: StubbedSession) -> None:
    session(stubbed)
    found = queue(stubbed)
    assert (found.ok, found.needed, found.limit) == (True, 8, 8)


def test_denied_actions_are_listed_with_their_resource(stubbed: StubbedSession) -> None:
    session(stubbed)
    found = queue(stubbed, CreateQueue="implicitDeny", TagQueue="explicitDeny")
    assert (found.ok, found.limit) == (False, 6)
    assert found.why == (
        f"not allowed: sqs:CreateQueue, sqs:TagQueue; allow them on arn:aws:sqs:us-east-1:{ACCOUNT}:dev-agents"
    )


def test_an_action_with_unknown_conditions_is_not_a_failure(stubbed: StubbedSession) -> None:
    session(stubbed)
    found = queue(stubbed, CreateQueue="implicitDeny?")
    assert found.ok is None
    assert "sqs:CreateQueue" in found.why
    assert "conditions" in found.why


def test_a_caller_without_simulation_permission_gets_its_name(stubbed: StubbedSession) -> None:
    caller(stubbed, f"arn:aws:iam::{ACCOUNT}:user/somebody")
    stubbed.stub("iam").add_client_error("simulate_principal_policy", "AccessDenied", "no")
    found = run_check(stubbed, "sqs")
    assert found.ok is None
    assert found.why.endswith("the caller needs iam:SimulatePrincipalPolicy")


def test_root_is_not_simulated(stubbed: StubbedSession) -> None:
    caller(stubbed, f"arn:aws:iam::{ACCOUNT}:root")
    assert run_check(stubbed, "ec2").ok is True


def test_existing_resources_need_no_create_permission() -> None:
    parsed = settings(
        {"network": {"existing": EXISTING}, "cluster": {"existing": "one"}, "storage": {"existing": ["fs-01234567"]}}
    )
    names = {name for row in actions_of(parsed, ACCOUNT, "aws") for name in row.names}
    assert not {"ec2:CreateVpc", "eks:CreateCluster", "elasticfilesystem:CreateFileSystem"} & names
    assert {"ec2:CreateSecurityGroup", "eks:CreateAddon", "elasticfilesystem:PutFileSystemPolicy"} <= names


def test_every_operation_exists_and_is_listed_once() -> None:
    from botocore.session import Session

    services = {"elasticfilesystem": "efs"}
    rows: list[Actions] = list(actions_of(settings(), ACCOUNT, "aws"))
    names = [name for row in rows for name in row.names]
    assert len(names) == len(set(names)) > 150
    loader = Session()
    for service in {row.service for row in rows}:
        known: set[str] = {*loader.get_service_model(services.get(service, service)).operation_names}  # pyright: ignore[reportGeneralTypeIssues] - a cached property of botocore's own kind
        # What policies know and no client calls.
        known |= {"iam": {"PassRole"}}.get(service, set())
        words = {word for row in rows if row.service == service for word in row.operations}
        assert words <= known, (service, words - known)


def test_seats_need_permissions_for_access_points() -> None:
    from botocore.session import Session

    seat = {"name": "desk", "class": "standard", "user": "u-1"}
    seated = settings({"sandboxClasses": [sandbox()], "workspaces": [seat]})
    usual, more = ([*actions_of(parsed, ACCOUNT, "aws")] for parsed in (settings(), seated))
    added = [row for row in more if row not in usual]
    names = {name for row in added for name in row.names}
    assert {"elasticfilesystem:CreateAccessPoint", "elasticfilesystem:DeleteAccessPoint", "tag:GetResources"} <= names
    assert {row.resource.rpartition(":")[2] for row in added} == {"file-system/*", "access-point/*", "*"}
    for service, words in (("efs", POINTS), ("resourcegroupstaggingapi", ("GetResources",))):
        known: set[str] = {*Session().get_service_model(service).operation_names}  # pyright: ignore[reportGeneralTypeIssues] - a cached property of botocore's own kind
        assert set(words) <= known


def test_cost_controls_need_their_permissions() -> None:
    from botocore.session import Session

    cost = {
        "monthlyBudget": 100,
        "alertTo": "platform@example.com",
        "costTags": "activate",
        "usageExport": True,
        "anomalyAlerts": True,
        "platformDashboard": True,
    }
    usual = [*actions_of(settings(), ACCOUNT, "aws")]
    added = [row for row in actions_of(settings({"cost": cost}), ACCOUNT, "aws") if row not in usual]
    assert {row.service for row in added} == {
        *("budgets", "ce", "s3", "cur", "bcm-data-exports", "glue", "athena", "cloudwatch")
    }
    assert not [row for row in usual if row.service in {"budgets", "ce", "s3", "athena"}]
    for row in added:
        # Policies have words of their own for budgets and for most of a bucket's settings.
        if row.service not in {"budgets", "s3"}:
            known: set[str] = {*Session().get_service_model(row.service).operation_names}  # pyright: ignore[reportGeneralTypeIssues] - a cached property of botocore's own kind
            assert set(row.operations) <= known, row.service
    named = {row.service: row.resource for row in added}
    assert named["budgets"].endswith(":budget/dev-agents-costs-month")
    assert named["s3"] == f"arn:aws:s3:::dev-agents-costs-usage-{ACCOUNT}"
    assert named["glue"].endswith(":database/dev_agents_costs_usage")


def test_a_bucket_of_runtimes_needs_permissions_for_its_name() -> None:
    parsed = settings({"network": {"mirrors": {"bucket": True}}})
    (row,) = [row for row in actions_of(parsed, ACCOUNT, "aws") if row.service == "s3"]
    assert row.resource == f"arn:aws:s3:::dev-agents-runtimes-{ACCOUNT}"
    assert "s3:PutBucketPolicy" in row.names


def test_an_instance_profile_needs_permissions_only_if_the_stack_creates_it() -> None:
    isolated = {
        "nat": "none",
        "endpoints": list(PLATFORM_ENDPOINTS),
        "mirrors": {"registry": "111122223333.dkr.ecr.us-east-1.amazonaws.com"},
    }
    usual, more = (
        {name for row in actions_of(parsed, ACCOUNT, "aws") for name in row.names}
        for parsed in (settings(), settings({"network": isolated}))
    )
    assert more - usual == {f"iam:{word}" for word in PROFILE}
    from botocore.session import Session

    known: set[str] = {*Session().get_service_model("iam").operation_names}  # pyright: ignore[reportGeneralTypeIssues] - a cached property of botocore's own kind
    assert set(PROFILE) <= known


def test_permissions_for_what_the_stack_does_not_create_are_not_demanded() -> None:
    isolated = {
        "nat": "none",
        "endpoints": list(PLATFORM_ENDPOINTS),
        "mirrors": {"registry": "111122223333.dkr.ecr.us-east-1.amazonaws.com"},
    }
    monitor = f"arn:aws:ce::{ACCOUNT}:anomalymonitor/0123"
    alerts = {"anomalyAlerts": True, "alertTo": "platform@example.com", "anomalyMonitor": monitor}
    parsed = settings({"network": isolated, "cost": alerts})
    names = {name for row in actions_of(parsed, ACCOUNT, "aws") for name in row.names}
    assert not {"ec2:AllocateAddress", "ec2:CreateNatGateway", "ce:CreateAnomalyMonitor"} & names
    assert {"ec2:CreateVpc", "ce:CreateAnomalySubscription"} <= names
    # AWS grants it to every caller, whatever the policies.
    assert "sts:GetCallerIdentity" not in names


def test_the_calls_of_the_official_provider_are_covered(facts: Path) -> None:
    cases: dict[str, Any] = json.loads((facts / "aws-provider-calls.json").read_text(encoding="utf-8"))["cases"]
    kinds = (
        *("ec2_", "vpc_", "iam_Role", "iam_OpenId", "kms_", "sqs_", "cloudwatch_Event", "cloudwatch_LogGroup"),
        *("dynamodb_", "lb_", "route53_Record"),
    )
    called = {
        f"{service}:{operation}"
        for name, case in cases.items()
        if name.startswith(kinds)
        for phase in ("create", "refresh", "destroy")
        for call in case[phase]
        for service in call.split()[:1]
        for operation in [recorded_operation(call)]
        if operation is not None
    }
    full, _ = build("full")
    demanded = {name for row in actions_of(full, ACCOUNT, "aws") for name in row.names}
    # Called to learn which account it is: the first need not be allowed, and everybody may do the second.
    assert called - demanded <= {"iam:GetUser", "sts:GetCallerIdentity"}
    assert len(called & demanded) > 90


def recorded_operation(call: str) -> str | None:
    """Return the operation of a recorded call: `service operation status`, or with the method and path of REST."""
    recognized = operation(call.rpartition(" x")[0].rpartition(" ")[0] if " x" in call else call.rpartition(" ")[0])
    return None if recognized is None else recognized[1]
