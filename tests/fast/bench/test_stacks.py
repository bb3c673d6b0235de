"""The benchmark stacks are valid, and a recording separates the resources of seats."""

from __future__ import annotations

import pytest

from agentenv.config import read
from bench import stacks
from bench.preview import SEATS as MANY_SEATS
from bench.preview import record


@pytest.mark.parametrize(("classes", "seats"), [(1, 0), (3, 0), (30, 0), (1, MANY_SEATS)])
def test_a_stack_with_more_classes_and_seats_is_valid(classes: int, seats: int) -> None:
    settings = read(stacks.local(classes=classes, seats=seats), stacks.STACK)
    assert len({row.name for row in settings.sandbox_classes}) == classes
    assert len({seat.name for seat in settings.workspaces}) == seats


@pytest.mark.parametrize("gateway", [False, True])
def test_the_stack_with_the_service_is_valid(*, gateway: bool) -> None:
    settings = read(stacks.with_service(500, gateway=gateway), stacks.STACK)
    assert [row.max_sandboxes for row in settings.sandbox_classes] == [500]
    assert (settings.service.domain is not None) == gateway


def test_the_resources_of_seats_are_recorded_separately() -> None:
    parent = "urn:pulumi:local::p::agent-environment:index:Environment"

    def row(kind: str, id_: str, inside: str = "", **inputs: object) -> dict[str, object]:
        return {"custom": True, "type": kind, "urn": f"{parent}{inside}${kind}::{id_}", "id": id_, "inputs": inputs}

    cluster = {"name": "c", "version": "1.35", "vpcConfig": {"subnetIds": ["s"]}, "tags": {}, "__defaults": []}
    local, seats = record(
        [
            row("aws:ec2/vpc:Vpc", "vpc-1", cidrBlock="10.40.0.0/16", __defaults=[]),
            row("aws:eks/cluster:Cluster", "made-by-the-component", "$eks:index:Cluster", **cluster),
            row("aws:efs/accessPoint:AccessPoint", "seat-0", "$agent-environment:index:Workspace"),
            row("kubernetes:core/v1:PersistentVolume", "seat-0-volume", "$agent-environment:index:Workspace"),
            {"custom": False, "type": "agent-environment:index:Workspace", "urn": f"{parent}::seat-0", "inputs": {}},
            row("pulumi:providers:aws", "default"),
        ]
    )
    # The component creates its own children again, and they count.
    assert ([row["type"] for row in local.rows], local.resources) == (["aws:ec2/vpc:Vpc"], 2)
    assert local.rows[0]["inputs"] == {"cidrBlock": "10.40.0.0/16"}
    assert local.cluster["inputs"]["vpcId"] == "vpc-1"
    assert [row["name"] for row in seats.rows] == ["seat-0-0", "seat-0-volume-1"]
