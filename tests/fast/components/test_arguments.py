"""From settings to arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from agentenv.components.arguments import environment_args
from agentenv.components.environment import Environment
from agentenv.components.platform_arguments import capacity_layout, cluster_layout, sandbox_controller
from agentenv.config import Settings, read
from agentenv.core.capabilities.unknown_values import UNKNOWN
from agentenv.policies.packs.planned_documents import plan_mismatches, with_planned_documents
from tests.fast.components.graph import CALLER, Graph, registered
from tests.fast.config.stack_samples import settings

STACKS = Path(__file__).resolve().parents[3] / "stacks"
SUBNETS = ["subnet-0a1b2c3d", "subnet-0a1b2c3e"]
EXAMPLES = ("local", "dev", "staging", "prod", "full")


def arguments(environment: str = "dev", **sections: dict[str, Any]) -> Any:
    config: dict[str, object] = {f"agent-environment:{name}": section for name, section in sections.items()}
    return environment_args(read({"aws:region": "us-east-1", **config}, environment))


def test_what_the_settings_say_is_what_the_components_are_told() -> None:
    told = arguments(
        network={
            "cidr": "10.9.0.0/20",
            "zones": ["us-east-1b", "us-east-1a"],
            "nat": "per-zone",
            "endpoints": ["sts"],
            "flowLogDays": 30,
            "flowLogTraffic": "rejected",
        },
        storage={
            "fileSystems": 3,
            "throughput": "provisioned",
            "provisionedMibps": 64,
            "infrequentAccessAfter": "7d",
            "backOnAccess": False,
            "backup": False,
            "kmsKey": "arn:aws:kms:us-east-1:123456789012:key/00000000-0000-0000-0000-000000000000",
        },
        cost={"owner": "us", "costCenter": "42", "tags": [{"key": "team", "value": "x"}]},
        cluster={"name": "mine"},
    )
    # The same functions that the cluster and its nodes are tried with by themselves
    assert told.pop("cluster") == cluster_layout(settings({"cluster": {"name": "mine"}}).cluster)
    assert told.pop("capacity") == capacity_layout(settings({}))
    assert told.pop("sandbox_controller") == sandbox_controller(settings({}))
    assert told.pop("metering")["sandboxes"] == 0
    assert (told.pop("workspaces"), set(told.pop("settings"))) == (
        [],
        {
            "aws:region",
            *(f"agent-environment:{section}" for section in ("network", "storage", "cost", "cluster", "protect")),
        },
    )
    assert told == {
        "ownership": {"environment": "dev", "owner": "us", "cost_center": "42", "tags": {"team": "x"}},
        "network": {
            "cidr": "10.9.0.0/20",
            "zone_names": ["us-east-1b", "us-east-1a"],
            "nat": "per-zone",
            "endpoints": ["sts"],
            "flow_log_days": 30,
            "flow_log_traffic": "rejected",
        },
        "storage": {
            "file_systems": 3,
            "throughput": "provisioned",
            "provisioned_mibps": 64,
            "infrequent_after_days": 7,
            "archive_after_days": 0,
            "back_on_access": False,
            "backups": False,
            "key_arn": "arn:aws:kms:us-east-1:123456789012:key/00000000-0000-0000-0000-000000000000",
        },
        "demands": [],
        "headroom": {"pods": 0, "cpu": "500m", "memory": "1Gi"},
        "mirrors": {},
        "cluster_name": "mine",
        "keep_data": False,
        "deletion_protection": False,
    }


def test_the_boundary_and_the_protection_of_the_cluster_are_passed_on() -> None:
    boundary = "arn:aws:iam::123456789012:policy/boundary"
    told = arguments("prod", cluster={"permissionsBoundary": boundary})
    assert told["permissions_boundary"] == boundary
    assert told["deletion_protection"] is True


def test_prod_keeps_its_data() -> None:
    assert arguments("prod")["keep_data"] is True


def build(name: str, *, preview: bool = False) -> tuple[Settings, Graph]:
    """Register what a stack file says."""
    config = yaml.safe_load((STACKS / f"Pulumi.{name}.yaml").read_text(encoding="utf-8"))["config"]
    told = read(config, name)
    may_deploy = [*told.cluster.deployers, *told.cluster.admins]
    made = registered(
        lambda: Environment("agents", environment_args(told)),
        zones=[f"us-east-1{letter}" for letter in "abc"],
        caller=may_deploy[0] if may_deploy else CALLER,
        preview=preview,
    )
    return told, made


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_builds(name: str) -> None:
    told, made = build(name)
    assert len(made.of("FileSystem")) == told.storage.file_systems
    assert len(made.of("Subnet")) == 2 * told.network.zone_count
    assert made.one("eks:index:Cluster").inputs["version"] == told.cluster.version
    assert len(made.of("NodePool")) > 1
    assert len(made.of("Addon")) == 7
    assert list(plan_mismatches(made.resources())) == []
    pods = [one.inputs["spec"]["template"]["spec"] for kind in ("Deployment", "DaemonSet") for one in made.of(kind)]
    images = {container["image"] for pod in pods for container in pod["containers"]}
    # A tag of a copy may be moved, so an image keeps its digest wherever it is copied to.
    assert images
    assert [image for image in images if "@sha256:" not in image] == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_at_a_first_preview_every_document_of_iam_is_planned(name: str) -> None:
    _, made = build(name, preview=True)
    unknown = {
        (one.name, key)
        for one in with_planned_documents(made.resources())
        for key in ("assumeRolePolicy", "policy")
        if one.type.startswith("aws:") and one.inputs.get(key) is UNKNOWN
    }
    assert unknown == set()


def test_what_stands_already_is_named_and_nothing_else_is() -> None:
    existing = {"vpcId": "vpc-0a1b2c3d", "privateSubnetIds": SUBNETS}
    assert "existing" not in arguments()
    told = arguments(
        network={"existing": existing},
        cluster={"existing": "shared"},
        storage={"existing": ["fs-0a1b2c3d"], "mountGroup": "sg-0a1b2c3d"},
    )
    assert told["cluster_name"] == "shared"
    assert told["existing"] == {
        "network": {
            "vpc_id": "vpc-0a1b2c3d",
            "private_subnet_ids": SUBNETS,
            "public_subnet_ids": [],
        },
        "cluster": True,
        "file_systems": {"ids": ["fs-0a1b2c3d"], "mount_group_id": "sg-0a1b2c3d"},
    }
