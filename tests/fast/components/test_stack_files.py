"""The stack files of the repository each build an environment."""

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
    """Return the settings of a stack file and the graph that it registers."""
    config = yaml.safe_load((STACKS / f"Pulumi.{name}.yaml").read_text(encoding="utf-8"))["config"]
    settings = read(config, name)
    may_deploy = [*settings.cluster.deployers, *settings.cluster.admins]
    graph = registered(
        lambda: Environment("agents", plan(settings)),
        zones=[f"us-east-1{letter}" for letter in "abc"],
        caller=may_deploy[0] if may_deploy else CALLER,
        preview=preview,
    )
    return settings, graph


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_builds(name: str) -> None:
    settings, graph = build(name)
    assert len(graph.of("FileSystem")) == settings.storage.file_systems
    assert len(graph.of("Subnet")) == 2 * settings.network.zone_count
    assert graph.resource("eks:index:Cluster").inputs["version"] == settings.cluster.version
    assert len(graph.of("NodePool")) > 1
    assert len(graph.of("Addon")) == 7
    assert list(plan_mismatches(graph.policy_resources())) == []
    pods = [
        resource.inputs["spec"]["template"]["spec"]
        for kind in ("Deployment", "DaemonSet")
        for resource in graph.of(kind)
    ]
    images = {container["image"] for pod in pods for container in pod["containers"]}
    # A tag of a copy may be moved, so an image keeps its digest wherever it is copied to.
    assert images
    assert [image for image in images if "@sha256:" not in image] == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_at_a_first_preview_every_document_of_iam_is_planned(name: str) -> None:
    _, graph = build(name, preview=True)
    unknown = {
        (with_planned_document.name, key)
        for with_planned_document in with_planned_documents(graph.policy_resources())
        for key in ("assumeRolePolicy", "policy")
        if with_planned_document.type.startswith("aws:") and with_planned_document.inputs.get(key) is UNKNOWN
    }
    assert unknown == set()
