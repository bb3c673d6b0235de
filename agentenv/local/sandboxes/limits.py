"""The limits of sandboxes, felt: memory that ends a container, and disk that evicts a pod.

One thread looks at every sandbox of a plane, because it has to read the list of all processes. Kernels enforce memory
at once, and kubelets look at disks every ten seconds; here both are noticed within some seconds. Of memory only what a
process has for itself counts, not files that it maps. Shared memory counts once. Under gVisor all memory of a sandbox
is one file without a name, of which only a part is mapped at a time.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from agentenv.core.values.quantities import Quantity

Object = dict[str, Any]

_LOG = logging.getLogger(__name__)
OOM_KILLED, EVICTED = "OOMKilled", "Evicted"
_SECONDS = 1.0
_DISK_TURNS = 5  # disks are looked at every so many turns
_HELPERS = frozenset({"podnetwork", "latencyfs"})  # they serve a sandbox, and their memory is none of its


@dataclass(frozen=True)
class Limits:
    """The limits of a container; a folder of an emptyDir counts for the whole pod."""

    memory: int | None = None
    folders: Mapping[Path, tuple[str, str]] | None = None  # name and size limit of the volume

    @classmethod
    def of(cls, pod: Object, folder: Callable[[str], Path]) -> Limits:
        """Return the limits of a pod; `folder` returns the folder of a volume."""
        sizes = {
            row["name"]: row["emptyDir"]["sizeLimit"]
            for row in pod["spec"].get("volumes") or ()
            if (row.get("emptyDir") or {}).get("sizeLimit")
        }
        return cls(
            memory_limit(pod["spec"]["containers"][0].get("resources") or {}),
            {folder(name): (name, str(size)) for name, size in sizes.items()},
        )

    def full_volume(self) -> str | None:
        """Return the message about an emptyDir that is over its limit, as a kubelet writes it."""
        for folder, (name, size) in (self.folders or {}).items():
            if _disk_usage(folder) > _bytes(size):
                return f'Usage of EmptyDir volume "{name}" exceeds the limit "{size}". '
        return None


def limit_of(resources: Object, name: str) -> Decimal | None:
    """Return a limit among the resources of a container."""
    limits = resources.get("limits") or {}
    return Quantity.parse(str(limits[name])).value if name in limits else None


def memory_limit(resources: Object) -> int | None:
    """Return the memory limit among the resources of a container."""
    limit = limit_of(resources, "memory")
    return None if limit is None else int(limit)


class Monitor:
    """Watches the processes of sandboxes until they end."""

    def __init__(self) -> None:
        self._watched: dict[int, tuple[Limits, Callable[[str, str], None]]] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._run, name="limits", daemon=True).start()

    @contextlib.contextmanager
    def watching(self, process: int, limits: Limits, exceeded: Callable[[str, str], None]) -> Iterator[None]:
        """Call `exceeded` with a reason and a message when a process and its children are over a limit."""
        with self._lock:
            self._watched[process] = (limits, exceeded)
        try:
            yield
        finally:
            with self._lock:
                self._watched.pop(process, None)

    def resize(self, process: int, memory: int | None) -> None:
        """Change the memory limit of a watched process."""
        with self._lock:
            if process in self._watched:
                limits, exceeded = self._watched[process]
                self._watched[process] = replace(limits, memory=memory), exceeded

    def _run(self) -> None:
        turn = 0
        while True:
            time.sleep(_SECONDS)
            turn += 1
            with self._lock:
                watched = dict(self._watched)
            if not watched:
                continue
            try:
                children = child_processes()
                for process, (limits, exceeded) in watched.items():
                    self._check(process, limits, exceeded, children, disk=turn % _DISK_TURNS == 0)
            except OSError:
                _LOG.exception("The limits of sandboxes could not be checked")

    @staticmethod
    def _check(
        process: int,
        limits: Limits,
        exceeded: Callable[[str, str], None],
        children: Mapping[int, list[int]],
        *,
        disk: bool,
    ) -> None:
        if limits.memory is not None and memory_usage(process, children) > limits.memory:
            exceeded(OOM_KILLED, "")
        elif disk and (message := limits.full_volume()):
            exceeded(EVICTED, message)


def memory_usage(process: int, children: Mapping[int, list[int]]) -> int:
    """Return the bytes that a process and its descendants have for themselves."""
    own, shared = 0, 0
    files: dict[tuple[int, int], int] = {}
    waiting = [process]
    while waiting:
        current = waiting.pop()
        waiting += children.get(current, ())
        if _name(current) in _HELPERS:
            continue
        fields = _status(current)
        own += fields.get("RssAnon", 0)
        if fields.get("RssShmem"):
            shared = max(shared, fields["RssShmem"])
            files |= _memory_files(current)
    return own + max(shared, sum(files.values()))


def _memory_files(process: int) -> dict[tuple[int, int], int]:
    """Return the bytes of the memory files that a process has open, each by its device and inode."""
    sizes: dict[tuple[int, int], int] = {}
    with contextlib.suppress(OSError), os.scandir(f"/proc/{process}/fd") as descriptors:
        for descriptor in descriptors:
            with contextlib.suppress(OSError):
                # Sandboxes have hundreds of files open, and a `Path` for each would take most of the time.
                if os.readlink(descriptor.path).startswith("/memfd:"):  # noqa: PTH115
                    found = descriptor.stat()
                    sizes[found.st_dev, found.st_ino] = found.st_blocks * 512
    return sizes


def _name(process: int) -> str:
    try:
        return Path(f"/proc/{process}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""  # it has ended


def _status(process: int) -> dict[str, int]:
    try:
        lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}  # it has ended
    rows = (line.split() for line in lines if line.startswith("Rss"))
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows}


def child_processes() -> dict[int, list[int]]:
    """Return the children of every process."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # it has ended
        children.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(folder.name))
    return children


def _disk_usage(folder: Path) -> int:
    total = 0
    waiting = [folder]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
                    else:
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
    return total


def _bytes(text: str) -> int:
    return int(Quantity.parse(str(text)).value)
