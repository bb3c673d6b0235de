"""`agentenv cost report` on the bill of an account in which an environment is not alone."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agentenv.cli import FAILED, OK, main
from model.ledger import Row, item_of
from model.usage_export.columns import COLUMNS

DAY, BEGAN = "2026-10-10", datetime(2026, 10, 10, 10, tzinfo=UTC)
OURS, THEIRS = "agent-environment-prod", "agent-environment-dev"
ROW = Row(
    owner="u-1", claim="c", pod="uid-1", began=BEGAN, ended=BEGAN.replace(hour=11), sandbox_class="standard",
    workspace="w", cpu_seconds=Decimal(1800), memory_gib_hours=Decimal(1), network_bytes=Decimal(100),
)  # fmt: skip
Lines = list[dict[str, str]]


def line(cost: str = "0", environment: str = "", **more: str) -> dict[str, str]:
    """An hour of something, with the tag of an environment."""
    return {
        "line_item_usage_start_date": f"{DAY}T10:00:00Z", "line_item_usage_end_date": f"{DAY}T11:00:00Z",
        "line_item_line_item_type": "Usage", "line_item_product_code": "AmazonEC2", "line_item_unblended_cost": cost,
        "resource_tags": json.dumps({"user_environment": environment} if environment else {}),
    } | more  # fmt: skip


def node(environment: str, instance: str) -> dict[str, str]:
    """A node's hour at a dollar."""
    usage = {"line_item_usage_type": "SpotUsage:m7g.large", "line_item_usage_amount": "1"}
    return line("1.00", environment, line_item_resource_id=instance, **usage)


def arn(cluster: str, uid: str, room: str = "sandbox-standard") -> str:
    """A pod as the bill names it."""
    return f"arn:aws:eks:us-east-1:111122225555:pod/{cluster}/{room}/{uid}/{uid}"


def sandbox(cluster: str, uid: str, instance: str) -> Lines:
    """The two lines of a sandbox on a node: its labels are on the bill, and no tag of its environment."""
    return [
        line(
            line_item_product_code="AmazonEKS", line_item_usage_type=f"USE1-EKS-EC2-{what}",
            line_item_resource_id=arn(cluster, uid), split_line_item_split_usage=usage,
            split_line_item_parent_resource_id=f"arn:aws:ec2:us-east-1:111122225555:instance/{instance}",
        )
        for what, usage in (("vCPU-Hours", "0.5"), ("GB-Hours", "1"))
    ]  # fmt: skip


def on_fargate(cluster: str, uid: str, room: str, cost: str) -> dict[str, str]:
    """A pod of Fargate, which is a charge of its own."""
    return line(
        cost, line_item_product_code="AmazonEKS", line_item_operation="FargatePod",
        line_item_usage_type="USE1-Fargate-vCPU-Hours:perCPU", line_item_resource_id=arn(cluster, uid, room),
    )  # fmt: skip


PROD: Lines = [node("prod", "i-aaaa1111"), *sandbox(OURS, "uid-1", "i-aaaa1111")]
DEV: Lines = [
    node("dev", "i-bbbb2222"),
    *(each for number in range(3) for each in sandbox(THEIRS, f"dev-{number}", "i-bbbb2222")),
    on_fargate(THEIRS, "dev-k", "karpenter", "5.00"),
    on_fargate(THEIRS, "dev-b", "sandbox-batch", "7.00"),
]


def report(folder: Path, lines: Lines, *more: str) -> list[str]:
    """The command for these lines."""
    bill, ledger = folder / "bill.csv", folder / "ledger.jsonl"
    with bill.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, [column.name for column in COLUMNS], restval="")
        writer.writeheader()
        writer.writerows(lines)
    ledger.write_text(json.dumps(item_of(ROW), default=str) + "\n")
    given = ["--since", DAY, "--until", DAY, "--bill", str(bill), "--ledger", str(ledger), "--json"]
    return ["cost", "report", *given, *more]


def told(capsys: pytest.CaptureFixture[str], folder: Path, lines: Lines, *more: str) -> dict[str, Any]:
    """Its figures."""
    assert main(report(folder, lines, *more)) == OK
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_another_clusters_pods_are_not_on_an_environments_bill(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = told(capsys, tmp_path, PROD, "--stack", "prod")
    beside = told(capsys, tmp_path, [*PROD, *DEV], "--stack", "prod")
    assert (alone["bill"], alone["left_out"]) == (1.0, 0.0)
    assert (beside["bill"], beside["left_out"]) == (1.0, 13.0)
    assert beside["parts"] == alone["parts"]
    assert beside["owners"] == alone["owners"] == [{"owner": "u-1", "dollars": 1.0}]
    assert beside["parts"]["pool"] == beside["parts"]["fixed"] == 0


def test_its_own_pods_on_fargate_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours = [*PROD, on_fargate(OURS, "k", "karpenter", "5.00"), on_fargate(OURS, "b", "sandbox-batch", "7.00")]
    found = told(capsys, tmp_path, ours, "--stack", "prod")
    assert (found["bill"], found["left_out"], found["parts"]["fixed"]) == (13.0, 0.0, 5.0)


def test_a_cluster_can_be_named_and_the_whole_account_be_meant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [*PROD, *DEV]
    assert told(capsys, tmp_path, lines, "--stack", "prod", "--cluster", THEIRS)["left_out"] == 1.0
    assert told(capsys, tmp_path, lines, "--stack", "prod", "--whole-account")["bill"] == 14.0


@pytest.mark.parametrize("more", [(), ("--stack", "prod", "--whole-account")])
def test_a_cluster_that_would_say_nothing_is_refused(
    more: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(report(tmp_path, PROD, *more, "--cluster", OURS)) == FAILED
    assert "--cluster says which pods are an environment's" in capsys.readouterr().err
