"""Every stack file of the repository becomes an environment."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from agentenv.components.environment import Environment
from agentenv.config import Settings, read
from agentenv.core.capabilities.unknown_values import UNKNOWN
from agentenv.core.plan import plan
from agentenv.policies.packs.planned_documents import plan_mismatches, with_planned_documents
from tests.fast.components.graph import CALLER, Graph, registered

STACKS = Path(__file__).resolve().parents[3] / "stacks"
EXAMPLES = ("local", "dev", "staging", "prod", "full")


def build(name: str, *, preview: bool = False) -> tuple[Settings, Graph]:
    """Register what a stack file says."""
    config = yaml.safe_load((STACKS / f"Pulumi.{name}.yaml").read_text(encoding="utf-8"))["config"]
    told = read(config, name)
    may_deploy = [*told.cluster.deployers, *told.cluster.admins]
    made = registered(
        lambda: Environment("agents", plan(told)),
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
