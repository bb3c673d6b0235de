"""The pass over slots tags access points of class homes, and leaves declared ones alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentenv.core.classes.names import USER_LABEL
from agentenv.core.lifecycle.access_point_audit import Point
from agentenv.core.values.timestamps import format_timestamp
from agentenv.core.workspaces.seats import CLASS_TAG, USER_TAG
from agentenv.service.kube.client import VOLUMES
from agentenv.service.loops.slots import ORPHAN_TAG, maintain_slots
from tests.fast.service.fake_api_server import run
from tests.fast.service.loops.cluster import OWNER, Cluster, always

PATHS = {
    "home": "/classes/box/pvc-1",
    "looks": "/classes/box",  # all homes of the class, for whoever looks how large they are
    "seat": "/seats/desk-1",
    "other": "/elsewhere/box/pvc-1",
}


class Points:
    def __init__(self, **tags: str) -> None:
        self.tagged: list[tuple[str, list[str]]] = []
        self.tags = tags

    def of(self, file_system: str) -> Sequence[Point]:
        return [Point(f"fsap-{name}", file_system, path, 1, 1, tags=self.tags) for name, path in PATHS.items()]

    def tag(self, point: str, tags: Mapping[str, str]) -> None:
        self.tagged.append((point, list(tags)))

    def untag(self, point: str, names: Sequence[str]) -> None:
        raise AssertionError((point, names))


def test_only_class_homes_without_a_volume_are_tagged_as_orphans() -> None:
    points = Points()
    run(maintain_slots, Cluster().context(points=points, file_systems=("fs-1",)), always)
    assert points.tagged == [("fsap-home", [ORPHAN_TAG])]


class FakeApiServer(Points):
    """That keeps what it is told."""

    def __init__(self, *names: str, **tags: str) -> None:
        super().__init__()
        self.on = {f"fsap-{name}": dict(tags) for name in names}

    def of(self, file_system: str) -> Sequence[Point]:
        return [
            Point(name, file_system, f"/classes/box/{name}", 1, 1, tags=dict(tags)) for name, tags in self.on.items()
        ]

    def tag(self, point: str, tags: Mapping[str, str]) -> None:
        self.on[point] |= tags


def test_an_access_point_with_another_owners_tag_is_left_and_reported() -> None:
    cluster = Cluster()
    cluster.workspace("w-1")
    points = FakeApiServer("w-1", **{USER_TAG: "u-9", CLASS_TAG: "box"})
    done = run(maintain_slots, cluster.context(points=points, file_systems=("fs-1",)), always)
    assert points.on["fsap-w-1"] == {USER_TAG: "u-9", CLASS_TAG: "box"}
    assert (done.steps, cluster.metrics.found["slots"]) == (0, {"point-of-another": 1})
    # Its own, and of another class by now: only that is written over.
    points.on["fsap-w-1"] = {USER_TAG: OWNER, CLASS_TAG: "other"}
    assert run(maintain_slots, cluster.context(points=points, file_systems=("fs-1",)), always).steps == 1
    assert points.on["fsap-w-1"] == {USER_TAG: OWNER, CLASS_TAG: "box"}
    assert cluster.metrics.found["slots"] == {}


def test_an_access_point_of_two_owners_volumes_is_tagged_once() -> None:
    cluster = Cluster()
    cluster.workspace("w-1")
    cluster.workspace("w-2")
    other = cluster.server.find(VOLUMES, "pv-w-2") or {}
    other["metadata"]["labels"][USER_LABEL] = "u-2"
    other["spec"]["csi"]["volumeHandle"] = "fs-1::fsap-w-1"
    cluster.server.put(VOLUMES, other)
    points = FakeApiServer("w-1")
    assert run(maintain_slots, cluster.context(points=points, file_systems=("fs-1",)), always).steps == 1
    first = points.on["fsap-w-1"][USER_TAG]
    assert run(maintain_slots, cluster.context(points=points, file_systems=("fs-1",)), always).steps == 0
    assert points.on["fsap-w-1"][USER_TAG] == first
    assert cluster.metrics.found["slots"] == {"point-of-another": 1}


class Denied(Points):
    def untag(self, point: str, names: Sequence[str]) -> None:
        raise PermissionError(f"may not take {', '.join(names)} from {point}")


def test_a_tag_that_cannot_be_removed_does_not_stop_reports() -> None:
    cluster = Cluster()
    cluster.workspace("home")
    points = Denied(**{ORPHAN_TAG: format_timestamp(cluster.now)})
    cluster.volume("lone", "Released")
    cluster.advance(3600)
    done = run(maintain_slots, cluster.context(points=points, file_systems=("fs-1",)), always)
    assert done.failures == (f"fsap-home: may not take {ORPHAN_TAG} from fsap-home",)
    assert "slots" in cluster.metrics.found
