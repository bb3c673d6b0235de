"""Refusals of file systems."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from model.pools import most_sandboxes
from model.refusals.row import Finding, Row

if TYPE_CHECKING:
    from model.settings.whole import Settings

ACCESS_POINTS = 10_000

_THROUGHPUT, _FILE_SYSTEMS = ("storage", "throughput"), ("storage", "fileSystems")


def _access_points(settings: Settings) -> Iterator[Finding]:
    slots = sum(most_sandboxes(one) for one in settings.sandbox_classes if one.storage.kind in {"slot", "shared"})
    needed = slots + len(settings.workspaces)
    shards = settings.storage.file_systems
    if needed > shards * ACCESS_POINTS:
        yield Finding(
            _FILE_SYSTEMS,
            f"{needed} access points on {shards}",
            f"set it to {-(-needed // ACCESS_POINTS)} or more",
            (("sandboxClasses",), ("workspaces",)),
        )


def _provisioned(settings: Settings) -> Iterator[Finding]:
    storage = settings.storage
    if storage.throughput == "provisioned" and storage.provisioned_mibps is None:
        yield Finding(_THROUGHPUT, "provisioned without provisionedMibps", also=(("storage", "provisionedMibps"),))
    if storage.throughput != "provisioned" and storage.provisioned_mibps is not None:
        place = ("storage", "provisionedMibps")
        yield Finding(place, f"{storage.provisioned_mibps} with {storage.throughput}", "drop it", (_THROUGHPUT,))


def _archive(settings: Settings) -> Iterator[Finding]:
    storage = settings.storage
    if storage.archive_after != "never" and storage.throughput != "elastic":
        yield Finding(("storage", "archiveAfter"), f"Archive with {storage.throughput}", also=(_THROUGHPUT,))


def _archive_first(settings: Settings) -> Iterator[Finding]:
    storage = settings.storage
    if storage.archive_after != "never":
        colder = ("storage", "infrequentAccessAfter")
        if storage.infrequent_access_after == "never" or _days(storage.archive_after) <= _days(
            storage.infrequent_access_after
        ):
            found = f"{storage.archive_after}, and {storage.infrequent_access_after} before it"
            yield Finding(("storage", "archiveAfter"), found, also=(colder,))


def _days(transition: str) -> int:
    return int(transition.removesuffix("d"))


def _adopted(settings: Settings) -> Iterator[Finding]:
    storage = settings.storage
    if storage.existing and len(storage.existing) != storage.file_systems:
        found = f"{len(storage.existing)} file systems for fileSystems {storage.file_systems}"
        yield Finding(("storage", "existing"), found, also=(_FILE_SYSTEMS,))


ROWS = (
    Row(
        "access-points-over-limit",
        f"a file system takes {ACCESS_POINTS:,} access points, and each slot and seat has one",
        "as many file systems as the pools, quotas and seats need",
        "add file systems, or shrink the pools",
        _access_points,
    ),
    Row(
        "provisioned-throughput",
        "provisioned throughput and its amount go together",
        "throughput: provisioned with provisionedMibps, or neither",
        "set provisionedMibps, or throughput: elastic",
        _provisioned,
    ),
    Row(
        "archive-without-elastic",
        "EFS keeps an Archive class for Elastic throughput only",
        "archiveAfter with throughput: elastic",
        "set throughput: elastic, or archiveAfter: never",
        _archive,
    ),
    Row(
        "archive-before-infrequent-access",
        "files move to Infrequent Access first and to Archive later",
        "archiveAfter later than infrequentAccessAfter",
        "set a longer time, or never",
        _archive_first,
    ),
    Row(
        "existing-file-systems-count",
        "homes are spread over the file systems by their number",
        "as many existing file systems as fileSystems",
        "make the two agree",
        _adopted,
    ),
)
