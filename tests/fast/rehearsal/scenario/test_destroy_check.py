"""The check before a destroy: only for a cluster that AWS would refuse to delete."""

from __future__ import annotations

from typing import Any

from agentenv.rehearsal.scenario import destroy_check

CLUSTER = "aws:eks/cluster:Cluster"


def test_the_deletion_protection_of_a_cluster_is_switched_off_where_it_is_on() -> None:
    calls: list[tuple[str, dict[str, Any]]] = []

    class Client:
        def __init__(self, service: str) -> None:
            self.service = service

        def update_cluster_config(self, **arguments: Any) -> None:
            calls.append((self.service, arguments))

    state = [
        {"type": CLUSTER, "outputs": {"name": "kept", "deletionProtection": True}},
        {"type": CLUSTER, "outputs": {"name": "free", "deletionProtection": False}},
        {"type": "aws:ec2/vpc:Vpc", "outputs": {"name": "vpc"}},
    ]
    destroy_check.disable_deletion_protection(Client, state)
    assert calls == [("eks", {"name": "kept", "deletionProtection": False})]
