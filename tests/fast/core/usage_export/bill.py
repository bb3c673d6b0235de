"""A sample of an exported bill, and a database to query it.

Athena's text is put into DuckDB's dialect by a parser of both: what is run is what is kept, and not a copy of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import sqlglot

from agentenv.core.usage_export.columns import COLUMNS, tag_key
from agentenv.core.usage_export.queries import Source, queries

CLUSTER, ENVIRONMENT = "agent-environment-dev", "dev"
TYPES = {
    "string": "VARCHAR",
    "double": "DOUBLE",
    "timestamp": "TIMESTAMP",
    "map<string,string>": "MAP(VARCHAR, VARCHAR)",
}
USER = tag_key("sandbox.users.io/user")
FIRST_INSTANCE, SECOND_INSTANCE, EMPTY_INSTANCE = "i-0a11", "i-0b22", "i-0c33"


@dataclass
class Bill:
    """Lines of one table."""

    lines: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def line(self, hour: str, cost: float, **more: Any) -> None:
        """One line of the environment, of usage unless told otherwise."""
        self.lines.append(
            {
                "billing_period": hour[:7],
                "line_item_usage_start_date": hour,
                "line_item_line_item_type": "Usage",
                "line_item_product_code": "AmazonEC2",
                "line_item_unblended_cost": cost,
                "resource_tags": {tag_key("environment"): ENVIRONMENT},
                **more,
            }
        )

    def instance(self, hour: str, name: str, cost: float, **more: Any) -> None:
        """An instance's hour."""
        self.line(hour, cost, line_item_usage_type="BoxUsage:m7g.large", line_item_resource_id=name, **more)

    def pod(self, hour: str, on: str, path: str, costs: tuple[float, float], owner: str = "") -> None:
        """Half of a pod's hour on an instance; AWS writes one line for its CPU and one for its memory."""
        used, idle = costs
        self.lines.append(
            {
                "billing_period": hour[:7],
                "line_item_usage_start_date": hour,
                "line_item_line_item_type": "Usage",
                "line_item_product_code": "AmazonEC2",
                "line_item_operation": "EKSPod-EC2",
                "line_item_resource_id": f"arn:aws:eks:us-east-1:123456789012:pod/{path}",
                "line_item_unblended_cost": 0.0,
                "resource_tags": {USER: owner} if owner else {},
                "split_line_item_parent_resource_id": on,
                "split_line_item_split_cost": used,
                "split_line_item_unused_cost": idle,
            }
        )

    def query_results(self, **parameters: Any) -> dict[str, list[dict[str, Any]]]:
        """The answers of all queries, by their names."""
        source = Source(
            **{
                "database": "memory",
                "table": "main",
                "environment": ENVIRONMENT,
                "cluster": CLUSTER,
                "tagged": True,
                "since": "'2026-11'",
                **parameters,
            }
        )
        import duckdb

        with duckdb.connect() as connection:
            columns = {"billing_period": "VARCHAR", **{column.name: TYPES[column.type] for column in COLUMNS}}
            connection.execute(f"CREATE TABLE bill ({', '.join(f'{n} {t}' for n, t in columns.items())})")
            for line in self.lines:
                assert set(line) <= set(columns)
                marks = ", ".join(f"CAST(? AS {columns[name]})" for name in line)
                connection.execute(f"INSERT INTO bill ({', '.join(line)}) VALUES ({marks})", list(line.values()))  # noqa: S608
            answers: dict[str, list[dict[str, Any]]] = {}
            for query in queries(source):
                (text,) = sqlglot.transpile(query.text, read="athena", write="duckdb")
                answer = connection.sql(text.replace('"memory"."main"', "bill"))
                answers[query.name] = [dict(zip(answer.columns, row, strict=True)) for row in answer.fetchall()]
                del answer
            return answers


def sample() -> Bill:
    """Two days: users, a warm pool, the platform, an empty node, Fargate, NAT, tax, another environment."""
    bill = Bill()
    first, second = "2026-11-03 10:00:00", "2026-11-04 10:00:00"
    room = f"{CLUSTER}/sandbox-standard"
    bill.instance(first, FIRST_INSTANCE, 0.10)
    for _ in ("CPU", "memory"):
        bill.pod(first, FIRST_INSTANCE, f"{room}/standard-1/u1", (0.02, 0.01), owner="u-1")
        bill.pod(first, FIRST_INSTANCE, f"{room}/standard-2/u2", (0.01, 0.005))
        bill.pod(first, FIRST_INSTANCE, f"{CLUSTER}/kube-system/coredns/u3", (0.004, 0.001))
    bill.instance(first, SECOND_INSTANCE, 0.08)  # of which AWS has told of three quarters only
    bill.pod(first, SECOND_INSTANCE, f"{room}/standard-3/u4", (0.05, 0.01), owner="u-2")
    bill.instance(first, EMPTY_INSTANCE, 0.09)
    fargate = {
        "line_item_product_code": "AmazonEKS",
        "line_item_operation": "FargatePod",
        "line_item_usage_type": "USE1-Fargate-vCPU-Hours:perCPU",
    }
    job = f"arn:aws:eks:us-east-1:123456789012:pod/{CLUSTER}/sandbox-batch/job/u5"
    bill.line(first, 0.03, **fargate, line_item_resource_id=job, resource_tags={USER: "u-1"})
    bill.line(first, 0.045, line_item_usage_type="NatGateway-Hours", line_item_resource_id="nat-1")
    bill.line(first, 0.10, line_item_product_code="AmazonEKS", line_item_usage_type="USE1-AmazonEKS-Hours:perCluster")
    bill.line(first, 0.02, line_item_line_item_type="Tax", line_item_product_code="AmazonEC2")
    bill.instance(second, FIRST_INSTANCE, 0.0, line_item_line_item_type="SavingsPlanNegation")
    covered = {"line_item_line_item_type": "SavingsPlanCoveredUsage", "savings_plan_savings_plan_effective_cost": 0.06}
    bill.instance(second, FIRST_INSTANCE, 0.10, **covered)
    bill.pod(second, FIRST_INSTANCE, f"{room}/standard-1/u1", (0.04, 0.02), owner="u-1")
    other = {tag_key("environment"): "prod"}
    bill.line(first, 9.0, line_item_usage_type="NatGateway-Hours", resource_tags=other)
    bill.pod(first, "i-0d44", "another-cluster/sandbox-standard/standard-1/u9", (7.0, 1.0), owner="u-3")
    bill.line("2026-09-30 10:00:00", 5.0, line_item_usage_type="NatGateway-Hours")  # long ago
    return bill
