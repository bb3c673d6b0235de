"""EFS access points of a file system, and the tags by which they are identified."""

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
        """Return all access points of a file system."""
        ...

    def tag(self, point: str, tags: Mapping[str, str]) -> None:
        """Set tags; existing ones of the same name are replaced."""
        ...

    def untag(self, point: str, names: Sequence[str]) -> None:
        """Remove tags."""
        ...


class Efs:
    """Access points through the EFS API."""

    def __init__(self, region: str, endpoint: str | None = None, **credentials: str) -> None:
        self._client: Any = client("efs", region, endpoint, **credentials)

    def of(self, file_system: str) -> Sequence[Point]:
        """Return all access points of a file system."""
        points: list[Point] = []
        next_page: dict[str, str] = {}
        while True:
            request = {"FileSystemId": file_system, "MaxResults": PAGE, **next_page}
            response = call(self._client, "describe_access_points", **request)
            points += [_point(row) for row in response["AccessPoints"]]
            if not response.get("NextToken"):
                return points
            next_page = {"NextToken": response["NextToken"]}

    def tag(self, point: str, tags: Mapping[str, str]) -> None:
        """Set tags."""
        rows = [{"Key": key, "Value": value} for key, value in tags.items()]
        call(self._client, "tag_resource", ResourceId=point, Tags=rows)

    def untag(self, point: str, names: Sequence[str]) -> None:
        """Remove tags."""
        call(self._client, "untag_resource", ResourceId=point, TagKeys=list(names))


def _point(row: dict[str, Any]) -> Point:
    user: dict[str, Any] = row.get("PosixUser") or {}
    tags: list[dict[str, str]] = row.get("Tags") or []
    # There may be ten thousand; strings that many of them share are stored once.
    return Point(
        row["AccessPointId"],
        sys.intern(row["FileSystemId"]),
        row["RootDirectory"]["Path"],
        user.get("Uid"),
        user.get("Gid"),
        sys.intern(row["LifeCycleState"]),
        {sys.intern(tag["Key"]): sys.intern(tag["Value"]) for tag in tags},
    )
