"""`agentenv cost report` on the bill of an account with several environments."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agentenv.cli.main import FAILED, OK, main
from agentenv.cli.reports.cost_statement import charge_in_period, lines_in_period
from agentenv.cli.reports.sources import athena_query
from agentenv.core.attribution.bill import read_bill
from agentenv.core.ledger.rows import Row, row_to_item
from agentenv.core.usage_export.columns import COLUMNS

DAY, BEGAN = "2026-10-10", datetime(2026, 10, 10, 10, tzinfo=UTC)
OURS, THEIRS = "agent-environment-prod", "agent-environment-dev"
ROW = Row(
    owner="u-1", claim="c", pod="uid-1", began=BEGAN, ended=BEGAN.replace(hour=11), sandbox_class="standard",
    workspace="w", cpu_seconds=Decimal(1800), memory_gib_hours=Decimal(1), network_bytes=Decimal(100),
)  # fmt: skip
Lines = list[dict[str, str]]


def line(cost: str = "0", environment: str = "", **more: str) -> dict[str, str]:
    """Return a line of one hour, with the tag of an environment."""
    return {
        "line_item_usage_start_date": f"{DAY}T10:00:00Z", "line_item_usage_end_date": f"{DAY}T11:00:00Z",
        "line_item_line_item_type": "Usage", "line_item_product_code": "AmazonEC2", "line_item_unblended_cost": cost,
        "resource_tags": json.dumps({"user_environment": environment} if environment else {}),
    } | more  # fmt: skip


def node(environment: str, instance: str) -> dict[str, str]:
    """Return the line of a node for one hour, at one dollar."""
    usage = {"line_item_usage_type": "SpotUsage:m7g.large", "line_item_usage_amount": "1"}
    return line("1.00", environment, line_item_resource_id=instance, **usage)


def arn(cluster: str, uid: str, namespace: str = "sandbox-standard") -> str:
    """Return the ARN of a pod in the bill."""
    return f"arn:aws:eks:us-east-1:111122225555:pod/{cluster}/{namespace}/{uid}/{uid}"


def sandbox(cluster: str, uid: str, instance: str) -> Lines:
    """Return the two lines of a sandbox on a node, without the tag of its environment."""
    return [
        line(
            line_item_product_code="AmazonEKS", line_item_usage_type=f"USE1-EKS-EC2-{what}",
            line_item_resource_id=arn(cluster, uid), split_line_item_split_usage=usage,
            split_line_item_parent_resource_id=f"arn:aws:ec2:us-east-1:111122225555:instance/{instance}",
        )
        for what, usage in (("vCPU-Hours", "0.5"), ("GB-Hours", "1"))
    ]  # fmt: skip


def on_fargate(cluster: str, uid: str, namespace: str, cost: str) -> dict[str, str]:
    """Return the line of a Fargate pod, which is its own charge."""
    return line(
        cost, line_item_product_code="AmazonEKS", line_item_operation="FargatePod",
        line_item_usage_type="USE1-Fargate-vCPU-Hours:perCPU", line_item_resource_id=arn(cluster, uid, namespace),
    )  # fmt: skip


PROD: Lines = [node("prod", "i-aaaa1111"), *sandbox(OURS, "uid-1", "i-aaaa1111")]
DEV: Lines = [
    node("dev", "i-bbbb2222"),
    *(each for number in range(3) for each in sandbox(THEIRS, f"dev-{number}", "i-bbbb2222")),
    on_fargate(THEIRS, "dev-k", "karpenter", "5.00"),
    on_fargate(THEIRS, "dev-b", "sandbox-batch", "7.00"),
]


def report(folder: Path, lines: Lines, *more: str) -> list[str]:
    """Return the command for these lines."""
    bill, ledger = folder / "bill.csv", folder / "ledger.jsonl"
    with bill.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, [column.name for column in COLUMNS], restval="")
        writer.writeheader()
        writer.writerows(lines)
    ledger.write_text(json.dumps(row_to_item(ROW), default=str) + "\n")
    values = ["--since", DAY, "--until", DAY, "--bill", str(bill), "--ledger", str(ledger), "--json"]
    return ["cost", "report", *values, *more]


def figures(capsys: pytest.CaptureFixture[str], folder: Path, lines: Lines, *more: str) -> dict[str, Any]:
    """Run the command, and return its figures."""
    assert main(report(folder, lines, *more)) == OK
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_another_clusters_pods_are_not_on_an_environments_bill(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = figures(capsys, tmp_path, PROD, "--stack", "prod")
    beside = figures(capsys, tmp_path, [*PROD, *DEV], "--stack", "prod")
    assert (alone["bill"], alone["left_out"]) == (1.0, 0.0)
    assert (beside["bill"], beside["left_out"]) == (1.0, 13.0)
    assert beside["parts"] == alone["parts"]
    assert beside["owners"] == alone["owners"] == [{"owner": "u-1", "dollars": 1.0}]
    assert beside["parts"]["pool"] == beside["parts"]["fixed"] == 0


def test_the_environments_own_pods_on_fargate_are_on_its_bill(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = [*PROD, on_fargate(OURS, "k", "karpenter", "5.00"), on_fargate(OURS, "b", "sandbox-batch", "7.00")]
    found = figures(capsys, tmp_path, ours, "--stack", "prod")
    assert (found["bill"], found["left_out"], found["parts"]["fixed"]) == (13.0, 0.0, 5.0)


def test_a_cluster_or_the_whole_account_can_be_selected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [*PROD, *DEV]
    assert figures(capsys, tmp_path, lines, "--stack", "prod", "--cluster", THEIRS)["left_out"] == 1.0
    assert figures(capsys, tmp_path, lines, "--stack", "prod", "--whole-account")["bill"] == 14.0


@pytest.mark.parametrize("more", [(), ("--stack", "prod", "--whole-account")])
def test_a_cluster_without_a_stack_is_an_error(
    more: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(report(tmp_path, PROD, *more, "--cluster", OURS)) == FAILED
    assert "--cluster selects the pods of one environment" in capsys.readouterr().err


MONTH = {"line_item_usage_start_date": "2026-10-01T00:00:00Z", "line_item_usage_end_date": "2026-11-01T00:00:00Z"}
SINCE, UNTIL = datetime(2026, 10, 10, tzinfo=UTC), datetime(2026, 10, 12, tzinfo=UTC)


def hour(began: str, ended: str, cost: str) -> dict[str, str]:
    """Return a line of a gateway for a period."""
    return line(
        cost, "prod", line_item_usage_type="NatGateway-Hours", line_item_usage_start_date=began,
        line_item_usage_end_date=ended,
    )  # fmt: skip


EDGES: Lines = [
    line("31", "prod", line_item_line_item_type="Tax", **MONTH),
    hour("2026-10-09T23:00:00Z", "2026-10-10T00:00:00Z", "0.01"),
    hour("2026-10-10T00:00:00Z", "2026-10-10T01:00:00Z", "0.02"),
    hour("2026-10-11T23:00:00Z", "2026-10-12T00:00:00Z", "0.04"),
    hour("2026-10-12T00:00:00Z", "2026-10-12T01:00:00Z", "0.08"),
    hour("2026-10-09T00:00:00Z", "2026-10-11T00:00:00Z", "0.32"),
    hour("2026-10-11T00:00:00Z", "2026-10-13T00:00:00Z", "0.64"),
    hour("2026-09-12T00:00:00Z", "2026-10-12T00:00:00Z", "30"),
    hour("2026-09-01T00:00:00Z", "2026-10-01T00:00:00Z", "1.28"),
]


def from_athena(lines: Lines) -> Lines:
    """Return the lines of the Athena query, run in another database in its dialect."""
    duckdb, sqlglot = pytest.importorskip("duckdb"), pytest.importorskip("sqlglot")
    types = {"string": "VARCHAR", "double": "DOUBLE", "timestamp": "TIMESTAMP", "map<string,string>": "JSON"}
    columns = {"billing_period": "VARCHAR", **{column.name: types[column.type] for column in COLUMNS}}
    (text,) = sqlglot.transpile(athena_query(SINCE, UNTIL), read="athena", write="duckdb")
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE usage ({', '.join(f'{name} {kind}' for name, kind in columns.items())})")
        for each in lines:
            values = {"billing_period": each["line_item_usage_start_date"][:7], **each}
            marks = ", ".join("?" for _ in values)
            connection.execute(f"INSERT INTO usage ({', '.join(values)}) VALUES ({marks})", list(values.values()))  # noqa: S608
        answer = connection.sql(text)
        return [dict(zip(answer.columns, row, strict=True)) for row in answer.fetchall()]


def charged(lines: Lines) -> list[tuple[datetime, Decimal]]:
    """Return the charges of lines in the period."""
    charges = read_bill(lines_in_period(lines, SINCE, UNTIL), [], {}).charges
    return sorted((part.began, part.amount) for charge in charges if (part := charge_in_period(charge, SINCE, UNTIL)))


def test_athena_returns_the_same_lines_as_files() -> None:
    answered, read = charged(from_athena(EDGES)), charged(EDGES)
    assert answered == read
    # Two days of a month's tax and of a month that is not the calendar's, the hours at both edges, and half of what
    # reaches over them.
    assert sum(amount for _, amount in read) == Decimal("4.54")


def test_athena_can_be_queried_for_a_time_before_all_bills() -> None:
    assert "BETWEEN '2006-02' AND" in athena_query(datetime.min.replace(tzinfo=UTC), UNTIL)
