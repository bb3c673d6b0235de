"""Permissions: who is simulated, what is missing by name, and what a simulation cannot tell."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agentenv.cli.preflight import permissions
from agentenv.cli.preflight.actions import POINTS, PROFILE, Actions, actions_of
from agentenv.cli.preflight.check import Check, run_checks
from agentenv.config.sections.network import PLATFORM_ENDPOINTS
from tests.fast.cli.preflight.conftest import Written
from tests.fast.config.stack_samples import sandbox, settings

ACCOUNT = "123456789012"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/ci/pipeline"
EXISTING = {"vpcId": "vpc-01234567", "privateSubnetIds": ["subnet-01234567", "subnet-12345678"]}


def caller(written: Written, arn: str) -> None:
    written.write("sts").add_response("get_caller_identity", {"Account": ACCOUNT, "Arn": arn, "UserId": "x"})


def results(names: list[str], **decisions: str) -> dict[str, Any]:
    """The simulation's answer, with everything allowed but those that are named without their service."""
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


def queue(written: Written, **decisions: str) -> Check:
    """The check of one service that has one row."""
    (row,) = [row for row in actions_of(settings(), ACCOUNT, "aws") if row.service == "sqs"]
    written.write("iam").add_response(
        "simulate_principal_policy",
        results(row.names, **decisions),
        {
            "PolicySourceArn": ROLE,
            "ActionNames": row.names,
            "ResourceArns": [f"arn:aws:sqs:us-east-1:{ACCOUNT}:dev-agents"],
        },
    )
    return asked(written, "sqs")


def asked(written: Written, service: str) -> Check:
    (question,) = [one for one in permissions.questions(settings()) if one.name == f"permissions: {service}"]
    return run_checks([question], written.account())[0]


def session(written: Written) -> None:
    """A caller by a session of a role, whose path only IAM knows."""
    caller(written, f"arn:aws:sts::{ACCOUNT}:assumed-role/pipeline/run-1")
    role = {
        "Path": "/ci/",
        "RoleName": "pipeline",
        "RoleId": "AROAEXAMPLEEXAMPLE00",
        "Arn": ROLE,
        "CreateDate": "2026-01-01",
    }
    written.write("iam").add_response("get_role", {"Role": role}, {"RoleName": "pipeline"})


def test_a_session_is_simulated_as_its_role_with_its_path(written: Written) -> None:
    session(written)
    found = queue(written)
    assert (found.ok, found.needed, found.limit) == (True, 8, 8)


def test_what_is_not_allowed_is_named_with_where(written: Written) -> None:
    session(written)
    found = queue(written, CreateQueue="implicitDeny", TagQueue="explicitDeny")
    assert (found.ok, found.limit) == (False, 6)
    assert found.why == (
        f"not allowed: sqs:CreateQueue, sqs:TagQueue; allow them on arn:aws:sqs:us-east-1:{ACCOUNT}:dev-agents"
    )


def test_a_condition_that_no_simulation_meets_is_not_a_failure(written: Written) -> None:
    session(written)
    found = queue(written, CreateQueue="implicitDeny?")
    assert found.ok is None
    assert "sqs:CreateQueue" in found.why
    assert "conditions" in found.why


def test_a_caller_who_may_not_simulate_is_told_what_it_takes(written: Written) -> None:
    caller(written, f"arn:aws:iam::{ACCOUNT}:user/somebody")
    written.write("iam").add_client_error("simulate_principal_policy", "AccessDenied", "no")
    found = asked(written, "sqs")
    assert found.ok is None
    assert found.why.endswith("the caller needs iam:SimulatePrincipalPolicy")


def test_root_is_not_simulated(written: Written) -> None:
    caller(written, f"arn:aws:iam::{ACCOUNT}:root")
    assert asked(written, "ec2").ok is True


def test_what_stands_already_takes_no_right_to_make_it() -> None:
    told = settings(
        {"network": {"existing": EXISTING}, "cluster": {"existing": "one"}, "storage": {"existing": ["fs-01234567"]}}
    )
    names = {name for row in actions_of(told, ACCOUNT, "aws") for name in row.names}
    assert not {"ec2:CreateVpc", "eks:CreateCluster", "elasticfilesystem:CreateFileSystem"} & names
    assert {"ec2:CreateSecurityGroup", "eks:CreateAddon", "elasticfilesystem:PutFileSystemPolicy"} <= names


def test_no_operation_is_named_twice_and_each_is_one_that_aws_has() -> None:
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


def test_seats_take_rights_to_access_points_and_to_find_those_that_are_kept() -> None:
    from botocore.session import Session

    seat = {"name": "desk", "class": "standard", "user": "u-1"}
    seated = settings({"sandboxClasses": [sandbox()], "workspaces": [seat]})
    usual, more = ([*actions_of(told, ACCOUNT, "aws")] for told in (settings(), seated))
    added = [row for row in more if row not in usual]
    names = {name for row in added for name in row.names}
    assert {"elasticfilesystem:CreateAccessPoint", "elasticfilesystem:DeleteAccessPoint", "tag:GetResources"} <= names
    assert {row.resource.rpartition(":")[2] for row in added} == {"file-system/*", "access-point/*", "*"}
    for service, words in (("efs", POINTS), ("resourcegroupstaggingapi", ("GetResources",))):
        known: set[str] = {*Session().get_service_model(service).operation_names}  # pyright: ignore[reportGeneralTypeIssues] - a cached property of botocore's own kind
        assert set(words) <= known


def test_what_costs_are_controlled_with_is_asked_for_where_it_is() -> None:
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


def test_a_profile_is_asked_for_only_where_the_stack_makes_it() -> None:
    isolated = {
        "nat": "none",
        "endpoints": list(PLATFORM_ENDPOINTS),
        "mirrors": {"registry": "111122223333.dkr.ecr.us-east-1.amazonaws.com"},
    }
    usual, more = (
        {name for row in actions_of(told, ACCOUNT, "aws") for name in row.names}
        for told in (settings(), settings({"network": isolated}))
    )
    assert more - usual == {f"iam:{word}" for word in PROFILE}
    from botocore.session import Session

    known: set[str] = {*Session().get_service_model("iam").operation_names}  # pyright: ignore[reportGeneralTypeIssues] - a cached property of botocore's own kind
    assert set(PROFILE) <= known


def test_what_the_official_provider_calls_is_asked_for() -> None:
    folder = os.environ.get("AGENTENV_FACTS")
    if not folder:
        pytest.skip("needs AGENTENV_FACTS: the folder that has aws-provider-calls.json, the official provider's calls")
    cases: dict[str, Any] = json.loads((Path(folder) / "aws-provider-calls.json").read_text(encoding="utf-8"))["cases"]
    kinds = ("ec2_", "vpc_", "iam_Role", "iam_OpenId", "kms_", "sqs_", "cloudwatch_Event", "cloudwatch_LogGroup")
    called = {
        f"{service}:{operation}"
        for name, case in cases.items()
        if name.startswith(kinds)
        for phase in ("create", "refresh", "destroy")
        for service, operation in (call.split()[:2] for call in case[phase])
        if operation.isalnum()
    }
    asked_for = {name for row in actions_of(settings(), ACCOUNT, "aws") for name in row.names}
    # Asked to find out which account it is, where policies need not allow it.
    assert called - asked_for <= {"iam:GetUser"}
    assert len(called & asked_for) > 60
