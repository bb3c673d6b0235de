"""Tests of reading a bill: kinds of charges, placement of pods, and warm time."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from agentenv.core.attribution.bill import BillScope, read_bill, tags
from agentenv.core.attribution.types import HOUR
from agentenv.core.ledger.rows import Row
from tests.fast.core.usage_export.usages import USAGES, Usage

START = datetime(2026, 10, 1, 9, tzinfo=UTC)
SIZES = {"m7g.large": (2, Decimal(8))}
INSTANCE = "i-0abc"
POD = "arn:aws:eks:us-east-1:111122223333:pod/agents/sandbox-standard/slot-1/uid-1"


def line(**changes: Any) -> dict[str, Any]:
    return {
        "line_item_usage_start_date": "2026-10-01T09:00:00Z", "line_item_usage_end_date": "2026-10-01T10:00:00Z",
        "line_item_line_item_type": "Usage", "line_item_product_code": "AmazonEC2", "line_item_usage_type": "",
        "line_item_resource_id": "", "line_item_unblended_cost": "1.5", "line_item_usage_amount": "1",
        "resource_tags": json.dumps({"user_environment": "prod"}),
    } | changes  # fmt: skip


def node(**changes: Any) -> dict[str, Any]:
    return line(line_item_usage_type="SpotUsage:m7g.large", line_item_resource_id=INSTANCE) | changes


def split(what: str, amount: str, resource: str = POD, **changes: Any) -> dict[str, Any]:
    return line(
        line_item_usage_type=f"USE1-EKS-EC2-{what}-Hours", line_item_resource_id=resource,
        split_line_item_parent_resource_id=f"arn:aws:ec2:us-east-1:111122223333:instance/{INSTANCE}",
        split_line_item_split_usage=amount, line_item_unblended_cost="0.3",
    ) | changes  # fmt: skip


def row(began: datetime, ended: datetime) -> Row:
    return Row(owner="u-1", claim="c", pod="uid-1", began=began, ended=ended, sandbox_class="standard", workspace="w")


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"line_item_product_code": "AmazonEFS", "line_item_usage_type": "USE1-TimedStorage-ByteHrs"}, "storage"),
        ({"line_item_product_code": "AmazonEFS", "line_item_usage_type": "ETDataAccess-Bytes"}, "storage_io"),
        ({"line_item_usage_type": "NatGateway-Bytes"}, "network"),
        ({"line_item_usage_type": "DataTransfer-Regional-Bytes"}, "network"),
        ({"line_item_usage_type": "NatGateway-Hours"}, "fixed"),
        ({"line_item_product_code": "AmazonEKS", "line_item_usage_type": "USE1-AmazonEKS-Hours:perCluster"}, "fixed"),
        ({"line_item_line_item_type": "Tax", "line_item_usage_type": "NatGateway-Bytes"}, "fixed"),
        ({"line_item_usage_type": "SpotUsage:m7g.large", "line_item_resource_id": INSTANCE}, "nodes"),
        ({"line_item_usage_type": "EBS:VolumeUsage.gp3"}, "fixed"),
        ({"line_item_usage_type": "FargatePod", "line_item_resource_id": POD}, "nodes"),
        ({"line_item_resource_id": POD.replace("sandbox-standard", "karpenter")}, "fixed"),
    ],
)
def test_each_line_has_its_kind_of_charge(changes: dict[str, Any], kind: str) -> None:
    bill = read_bill([line(**changes)], [], SIZES)
    assert [(charge.kind, charge.amount) for charge in bill.charges] == [(kind, Decimal("1.5"))]


@pytest.mark.parametrize("usage", USAGES, ids=lambda usage: f"{usage.product} {usage.name}")
def test_usage_types_decide_the_kind_of_charge(usage: Usage) -> None:
    named = line(line_item_product_code=usage.product, line_item_usage_type=usage.name)
    assert [charge.kind for charge in read_bill([named], [], SIZES).charges] == [usage.kind]


def test_a_pods_line_has_its_node_and_no_charge() -> None:
    bill = read_bill([node(), split("vCPU", "0.1"), split("GB", "0.5")], [], SIZES)
    (charge,) = bill.charges
    assert (charge.supply, charge.capacity) == (INSTANCE, Decimal(26))
    assert bill.places.nodes == {"uid-1": INSTANCE}


def test_a_slot_belongs_to_the_pool_until_it_is_claimed() -> None:
    claimed = START + timedelta(minutes=15)
    lines = [split("vCPU", "0.1"), split("GB", "0.5")]
    (unclaimed,) = read_bill(lines, [], SIZES).warm
    (warm,) = read_bill(lines, [row(claimed, START + 2 * HOUR)], SIZES).warm
    assert (unclaimed.began, unclaimed.ended, unclaimed.cpu_seconds) == (START, START + HOUR, Decimal(360))
    assert (warm.sandbox_class, warm.began, warm.ended) == ("standard", START, claimed)
    assert (warm.cpu_seconds, warm.memory_gib_hours) == (Decimal(90), Decimal("0.125"))
    assert read_bill(lines, [row(START - HOUR, START + HOUR)], SIZES).warm == []


def test_system_nodes_are_fixed_costs() -> None:
    coredns = POD.replace("sandbox-standard", "kube-system").replace("uid-1", "uid-2")
    bill = read_bill([node(), split("vCPU", "0.2", coredns)], [], SIZES)
    assert [charge.kind for charge in bill.charges] == ["fixed"]
    assert bill.warm == []
    # With one sandbox beside them it is a node like any other.
    mixed = read_bill([node(), split("vCPU", "0.2", coredns), split("vCPU", "0.1")], [], SIZES)
    assert [charge.kind for charge in mixed.charges] == ["nodes"]
    # What its node pool is called decides, where that is known.
    known = json.dumps({"user_environment": "prod", "user_karpenter_sh_nodepool": "system-arm64"})
    assert read_bill([node(resource_tags=known), split("vCPU", "1")], [], SIZES).charges[0].kind == "fixed"


def test_an_unknown_instance_type_is_reported_and_has_no_idle_part() -> None:
    bill = read_bill([node(line_item_usage_type="BoxUsage:x9.huge")], [], SIZES)
    assert bill.unknown_types == {"x9.huge"}
    assert bill.charges[0].capacity == 0


def test_commitments_are_counted_where_they_were_used() -> None:
    covered = node(
        line_item_line_item_type="SavingsPlanCoveredUsage", savings_plan_savings_plan_effective_cost="0.9",
        line_item_unblended_cost="2",
    )  # fmt: skip
    fee = line(line_item_line_item_type="SavingsPlanRecurringFee")
    assert [charge.amount for charge in read_bill([covered, fee], [], SIZES).charges] == [Decimal("0.9")]


def test_lines_of_other_environments_are_left_out_and_counted() -> None:
    other = line(resource_tags={"user_environment": "dev"}, line_item_unblended_cost="4")
    elsewhere = line(line_item_resource_id=POD.replace("/agents/", "/other/"), line_item_unblended_cost="2")
    bill = read_bill([node(), other, elsewhere], [], SIZES, BillScope("prod", "agents"))
    assert [charge.supply for charge in bill.charges] == [INSTANCE]
    assert bill.left_out == 6
    assert len(read_bill([node(), other, elsewhere], [], SIZES).charges) == 3


def test_pods_are_selected_by_cluster() -> None:
    pod = line(line_item_usage_type="FargatePod", line_item_resource_id=POD, resource_tags="{}")
    tagged = {**pod, "resource_tags": json.dumps({"user_environment": "prod"})}
    for scope, ours in (
        (BillScope("prod", "agents"), [pod, tagged]),
        (BillScope("prod", "other"), []),
        (BillScope("prod"), [tagged]),
        (BillScope(), [pod, tagged]),
    ):
        assert len(read_bill([pod, tagged], [], SIZES, scope).charges) == len(ours)


def test_lines_are_extended_to_whole_hours() -> None:
    odd = line(line_item_usage_start_date="2026-10-01 09:20:00", line_item_usage_end_date=datetime(2026, 10, 1, 9, 40))  # noqa: DTZ001
    (charge,) = read_bill([odd], [], SIZES).charges
    assert (charge.began, charge.ended) == (START, START + HOUR)


@pytest.mark.parametrize("tags_value", ['{"a": "b"}', {"a": "b"}, [("a", "b")]])
def test_tags_are_read_from_json_mappings_and_pairs(tags_value: object) -> None:
    assert tags({"resource_tags": tags_value}) == {"a": "b"}
