"""A node is launched for a pool that stands, and taken back if the pool goes at that moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from agentenv.rehearsal.controlplane.auth.account import Account
from agentenv.rehearsal.controlplane.client import ApiError, Client
from agentenv.rehearsal.controlplane.nodes import karpenter_nodes, node_claims
from agentenv.rehearsal.controlplane.nodes.karpenter_launches import InstanceType
from agentenv.rehearsal.controlplane.nodes.karpenter_nodes import Launcher
from agentenv.rehearsal.controlplane.nodes.kwok_nodes import NodeShape

POOLS = "/apis/karpenter.sh/v1/nodepools"
POOL: dict[str, Any] = {
    "metadata": {"name": "system", "uid": "u-1"},
    "spec": {"template": {"spec": {"nodeClassRef": {"name": "system"}}}},
}
SHAPE = NodeShape("system-a", "us-east-1a", "m7g.large", "2", "8Gi")
GOING = {**POOL, "metadata": {**POOL["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
ANOTHER = {**POOL, "metadata": {"name": "system", "uid": "u-2"}}


@dataclass
class Cluster:
    """Holds claims and nodes; the pool is what each look at it is said to find, the last for ever."""

    looks: list[dict[str, Any] | None]
    things: dict[str, dict[str, Any]] = field(default_factory=dict)
    failing: list[ApiError] = field(default_factory=list)  # what is said of nodes first

    def find(self, path: str) -> dict[str, Any] | None:
        if path.startswith(POOLS):
            return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        return self.things.get(path)

    def get(self, path: str, **_: str) -> dict[str, Any]:
        assert path == "/api/v1/pods"
        return {"items": []}

    def create_if_missing(self, thing: dict[str, Any]) -> bool:
        folder = node_claims.PATH if thing["kind"] == "NodeClaim" else "/api/v1/nodes"
        if thing["kind"] == "Node" and self.failing:
            raise self.failing.pop()
        return self.things.setdefault(f"{folder}/{thing['metadata']['name']}", thing) is thing

    def delete(self, path: str) -> None:
        # What finalizers hold stays until they are gone
        if path in self.things and not self.things[path]["metadata"].get("finalizers"):
            del self.things[path]

    def merge(self, path: str, change: dict[str, Any]) -> None:
        assert change == {"metadata": {"finalizers": None}}
        del self.things[path]


def launched(*looks: dict[str, Any] | None) -> tuple[Cluster, Launcher]:
    cluster = Cluster(list(looks))
    launcher = Launcher(cast("Client", cluster), cast("Account", None))
    launcher._launch(POOL, SHAPE)
    return cluster, launcher


def test_existing_pool_gets_nodes_and_claims() -> None:
    cluster, launcher = launched(POOL)
    assert set(cluster.things) == {f"{node_claims.PATH}/system-a", "/api/v1/nodes/system-a"}
    assert set(launcher._launched) == {"system-a"}


@pytest.mark.parametrize("found", [None, GOING, ANOTHER], ids=["gone", "going", "another of its name"])
def test_deleted_pool_gets_no_nodes(found: dict[str, Any] | None) -> None:
    for looks in ([found], [POOL, found]):
        cluster, launcher = launched(*looks)
        assert cluster.things == {}
        assert launcher._launched == {}


def test_failed_launch_is_retried_at_the_next_poll() -> None:
    cluster = Cluster([POOL], failing=[ApiError(500, "InternalError", "the server is busy")])
    launcher = Launcher(cast("Client", cluster), cast("Account", None))
    with pytest.raises(ApiError):
        launcher._launch(POOL, SHAPE)
    assert (set(cluster.things), launcher._launched) == ({f"{node_claims.PATH}/system-a"}, {})
    launcher._launch(POOL, SHAPE)
    assert set(cluster.things) == {f"{node_claims.PATH}/system-a", "/api/v1/nodes/system-a"}
    assert set(launcher._launched) == {"system-a"}


def test_nodes_of_a_pool_are_chosen_again_only_when_it_or_its_zones_change(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[tuple[int, list[str]]] = []

    def launch(pool: Any, _types: Any, zones: list[str], **_: int) -> list[NodeShape]:
        chosen.append((pool["metadata"]["generation"], zones))
        return [SHAPE]

    monkeypatch.setattr(karpenter_nodes.karpenter_launches, "launch", launch)
    launcher = Launcher(cast("Client", Cluster([POOL])), cast("Account", None))
    launcher._types = (InstanceType("m7g.large", 2, 8192, "arm64"),)
    states = [(1, ["a"]), (1, ["a"]), (2, ["a"]), (2, ["a", "b"]), (2, ["a", "b"])]
    for generation, zones in states:
        pool = {**POOL, "metadata": {**POOL["metadata"], "generation": generation}}
        assert launcher._shapes_of(pool, zones) == [SHAPE]
    assert chosen == [(1, ["a"]), (2, ["a"]), (2, ["a", "b"])]


CONTROLLER: dict[str, Any] = {
    "metadata": {"name": "karpenter", "namespace": "karpenter"},
    "spec": {"template": {"spec": {"serviceAccountName": "karpenter"}}},
}


@dataclass
class FakeCredentials:
    """The credentials of the controller, for an account that answers with an error or creates the role."""

    code: str = ""
    created: list[str] = field(default_factory=list)

    def service(self, name: str) -> FakeCredentials:
        assert name == "iam"
        return self

    def create_service_linked_role(self, **request: str) -> None:
        self.created.append(request["AWSServiceName"])
        if self.code:
            raise ClientError({"Error": {"Code": self.code, "Message": "no"}}, "CreateServiceLinkedRole")


@pytest.mark.parametrize(
    ("code", "allowed", "calls"), [("", True, 1), ("InvalidInput", True, 1), ("AccessDenied", False, 2)]
)
def test_spot_nodes_need_the_accounts_role_for_spot(
    monkeypatch: pytest.MonkeyPatch, code: str, allowed: bool, calls: int
) -> None:
    credentials = FakeCredentials(code)
    monkeypatch.setattr(karpenter_nodes, "PodCredentials", lambda _client, _account, *name: name and credentials)
    launcher = Launcher(cast("Client", Cluster([POOL])), cast("Account", None))
    assert [launcher._may_use_spot(CONTROLLER) for _ in range(2)] == [allowed] * 2
    assert credentials.created == ["spot.amazonaws.com"] * calls
