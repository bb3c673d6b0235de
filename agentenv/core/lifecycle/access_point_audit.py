"""Whether each volume leads where it should: what admission cannot see, as it looks nothing up in AWS.

A volume's access point has to be on the file system of its storage class, at the folder that is the volume's own, with
the ids of the class that its files were written as; and it may be no other volume's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Wrong = Literal[
    "no-such-point",
    "point-not-there-yet",
    "other-file-system",
    "other-path",
    "other-ids",
    "shared-point",
    "other-class",
    "no-handle",
]


@dataclass(frozen=True, slots=True)
class Point:
    """An access point as EFS describes it."""

    id: str
    file_system: str
    path: str
    uid: int | None
    gid: int | None
    state: str = "available"
    tags: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """Where a volume should lead."""

    file_systems: tuple[str, ...]
    path: str  # its folder; one that ends in `*` is what it begins with
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume on one of our file systems."""

    name: str
    handle: str
    namespace: str  # of the volume claim that it is for
    home_class: str  # whose ids its files have
    sandbox_class: str  # in whose namespace it is used
    moved: bool = False  # to another class than it was made in
    expected: Expected | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A volume that does not lead where it should."""

    wrong: Wrong
    volume: str
    why: str


def audit(volumes: Sequence[Volume], points: Mapping[str, Point]) -> tuple[Finding, ...]:
    """All that is wrong, in the order of the volumes."""
    leading: dict[str, list[str]] = {}
    for volume in volumes:
        leading.setdefault(volume.handle.partition("::")[2], []).append(volume.name)
    return tuple(finding for volume in volumes for finding in _audit_volume(volume, points, leading))


def _audit_volume(volume: Volume, points: Mapping[str, Point], leading: Mapping[str, list[str]]) -> Iterator[Finding]:
    system, _, id_ = volume.handle.partition("::")
    if not id_:
        yield Finding("no-handle", volume.name, f"{volume.handle or 'nothing'} names no access point")
        return
    if len(leading[id_]) > 1:
        others = ", ".join(name for name in leading[id_] if name != volume.name)
        yield Finding("shared-point", volume.name, f"{id_} is also that of {others}")
    if volume.home_class != volume.sandbox_class and not volume.moved:
        yield Finding(
            "other-class", volume.name, f"it is of class {volume.home_class} and for a claim in {volume.namespace}"
        )
    point = points.get(id_)
    if point is None:
        yield Finding("no-such-point", volume.name, f"EFS has no {id_}")
        return
    if point.state not in {"available", "updating"}:
        yield Finding("point-not-there-yet", volume.name, f"{id_} is {point.state}")
    expected = volume.expected
    if point.file_system != system or (expected and system not in expected.file_systems):
        there = f"{id_} is on {point.file_system}, the handle says {system}"
        yield Finding("other-file-system", volume.name, there)
    if expected is None:
        return
    if not _path_matches(point.path, expected.path):
        yield Finding("other-path", volume.name, f"{id_} leads to {point.path} instead of {expected.path}")
    if (point.uid, point.gid) != (expected.uid, expected.gid):
        ids = f"{point.uid}:{point.gid} instead of {expected.uid}:{expected.gid}"
        yield Finding("other-ids", volume.name, f"{id_} writes as {ids}")


def _path_matches(path: str, wanted: str) -> bool:
    return path.startswith(wanted[:-1]) if wanted.endswith("*") else path == wanted
