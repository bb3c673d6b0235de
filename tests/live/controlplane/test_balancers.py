"""Services of type LoadBalancer: the simulated account has a balancer for each, for exactly as long as it stands."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from agentenv.rehearsal.controlplane.client import until
from agentenv.rehearsal.controlplane.load_balancers import ANNOTATION_PREFIX, FINALIZER
from tests.live.conftest import World
from tests.live.controlplane.things import PATIENCE


@pytest.fixture
def subnets(world: World) -> Iterator[list[str]]:
    """Two subnets that are for internal balancers."""
    ec2 = world.aws("ec2")
    tag = {"Key": "kubernetes.io/role/internal-elb", "Value": "1"}
    found = [one["SubnetId"] for one in ec2.describe_subnets()["Subnets"]][:2]
    ec2.create_tags(Resources=found, Tags=[tag])
    yield found
    ec2.delete_tags(Resources=found, Tags=[tag])


def document(**said: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": f"door-{secrets.token_hex(3)}",
            "namespace": "default",
            "annotations": {f"{ANNOTATION_PREFIX}{key.replace('_', '-')}": value for key, value in said.items()},
        },
        "spec": {"type": "LoadBalancer", "selector": {"app": "none"}, "ports": [{"port": 443}]},
    }


def test_a_service_has_a_balancer_until_it_is_gone(world: World, subnets: list[str]) -> None:
    client, balancing = world.plane.client, world.aws("elbv2")
    path = client.path(client.create(document(type="nlb", internal="true", additional_resource_tags="team=a")))
    try:
        found = until(lambda: client.get(path)["status"]["loadBalancer"].get("ingress"), PATIENCE)
        assert found
        [made] = balancing.describe_load_balancers()["LoadBalancers"]
        assert (made["DNSName"], made["Scheme"], made["Type"]) == (found[0]["hostname"], "internal", "network")
        assert {zone["SubnetId"] for zone in made["AvailabilityZones"]} == set(subnets)
        [told] = balancing.describe_tags(ResourceArns=[made["LoadBalancerArn"]])["TagDescriptions"]
        assert {"Key": "team", "Value": "a"} in told["Tags"]
        assert FINALIZER in client.get(path)["metadata"]["finalizers"]
    finally:
        client.delete(path)
        gone = until(lambda: client.find(path) is None, PATIENCE)
    assert gone
    assert balancing.describe_load_balancers()["LoadBalancers"] == []


def test_a_kind_that_is_not_simulated_is_told_and_gets_none(world: World, subnets: list[str]) -> None:
    client = world.plane.client
    path = client.path(client.create(document()))
    try:
        events = "/api/v1/namespaces/default/events"
        name = path.rpartition("/")[2]
        said = until(
            lambda: [one for one in client.get(events)["items"] if one["involvedObject"]["name"] == name], PATIENCE
        )
        assert said
        assert "classic load balancers are not simulated" in said[0]["message"]
        assert not client.get(path)["status"]["loadBalancer"].get("ingress")
    finally:
        client.delete(path)
        assert until(lambda: client.find(path) is None, PATIENCE)
