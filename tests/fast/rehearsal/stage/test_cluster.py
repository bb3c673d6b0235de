"""The cluster of a control plane, its leftovers, and the source of pinned manifests."""

from __future__ import annotations

from typing import Any, cast

import pytest

from agentenv.core.pinned_versions import releases
from agentenv.rehearsal.controlplane.client import ApiError, Client
from agentenv.rehearsal.providers.kubernetes import manifests
from agentenv.rehearsal.scenario import cluster_census
from agentenv.rehearsal.stage import cluster
from agentenv.rehearsal.stage.cluster import ClusterOptions
from agentenv.rehearsal.tools import toolbox
from tests.fast.config.stack_samples import sandbox, settings

ACCOUNT = "arn:aws:iam::111122223333:role"


@pytest.mark.parametrize(
    ("cluster", "deployer"),
    [
        ({"deployers": [f"{ACCOUNT}/pipeline"], "admins": [f"{ACCOUNT}/platform"]}, f"{ACCOUNT}/pipeline"),
        ({"admins": [f"{ACCOUNT}/platform"], "readers": [f"{ACCOUNT}/support"]}, f"{ACCOUNT}/platform"),
        ({"readers": [f"{ACCOUNT}/support"]}, ClusterOptions.deployer),
    ],
)
def test_stack_is_rehearsed_as_its_deployer(cluster: dict[str, Any], deployer: str) -> None:
    serving = ClusterOptions.for_stack(settings({"cluster": cluster}))
    assert serving.deployer == deployer
    assert set(serving.others) == {principal for named in cluster.values() for principal in named}


def test_adopted_resources_exist_before_the_stack() -> None:
    policy, boundary = "arn:aws:iam::111122223333:policy/read", "arn:aws:iam::111122223333:policy/boundary"
    key = "arn:aws:kms:us-east-1:111122223333:key/3f6c1d2a-7b4e-4c58-9a10-5d2e8f7b6c41"
    monitor = "arn:aws:ce::111122223333:anomalymonitor/9a2b7c64"
    policies = [policy, "arn:aws:iam::aws:policy/ReadOnlyAccess"]
    named = settings(
        {
            "cluster": {"permissionsBoundary": boundary},
            "storage": {"kmsKey": key},
            "sandboxClasses": [sandbox(name, identity={"kind": "irsa", "policies": policies}) for name in ("a", "b")],
            "cost": {"anomalyAlerts": True, "anomalyMonitor": monitor, "alertTo": "platform@example.com"},
            "network": {"peers": ["10.9.0.0/16"], "transitGateway": "tgw-0a1b2c3d"},
            "capacity": {"nitroImages": ["ami-0a1b2c3d"]},
        }
    )
    ec2 = "arn:aws:ec2:us-east-1:123456789012"
    gateway, image = f"{ec2}:transit-gateway/tgw-0a1b2c3d", f"{ec2}:image/ami-0a1b2c3d"
    existing = tuple(resource.arn for resource in ClusterOptions.for_stack(named).existing)
    assert existing == (boundary, policy, key, monitor, gateway, image)
    assert ClusterOptions.for_stack(settings()).existing == ()


def test_deployer_has_an_admitted_address() -> None:
    routed = {"peers": ["10.9.0.0/16"], "transitGateway": "tgw-0a1b2c3d"}
    private = {"network": routed, "cluster": {"publicAccessCidrs": []}}
    assert ClusterOptions.for_stack(settings()).deployer_address == "203.0.113.1"
    assert ClusterOptions.for_stack(settings(private)).deployer_address == "10.9.0.1"


def test_sandboxes_run_only_in_rehearsals() -> None:
    assert ClusterOptions.for_stack(settings()).sandboxes
    assert not ClusterOptions().sandboxes


class Api:
    """A server with one group of its own, whose objects a test changes."""

    def __init__(self) -> None:
        self.objects: dict[str, list[dict[str, str]]] = {
            "/api/v1/pods": [],
            "/api/v1/events": [{"name": "happened", "namespace": "default"}],
            "/api/v1/configmaps": [{"name": "kube-root-ca.crt", "namespace": "default"}],
            "/api/v1/serviceaccounts": [{"name": "controller", "namespace": "kube-system"}],
            "/apis/example.com/v1/things": [{"name": "one"}],
        }

    def get(self, path: str) -> dict[str, Any]:
        if path == "/apis":
            return {"groups": [{"preferredVersion": {"groupVersion": "example.com/v1"}}]}
        if path.endswith("/gone"):
            raise ApiError(404, "NotFound", "")
        return {"items": [{"metadata": about} for about in self.objects[path]]}

    def find(self, base: str) -> dict[str, Any]:
        names = [path.rpartition("/")[2] for path in self.objects if path.rpartition("/")[0] == base]
        listed = [{"name": name, "verbs": ["list"]} for name in [*names, "gone", "pods/status"]]
        return {"resources": [*listed, {"name": "reviews", "verbs": ["create"]}]}


@pytest.mark.parametrize(("heap", "expected"), [(None, {}), (200, {"GOGC": "200", "GOMEMLIMIT": cluster.MOST_HEAP})])
def test_heap_limit_is_configurable_within_bounds(
    monkeypatch: pytest.MonkeyPatch, heap: int | None, expected: dict[str, str]
) -> None:
    monkeypatch.setattr("agentenv.rehearsal.stage.credentials.create_principals", lambda *_: {"AWS_ACCESS_KEY_ID": "k"})
    around = ClusterOptions(heap=heap).environment("http://127.0.0.1:1")
    assert {name: value for name, value in around.items() if name.startswith("GO")} == expected
    assert around["AWS_ACCESS_KEY_ID"] == "k"


def test_cluster_leftovers_exclude_events_and_earlier_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_census, "_STALL_SECONDS", 0.1)
    api = Api()
    client = cast("Client", api)
    before = cluster_census.census(client)
    assert before == {"things": frozenset({"one"})}
    assert cluster_census.leftovers(client, before) == []
    api.objects["/api/v1/pods"].append({"name": "web", "namespace": "default"})
    api.objects["/apis/example.com/v1/things"].append({"name": "two"})
    assert cluster_census.leftovers(client, before) == ["kubernetes pods default/web", "kubernetes things two"]


def test_defaults_of_a_namespace_are_no_leftovers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a namespace that was there before, its controllers may make it only after the census was taken."""
    monkeypatch.setattr(cluster_census, "_STALL_SECONDS", 0.1)
    api = Api()
    client = cast("Client", api)
    before = cluster_census.census(client)
    api.objects["/api/v1/serviceaccounts"].append({"name": "default", "namespace": "kube-public"})
    api.objects["/api/v1/configmaps"].append({"name": "kube-root-ca.crt", "namespace": "kube-public"})
    assert cluster_census.leftovers(client, before) == []
    # What a program makes there is one all the same.
    api.objects["/api/v1/serviceaccounts"].append({"name": "robot", "namespace": "kube-public"})
    assert cluster_census.leftovers(client, before) == ["kubernetes serviceaccounts kube-public/robot"]


def test_manifests_of_a_pinned_release_are_read_from_the_tools(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = releases().manifests["agent-sandbox"]
    tool = toolbox.Tool("agent-sandbox-manifests", pinned.version, "cache", tmp_path)
    monkeypatch.setattr(toolbox, "find", lambda _: tool)
    manifests._release_folder.cache_clear()
    (tmp_path / "rbac.generated.yaml").write_text("{}", encoding="utf-8")
    try:
        assert manifests.local_copy(f"{pinned.address}/rbac.generated.yaml") == tmp_path / "rbac.generated.yaml"
        assert manifests.local_copy(f"{pinned.address}/absent.yaml") is None
        other = pinned.address.replace(pinned.version, "v0.0.1")
        assert manifests.local_copy(f"{other}/rbac.generated.yaml") is None
    finally:
        manifests._release_folder.cache_clear()
