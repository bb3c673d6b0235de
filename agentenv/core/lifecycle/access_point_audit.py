"""The audit of access points, which admission policies cannot do because they do not read from AWS.

The access point of a volume must be on the file system of its storage class, at the folder of the volume, with the uid
and gid of the class that its home was created in. It must not be that of another volume.
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
    """The expected access point of a volume."""

    file_systems: tuple[str, ...]
    path: str  # its folder; with a final `*` a prefix
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume on one of the environment's file systems."""

    name: str
    handle: str
    namespace: str  # of its volume claim
    home_class: str  # the class whose uid and gid its files have
    sandbox_class: str  # the class in whose namespace it is used
    moved: bool = False  # whether its workspace changed to another class
    expected: Expected | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A volume with a wrong access point."""

    wrong: Wrong
    volume: str
    why: str


def audit(volumes: Sequence[Volume], points: Mapping[str, Point]) -> tuple[Finding, ...]:
    """Return all findings, in the order of the volumes."""
    users: dict[str, list[str]] = {}
    for volume in volumes:
        users.setdefault(volume.handle.partition("::")[2], []).append(volume.name)
    return tuple(finding for volume in volumes for finding in _audit_volume(volume, points, users))


def _audit_volume(volume: Volume, points: Mapping[str, Point], users: Mapping[str, list[str]]) -> Iterator[Finding]:
    system, _, id_ = volume.handle.partition("::")
    if not id_:
        handle = f"the handle {volume.handle}" if volume.handle else "the empty handle"
        yield Finding("no-handle", volume.name, f"{handle} names no access point")
        return
    if len(users[id_]) > 1:
        others = ", ".join(name for name in users[id_] if name != volume.name)
        yield Finding("shared-point", volume.name, f"{id_} is also the access point of {others}")
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
        why = f"{id_} is on {point.file_system}, the handle says {system}"
        yield Finding("other-file-system", volume.name, why)
    if expected is None:
        return
    if not _path_matches(point.path, expected.path):
        yield Finding("other-path", volume.name, f"{id_} has the path {point.path} instead of {expected.path}")
    if (point.uid, point.gid) != (expected.uid, expected.gid):
        ids = f"{point.uid}:{point.gid} instead of {expected.uid}:{expected.gid}"
        yield Finding("other-ids", volume.name, f"{id_} enforces {ids}")


def _path_matches(path: str, expected: str) -> bool:
    return path.startswith(expected[:-1]) if expected.endswith("*") else path == expected
