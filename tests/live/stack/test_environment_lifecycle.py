"""The lifecycle of an environment: deployed, interrupted, extended in place, reduced, and destroyed completely."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import yaml

from agentenv.rehearsal.controlplane.client import Client, until
from agentenv.rehearsal.stage.engine import Engine, Outcome
from agentenv.rehearsal.stage.stage import Stage
from tests.live.controlplane.objects import TIMEOUT
from tests.live.stack.interruption import interrupted

ROOT = Path(__file__).resolve().parents[3]
CLASS = {"name": "standard", "image": f"registry.example.com/sandbox@sha256:{'0' * 64}", "pool": {"size": 1}}
SMALL: dict[str, Any] = {
    "aws:region": "us-east-1",
    "agent-environment:network": {"cidr": "10.60.0.0/16", "zones": 2, "nat": "single", "endpoints": ["sts"]},
    "agent-environment:cluster": {"version": "1.35", "publicAccessCidrs": ["203.0.113.0/24"]},
    "agent-environment:capacity": {"disruptionBudget": "10%"},
    "agent-environment:storage": {"fileSystems": 1},
    "agent-environment:sandboxClasses": [CLASS],
}
LARGE: dict[str, Any] = {
    **SMALL,
    "agent-environment:network": {"cidr": "10.60.0.0/16", "zones": 3, "nat": "per-zone", "endpoints": ["sts", "logs"]},
    "agent-environment:cluster": {"version": "1.36", "publicAccessCidrs": ["203.0.113.0/24"]},
    "agent-environment:capacity": {"disruptionBudget": "20%", "rootVolume": "60Gi"},
    "agent-environment:storage": {"fileSystems": 2, "archiveAfter": "90d"},
}
PROFILES = ("agent-sandbox", "coredns", "karpenter")
UNKNOWN_BUILD = "v1.99.0-eksbuild.1"


def configured(engine: Engine, config: dict[str, Any]) -> None:
    """Change the stack file in place, because it has the engine's salt."""
    file = engine.project / "config" / f"Pulumi.{engine.stack}.yaml"
    existing = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    file.write_text(yaml.safe_dump({**existing, "config": config}, sort_keys=False), encoding="utf-8")


def changed_resources_of(*outcomes: Outcome) -> dict[str, dict[str, list[str]]]:
    """Return the resources that operations changed, by operation and by name, with the reasons."""
    found: dict[str, dict[str, list[str]]] = {}
    for outcome in outcomes:
        for done, urn, changed in outcome.changed_resources():
            found.setdefault(done, {})[urn.rsplit("::", 1)[-1]] = changed
    return found


def test_environment_is_deployed_extended_reduced_and_destroyed(served: Stage) -> None:
    assert served.cluster
    api = served.cluster.plane.client
    before = set(served.leftovers())
    engine = served.program(ROOT / "stacks", "dev", SMALL, {"name": "agent-environment"})
    try:
        check_cancelled_up_continues(engine)
        check_outputs(engine.outputs(), api)
        assert until(lambda: zones_of_nodes(api) == {"us-east-1a", "us-east-1b"}, TIMEOUT)
        configured(engine, with_build(LARGE, UNKNOWN_BUILD))
        failed = engine.up(check=False)
        check_error_of_aws_is_reported(failed)
        configured(engine, LARGE)
        check_extension_replaces_nothing_running(failed, engine.up())
        assert len(engine.outputs()["fileSystemIds"]) == 2
        configured(engine, SMALL | {"agent-environment:cluster": LARGE["agent-environment:cluster"]})
        check_reduction_removes_the_last(engine.up())
        assert set(served.leftovers()) > before
        check_killed_destroy_continues(engine)
    finally:
        engine.destroy()
    assert engine.state() == []
    # EKS writes the last logs of a cluster after its deletion, and so creates their log group again.
    assert set(served.leftovers()) == before | {"logs.groups /aws/eks/agent-environment-dev/cluster"}


def check_cancelled_up_continues(engine: Engine) -> None:
    cancelled = interrupted(engine, "up", "aws:eks/fargateProfile:FargateProfile", signal.SIGINT)
    assert cancelled.code != 0
    there = {resource["urn"] for resource in engine.state()}
    assert any("::eks:index:Cluster::" in urn.replace("$", "::") for urn in there)
    assert not any("NodePool" in urn for urn in there)
    # An interrupted wait starts again.
    waited = {resource["urn"].rsplit("::", 1)[-1] for resource in engine.state() if resource.get("initErrors")}
    changes = changed_resources_of(engine.up())
    assert set(changes.pop("update", {})) <= waited
    # Created resources stay unchanged; components are registered again, which changes nothing.
    assert set(changes) == {"create"}, {key: changes[key] for key in changes if key != "create"}


def check_outputs(outputs: dict[str, Any], api: Client) -> None:
    assert outputs["clusterName"] == "agent-environment-dev"
    assert outputs["zones"] == ["us-east-1a", "us-east-1b"]
    pools = api.get("/apis/karpenter.sh/v1/nodepools")["items"]
    assert sorted(outputs["nodePools"]) == sorted(pool["metadata"]["name"] for pool in pools)
    assert any(name.startswith("standard-") for name in outputs["nodePools"])
    assert "get-token" in str(outputs["kubeconfig"])
    assert len(outputs["privateSubnetIds"]) == len(outputs["publicSubnetIds"]) == 2
    assert len(outputs["natAddresses"]) == len(outputs["fileSystemIds"]) == 1


def with_build(config: dict[str, Any], build: str) -> dict[str, Any]:
    cluster = {**config["agent-environment:cluster"], "addonVersions": {"coredns": build}}
    return {**config, "agent-environment:cluster": cluster}


def check_error_of_aws_is_reported(failed: Outcome) -> None:
    assert failed.code != 0
    words = "\n".join(failed.diagnostics)
    assert "InvalidParameterException" in words
    assert UNKNOWN_BUILD in words or "Addon version" in words


def zones_of_nodes(api: Client) -> set[str]:
    nodes = api.get("/api/v1/nodes", labelSelector="karpenter.sh/nodepool")["items"]
    return {node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in nodes}


def check_extension_replaces_nothing_running(*grown: Outcome) -> None:
    changes = changed_resources_of(*grown)
    # The subnets of a Fargate profile cannot change: it is replaced before its deletion.
    profiles = {f"agents-cluster-{name}" for name in PROFILES}
    assert set(changes["create-replacement"]) == profiles
    gone = {name for operation, names in changes.items() if operation.startswith("delete") for name in names}
    assert gone == profiles
    assert [name for name, changed in changes["update"].items() if "version" in changed] == [
        "agents-cluster-eksCluster"
    ]
    assert {
        "agents-network-private-1",  # a route, to the gateway of its own zone now
        "agents-storage-0",  # the lifecycle
    } <= set(changes["update"])
    assert any("spec.blockDeviceMappings" in str(changed) for changed in changes["update"].values()), changes["update"]


def check_reduction_removes_the_last(cut: Outcome) -> None:
    gone = set(changed_resources_of(cut)["delete"])
    assert {"agents-storage-1", "agents-network-private-2", "agents-network-nat-1"} <= gone
    assert not {"agents-storage-0", "agents-network-private-0", "agents-network-nat-0", "agents-network-vpc"} & gone


def check_killed_destroy_continues(engine: Engine) -> None:
    number = len(engine.state())
    killed = interrupted(engine, "destroy", "kubernetes:karpenter.sh/v1:NodePool", signal.SIGKILL)
    assert killed.code == -signal.SIGKILL
    engine.call("cancel", "--yes", "--stack", engine.stack)
    assert 0 < len(engine.state()) < number
