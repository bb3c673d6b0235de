"""Looks how large homes are and writes it on their volumes, for the ledger: `python -m service.metering --homes DIR …`.

A job of its own (`agentenv/core/service/home_metering.py` says how it runs) and not a loop of the service: whoever
looks has to have the file systems mounted, to read only, and the service must never be able to look into a home.
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentenv.config.sections.cost import ENTRIES_A_DAY
from agentenv.core.classes.names import WORKSPACE_LABEL
from agentenv.core.service.home_metering import NAME
from agentenv.core.values.object_fields import counted, required, text
from agentenv.core.values.timestamps import format_whole_seconds, parse_timestamp
from agentenv.core.workspaces.home_sizes import ENTRIES_PER_HOME, Home, Size, due_homes, scale_to_metered
from agentenv.core.workspaces.records import workspace_of_claim
from agentenv.service.aws.access_points import AccessPoints, Efs
from agentenv.service.aws.clients import call, client
from agentenv.service.home_scan import scan_home
from agentenv.service.kube.sync_client import CLAIMS, VOLUMES, Document, KubeApi, SyncKubeClient, section
from agentenv.service.kube.unreadable import readable
from agentenv.service.ledger.read_holdings import MEASURED
from agentenv.service.telemetry import logs

MEASURED_AT = "sandbox.users.io/measured-at"
# What was found, before it was brought to what the file system is billed for, and how many entries that took.
FOUND, ENTRIES = "sandbox.users.io/found-bytes", "sandbox.users.io/found-entries"
DRIVER = "efs.csi.aws.com"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class FileSystem:
    """A file system: its id, where it is mounted, and what it is metered at in all."""

    id: str
    mounted: Path
    metered: int
    below: tuple[str, ...] = ()  # the folders of it that are mounted; all of it where none is named

    def has(self, path: str | None) -> bool:
        """Whether a folder is among those that are mounted."""
        return not self.below or _within(path, self.below)

    def absent(self) -> tuple[str, ...]:
        """What should be mounted and is not there."""
        return tuple(one for one in self.below if not (self.mounted / one.lstrip("/")).is_dir())


@dataclass(frozen=True)
class Measured:
    """What a pass did."""

    homes: int = 0
    entries: int = 0
    sampled: int = 0
    missing: tuple[str, ...] = ()  # volumes whose folder is not there
    waiting: int = 0  # whose turn it was, when the day's entries were used up
    absent: tuple[str, ...] = ()  # folders that should be mounted and are not

    @property
    def facts(self) -> dict[str, Any]:
        """The same for the log."""
        counted = {"homes": self.homes, "entries": self.entries, "sampled": self.sampled, "waiting": self.waiting}
        return {**counted, "missing": list(self.missing), "absent": list(self.absent)}


def measure(
    api: KubeApi, points: AccessPoints, system: FileSystem, now: datetime, most: int = ENTRIES_A_DAY
) -> Measured:
    """Look at the homes of a file system whose turn it is, and write down what they hold."""
    volumes = {
        name: one for one, name in readable("PersistentVolume", api.list(VOLUMES), _name_of) if _is_home(one, system.id)
    }
    paths = {point.id: point.path for point in points.of(system.id)}
    used = _last_used(api, now)
    known = [_home(one, used) for one in volumes.values()]
    # A folder that is not mounted keeps nobody from being measured who is in another.
    absent = system.absent()
    here = [home for home in known if system.has(path := paths.get(home.point)) and not _within(path, absent)]
    waiting = due_homes(here, now)
    sizes: dict[str, Size] = {}
    missing: list[str] = []
    entries = 0
    for home in waiting:
        if entries >= most:
            break
        found = scan_home(system.mounted, paths.get(home.point), min(ENTRIES_PER_HOME, most - entries))
        if found is None:
            missing.append(home.volume)
            continue
        sizes[home.volume] = found
        entries += found.entries
    bytes_ = {home.volume: home.measured for home in known if home.measured is not None}
    bytes_ |= {volume: found.bytes for volume, found in sizes.items()}
    # Once all are known they are brought to what is billed; before that nobody's share of it can be told.
    _write(
        api, volumes, sizes, scale_to_metered(bytes_, system.metered) if len(bytes_) == len(volumes) else bytes_, now
    )
    sampled = sum(not one.whole for one in sizes.values())
    return Measured(len(sizes), entries, sampled, tuple(missing), len(waiting) - len(sizes) - len(missing), absent)


def _write(
    api: KubeApi, volumes: Mapping[str, Document], sizes: Mapping[str, Size], told: Mapping[str, int], now: datetime
) -> None:
    """Put what was found on the volumes."""
    for volume, found in sizes.items():
        notes = {
            MEASURED: str(told[volume]),
            FOUND: str(found.bytes),
            ENTRIES: str(found.entries),
            MEASURED_AT: format_whole_seconds(now),
        }
        if not api.change(VOLUMES, volumes[volume], {"metadata": {"annotations": notes}}):
            _LOG.info("a volume changed while it was measured", extra={"facts": {"volume": volume}})


def measured_bytes(api: KubeApi) -> dict[str, int]:
    """What is known of all homes, by volume: for whoever shows it."""
    found: dict[str, int] = {}
    for volume in api.list(VOLUMES):
        size = counted(section(section(volume, "metadata"), "annotations").get(MEASURED))
        if size is not None:
            found[text(section(volume, "metadata"), "name")] = size
    return found


def _handle(volume: Document) -> tuple[str, str]:
    """The file system and the access point of a volume; nothing of volumes that are others'."""
    source = section(section(volume, "spec"), "csi")
    system, _, point = text(source, "volumeHandle").partition("::")
    return (system, point) if source.get("driver") == DRIVER and point else ("", "")


def _is_home(volume: Document, file_system: str) -> bool:
    """Whether a volume is on a file system and is somebody's; those by which this job looks are not."""
    return _handle(volume)[0] == file_system and section(section(volume, "spec"), "claimRef").get("namespace") != NAME


def _name_of(volume: Document) -> str:
    return required(volume, "metadata", "name")


def _within(path: str | None, folders: Sequence[str]) -> bool:
    return any(f"{path}/".startswith(f"{one}/") for one in folders)


def _home(volume: Document, used: Mapping[str, datetime]) -> Home:
    about = section(volume, "metadata")
    notes, name, point = section(about, "annotations"), _name_of(volume), _handle(volume)[1]
    used_at = used.get(text(section(about, "labels"), WORKSPACE_LABEL))
    size, entries, when = (
        counted(notes.get(FOUND)),
        counted(notes.get(ENTRIES)),
        parse_timestamp(notes.get(MEASURED_AT)),
    )
    if size is None or entries is None or when is None:
        return Home(name, point, used_at=used_at)
    return Home(name, point, size, when, entries, used_at)


def _last_used(api: KubeApi, now: datetime) -> dict[str, datetime]:
    """When workspaces were last used, by id: one that runs is used now."""
    found: dict[str, datetime] = {}
    for _, read in readable("SandboxClaim", api.list(CLAIMS), workspace_of_claim):
        if read is None:
            continue
        asleep = read.state in {"suspended", "deleting"}
        found[read.id] = read.last_active or now if asleep else now
    return found


def metered(efs: Any, file_system: str) -> int:
    """What EFS meters a file system at, in bytes, in all its storage classes."""
    (told,) = call(efs, "describe_file_systems", FileSystemId=file_system)["FileSystems"]
    return int(told["SizeInBytes"]["Value"])


def mounted_file_system(given: str) -> tuple[str, str]:
    """A file system and the folder it is mounted at, which has its name where none is said."""
    id_, _, folder = given.partition("=")
    if not re.fullmatch(r"fs-[0-9a-f]{8,40}", id_) or "/" in folder or folder in {".", ".."}:
        raise argparse.ArgumentTypeError(f"{given!r} is no file system such as fs-0123456789abcdef0 or fs-…=folder")
    return id_, folder or id_


def main(given: Sequence[str] | None = None) -> int:
    """One pass over the file systems that are named, each mounted at a folder; 1 where one or a part of it is not."""
    parser = argparse.ArgumentParser(prog="python -m service.metering", description=__doc__)
    parser.add_argument("--homes", type=Path, required=True, help="where the file systems are mounted, a folder each")
    parser.add_argument(
        "--file-system",
        action="append",
        required=True,
        type=mounted_file_system,
        help="its id, and =FOLDER where that has another name; may be given again",
    )
    parser.add_argument("--region", required=True)
    parser.add_argument("--entries", type=int, default=ENTRIES_A_DAY, help="the most that are looked at in each")
    parser.add_argument(
        "--below", action="append", default=[], help="a folder of it that is mounted; all of it is where none is given"
    )
    parser.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info")
    arguments = parser.parse_args(given)
    logs.set_up(arguments.log_level)
    try:
        cluster, points, efs = SyncKubeClient.from_within(), Efs(arguments.region), client("efs", arguments.region)
        return passes(
            cluster,
            points,
            [
                FileSystem(id_, arguments.homes / folder, metered(efs, id_), tuple(arguments.below))
                for id_, folder in arguments.file_system
            ],
            arguments.entries,
        )
    except Exception:  # noqa: BLE001 - whatever it was, the log says so, and the job has failed
        _LOG.critical("homes cannot be measured", exc_info=True)
        return 1


def passes(api: KubeApi, points: AccessPoints, systems: Sequence[FileSystem], most: int) -> int:
    """A pass over each file system; one that is not mounted keeps none of the others from being measured."""
    code = 0
    for system in systems:
        if not system.mounted.is_dir():
            _LOG.error("a file system is not mounted", extra={"facts": {"system": system.id, "at": system.mounted}})
            code = 1
            continue
        done = measure(api, points, system, datetime.now(UTC), most)
        _LOG.info("homes were measured", extra={"facts": {"system": system.id, **done.facts}})
        for volume in done.missing:
            # A home that nobody has mounted yet has no folder; the audit says so where its access point is gone.
            _LOG.warning("a home is not there", extra={"facts": {"system": system.id, "volume": volume}})
        for folder in done.absent:
            _LOG.error("a folder with homes is not mounted", extra={"facts": {"system": system.id, "folder": folder}})
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
