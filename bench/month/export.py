"""Export a month as files: the bill's lines as in AWS's export, and the ledger's rows as in its table."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from agentenv.core.attribution.types import Charge
from agentenv.core.ledger.rows import row_to_item
from agentenv.core.usage_export.columns import COLUMNS
from bench.month.record import START, Record
from bench.month.whole import HOUR, Month, seconds_up

CLUSTER, ENVIRONMENT = "agent-environment-prod", "prod"
# The product and usage type of charges that are not for nodes, by their kind or service.
_NAMES = {
    "storage": ("AmazonEFS", "USE1-TimedStorage-ByteHrs"),
    "storage_io": ("AmazonEFS", "USE1-ETDataAccess-Bytes"),
    "network": ("AmazonEC2", "NatGateway-Bytes"),
    "Amazon EKS": ("AmazonEKS", "USE1-AmazonEKS-Hours:perCluster"),
    "NAT gateways": ("AmazonEC2", "NatGateway-Hours"),
    "Elastic Load Balancing": ("AWSELB", "LoadBalancerUsage"),
    "AWS Fargate": ("AmazonEKS", "USE1-Fargate-vCPU-Hours:perCPU"),
    "Amazon CloudWatch": ("AmazonCloudWatch", "USE1-DataProcessing-Bytes"),
    "AWS KMS, public addresses, the rest": ("awskms", "us-east-1-KMS-Keys"),
}


def export(month: Month, record: Record, folder: Path) -> tuple[Path, Path]:
    """Write `bill.csv` and `ledger.jsonl`."""
    bill, ledger = folder / "bill.csv", folder / "ledger.jsonl"
    with bill.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, [column.name for column in COLUMNS], restval="")
        writer.writeheader()
        writer.writerows(_charged(month, record))
        writer.writerows(_split(month))
    with ledger.open("w") as stream:
        for row in record.rows:
            stream.write(json.dumps(row_to_item(row), default=str) + "\n")
    return bill, ledger


def instance(name: str) -> str:
    """Return the instance id of a node."""
    return f"i-{int(name.removeprefix('i-')):017x}"


def _charged(month: Month, record: Record) -> Iterator[dict[str, Any]]:
    for charge in record.charges:
        line = {
            "line_item_usage_start_date": _time(charge.began),
            "line_item_usage_end_date": _time(charge.ended),
            "line_item_line_item_type": "Usage",
            "line_item_unblended_cost": f"{charge.amount:f}",
            "resource_tags": json.dumps({"user_environment": ENVIRONMENT}),
        }
        yield line | (_node(month, charge) if charge.kind == "nodes" else _other(charge))


def _node(month: Month, charge: Charge) -> dict[str, Any]:
    node = month.cluster.nodes[charge.supply]
    hours = Decimal(seconds_up(node, (charge.began - START) // timedelta(hours=1))) / HOUR
    return {
        "line_item_product_code": "AmazonEC2",
        "line_item_usage_type": f"{'SpotUsage' if node.spot else 'BoxUsage'}:{node.kind}",
        "line_item_resource_id": instance(node.name),
        "line_item_usage_amount": str(hours),
        "pricing_term": "Spot" if node.spot else "OnDemand",
    }


def _other(charge: Charge) -> dict[str, Any]:
    product, usage = _NAMES[charge.service if charge.kind == "fixed" else charge.kind]
    return {"line_item_product_code": product, "line_item_usage_type": usage}


def _split(month: Month) -> Iterator[dict[str, Any]]:
    """Yield the lines of pods: the request of each hour, or the usage if that was higher."""
    for pod, used in zip(month.cluster.pods, month.uses, strict=True):
        hours: defaultdict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for (hour, _), usage in used.by_hour.items():
            hours[hour][0] += usage.cores / HOUR
            hours[hour][1] += usage.gib / HOUR
        for hour, amounts in hours.items():
            began = START + timedelta(hours=hour)
            for unit, amount in zip(("vCPU", "GB"), amounts, strict=True):
                yield {
                    "line_item_usage_start_date": _time(began),
                    "line_item_usage_end_date": _time(began + timedelta(hours=1)),
                    "line_item_line_item_type": "Usage",
                    "line_item_product_code": "AmazonEKS",
                    "line_item_usage_type": f"USE1-EKS-EC2-{unit}-Hours",
                    "line_item_resource_id": (
                        f"arn:aws:eks:us-east-1:111122223333:pod/{CLUSTER}/sandbox-{pod.kind}/{pod.name}/{pod.name}"
                    ),
                    "split_line_item_parent_resource_id": instance(pod.node),
                    "split_line_item_split_usage": f"{amount:.9f}",
                    "line_item_unblended_cost": "0",
                }


def _time(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
