"""Resizing of pods: their new resources, the node's answer, and the time at which a sandbox grows."""

from __future__ import annotations

from typing import Any

import pytest

from agentenv.core.classes.pods.resources import ResourceRequirements
from agentenv.core.lifecycle.resize import has_resources, next_size, node_verdict, with_resources
from agentenv.service.catalog import Catalog
from tests.fast.service.workspaces.stage import settings_of

Object = dict[str, Any]
SIZES = {
    "medium": {"cpu": "500m", "memory": "1Gi", "burst": {"cpu": "2", "memory": "4Gi"}},
    "large": {"cpu": "2", "memory": "1Gi", "burst": {"cpu": "4", "memory": "4Gi"}},
}
SMALL = {"cpu": "100m", "memory": "512Mi", "burst": {"cpu": "1", "memory": "2Gi"}}
BOX = Catalog(settings_of({"name": "box", "resources": SMALL, "sizes": SIZES})).get("box")


def containers(size: str = "small") -> list[Object]:
    target: ResourceRequirements = BOX.sizes[size]  # pyright: ignore[reportArgumentType]
    return [{"name": "sandbox", "image": "i", "resources": target.to_kubernetes()}, {"name": "other"}]


def test_only_cpu_and_memory_of_the_sandbox_change() -> None:
    resized = with_resources(containers(), BOX.sizes["medium"])
    assert resized[1:] == containers()[1:]
    requests, limits = resized[0]["resources"]["requests"], resized[0]["resources"]["limits"]
    assert (requests["cpu"], requests["memory"], limits["cpu"], limits["memory"]) == ("500m", "1Gi", "2", "4Gi")
    assert requests["ephemeral-storage"] == containers()[0]["resources"]["requests"]["ephemeral-storage"]
    assert has_resources(resized, BOX.sizes["medium"])
    assert not has_resources(resized, BOX.sizes["small"])


def test_amounts_are_compared_and_not_their_texts() -> None:
    spelled = {"requests": {"cpu": "0.1", "memory": "536870912"}, "limits": {"cpu": "1000m", "memory": "2048Mi"}}
    assert has_resources([{"name": "sandbox", "resources": spelled}], BOX.sizes["small"])
    assert not has_resources([{"name": "sandbox", "resources": {"requests": {"cpu": "?"}}}], BOX.sizes["small"])


@pytest.mark.parametrize(
    ("size", "conditions", "outcome"),
    [
        ("medium", [], "resized"),
        ("small", [], "waiting"),
        ("small", [{"type": "PodResizePending", "reason": "Infeasible", "message": "too large"}], "refused"),
        ("small", [{"type": "PodResizePending", "reason": "Deferred"}], "refused"),
        ("small", [{"type": "PodResizeInProgress"}], "waiting"),
        ("medium", [{"type": "PodResizeInProgress"}], "waiting"),
        ("small", [{"type": "PodResizeInProgress", "reason": "Error", "message": "no cgroup"}], "refused"),
        # Of an earlier request.
        ("small", [{"type": "PodResizePending", "reason": "Deferred", "observedGeneration": 2}], "waiting"),
        ("small", [{"type": "PodResizePending", "reason": "Deferred", "observedGeneration": 3}], "refused"),
        ("medium", [{"type": "PodResizePending", "reason": "Deferred", "status": "False"}], "resized"),
    ],
)
def test_node_reports_the_result_of_a_resize(size: str, conditions: list[Object], outcome: str) -> None:
    status = {
        "containerStatuses": containers(size),
        "conditions": [{"status": "True", **row} for row in conditions],
    }
    pod = {"metadata": {"generation": 3}, "status": status}
    assert node_verdict(pod, BOX.sizes["medium"]).outcome == outcome


def test_a_sandbox_grows_near_its_limit_to_the_next_size_with_more_memory() -> None:
    gib = 2**30
    assert next_size(BOX.sizes, "small", int(1.7 * gib)) is None
    assert next_size(BOX.sizes, "small", int(1.9 * gib)) == "medium"
    assert next_size(BOX.sizes, "medium", 4 * gib) is None, "large has no more memory"
