"""The swarm of a task on the live control plane: cold, together, with a volume in common and one of each one's own."""

from __future__ import annotations

from typing import Any

import pytest

from model.classes.releases import releases_of
from model.swarms import Swarm, swarm
from rehearsal.controlplane.client import until
from service.swarms import SwarmError, end, make
from tests.live.controlplane.things import PATIENCE
from tests.live.service.conftest import IMAGES, Box


def test_a_swarm_comes_up_whole_shares_a_volume_and_goes(box: Box) -> None:
    box.size, box.storage, box.most = 0, "shared", 4
    own = box.deploy(IMAGES[0])
    assert until(lambda: box.get("resourcequotas", "sandbox", "/api/v1").get("status", {}).get("hard"), PATIENCE)

    def asked(task: str, count: int) -> Swarm:
        plan = box.plan(IMAGES[0])
        return swarm(plan, releases_of(plan)[0], task, count, owner="u-1")

    sandboxes = make(box.cluster, asked("crawl", 3), patience=PATIENCE)
    assert list(sandboxes) == ["crawl-0", "crawl-1", "crawl-2"]
    pods = [box.get("pods", name, "/api/v1") for name in sandboxes.values()]
    volumes = [mounted(pod) for pod in pods]
    assert {one["shared"] for one in volumes} == {"shared-crawl"}
    assert len({one["home"] for one in volumes}) == 3
    assert {pod["metadata"]["labels"]["sandbox.users.io/task"] for pod in pods} == {"crawl"}
    handles = {
        row["spec"]["csi"]["volumeHandle"]
        for row in box.client.get("/api/v1/persistentvolumes")["items"]
        if row["spec"].get("claimRef", {}).get("namespace") == box.space
    }
    assert len(handles) == 4

    with pytest.raises(SwarmError, match=r"no room for 3 more: .*pods: 3 of 1"):
        make(box.cluster, asked("more", 3), patience=1)
    assert len(box.all("sandboxclaims")) == 3
    end(box.cluster, box.space, "crawl")
    assert until(lambda: not box.all("persistentvolumeclaims", "/api/v1"), PATIENCE)
    assert box.all("sandboxclaims") == []
    # What is left is the class's own.
    assert [row["metadata"]["name"] for row in box.all("sandboxtemplates")] == [own]


def mounted(pod: dict[str, Any]) -> dict[str, str]:
    """The claims that a pod mounts, by volume."""
    claims = [one for one in pod["spec"]["volumes"] if "persistentVolumeClaim" in one]
    return {one["name"]: one["persistentVolumeClaim"]["claimName"] for one in claims}
