"""EFS as the service sees it: the access points of a file system, and the tags by which they are told apart."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from agentenv.core.lifecycle.access_point_audit import Point
from agentenv.service.aws.clients import call, client

PAGE = 1000


class AccessPoints(Protocol):
    """The access points of an account."""

    def of(self, file_system: str) -> Sequence[Point]:
        """All of a file system."""
        ...

    def tag(self, point: str, tags: Mapping[str, str]) -> None:
        """Give it tags; those it has of the same name are written over."""
        ...

    def untag(self, point: str, names: Sequence[str]) -> None:
        """Take tags away."""
        ...


class Efs:
    """EFS itself."""

    def __init__(self, region: str, endpoint: str | None = None, **credentials: str) -> None:
        self._client: Any = client("efs", region, endpoint, **credentials)

    def of(self, file_system: str) -> Sequence[Point]:
        """All of a file system."""
        found: list[Point] = []
        more: dict[str, str] = {}
        while True:
            asked = {"FileSystemId": file_system, "MaxResults": PAGE, **more}
            told = call(self._client, "describe_access_points", **asked)
            found += [_point(row) for row in told["AccessPoints"]]
            if not told.get("NextToken"):
                return found
            more = {"NextToken": told["NextToken"]}

    def tag(self, point: str, tags: Mapping[str, str]) -> None:
        """Give it tags."""
        rows = [{"Key": key, "Value": value} for key, value in tags.items()]
        call(self._client, "tag_resource", ResourceId=point, Tags=rows)

    def untag(self, point: str, names: Sequence[str]) -> None:
        """Take tags away."""
        call(self._client, "untag_resource", ResourceId=point, TagKeys=list(names))


def _point(row: dict[str, Any]) -> Point:
    user: dict[str, Any] = row.get("PosixUser") or {}
    tags: list[dict[str, str]] = row.get("Tags") or []
    # There may be ten thousand; what many of them say is held once.
    return Point(
        row["AccessPointId"],
        sys.intern(row["FileSystemId"]),
        row["RootDirectory"]["Path"],
        user.get("Uid"),
        user.get("Gid"),
        sys.intern(row["LifeCycleState"]),
        {sys.intern(one["Key"]): sys.intern(one["Value"]) for one in tags},
    )
