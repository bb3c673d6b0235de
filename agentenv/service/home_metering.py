"""Measure how large homes are and record it on their volumes: `python -m agentenv.service.home_metering --homes DIR …`.

This is a CronJob of its own (`agentenv/core/service/home_metering.py` defines it) and not a loop. It mounts the file
systems read-only, and the service itself must never be able to read a home.
"""

from __future__ import annotations

import argparse
import asyncio
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
from agentenv.service.kube.client import CLAIMS, VOLUMES, Document, KubeApi, KubeClient, section
from agentenv.service.kube.unreadable import readable
from agentenv.service.ledger.read_holdings import MEASURED
from agentenv.service.telemetry import logs

MEASURED_AT = "sandbox.users.io/measured-at"
# The size that was found, before it is scaled to the billed size, and the number of entries read.
FOUND, ENTRIES = "sandbox.users.io/found-bytes", "sandbox.users.io/found-entries"
DRIVER = "efs.csi.aws.com"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class FileSystem:
    """A file system: its id, where it is mounted, and its metered size."""

    id: str
    mounted: Path
    metered: int
    below: tuple[str, ...] = ()  # the folders that are mounted; all of it by default

    def has(self, path: str | None) -> bool:
        """Return whether a folder is among those that are mounted."""
        return not self.below or _within(path, self.below)

    def absent(self) -> tuple[str, ...]:
        """Return the folders that should be mounted and are not."""
        return tuple(folder for folder in self.below if not (self.mounted / folder.lstrip("/")).is_dir())


@dataclass(frozen=True)
class Measured:
    """The result of a pass."""

    homes: int = 0
    entries: int = 0
    sampled: int = 0
    missing: tuple[str, ...] = ()  # volumes whose folder does not exist
    waiting: int = 0  # homes that were due when the day's entries were used up
    absent: tuple[str, ...] = ()  # folders that should be mounted and are not

    @property
    def facts(self) -> dict[str, Any]:
        """Return the result for the log."""
        counted = {"homes": self.homes, "entries": self.entries, "sampled": self.sampled, "waiting": self.waiting}
        return {**counted, "missing": list(self.missing), "absent": list(self.absent)}


async def measure(
    api: KubeApi, points: AccessPoints, system: FileSystem, now: datetime, most: int = ENTRIES_A_DAY
) -> Measured:
    """Measure the homes of a file system that are due, and record their sizes on their volumes."""
    volumes = {
        name: volume
        async for volume, name in readable("PersistentVolume", api.list(VOLUMES), _name_of)
        if _is_home(volume, system.id)
    }
    paths = {point.id: point.path for point in points.of(system.id)}
    used = await _last_used(api, now)
    known = [_home(volume, used) for volume in volumes.values()]
    # A folder that is not mounted does not stop the homes in other folders from being measured.
    absent = system.absent()
    here = [home for home in known if system.has(path := paths.get(home.point)) and not _within(path, absent)]
    waiting = due_homes(here, now)
    sizes: dict[str, Size] = {}
    missing: list[str] = []
    entries = 0
    for home in waiting:
        if entries >= most:
            break
        size = scan_home(system.mounted, paths.get(home.point), min(ENTRIES_PER_HOME, most - entries))
        if size is None:
            missing.append(home.volume)
            continue
        sizes[home.volume] = size
        entries += size.entries
    bytes_ = {home.volume: home.measured for home in known if home.measured is not None}
    bytes_ |= {volume: size.bytes for volume, size in sizes.items()}
    # Once all sizes are known they are scaled to the billed size; before, no share of it is known.
    await _write(
        api, volumes, sizes, scale_to_metered(bytes_, system.metered) if len(bytes_) == len(volumes) else bytes_, now
    )
    sampled = sum(not size.whole for size in sizes.values())
    return Measured(len(sizes), entries, sampled, tuple(missing), len(waiting) - len(sizes) - len(missing), absent)


async def _write(
    api: KubeApi,
    volumes: Mapping[str, Document],
    sizes: Mapping[str, Size],
    billed_bytes: Mapping[str, int],
    now: datetime,
) -> None:
    """Record the measured sizes on the volumes.

    Measuring takes up to hours, in which volumes change: they are bound, released and labelled. Nobody else writes
    these annotations, so a size is recorded whatever the volume's version is; only its uid must be the same.
    """
    for volume, size in sizes.items():
        metadata = section(volumes[volume], "metadata")
        same: Document = {"metadata": {"name": volume, "uid": required(metadata, "uid")}}
        annotations = {
            MEASURED: str(billed_bytes[volume]),
            FOUND: str(size.bytes),
            ENTRIES: str(size.entries),
            MEASURED_AT: format_whole_seconds(now),
        }
        if not await api.patch(VOLUMES, same, {"metadata": {"annotations": annotations}}):
            _LOG.info("a volume was deleted while it was measured", extra={"facts": {"volume": volume}})


async def measured_bytes(api: KubeApi) -> dict[str, int]:
    """Return the recorded size of every home, by volume."""
    sizes: dict[str, int] = {}
    async for volume in api.list(VOLUMES):
        size = counted(section(section(volume, "metadata"), "annotations").get(MEASURED))
        if size is not None:
            sizes[text(section(volume, "metadata"), "name")] = size
    return sizes


def _handle(volume: Document) -> tuple[str, str]:
    """Return the file system and access point of a volume; empty strings for volumes of other drivers."""
    source = section(section(volume, "spec"), "csi")
    system, _, point = text(source, "volumeHandle").partition("::")
    return (system, point) if source.get("driver") == DRIVER and point else ("", "")


def _is_home(volume: Document, file_system: str) -> bool:
    """Return whether a volume is a home on a file system; this job's own volumes are not."""
    return _handle(volume)[0] == file_system and section(section(volume, "spec"), "claimRef").get("namespace") != NAME


def _name_of(volume: Document) -> str:
    return required(volume, "metadata", "name")


def _within(path: str | None, folders: Sequence[str]) -> bool:
    return any(f"{path}/".startswith(f"{folder}/") for folder in folders)


def _home(volume: Document, used: Mapping[str, datetime]) -> Home:
    metadata = section(volume, "metadata")
    annotations, name, point = section(metadata, "annotations"), _name_of(volume), _handle(volume)[1]
    used_at = used.get(text(section(metadata, "labels"), WORKSPACE_LABEL))
    size, entries, measured_at = (
        counted(annotations.get(FOUND)),
        counted(annotations.get(ENTRIES)),
        parse_timestamp(annotations.get(MEASURED_AT)),
    )
    if size is None or entries is None or measured_at is None:
        return Home(name, point, used_at=used_at)
    return Home(name, point, size, measured_at, entries, used_at)


async def _last_used(api: KubeApi, now: datetime) -> dict[str, datetime]:
    """Return when workspaces were last used, by id: a running one is used now."""
    used_at: dict[str, datetime] = {}
    async for _, workspace in readable("SandboxClaim", api.list(CLAIMS), workspace_of_claim):
        if workspace is None:
            continue
        suspended = workspace.state in {"suspended", "deleting"}
        used_at[workspace.id] = workspace.last_active or now if suspended else now
    return used_at


def metered(efs: Any, file_system: str) -> int:
    """Return the size at which EFS meters a file system, in bytes, in all its storage classes."""
    (file_system_,) = call(efs, "describe_file_systems", FileSystemId=file_system)["FileSystems"]
    return int(file_system_["SizeInBytes"]["Value"])


def mounted_file_system(argument: str) -> tuple[str, str]:
    """Return a file system id and the folder it is mounted at; the folder defaults to the id."""
    id_, _, folder = argument.partition("=")
    if not re.fullmatch(r"fs-[0-9a-f]{8,40}", id_) or "/" in folder or folder in {".", ".."}:
        raise argparse.ArgumentTypeError(f"{argument!r} is not like fs-0123456789abcdef0 or fs-…=folder")
    return id_, folder or id_


def main(arguments: Sequence[str] | None = None) -> int:
    """Make one pass over the given file systems; return 1 where one, or a part of one, is not mounted."""
    parser = argparse.ArgumentParser(prog="python -m agentenv.service.home_metering", description=__doc__)
    parser.add_argument("--homes", type=Path, required=True, help="where the file systems are mounted, a folder each")
    parser.add_argument(
        "--file-system",
        action="append",
        required=True,
        type=mounted_file_system,
        help="its id, and =FOLDER where the folder has another name; repeatable",
    )
    parser.add_argument("--region", required=True)
    parser.add_argument("--entries", type=int, default=ENTRIES_A_DAY, help="the most entries read in each")
    parser.add_argument(
        "--below", action="append", default=[], help="a folder that is mounted; default: the whole file system"
    )
    parser.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info")
    options = parser.parse_args(arguments)
    logs.set_up(options.log_level)
    try:
        efs = client("efs", options.region)
        systems = [
            FileSystem(id_, options.homes / folder, metered(efs, id_), tuple(options.below))
            for id_, folder in options.file_system
        ]
        return asyncio.run(_measure_all(options.region, systems, options.entries))
    except Exception:  # noqa: BLE001 - any failure is logged, and fails the job
        _LOG.critical("homes cannot be measured", exc_info=True)
        return 1


async def _measure_all(region: str, systems: Sequence[FileSystem], most: int) -> int:
    api = KubeClient.from_kubeconfig(None)
    try:
        return await passes(api, Efs(region), systems, most)
    finally:
        await api.close()


async def passes(api: KubeApi, points: AccessPoints, systems: Sequence[FileSystem], most: int) -> int:
    """Measure each file system; one that is not mounted does not prevent the others from being measured."""
    code = 0
    for system in systems:
        if not system.mounted.is_dir():
            _LOG.error("a file system is not mounted", extra={"facts": {"system": system.id, "at": system.mounted}})
            code = 1
            continue
        result = await measure(api, points, system, datetime.now(UTC), most)
        _LOG.info("homes were measured", extra={"facts": {"system": system.id, **result.facts}})
        for volume in result.missing:
            # A home that was never mounted has no folder; the audit reports missing access points.
            _LOG.warning("a home does not exist", extra={"facts": {"system": system.id, "volume": volume}})
        for folder in result.absent:
            _LOG.error("a folder with homes is not mounted", extra={"facts": {"system": system.id, "folder": folder}})
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
