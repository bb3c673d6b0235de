"""The pass over the pods of the gateway: registered as targets, and ready when the load balancer knows them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentenv.core.gateway.documents import LABELS, NAMESPACE, REGISTERED
from agentenv.service.kube.client import PODS
from agentenv.service.loops.gateway_targets import register_targets
from agentenv.service.loops.scheduler import PassResult
from tests.fast.service.loops.cluster import Cluster

ADDRESS = "10.40.1.10"


@dataclass
class Group:
    """A target group whose targets become healthy at once."""

    states: dict[str, str] = field(default_factory=dict[str, str])

    def health(self) -> dict[str, str]:
        return dict(self.states)

    def register(self, addresses: Sequence[str]) -> None:
        self.states |= dict.fromkeys(addresses, "healthy")

    def deregister(self, addresses: Sequence[str]) -> None:
        for address in addresses:
            self.states[address] = "draining"


def put_pod(cluster: Cluster, **metadata: Any) -> None:
    conditions = [{"type": "ContainersReady", "status": "True"}, {"type": "Ready", "status": "False"}]
    cluster.server.put(
        PODS,
        {
            "metadata": {"name": "envoy-1", "namespace": NAMESPACE, "labels": LABELS, **metadata},
            "spec": {"readinessGates": [{"conditionType": REGISTERED}]},
            "status": {"podIP": ADDRESS, "conditions": conditions},
        },
    )


def taken(cluster: Cluster, group: Group) -> PassResult:
    return asyncio.run(register_targets(cluster.context(), group, lambda: True))


def conditions(cluster: Cluster) -> dict[str, str]:
    pod = cluster.server.find(PODS, "envoy-1", NAMESPACE)
    assert pod is not None
    return {each["type"]: each["status"] for each in pod["status"]["conditions"]}


def test_a_pod_is_registered_and_then_ready() -> None:
    cluster, group = Cluster(), Group()
    put_pod(cluster)
    assert taken(cluster, group) == PassResult(1)
    assert group.states == {ADDRESS: "healthy"}
    assert REGISTERED not in conditions(cluster)
    assert taken(cluster, group) == PassResult(1)
    assert conditions(cluster) == {"ContainersReady": "True", "Ready": "False", REGISTERED: "True"}
    assert taken(cluster, group) == PassResult(0)


def test_a_pod_that_is_gone_is_deregistered() -> None:
    cluster, group = Cluster(), Group({ADDRESS: "healthy"})
    assert taken(cluster, group) == PassResult(1)
    assert group.states == {ADDRESS: "draining"}
    assert taken(cluster, group) == PassResult(0)
