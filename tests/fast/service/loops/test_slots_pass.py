"""Which access points are somebody's home to the pass over slots, and which it leaves to those who declared them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from model.lifecycle.audit import Point
from service.loops.slots import ORPHAN_TAG, slots
from tests.fast.service.loops.house import House, always

PATHS = {
    "home": "/classes/box/pvc-1",
    "looks": "/classes/box",  # all homes of the class, for whoever looks how large they are
    "seat": "/seats/desk-1",
    "other": "/elsewhere/box/pvc-1",
}


class Points:
    def __init__(self) -> None:
        self.tagged: list[tuple[str, list[str]]] = []

    def of(self, file_system: str) -> Sequence[Point]:
        return [Point(f"fsap-{name}", file_system, path, 1, 1) for name, path in PATHS.items()]

    def tag(self, point: str, tags: Mapping[str, str]) -> None:
        self.tagged.append((point, list(tags)))

    def untag(self, point: str, names: Sequence[str]) -> None:
        raise AssertionError((point, names))


def test_only_a_home_of_a_class_that_no_volume_leads_to_is_marked_as_left_over() -> None:
    points = Points()
    slots(House().context(points=points, file_systems=("fs-1",)), always)
    assert points.tagged == [("fsap-home", [ORPHAN_TAG])]
