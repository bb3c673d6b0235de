"""Looks how large homes are and writes it on their volumes, for the ledger: `python -m service.metering --homes DIR …`.

A job of its own and not a loop of the service: whoever looks has to have the file systems mounted, to read only, and
the service must never be able to look into a home. It lists folders and reads no file. Where a home's owner could put a
link in its way, none is followed, and each step down is opened by the step before.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import stat
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from model.classes.names import WORKSPACE_LABEL
from model.homes import ENTRIES_A_DAY, ENTRIES_A_HOME, Folder, Home, Size, due, scaled, size
from model.moments import in_seconds, whole_second
from model.workspace_records import of_claim
from service.access_points import Efs, Points
from service.aws import ask, client
from service.cluster import CLAIMS, VOLUMES, Api, Cluster, Document, section
from service.ledger.facts import MEASURED

MEASURED_AT = "sandbox.users.io/measured-at"
# What was found, before it was brought to what the file system is billed for, and how many entries that took.
FOUND, ENTRIES = "sandbox.users.io/found-bytes", "sandbox.users.io/found-entries"
DRIVER = "efs.csi.aws.com"
BLOCK = 512  # what st_blocks counts in, whatever the file system
_LOG = logging.getLogger(__name__)

Parts = tuple[str, ...]


@dataclass(frozen=True)
class System:
    """A file system: its id, where it is mounted, and what it is metered at in all."""

    id: str
    mounted: Path
    metered: int


@dataclass(frozen=True)
class Measured:
    """What a pass did."""

    homes: int = 0
    entries: int = 0
    sampled: int = 0
    missing: tuple[str, ...] = ()  # volumes whose folder is not there
    waiting: int = 0  # whose turn it was, when the day's entries were used up


def measure(api: Api, points: Points, system: System, now: datetime, most: int = ENTRIES_A_DAY) -> Measured:
    """Look at the homes of a file system whose turn it is, and write down what they hold."""
    volumes = {one["metadata"]["name"]: one for one in api.list(VOLUMES) if _handle(one)[0] == system.id}
    paths = {point.id: point.path for point in points.of(system.id)}
    used = _used(api, now)
    known = [_home(one, used) for one in volumes.values()]
    waiting = due(known, now)
    sizes: dict[str, Size] = {}
    missing: list[str] = []
    entries = 0
    for home in waiting:
        if entries >= most:
            break
        found = look_at(system.mounted, paths.get(home.point), min(ENTRIES_A_HOME, most - entries))
        if found is None:
            missing.append(home.volume)
            continue
        sizes[home.volume] = found
        entries += found.entries
    bytes_ = {home.volume: home.measured for home in known if home.measured is not None}
    bytes_ |= {volume: found.bytes for volume, found in sizes.items()}
    # Once all are known they are brought to what is billed; before that nobody's share of it can be told.
    _write(api, volumes, sizes, scaled(bytes_, system.metered) if len(bytes_) == len(volumes) else bytes_, now)
    sampled = sum(not one.whole for one in sizes.values())
    return Measured(len(sizes), entries, sampled, tuple(missing), len(waiting) - len(sizes) - len(missing))


def _write(
    api: Api, volumes: Mapping[str, Document], sizes: Mapping[str, Size], told: Mapping[str, int], now: datetime
) -> None:
    """Put what was found on the volumes."""
    for volume, found in sizes.items():
        notes = {
            MEASURED: str(told[volume]),
            FOUND: str(found.bytes),
            ENTRIES: str(found.entries),
            MEASURED_AT: in_seconds(now),
        }
        if not api.change(VOLUMES, volumes[volume], {"metadata": {"annotations": notes}}):
            _LOG.info("a volume changed while it was measured", extra={"facts": {"volume": volume}})


def measured_bytes(api: Api) -> dict[str, int]:
    """What is known of all homes, by volume: for whoever shows it."""
    found: dict[str, int] = {}
    for volume in api.list(VOLUMES):
        said = str(section(volume["metadata"], "annotations").get(MEASURED, ""))
        if said.isdecimal():
            found[volume["metadata"]["name"]] = int(said)
    return found


def look_at(homes: Path, path: str | None, most: int) -> Size | None:
    """What is below the folder of an access point; None where there is none, or its path leads elsewhere."""
    parts = tuple(part for part in (path or "").split("/") if part)
    if not parts or any(part in {".", ".."} for part in parts):
        return None
    mounted = os.open(homes, os.O_RDONLY | os.O_DIRECTORY)
    try:
        home = _open(mounted, parts)
    except OSError:
        return None
    finally:
        os.close(mounted)
    try:
        seen: set[int] = set()

        def look(inside: Parts) -> Folder[Parts]:
            return _folder(home, inside, seen)

        return size(Parts(), look, random.Random(path), most)  # noqa: S311 - a sample
    finally:
        os.close(home)


def _open(base: int, parts: Parts) -> int:
    """A folder below an open one, one step at a time and through no link."""
    here = os.dup(base)
    for part in parts:
        try:
            inside = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
        finally:
            os.close(here)
        here = inside
    return here


def _folder(home: int, parts: Parts, seen: set[int]) -> Folder[Parts]:
    """One folder; what cannot be looked at, or went meanwhile, holds nothing."""
    try:
        here = _open(home, parts)
    except OSError:
        return Folder(0, 1, ())
    own, entries = 0, 0
    inside: list[Parts] = []
    try:
        with closing(os.scandir(here)) as found:
            for entry in found:
                entries += 1
                try:
                    about = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                # A file with several names is there once.
                if about.st_nlink > 1 and not stat.S_ISDIR(about.st_mode):
                    if about.st_ino in seen:
                        continue
                    seen.add(about.st_ino)
                own += about.st_blocks * BLOCK
                if stat.S_ISDIR(about.st_mode):
                    inside.append((*parts, entry.name))
    except OSError:
        return Folder(own, entries + 1, inside)
    finally:
        os.close(here)
    return Folder(own, entries + 1, inside)


def _handle(volume: Document) -> tuple[str, str]:
    """The file system and the access point of a volume; nothing of volumes that are others'."""
    source = section(volume["spec"], "csi")
    system, _, point = str(source.get("volumeHandle", "")).partition("::")
    return (system, point) if source.get("driver") == DRIVER and point else ("", "")


def _home(volume: Document, used: Mapping[str, datetime]) -> Home:
    about = volume["metadata"]
    notes, name, point = section(about, "annotations"), about["name"], _handle(volume)[1]
    used_at = used.get(section(about, "labels").get(WORKSPACE_LABEL, ""))
    said, entries, when = str(notes.get(FOUND, "")), str(notes.get(ENTRIES, "")), str(notes.get(MEASURED_AT, ""))
    if not (said.isdecimal() and entries.isdecimal() and when):
        return Home(name, point, used_at=used_at)
    return Home(name, point, int(said), whole_second(when), int(entries), used_at)


def _used(api: Api, now: datetime) -> dict[str, datetime]:
    """When workspaces were last used, by id: one that runs is used now."""
    found: dict[str, datetime] = {}
    for claim in api.list(CLAIMS):
        read = of_claim(claim)
        if read is None:
            continue
        asleep = read.state in {"suspended", "deleting"}
        found[read.id] = read.last_active or now if asleep else now
    return found


def metered(efs: Any, file_system: str) -> int:
    """What EFS meters a file system at, in bytes, in all its storage classes."""
    (told,) = ask(efs, "describe_file_systems", FileSystemId=file_system)["FileSystems"]
    return int(told["SizeInBytes"]["Value"])


def main(given: Sequence[str] | None = None) -> int:
    """One pass over the file systems that are named, each mounted at a folder of its name."""
    parser = argparse.ArgumentParser(prog="python -m service.metering", description=__doc__)
    parser.add_argument("--homes", type=Path, required=True, help="where the file systems are mounted, a folder each")
    parser.add_argument("--file-system", action="append", required=True, help="its id; may be given again")
    parser.add_argument("--region", required=True)
    parser.add_argument("--entries", type=int, default=ENTRIES_A_DAY, help="the most that are looked at in each")
    arguments = parser.parse_args(given)
    cluster = Cluster.from_within()
    points, efs = Efs(arguments.region), client("efs", arguments.region)
    code = 0
    for name in arguments.file_system:
        system = System(name, arguments.homes / name, metered(efs, name))
        done = measure(cluster, points, system, datetime.now(UTC), arguments.entries)
        sys.stdout.write(f"{name}: {done}\n")
        code = code or (1 if done.missing else 0)
    return code


if __name__ == "__main__":
    sys.exit(main())
