"""Which access points are somebody's home to the pass over slots, and which it leaves to those who declared them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from model.lifecycle.audit import Point
from model.moments import written
from service.loops.slots import ORPHAN_TAG, slots
from tests.fast.service.loops.house import House, always

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


def test_only_a_home_of_a_class_that_no_volume_leads_to_is_marked_as_left_over() -> None:
    points = Points()
    slots(House().context(points=points, file_systems=("fs-1",)), always)
    assert points.tagged == [("fsap-home", [ORPHAN_TAG])]


class Denied(Points):
    def untag(self, point: str, names: Sequence[str]) -> None:
        raise PermissionError(f"may not take {', '.join(names)} from {point}")


def test_a_mark_that_cannot_be_taken_away_keeps_nothing_from_being_told() -> None:
    house = House()
    house.workspace("home")
    points = Denied(**{ORPHAN_TAG: written(house.now)})
    house.volume("lone", "Released")
    house.pass_(3600)
    done = slots(house.context(points=points, file_systems=("fs-1",)), always)
    assert done.failures == (f"fsap-home: may not take {ORPHAN_TAG} from fsap-home",)
    assert "slots" in house.told.found
